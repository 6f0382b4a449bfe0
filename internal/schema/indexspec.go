package schema

import (
	"slices"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/match"
	"github.com/mayflydb/mayfly/internal/query/project"
)

// indexFields are the options an index specification may have.
var indexFields = map[string]bool{
	"v": true, "key": true, "name": true, "ns": true, "_id": true,
	"unique": true, "sparse": true, "hidden": true, "background": true, "dropDups": true, "prepareUnique": true,
	"expireAfterSeconds": true, "partialFilterExpression": true, "collation": true, "storageEngine": true,
	"clustered": true, "originalSpec": true,
	"weights": true, "default_language": true, "language_override": true, "textIndexVersion": true,
	"2dsphereIndexVersion": true, "finestIndexedLevel": true, "coarsestIndexedLevel": true,
	"bits": true, "min": true, "max": true, "wildcardProjection": true,
}

// idIndexFields are the options that a specification of the index on _id may
// have.
var idIndexFields = map[string]bool{"v": true, "key": true, "name": true, "ns": true, "collation": true}

// ParseIndexSpec checks one specification of createIndexes as far as that needs
// no collection, and returns it with its version and without what is ignored.
// ignoreUnknown drops options that do not exist instead of refusing them.
// Errors: 197 for an unknown option and for options of the index on _id, 14
// for types, 67 and 2 for what is inside, 9 for what is missing.
func ParseIndexSpec(ns Namespace, spec bson.Doc, ignoreUnknown bool) (bson.Doc, error) {
	if ignoreUnknown {
		spec = withoutUnknown(spec)
	}
	if err := validateSpec(spec); err != nil {
		return nil, mongoerr.Prefix(err, "Error in specification "+spec.String())
	}
	spec = withVersion(spec)
	key, name := spec.Lookup("key").Doc(), spec.Lookup("name").Str()
	if isIDPattern(key) && !spec.Lookup("clustered").Truthy() {
		if err := validateIDSpec(spec); err != nil {
			return nil, err
		}
	} else if name == IDIndexName && !isIDPattern(key) {
		return nil, mongoerr.New(mongoerr.BadValue,
			"The index name '_id_' is reserved for the _id index, which must have key pattern {_id: 1}, found key: %s", key)
	} else if name == "*" {
		return nil, mongoerr.New(mongoerr.BadValue, "The index name '*' is not valid.")
	} else if strings.IndexByte(name, 0) >= 0 {
		// Replies use names of indexes as names of fields, which end at a zero byte.
		return nil, cannotCreate("index names cannot contain NUL bytes")
	}
	if ns.IsSystem() && !ns.IsBuckets() && spec.Has("hidden") {
		return nil, mongoerr.New(mongoerr.BadValue, "Can't hide index on system collection")
	}
	return spec, nil
}

// HasOwn reports whether a specification has what only the server adds.
func HasOwn(spec bson.Doc) bool { return spec.Has(sinceField) || spec.Has(lenientField) }

// ParseOwnIndexSpec is ParseIndexSpec of a specification that comes from this server, or from
// one of its cluster: it keeps what only servers add.
func ParseOwnIndexSpec(ns Namespace, spec bson.Doc, ignoreUnknown bool) (bson.Doc, error) {
	parsed, err := ParseIndexSpec(ns, shown(spec), ignoreUnknown)
	if err != nil || !HasOwn(spec) {
		return parsed, err
	}
	b := new(bson.Builder).Fields(parsed)
	for _, name := range []string{sinceField, lenientField} {
		b.Value(name, spec.Lookup(name))
	}
	return b.Finish(), nil
}

func withoutUnknown(spec bson.Doc) bson.Doc {
	var b bson.Builder
	for name, v := range spec.All() {
		if indexFields[name] {
			b.Value(name, v)
		}
	}
	return b.Finish()
}

func withVersion(spec bson.Doc) bson.Doc {
	var b bson.Builder
	for name, v := range spec.All() {
		if name != "ns" {
			b.Value(name, v)
		}
	}
	if !spec.Has("v") {
		b.Int32("v", 2)
	}
	return b.Finish()
}

