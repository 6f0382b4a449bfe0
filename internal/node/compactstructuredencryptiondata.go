package node

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
)

var compactEncryptedFields = command.NewFields("compactStructuredEncryptionData", command.Value(command.Any("")),
	command.Object("compactionTokens").Required(), command.Object("encryptionInformation"),
	command.SafeInt("anchorPaddingFactor"))

// compactStructuredEncryptionData compacts the metadata of queryable
// encryption, which no collection here has.
func (n *Node) compactStructuredEncryptionData() *command.Command {
	return &command.Command{
		Name: "compactStructuredEncryptionData", Fields: compactEncryptedFields, Flags: command.APIv1,
		Help: "Compact a structured encryption collection", Run: n.runCompactEncrypted,
	}
}

func (n *Node) runCompactEncrypted(_ context.Context, op *command.Op) error {
	v := op.Args.Value("compactStructuredEncryptionData")
	if v.Type != bson.TypeString || v.Str() == "" {
		return mongoerr.New(mongoerr.InvalidNamespace, "collection name has invalid type %s", v.Type)
	}
	op.SetCollection(v.Str())
	c := n.Catalog.Lookup(schema.Namespace{DB: op.DB, Coll: op.Collection})
	switch {
	case c == nil:
		return mongoerr.New(mongoerr.NamespaceNotFound, "Namespace %s does not exist", op.NS)
	case c.IsView():
		return mongoerr.New(mongoerr.CommandNotSupportedOnView, "Cannot compact structured encryption data on a view")
	}
	return mongoerr.New(mongoerr.Code(6346807), "Target namespace is not an encrypted collection")
}
