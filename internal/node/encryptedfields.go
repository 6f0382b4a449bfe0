package node

import (
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

var (
	// encryptedQueries declares one element of queries of encryptedFields.
	encryptedQueries = command.NewFields("queries",
		command.Enum("queryType", "equality", "range", "rangePreview", "substringPreview", "suffixPreview", "prefixPreview").Required(),
		command.ExactInt64("contention").Min(0),
		command.ExactInt64("sparsity").Min(1),
		command.ExactInt64("trimFactor").Min(0),
		command.ExactInt64("precision").Min(0),
		command.Any("min"),
		command.Any("max"),
		command.ExactInt64("strMaxLength").Above(0),
		command.ExactInt64("strMinQueryLength").Above(0),
		command.ExactInt64("strMaxQueryLength").Above(0),
		command.Bool("caseSensitive"),
		command.Bool("diacriticSensitive"),
	)
	// encryptedFields declares the fields of `create`'s encryptedFields.
	encryptedFields = command.NewFields("encryptedFields",
		command.ArrayOf("fields", command.Struct("", command.NewFields("fields",
			command.UUID("keyId").Required(),
			command.String("path").Required(),
			command.String("bsonType"),
			command.ArrayOf("queries", command.Struct("", encryptedQueries)).OrOne().NotNull(),
		))).Required(),
		command.String("escCollection"),
		command.String("eccCollection"),
		command.String("ecocCollection"),
		command.Any("strEncodeVersion"),
	)
)

// checkEncryptedFields checks encryptedFields by the rules of queryable
// encryption, before any other argument of `create`.
func checkEncryptedFields(config command.Args) error {
	fields := config.Structs("fields")
	for i := range fields {
		if err := checkEncryptedField(&fields[i]); err != nil {
			return err
		}
	}
	for _, state := range []struct {
		option, what, suffix string
		code                 int32
	}{
		{"escCollection", "Encrypted State", "esc", 7406900},
		{"ecocCollection", "Encrypted Compaction", "ecoc", 7406902},
	} {
		if config.Has(state.option) && !isStateCollection(config.Str(state.option)) {
			return mongoerr.New(mongoerr.Code(state.code), "%s Collection name should follow enxcol_.<collection>.%s naming pattern",
				state.what, state.suffix)
		}
	}
	return checkEncryptedPaths(fields)
}

// isStateCollection reports whether name is that of a state collection of
// queryable encryption.
func isStateCollection(name string) bool {
	return strings.HasPrefix(name, "enxcol_.") &&
		(strings.HasSuffix(name, ".esc") || strings.HasSuffix(name, ".ecc") || strings.HasSuffix(name, ".ecoc"))
}

// checkEncryptedPaths refuses keys that are used twice and paths that lead to,
// or into, each other.
func checkEncryptedPaths(fields []command.Args) error {
	keys := map[[16]byte]bool{}
	var paths []string
	for i := range fields {
		key, _ := fields[i].UUID("keyId")
		if keys[key] {
			return mongoerr.New(mongoerr.Code(6338401), "Duplicate key ids are not allowed")
		}
		keys[key] = true
		path := fields[i].Str("path")
		switch first, _, _ := strings.Cut(path, "."); {
		case path == "":
			return mongoerr.New(mongoerr.Code(6316402), "Encrypted field must have a non-empty path")
		case strings.ContainsRune(path, 0):
			return mongoerr.New(mongoerr.Code(9867600), "Field name must not contain null bytes")
		case first == "_id":
			return mongoerr.New(mongoerr.Code(6316403), "Cannot encrypt _id or its subfields")
		}
		for _, other := range paths {
			if other == path {
				return mongoerr.New(mongoerr.Code(6338402), "Duplicate paths are not allowed")
			}
			if strings.HasPrefix(path, other+".") || strings.HasPrefix(other, path+".") {
				return mongoerr.New(mongoerr.Code(6338403),
					"Conflicting index paths found as one is a prefix of another '%s' and '%s'", path, other)
			}
		}
		paths = append(paths, path)
	}
	return nil
}

// checkEncryptedField checks the type of one field against its queries.
func checkEncryptedField(field *command.Args) error {
	if !field.Has("queries") {
		return checkUnindexed(field)
	}
	queries := field.Structs("queries")
	if len(queries) == 0 {
		return mongoerr.New(mongoerr.Code(9783412), "At least one query type should be specified per field")
	}
	if !field.Has("bsonType") {
		return mongoerr.New(mongoerr.Code(6412601), "BSON type needs to be specified for an indexed field")
	}
	t, err := encryptedType(field.Str("bsonType"))
	if err != nil {
		return err
	}
	if len(queries) > 2 {
		return mongoerr.New(mongoerr.Code(9783413), "The number of query types for an encrypted field cannot exceed two")
	}
	path, first := field.Str("path"), &queries[0]
	if len(queries) == 2 {
		return checkEncryptedPair(t, path, first, &queries[1])
	}
	switch kind := first.Str("queryType"); kind {
	case "equality":
		return checkEncryptedEquality(t, first)
	case "range", "rangePreview":
		return checkEncryptedRange(t, path, first)
	}
	return checkEncryptedText(t, path, first)
}

func checkUnindexed(field *command.Args) error {
	if !field.Has("bsonType") {
		return nil
	}
	t, err := encryptedType(field.Str("bsonType"))
	if err != nil {
		return err
	}
	switch t {
	case bson.TypeNull, bson.TypeUndefined, bson.TypeMinKey, bson.TypeMaxKey:
		return mongoerr.New(mongoerr.Code(6338406), "Type '%s' is not a supported unindexed type", t)
	}
	return nil
}

func encryptedType(name string) (bson.Type, error) {
	t, ok := bson.TypeByAlias(name)
	if !ok {
		return 0, mongoerr.New(mongoerr.BadValue, "Unknown type name: %s", name)
	}
	return t, nil
}
