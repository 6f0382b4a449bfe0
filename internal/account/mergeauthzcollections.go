package account

import (
	"context"
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
)

// mergeAuthzCollections moves users and roles from the collections into which
// mongorestore has put them to the system's; with drop, it removes those that
// are not in them.
func (s *Store) mergeAuthzCollections() *command.Command {
	fields := command.NewFields("_mergeAuthzCollections", command.String("tempUsersCollection"), command.String("tempRolesCollection"),
		command.String("db"), command.SafeBool("drop"))
	c := accountCommand("_mergeAuthzCollections", "Internal command used by mongorestore for updating user/role data", fields, s.runMergeAuthzCollections)
	c.Flags |= command.AdminOnly
	return c
}

func (s *Store) runMergeAuthzCollections(ctx context.Context, op *command.Op) error {
	if err := op.Auditable(); err != nil {
		return err
	}
	a := &op.Args
	users, roles := a.Str("tempUsersCollection"), a.Str("tempRolesCollection")
	if users == "" && roles == "" {
		return mongoerr.New(mongoerr.BadValue, "Must provide at least one of \"tempUsersCollection\" and \"tempRolescollection\"")
	}
	for _, m := range []struct {
		from, name string
		to         schema.Namespace
	}{{users, "user", usersNamespace}, {roles, "role", rolesNamespace}} {
		if m.from == "" {
			continue
		}
		if err := s.makeAccounts(ctx, m.to, m.name); err != nil {
			return err
		}
		docs, err := s.accountsOf(schema.ParseNamespace(m.from), a.Str("db"))
		if err != nil {
			return err
		}
		var all []mutation
		if err := s.changeAccounts(ctx, func(c *change) (err error) {
			all, err = c.merge(m.to, m.name, docs, a.Str("db"), a.Bool("drop"))
			return err
		}); err != nil {
			return err
		}
		for _, e := range all {
			AuditMutation(op, m.to, e.how, e.doc)
		}
	}
	return nil
}

// mutation is what was done with a document: "insert", "update" or "remove".
type mutation struct {
	how string
	doc bson.Doc
}

// merge inserts documents, or replaces those with the same names, and with drop
// removes the others of db, "" for all. It returns what it has changed.
func (c *change) merge(to schema.Namespace, name string, docs []bson.Doc, db string, drop bool) (all []mutation, err error) {
	have, err := c.s.accountsOf(to, db)
	if err != nil {
		return nil, err
	}
	id := func(d bson.Doc) string { return d.Lookup("db").Str() + "." + d.Lookup(name).Str() }
	for _, d := range docs {
		if d.Lookup("db").Type != bson.TypeString || d.Lookup(name).Type != bson.TypeString {
			return nil, mongoerr.New(mongoerr.UnsupportedFormat, "Expected strings in fields '%s' and 'db', found: %s", name, d.Lookup("_id"))
		}
		d = withFields(d, field{"_id", bson.String(id(d))})
		switch known := slices.ContainsFunc(have, func(h bson.Doc) bool { return id(h) == id(d) }); {
		case !known:
			all, err = append(all, mutation{"insert", d}), c.insert(to, d, nil)
		case drop:
			all, err = append(all, mutation{"update", d}), c.replace(to, d, nil)
		}
		if err != nil {
			return nil, err
		}
	}
	if !drop {
		return all, nil
	}
	for _, h := range have {
		if slices.ContainsFunc(docs, func(d bson.Doc) bool { return id(d) == id(h) }) {
			continue
		}
		if err := c.remove(to, h.Lookup("_id"), nil); err != nil {
			return nil, err
		}
		all = append(all, mutation{"remove", h})
	}
	return all, nil
}
