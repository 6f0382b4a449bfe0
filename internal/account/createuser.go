package account

import (
	"context"
	"strings"

	"github.com/mayflydb/mayfly/internal/auth"
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

var createUserFields = command.NewFields("createUser", command.Value(command.String("").Required()),
	command.String("pwd"), command.Object("customData"), rolesArgument().Required(), command.SafeBool("digestPassword"),
	restrictionsArgument(), command.ArrayOf("mechanisms", command.String("")))

// createUser creates a user.
func (s *Store) createUser() *command.Command {
	return accountCommand("createUser", "Adds a user to the system", createUserFields, s.runCreateUser)
}

func (s *Store) runCreateUser(ctx context.Context, op *command.Op) error {
	name := argumentUser(op)
	if err := checkNewUser(op, name); err != nil {
		return err
	}
	roles, err := argumentRoles(op)
	if err != nil {
		return err
	}
	restrictions, err := argumentRestrictions(op)
	if err != nil {
		return err
	}
	credentials, err := s.credentials(op, name)
	if err != nil {
		return err
	}
	if name.User == "" {
		return mongoerr.New(mongoerr.BadValue, "User document needs 'user' field to be non-empty")
	}
	id := bson.NewUUID()
	b := new(bson.Builder).String("_id", name.ID()).Binary("userId", 4, id[:])
	name.Write(b)
	d := withFields(b.Doc("credentials", credentials).Finish(), restrictionsField(restrictions),
		field{"customData", op.Args.Value("customData")}, rolesField(roles))
	if err := s.makeAccounts(ctx, usersNamespace, "user"); err != nil {
		return err
	}
	return s.changeAccounts(ctx, func(c *change) error {
		if err := auth.RoleStore(s.role).CheckExist(roles); err != nil {
			return err
		}
		return c.insert(usersNamespace, d, mongoerr.New(51003, "User \"%s\" already exists", name))
	})
}

func checkNewUser(op *command.Op, name auth.UserName) error {
	bad := func(message string) error { return mongoerr.New(mongoerr.BadValue, "%s", message) }
	external := name.DB == auth.External
	switch {
	case name.DB == "local":
		return bad("Cannot create users in the local database")
	case strings.Contains(name.User, "\x00"):
		return bad("Username cannot contain NULL characters")
	case !op.Args.Has("pwd") && !external:
		return bad("Must provide a 'pwd' field for all user documents, except those with '$external' as the user's source db")
	case op.Args.Has("pwd") && external:
		return bad("Cannot set the password for users defined on the '$external' database")
	}
	return checkMechanisms(op)
}
