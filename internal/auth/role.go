package auth

import (
	"slices"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// RoleName names a role, and the database that it belongs to.
type RoleName struct{ Role, DB string }

// String is "role@db".
func (r RoleName) String() string { return r.Role + "@" + r.DB }

// ID is the role's _id in admin.system.roles.
func (r RoleName) ID() string { return r.DB + "." + r.Role }

// WriteRoles appends roles as an array of {role, db}.
func WriteRoles(b *bson.Builder, name string, roles []RoleName) {
	b.OpenArray(name)
	for i, r := range roles {
		b.OpenDoc(bson.Index(i)).String("role", r.Role).String("db", r.DB).Close()
	}
	b.Close()
}

// ParseRoles reads an array of roles, each a name in db or {role, db}; what
// stands in it twice is there once.
func ParseRoles(vs []bson.Value, db string) []RoleName {
	roles := make([]RoleName, 0, len(vs))
	for _, v := range vs {
		r := RoleName{DB: db}
		if v.Type == bson.TypeDocument {
			r = RoleName{text(v.Doc().Lookup("role")), text(v.Doc().Lookup("db"))}
		} else {
			r.Role = text(v)
		}
		roles = addRole(roles, r)
	}
	return roles
}

func addRole(roles []RoleName, r RoleName) []RoleName {
	if slices.Contains(roles, r) {
		return roles
	}
	return append(roles, r)
}

// RoleStore gives the document of a role that users made, or nil.
type RoleStore func(RoleName) (bson.Doc, error)

// Resolved is what roles come to: the roles that they inherit, all privileges,
// and for each role with authentication restrictions those.
type Resolved struct {
	Roles        []RoleName
	Privileges   Privileges
	Restrictions []bson.Doc
}

// Resolve walks from roles to all that they inherit, or no further than their
// own documents where direct is said. Roles that do not exist grant nothing.
func (store RoleStore) Resolve(roles []RoleName, direct bool) (Resolved, error) {
	var out Resolved
	seen := map[RoleName]bool{}
	for frontier := roles; len(frontier) > 0; {
		var next []RoleName
		for _, r := range frontier {
			if seen[r] {
				continue
			}
			seen[r] = true
			if r.IsBuiltin() {
				out.Privileges = out.Privileges.AddAll(BuiltinPrivileges(r))
				continue
			}
			d, err := store(r)
			if err != nil {
				return Resolved{}, err
			}
			subs := ParseRoles(d.Lookup("roles").Doc().Slice(), "")
			for _, sub := range subs {
				out.Roles = addRole(out.Roles, sub)
			}
			ps, err := ParsePrivileges(d.Lookup("privileges").Doc().Slice())
			if err != nil {
				return Resolved{}, err
			}
			out.Privileges = out.Privileges.AddAll(ps)
			if v := d.Lookup("authenticationRestrictions"); v.Type == bson.TypeArray && !v.Doc().IsEmpty() {
				out.Restrictions = append(out.Restrictions, v.Doc())
			}
			if !direct {
				next = append(next, subs...)
			}
		}
		frontier = next
	}
	return out, nil
}

// ParseResolved reads what a user's roles come to from what usersInfo shows of it.
func ParseResolved(d bson.Doc) (r Resolved, err error) {
	list := func(name string) []bson.Value {
		if v := d.Lookup(name); v.Type == bson.TypeArray {
			return v.Doc().Slice()
		}
		return nil
	}
	r.Roles = ParseRoles(list("inheritedRoles"), "")
	for _, v := range list("inheritedAuthenticationRestrictions") {
		if v.Type == bson.TypeArray {
			r.Restrictions = append(r.Restrictions, v.Doc())
		}
	}
	r.Privileges, err = ParsePrivileges(list("inheritedPrivileges"))
	return r, err
}

// CheckExist says which roles there are not (code 31).
func (store RoleStore) CheckExist(roles []RoleName) error {
	var unknown []string
	for _, r := range roles {
		if r.IsBuiltin() {
			continue
		}
		d, err := store(r)
		if err != nil {
			return err
		}
		if d == nil {
			unknown = append(unknown, r.String())
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	slices.Sort(unknown)
	plural := ""
	if len(unknown) > 1 {
		plural = "s"
	}
	return mongoerr.New(mongoerr.RoleNotFound, "Could not find role%s: %s", plural, strings.Join(unknown, ", "))
}

// CheckGrantable reports whether the role may inherit others: they exist, are of
// its database unless it is of admin, and do not inherit it themselves (code 49).
func (store RoleStore) CheckGrantable(role RoleName, others []RoleName) error {
	for _, r := range others {
		if r == role {
			return mongoerr.New(mongoerr.InvalidRoleModification, "Cannot grant role %s to itself.", role)
		}
		if role.DB != "admin" && r.DB != role.DB {
			return mongoerr.New(mongoerr.InvalidRoleModification, "Roles on the '%s' database cannot be granted roles from other databases", role.DB)
		}
	}
	if err := store.CheckExist(others); err != nil {
		e := mongoerr.From(err)
		return mongoerr.New(e.Code, "Cannot grant roles to '%s': %s", role, e.Message)
	}
	all, err := store.Resolve(others, false)
	if err != nil {
		return err
	}
	if slices.Contains(all.Roles, role) {
		return mongoerr.New(mongoerr.InvalidRoleModification, "Granting roles to %s would introduce a cycle in the role graph", role)
	}
	return nil
}

// Union is roles and those of others that are not among them.
func Union(roles, others []RoleName) []RoleName {
	for _, r := range others {
		roles = addRole(roles, r)
	}
	return roles
}

// Less is roles but for others.
func Less(roles, others []RoleName) []RoleName {
	return slices.DeleteFunc(roles, func(r RoleName) bool { return slices.Contains(others, r) })
}
