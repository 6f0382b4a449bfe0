package router

import (
	"context"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
)

// ofUsers has the commands about users and roles, which are stored on the config servers.
const ofUsers = `createUser updateUser dropUser dropAllUsersFromDatabase grantRolesToUser revokeRolesFromUser usersInfo
	createRole updateRole dropRole dropAllRolesFromDatabase grantRolesToRole revokeRolesFromRole grantPrivilegesToRole
	revokePrivilegesFromRole rolesInfo`

// userCommands returns the commands in ofUsers.
func (r *Router) userCommands() []*command.Command {
	var all []*command.Command
	for name := range strings.FieldsSeq(ofUsers) {
		all = append(all, &command.Command{
			Name: name, Flags: command.TakesWriteConcern | command.Redacted, Help: "passed on to the config servers",
			Run: func(ctx context.Context, op *command.Op) error {
				first, v := op.Body.First()
				b := new(bson.Builder).Value(first, v)
				appendRest(b, op.Body)
				return r.passToConfig(ctx, op, op.DB, b.Finish())
			},
		})
	}
	return all
}