func validateSpec(spec bson.Doc) error {
	for name := range spec.All() {
		if !indexFields[name] {
			return mongoerr.New(mongoerr.InvalidIndexSpecificationOption,
				"The field '%s' is not valid for an index specification. Specification: %s", name, spec)
		}
	}
	for name, v := range spec.All() {
		if check, ok := fieldChecks[name]; ok {
			if err := check(name, v, spec); err != nil {
				return err
			}
		}
	}
	for _, name := range []string{"key", "name"} {
		if !spec.Has(name) {
			return mongoerr.New(mongoerr.FailedToParse, "The '%s' field is a required property of an index specification", name)
		}
	}
	switch v := spec.Lookup("clustered"); {
	case v.IsMissing():
	case !v.Truthy():
		return mongoerr.New(mongoerr.Code(6492800), "Value 'false' for field 'clustered' is invalid")
	case !spec.Lookup("unique").Truthy():
		return cannotCreate("The 'unique' field is required when 'clustered' is specified")
	}
	if spec.Lookup("unique").Truthy() && spec.Lookup("prepareUnique").Truthy() {
		return cannotCreate("Invalid index specification %s; cannot create an index with both 'unique' and 'prepareUnique'", spec)
	}
	if v := spec.Lookup("v"); !v.IsMissing() && bson.ClampToInt64(v) < 2 && spec.Has("collation") {
		return cannotCreate("Invalid index specification %s; cannot create an index with the 'collation' option and v=1", spec)
	}
	return nil
}

type fieldCheck func(name string, v bson.Value, spec bson.Doc) error

// fieldChecks check the options one by one, in the order in which they are
// given.
var fieldChecks = map[string]fieldCheck{
	"key":                     checkKey,
	"name":                    mustBe(bson.TypeString, "a string"),
	"ns":                      mustBe(bson.TypeString, "a string"),
	"hidden":                  mustBe(bson.TypeBool, "a bool"),
	"v":                       checkVersion,
	"collation":               checkCollation,
	"partialFilterExpression": checkPartial,
	"unique":                  checkBool,
	"sparse":                  checkBool,
	"background":              checkBool,
	"prepareUnique":           checkBool,
	"dropDups":                checkBool,
	"clustered":               checkBool,
	"wildcardProjection":      checkWildcardProjection,
	"weights":                 checkWeights,
	"textIndexVersion":        checkTextVersion,
	"default_language":        mustBe(bson.TypeString, "a string"),
	"2dsphereIndexVersion":    checkNumber,
	"coarsestIndexedLevel":    checkNumber,
	"finestIndexedLevel":      checkNumber,
	"bits":                    checkNumber,
	"min":                     checkNumber,
	"max":                     checkNumber,
	"language_override":       mustBe(bson.TypeString, "a string"),
}

func mustBe(t bson.Type, article string) fieldCheck {
	return func(name string, v bson.Value, _ bson.Doc) error {
		if v.Type != t {
			return mongoerr.New(mongoerr.TypeMismatch, "The field '%s' must be %s, but got %s", name, article, v.Type)
		}
		return nil
	}
}

func checkKey(name string, v bson.Value, spec bson.Doc) error {
	if err := mustBe(bson.TypeDocument, "an object")(name, v, spec); err != nil {
		return err
	}
	return validateKeyPattern(v.Doc())
}

func checkVersion(name string, v bson.Value, spec bson.Doc) error {
	if !v.IsNumber() {
		return mongoerr.New(mongoerr.TypeMismatch, "The field 'v' must be a number, but got %s", v.Type)
	}
	n, ok := bson.ExactInt32(v)
	if !ok {
		return mongoerr.New(mongoerr.BadValue, "Index version must be representable as a 32-bit integer, but got %s", v)
	}
	if n != 1 && n != 2 {
		return cannotCreate("Invalid index specification %s; cannot create an index with v=%d", spec, n)
	}
	return nil
}

func checkCollation(name string, v bson.Value, spec bson.Doc) error {
	if err := mustBe(bson.TypeDocument, "an object")(name, v, spec); err != nil {
		return err
	}
	if v.Doc().IsEmpty() {
		return mongoerr.New(mongoerr.BadValue, "The field 'collation' cannot be an empty object.")
	}
	return nil
}

func checkPartial(name string, v bson.Value, spec bson.Doc) error {
	if err := mustBe(bson.TypeDocument, "an object")(name, v, spec); err != nil {
		return err
	}
	_, err := match.Parse(v.Doc(), partialOptions(nil))
	return err
}

func checkBool(name string, v bson.Value, _ bson.Doc) error {
	if v.Type != bson.TypeBool && !v.IsNumber() {
		// The missing quote is mongod's.
		return mongoerr.New(mongoerr.TypeMismatch,
			"The field '%s has value %s: %s, which is not convertible to bool", name, name, v)
	}
	return nil
}

func checkNumber(name string, v bson.Value, _ bson.Doc) error {
	if !v.IsNumber() {
		return mongoerr.New(mongoerr.TypeMismatch, "The field '%s' must be a number, but got %s", name, v.Type)
	}
	return nil
}

