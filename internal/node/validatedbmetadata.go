package node

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
)

var validateDBMetadataFields = command.NewFields("validateDBMetadata",
	command.String("db"),
	command.String("collection"),
	command.Struct("apiParameters", command.NewFields("apiParameters",
		command.String("version").Required(),
		command.Bool("strict").NotNull(),
		command.Bool("deprecationErrors").NotNull(),
	)).Required(),
)

// validateDBMetadata answers {validateDBMetadata: 1, apiParameters: …}: it
// lists indexes that the Stable API does not have. (Manual: database command
// validateDBMetadata.)
func (n *Node) validateDBMetadata() *command.Command {
	return &command.Command{
		Name: "validateDBMetadata", Fields: validateDBMetadataFields,
		Help: "The validateDBMetadata command checks that the stored metadata of a database or collection is valid within a particular API version.",
		Run:  n.runValidateDBMetadata,
	}
}

func (n *Node) runValidateDBMetadata(ctx context.Context, op *command.Op) error {
	a := &op.Args
	if a.Has("db") {
		if err := checkMetadataDatabase(a.Str("db")); err != nil {
			return err
		}
	}
	if a.Has("collection") {
		if ns := (schema.Namespace{DB: "x", Coll: a.Str("collection")}); !ns.WellFormed() {
			return mongoerr.New(mongoerr.InvalidNamespace, "Invalid collection name: %s", a.Str("collection"))
		}
	}
	api, _ := a.Struct("apiParameters")
	op.Reply.OpenArray("apiVersionErrors")
	if api.Str("version") == "1" && api.Bool("strict") {
		listed := 0
		for _, db := range n.Catalog.Databases() {
			if a.Has("db") && db != a.Str("db") {
				continue
			}
			for _, c := range n.Catalog.Collections(db) {
				if !a.Has("collection") || c.Namespace.Coll == a.Str("collection") {
					unstableIndexes(op.Reply, c, &listed)
				}
			}
		}
	}
	op.Reply.Close()
	return nil
}

// unstableIndexes writes an error for each index of c that Stable API version 1
// does not have: text and sparse ones.
func unstableIndexes(b *bson.Builder, c *catalog.Collection, listed *int) {
	for _, ix := range c.Indexes() {
		if ix.Plugin != "text" && !ix.Sparse {
			continue
		}
		b.OpenDoc(bson.Index(*listed)).String("ns", c.Namespace.String()).
			Int32("code", int32(mongoerr.APIStrictError)).String("codeName", mongoerr.APIStrictError.String()).
			String("errmsg", "The index with name "+ix.Name+" is not allowed in API version 1.").Close()
		*listed++
	}
}

// checkMetadataDatabase checks the name of a database in the argument db.
// Errors: 28539, 13280, 73.
func checkMetadataDatabase(db string) error {
	if db == "" {
		return mongoerr.New(mongoerr.Code(28539), "Empty database name")
	}
	for _, r := range db {
		switch r {
		case '.', 0:
			return mongoerr.New(mongoerr.InvalidNamespace, "'.' and zero bytes are invalid in a database name: %q", db)
		case ' ', '/', '\\', '"':
			return mongoerr.New(mongoerr.Code(13280), "Invalid database name: %s", db)
		}
	}
	if len(db) > 63 {
		return mongoerr.New(mongoerr.InvalidNamespace, "db name must be at most 63 characters, found: %d", len(db))
	}
	return nil
}
