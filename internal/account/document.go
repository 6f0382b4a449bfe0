package account

import (
	"github.com/mayflydb/mayfly/internal/auth"
	"github.com/mayflydb/mayfly/internal/bson"
)

type field struct {
	name  string
	value bson.Value
}

// withFields returns d with some fields replaced, or left out if they are
// Missing; fields that d does not have are appended.
func withFields(d bson.Doc, fields ...field) bson.Doc {
	var b bson.Builder
	done := map[string]bool{}
	put := func(name string, v bson.Value) {
		if !v.IsMissing() {
			b.Value(name, v)
		}
	}
	for name, v := range d.All() {
		for _, f := range fields {
			if f.name == name {
				v, done[name] = f.value, true
			}
		}
		put(name, v)
	}
	for _, f := range fields {
		if !done[f.name] {
			put(f.name, f.value)
		}
	}
	return b.Finish()
}

// rolesField returns the field roles of a user or a role.
func rolesField(roles []auth.RoleName) field {
	var b bson.Builder
	auth.WriteRoles(&b, "roles", roles)
	return field{"roles", b.Finish().Lookup("roles")}
}

// privilegesField returns the field privileges of a role.
func privilegesField(ps auth.Privileges) field {
	var b bson.Builder
	ps.Write(&b, "privileges")
	return field{"privileges", b.Finish().Lookup("privileges")}
}

// restrictionsField returns the field authenticationRestrictions; none for an
// empty array.
func restrictionsField(v bson.Value) field {
	if v.Doc().IsEmpty() {
		v = bson.Value{}
	}
	return field{"authenticationRestrictions", v}
}

// roleDocument returns a document of admin.system.roles.
type roleDocument bson.Doc

// roleNamed returns the name of the role that a document describes.
func roleNamed(d bson.Doc) auth.RoleName {
	return auth.RoleName{Role: d.Lookup("role").Str(), DB: d.Lookup("db").Str()}
}

func (d roleDocument) privileges() (auth.Privileges, error) {
	return auth.ParsePrivileges(bson.Doc(d).Lookup("privileges").Doc().Slice())
}

func (d roleDocument) roles() []auth.RoleName {
	return auth.ParseRoles(bson.Doc(d).Lookup("roles").Doc().Slice(), "")
}

// writeResolved appends what roles resolve to.
func writeResolved(b *bson.Builder, r auth.Resolved, privileges, restrictions bool) {
	auth.WriteRoles(b, "inheritedRoles", r.Roles)
	if privileges {
		r.Privileges.Write(b, "inheritedPrivileges")
	}
	if restrictions {
		b.OpenArray("inheritedAuthenticationRestrictions")
		for i, list := range r.Restrictions {
			b.Array(bson.Index(i), list)
		}
		b.Close()
	}
}
