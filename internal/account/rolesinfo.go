package account

import (
	"context"

	"github.com/mayflydb/mayfly/internal/auth"
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

var rolesInfoFields = command.NewFields("rolesInfo", command.Value(command.Any("").Required()),
	command.SafeBool("showAuthenticationRestrictions"), command.SafeBool("showBuiltinRoles"),
	command.OneOf("showPrivileges", bson.TypeBool, bson.TypeInt64, bson.TypeInt32, bson.TypeDecimal, bson.TypeDouble, bson.TypeString))

// rolesInfo describes roles: {rolesInfo: 1} the user-defined ones of the
// database; a name, {role, db} or an array of those the given ones.
func (s *Store) rolesInfo() *command.Command {
	return &command.Command{
		Name: "rolesInfo", Fields: rolesInfoFields, Help: "Returns information about roles.", Run: s.runRolesInfo,
	}
}

func (s *Store) runRolesInfo(_ context.Context, op *command.Op) error {
	names, all, err := infoNames(op, "RoleName", "role")
	if err != nil {
		return err
	}
	roles := make([]auth.RoleName, len(names))
	for i, name := range names {
		roles[i] = auth.RoleName{Role: name[0], DB: name[1]}
	}
	show, fragment, err := privilegeFormat(op.Args.Value("showPrivileges"))
	if err != nil {
		return err
	}
	switch {
	case fragment && all:
		return mongoerr.New(mongoerr.IllegalOperation, "Cannot get user fragment for all roles in a database")
	case fragment:
		return s.writeUserFragment(op, roles)
	case all:
		if op.Args.Bool("showBuiltinRoles") {
			roles = auth.Builtins(op.DB)
		}
		docs, err := s.accountsOf(rolesNamespace, op.DB)
		if err != nil {
			return err
		}
		for _, d := range docs {
			roles = append(roles, roleNamed(d))
		}
	}
	b := op.Reply.OpenArray("roles")
	i := 0
	for _, r := range roles {
		d, err := s.describeRole(r, show, op.Args.Bool("showAuthenticationRestrictions"))
		if err != nil {
			return err
		}
		if d != nil {
			b.Doc(bson.Index(i), d)
			i++
		}
	}
	b.Close()
	return nil
}

// privilegeFormat reads showPrivileges: whether to show privileges, and whether
// as a fragment of a user with the roles.
func privilegeFormat(v bson.Value) (show, fragment bool, err error) {
	if v.Type != bson.TypeString {
		return v.Truthy(), false, nil
	}
	if v.Str() != "asUserFragment" {
		return false, false, mongoerr.New(mongoerr.BadValue, "Failed to parse 'showPrivileges'. 'asUserFragment' is the only supported string value, found: %s", v)
	}
	return true, true, nil
}

// describeRole returns a role as rolesInfo shows it; nil if there is none.
func (s *Store) describeRole(r auth.RoleName, privileges, restrictions bool) (bson.Doc, error) {
	builtin := r.IsBuiltin()
	var own auth.Privileges
	var b bson.Builder
	var d bson.Doc
	if builtin {
		own = auth.BuiltinPrivileges(r)
		b.String("db", r.DB).String("role", r.Role).OpenArray("roles").Close()
		if privileges {
			own.Write(&b, "privileges")
		}
	} else {
		var err error
		if d, err = s.role(r); d == nil || err != nil {
			return nil, err
		}
		if own, err = roleDocument(d).privileges(); err != nil {
			return nil, err
		}
	}
	lists := d.Lookup("authenticationRestrictions")
	for name, v := range d.All() {
		switch {
		case name == "privileges" && !privileges, name == "authenticationRestrictions":
		default:
			b.Value(name, v)
		}
	}
	if restrictions {
		b.OpenArray("authenticationRestrictions")
		if !lists.IsMissing() {
			b.Value("0", lists)
		}
		b.Close()
	}
	subs := roleDocument(d).roles()
	resolved, err := auth.RoleStore(s.role).Resolve(subs, false)
	if err != nil {
		return nil, err
	}
	resolved.Roles = auth.Union(resolved.Roles, subs)
	resolved.Privileges = append(own[:len(own):len(own)], resolved.Privileges...)
	if !lists.IsMissing() {
		resolved.Restrictions = append([]bson.Doc{lists.Doc()}, resolved.Restrictions...)
	}
	writeResolved(&b, resolved, privileges, restrictions)
	return b.Bool("isBuiltin", builtin).Finish(), nil
}

// writeUserFragment writes what a user with the roles would have.
func (s *Store) writeUserFragment(op *command.Op, roles []auth.RoleName) error {
	resolved, err := auth.RoleStore(s.role).Resolve(roles, false)
	if err != nil {
		return err
	}
	b := op.Reply.OpenDoc("userFragment")
	auth.WriteRoles(b, "roles", roles)
	resolved.Roles = auth.Union(resolved.Roles, roles)
	writeResolved(b, resolved, true, op.Args.Bool("showAuthenticationRestrictions"))
	b.Close()
	return nil
}