func checkWildcardProjection(name string, v bson.Value, spec bson.Doc) error {
	key := spec.Lookup("key")
	if key.Type != bson.TypeDocument || pluginOf(key.Doc()) != pluginWildcard {
		return mongoerr.New(mongoerr.BadValue, "The field 'wildcardProjection' is only allowed in an 'wildcard' index")
	}
	if v.Type != bson.TypeDocument {
		return mongoerr.New(mongoerr.TypeMismatch, "The field 'wildcardProjection' must be a non-empty object, but got %s", v.Type)
	}
	if v.Doc().IsEmpty() {
		return mongoerr.New(mongoerr.FailedToParse, "The 'wildcardProjection' field can't be an empty object")
	}
	if !key.Doc().Has(wildcardName) {
		return mongoerr.New(mongoerr.FailedToParse, "The field 'wildcardProjection' is only allowed when 'key' has the path '$**', found key: %s", key)
	}
	if key.Doc().Len() > 1 {
		if f, ok := newWildcardFields(key.Doc(), v.Doc()); ok {
			if err := f.validate(); err != nil {
				return err
			}
		}
	}
	if err := banComputed(v.Doc()); err != nil {
		return err
	}
	_, err := project.ParseStage("$project", v, nil)
	return err
}

// banComputed refuses values that a $project would compute: error 51271.
func banComputed(d bson.Doc) error {
	for name, v := range d.All() {
		switch {
		case v.Type == bson.TypeDocument:
			if err := banComputed(v.Doc()); err != nil {
				return err
			}
		case v.Type != bson.TypeBool && !v.IsNumber():
			return mongoerr.New(mongoerr.Code(51271), "Bad projection specification, cannot use computed fields when parsing a spec in kBanComputedFields mode: %s", name)
		}
	}
	return nil
}

func checkWeights(_ string, v bson.Value, spec bson.Doc) error {
	key := spec.Lookup("key")
	if key.Type == bson.TypeDocument && pluginOf(key.Doc()) != pluginText {
		return cannotCreate("The field 'weights' is only allowed in a 'text' index")
	}
	switch v.Type {
	case bson.TypeDocument:
		return nil
	case bson.TypeString, bson.TypeArray:
		if v.Type == bson.TypeString && v.Str() == "$**" {
			return nil
		}
		return cannotCreate("text index option 'weights' must be an object")
	}
	return mongoerr.New(mongoerr.TypeMismatch, "The field 'weights' must be an object, but got %s", v.Type)
}

// validateIDSpec checks a specification for the index on _id.
func validateIDSpec(spec bson.Doc) error {
	for name := range spec.All() {
		if !idIndexFields[name] {
			return mongoerr.New(mongoerr.InvalidIndexSpecificationOption,
				"The field '%s' is not valid for an _id index specification. Specification: %s", name, spec)
		}
	}
	key := spec.Lookup("key").Doc()
	if _, v := key.First(); !isIDPattern(key) || !bson.Equal(v, bson.Int32(1)) {
		return mongoerr.New(mongoerr.BadValue, "The field 'key' for an _id index must be {_id: 1}, but got %s", key)
	}
	return nil
}

// storedFirst are the first fields of a stored specification, in this order;
// the others follow as they came.
var storedFirst = []string{"v", "unique", "hidden", "prepareUnique", "key", "name"}

// storedForm returns the specification as the catalog stores it and messages
// show it: version and flags first, without false flags, the TTL as an int.
func storedForm(spec bson.Doc) bson.Doc {
	if pluginOf(spec.Lookup("key").Doc()) == pluginText {
		spec = textForm(spec)
	}
	var b bson.Builder
	b.Int32("v", int32(bson.ClampToInt64(spec.Lookup("v"))))
	for _, flag := range storedFirst[1:4] {
		if spec.Lookup(flag).Truthy() {
			b.Bool(flag, true)
		}
	}
	key := spec.Lookup("key")
	name := spec.Lookup("name")
	if isIDPattern(key.Doc()) {
		key, name = bson.Document(idKey), bson.String(IDIndexName)
	}
	b.Value("key", key).Value("name", name)
	for name, v := range spec.All() {
		switch {
		case slices.Contains(storedFirst, name), name == "_id", name == "ns", name == "dropDups":
		case name == "expireAfterSeconds" && v.IsNumber():
			b.Int32(name, int32(bson.ClampToInt64(v)))
		default:
			b.Value(name, v)
		}
	}
	if pluginOf(key.Doc()) == pluginSphere && !spec.Has("2dsphereIndexVersion") {
		b.Int32("2dsphereIndexVersion", sphereV3)
	}
	return b.Finish()
}

var idKey = new(bson.Builder).Int32("_id", 1).Finish()
