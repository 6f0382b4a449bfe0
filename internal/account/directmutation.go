package account

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/schema"
)

// Keeps reports whether a collection has the users or the roles of the server.
func Keeps(ns schema.Namespace) bool { return ns == usersNamespace || ns == rolesNamespace }

// AuditMutation tells auditors that op changes users or roles by their document, and not by a
// command that says so; how is "insert", "update" or "remove". Of credentials only the mechanisms
// are told. (mongod's directAuthMutation.)
func AuditMutation(op *command.Op, ns schema.Namespace, how string, doc bson.Doc) {
	var names []bson.Value
	if c := doc.Lookup("credentials"); c.Type == bson.TypeDocument {
		for name := range c.Doc().All() {
			names = append(names, bson.String(name))
		}
		doc = withFields(doc, field{"credentials", bson.Array(names...)})
	}
	op.Audited("directAuthMutation", new(bson.Builder).Doc("document", doc).String("ns", ns.String()).String("operation", how).Finish())
}
