package account

import (
	"context"

	"github.com/mayflydb/mayfly/internal/auth"
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

var updateUserFields = command.NewFields("updateUser", command.Value(command.String("").Required()),
	command.String("pwd"), command.Object("customData"), rolesArgument(), command.SafeBool("digestPassword"),
	restrictionsArgument(), command.ArrayOf("mechanisms", command.String("")))

// updateUser changes a user's password, data, roles and restrictions.
func (s *Store) updateUser() *command.Command {
	return accountCommand("updateUser", "Used to update a user, for example to change its password", updateUserFields, s.runUpdateUser)
}

func (s *Store) runUpdateUser(ctx context.Context, op *command.Op) error {
	name := argumentUser(op)
	if err := checkMechanisms(op); err != nil {
		return err
	}
	fields, roles, err := s.userChanges(op, name)
	if err != nil {
		return err
	}
	trims := op.Args.Has("mechanisms") && !op.Args.Has("pwd")
	if len(fields) == 0 && !trims {
		return mongoerr.New(mongoerr.BadValue, "Must specify at least one field to update in updateUser")
	}
	return s.changeAccounts(ctx, func(c *change) error {
		if err := auth.RoleStore(s.role).CheckExist(roles); err != nil {
			return err
		}
		d, err := s.kept(usersNamespace, name.ID())
		if err != nil {
			return err
		}
		if d == nil {
			return userMissing(name)
		}
		if trims {
			kept, err := keptCredentials(d, op.Args.Strings("mechanisms"))
			if err != nil {
				return err
			}
			d = withFields(d, field{"credentials", kept})
		}
		return c.replace(usersNamespace, withFields(d, fields...), userMissing(name))
	})
}

// userChanges lists the fields that the command changes, and the roles among
// them.
func (s *Store) userChanges(op *command.Op, name auth.UserName) (fields []field, roles []auth.RoleName, err error) {
	a := &op.Args
	if a.Has("pwd") {
		if name.DB == auth.External {
			return nil, nil, mongoerr.New(mongoerr.BadValue, "Cannot set the password for users defined on the '$external' database")
		}
		credentials, err := s.credentials(op, name)
		if err != nil {
			return nil, nil, err
		}
		fields = append(fields, field{"credentials", bson.Document(credentials)})
	}
	if a.Has("customData") {
		fields = append(fields, field{"customData", a.Value("customData")})
	}
	if a.Has("authenticationRestrictions") {
		v, err := argumentRestrictions(op)
		if err != nil {
			return nil, nil, err
		}
		fields = append(fields, restrictionsField(v))
	}
	if a.Has("roles") {
		if roles, err = argumentRoles(op); err != nil {
			return nil, nil, err
		}
		fields = append(fields, rolesField(roles))
	}
	return fields, roles, nil
}

// keptCredentials returns the user's credentials for some of its mechanisms.
func keptCredentials(d bson.Doc, mechanisms []string) (bson.Value, error) {
	have := d.Lookup("credentials").Doc()
	for _, m := range mechanisms {
		if !have.Has(m) {
			return bson.Value{}, mongoerr.New(mongoerr.BadValue, "mechanisms field must be a subset of previously set mechanisms")
		}
	}
	return bson.Document(new(bson.Builder).Only(have, mechanisms).Finish()), nil
}
