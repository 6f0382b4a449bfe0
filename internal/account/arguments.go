package account

import (
	"strings"

	"github.com/mayflydb/mayfly/internal/auth"
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// The fields that the commands about users and roles share, declared anew for each.

func rolesArgument() *command.Field {
	return command.ArrayOf("roles", command.OneOf("", bson.TypeString, bson.TypeDocument))
}

func restrictionsArgument() *command.Field {
	return command.ArrayOf("authenticationRestrictions", command.Struct("", command.NewFields("authenticationRestrictions",
		command.ArrayOf("clientSource", command.String("")), command.ArrayOf("serverAddress", command.String("")))))
}

func privilegesArgument() *command.Field {
	return command.ArrayOf("privileges", command.Struct("", command.NewFields("privileges",
		command.Struct("resource", command.NewFields("resource", command.SafeBool("cluster"), command.SafeBool("anyResource"),
			command.String("db"), command.String("collection"), command.String("system_buckets")).Lenient()).Required(),
		command.ArrayOf("actions", command.String("")).Required()).Lenient()))
}

// argumentRoles reads the roles that a command names; those without a database
// are in the command's.
func argumentRoles(op *command.Op) ([]auth.RoleName, error) {
	vs := op.Args.Array("roles")
	for _, v := range vs {
		if v.Type == bson.TypeDocument {
			if err := checkName(v.Doc(), "RoleName", "role"); err != nil {
				return nil, err
			}
		}
	}
	return auth.ParseRoles(vs, op.DB), nil
}

// checkName checks the form of {role, db} or {user, db}.
func checkName(d bson.Doc, what, field string) error {
	if d.Len() != 2 || d.Lookup(field).Type != bson.TypeString || d.Lookup("db").Type != bson.TypeString {
		return mongoerr.New(mongoerr.BadValue, "%s must contain exactly '%s' and 'db' fields", what, field)
	}
	return nil
}

// someRoles is argumentRoles where there must be one.
func someRoles(op *command.Op) ([]auth.RoleName, error) {
	if len(op.Args.Array("roles")) == 0 {
		return nil, mongoerr.New(mongoerr.BadValue, "%s command requires a non-empty \"roles\" array", op.Command.Name)
	}
	return argumentRoles(op)
}

// somePrivileges reads the privileges of a command, of which there must be one.
func somePrivileges(op *command.Op) (auth.Privileges, error) {
	vs := op.Args.Array("privileges")
	if len(vs) == 0 {
		return nil, mongoerr.New(mongoerr.BadValue, "%s command requires a non-empty \"privileges\" array", op.Command.Name)
	}
	return auth.ParsePrivileges(vs)
}

// argumentRestrictions reads authenticationRestrictions, Missing if the
// command has none.
func argumentRestrictions(op *command.Op) (bson.Value, error) {
	return op.Args.Value("authenticationRestrictions"), auth.CheckRestrictions(op.Args.Array("authenticationRestrictions"))
}

// argumentUser reads the user that a command is about.
func argumentUser(op *command.Op) auth.UserName {
	return auth.UserName{User: op.Args.Str(op.Command.Name), DB: op.DB}
}

// argumentRole reads the role that a command is about.
func argumentRole(op *command.Op) auth.RoleName {
	return auth.RoleName{Role: op.Args.Str(op.Command.Name), DB: op.DB}
}

// userRole is argumentRole for a command that needs a user-defined role.
func userRole(op *command.Op) (auth.RoleName, error) {
	r := argumentRole(op)
	if r.IsBuiltin() {
		return r, mongoerr.New(mongoerr.InvalidRoleModification, "%s is a built-in role and cannot be modified", r)
	}
	return r, nil
}

func userMissing(u auth.UserName) error {
	return mongoerr.New(mongoerr.UserNotFound, "User %s not found", u)
}

func roleMissing(r auth.RoleName) error {
	return mongoerr.New(mongoerr.RoleNotFound, "Role %s not found", r)
}

// accountCommand declares a command that changes users or roles.
func accountCommand(name, help string, fields *command.Fields, run command.Handler) *command.Command {
	return &command.Command{
		Name: name, Flags: command.Writes | command.ChecksBlock | command.TakesWriteConcern | command.Redacted, Fields: fields, Help: help, Run: run,
	}
}

func checkMechanisms(op *command.Op) error {
	if op.Args.Has("mechanisms") && len(op.Args.Array("mechanisms")) == 0 {
		return mongoerr.New(mongoerr.BadValue, "mechanisms field must not be empty")
	}
	return nil
}

// credentials makes the credentials for a command's password.
func (s *Store) credentials(op *command.Op, name auth.UserName) (bson.Doc, error) {
	if !op.Args.Has("pwd") {
		return new(bson.Builder).Bool("external", true).Finish(), nil
	}
	if op.Args.Str("pwd") == "" {
		return nil, mongoerr.New(mongoerr.BadValue, "Password cannot be empty")
	}
	p := auth.Password{
		User: name.User, Text: op.Args.Str("pwd"), Digested: !op.Args.BoolOr("digestPassword", true),
		Mechanisms: op.Args.Strings("mechanisms"), Iterations: s.iterations,
	}
	return p.Credentials()
}

// infoNames reads the argument of usersInfo and rolesInfo: all says that it
// asks for everybody; otherwise names are the (name, database) pairs.
func infoNames(op *command.Op, what, field string) (names [][2]string, all bool, err error) {
	v := op.Args.Value(op.Command.Name)
	vs := []bson.Value{v}
	if v.Type == bson.TypeArray {
		vs = v.Doc().Slice()
	} else if v.IsNumber() && bson.ToDouble(v) == 1 {
		return nil, true, nil
	}
	for _, v := range vs {
		switch v.Type {
		case bson.TypeString:
			names = append(names, [2]string{v.Str(), op.DB})
		case bson.TypeDocument:
			if err := checkName(v.Doc(), what, field); err != nil {
				return nil, false, err
			}
			names = append(names, [2]string{v.Doc().Lookup(field).Str(), v.Doc().Lookup("db").Str()})
		default:
			return nil, false, mongoerr.New(mongoerr.BadValue, "%s must be either a string or an object", what)
		}
	}
	return names, false, nil
}

// MechanismsUser reads hello's saslSupportedMechs: "db.user", or {user, db}; nil where
// it is missing.
func MechanismsUser(v bson.Value) (*auth.UserName, error) {
	switch v.Type {
	case bson.Missing:
		return nil, nil
	case bson.TypeString:
		db, user, ok := strings.Cut(v.Str(), ".")
		if !ok {
			return nil, mongoerr.New(mongoerr.BadValue, "UserName must contain a '.' separated database.user pair")
		}
		return &auth.UserName{User: user, DB: db}, nil
	case bson.TypeDocument:
		if err := checkName(v.Doc(), "UserName", "user"); err != nil {
			return nil, err
		}
		return &auth.UserName{User: v.Doc().Lookup("user").Str(), DB: v.Doc().Lookup("db").Str()}, nil
	}
	return nil, mongoerr.New(mongoerr.TypeMismatch, "UserName must be either a string or an object, found: %s", v.Type)
}
