package account

import (
	"github.com/mayflydb/mayfly/internal/auth"
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
)

// Needs has the privileges that each command of this package requires, where it
// requires any. (Manual: Privilege Actions.)
func Needs() map[string]func(*command.Op) []auth.Need {
	return map[string]func(*command.Op) []auth.Need{
		"createUser": createUserNeeds, "updateUser": updateUserNeeds, "dropUser": databaseNeeds(auth.DropUser),
		"dropAllUsersFromDatabase": databaseNeeds(auth.DropUser), "grantRolesToUser": roleNeeds(auth.GrantRole),
		"revokeRolesFromUser": roleNeeds(auth.RevokeRole), "usersInfo": usersInfoNeeds,
		"invalidateUserCache":     func(*command.Op) []auth.Need { return one(auth.Cluster, auth.InvalidateUserCache) },
		"_getUserCacheGeneration": func(*command.Op) []auth.Need { return one(auth.Cluster, auth.Internal) },
		"createRole":              createRoleNeeds, "updateRole": updateRoleNeeds, "dropRole": databaseNeeds(auth.DropRole),
		"dropAllRolesFromDatabase": databaseNeeds(auth.DropRole), "grantRolesToRole": roleNeeds(auth.GrantRole),
		"revokeRolesFromRole": roleNeeds(auth.RevokeRole), "grantPrivilegesToRole": privilegeNeeds(auth.GrantRole),
		"revokePrivilegesFromRole": privilegeNeeds(auth.RevokeRole), "rolesInfo": rolesInfoNeeds,
		"_mergeAuthzCollections": mergeNeeds,
	}
}

func one(r auth.Resource, actions ...auth.Action) []auth.Need {
	return []auth.Need{auth.On(r, actions...)}
}

func databaseNeeds(action auth.Action) func(*command.Op) []auth.Need {
	return func(op *command.Op) []auth.Need { return one(auth.Database(op.DB), action) }
}

// roleNeeds requires the action on the databases of the roles that a command
// names.
func roleNeeds(action auth.Action) func(*command.Op) []auth.Need {
	return func(op *command.Op) []auth.Need { return namedRoles(op, action) }
}

func namedRoles(op *command.Op, action auth.Action) []auth.Need {
	var all []auth.Need
	for _, r := range auth.ParseRoles(op.Args.Array("roles"), op.DB) {
		all = append(all, auth.On(auth.Database(r.DB), action))
	}
	return all
}

// privilegeNeeds requires the action on the databases of privileges; on admin
// for those on more than one.
func privilegeNeeds(action auth.Action) func(*command.Op) []auth.Need {
	return func(op *command.Op) []auth.Need { return namedPrivileges(op, action) }
}

func namedPrivileges(op *command.Op, action auth.Action) []auth.Need {
	var all []auth.Need
	for _, v := range op.Args.Array("privileges") {
		db := v.Doc().Lookup("resource").Doc().Lookup("db")
		name := "admin"
		if db.Type == bson.TypeString && db.Str() != "" {
			name = db.Str()
		}
		all = append(all, auth.On(auth.Database(name), action))
	}
	return all
}

// restrictionNeeds is what setting authentication restrictions requires.
func restrictionNeeds(op *command.Op) []auth.Need {
	if !op.Args.Has("authenticationRestrictions") {
		return nil
	}
	return one(auth.Database(op.DB), auth.SetAuthenticationRestriction)
}

func createUserNeeds(op *command.Op) []auth.Need {
	all := append(one(auth.Database(op.DB), auth.CreateUser), namedRoles(op, auth.GrantRole)...)
	return append(all, restrictionNeeds(op)...)
}

// revokesAny is what replacing roles or privileges requires: the old ones may be
// of any database.
var revokesAny = auth.On(auth.AnyNormal, auth.RevokeRole)

// updateUserNeeds lets users who may change their own password or data.
func updateUserNeeds(op *command.Op) []auth.Need {
	self := false
	if p := op.Client.Principal(); p != nil {
		self = p.User.Name == argumentUser(op)
	}
	db := auth.Database(op.DB)
	var all []auth.Need
	for _, f := range []struct {
		field    string
		any, own auth.Action
	}{{"pwd", auth.ChangePassword, auth.ChangeOwnPassword}, {"customData", auth.ChangeCustomData, auth.ChangeOwnCustomData}} {
		if op.Args.Has(f.field) && (!self || !op.May(auth.On(db, f.own))) {
			all = append(all, auth.On(db, f.any))
		}
	}
	if op.Args.Has("mechanisms") && !op.Args.Has("pwd") {
		all = append(all, auth.On(db, auth.ChangePassword))
	}
	if op.Args.Has("roles") {
		all = append(append(all, revokesAny), namedRoles(op, auth.GrantRole)...)
	}
	return append(all, restrictionNeeds(op)...)
}

func createRoleNeeds(op *command.Op) []auth.Need {
	all := append(one(auth.Database(op.DB), auth.CreateRole), namedRoles(op, auth.GrantRole)...)
	return append(append(all, namedPrivileges(op, auth.GrantRole)...), restrictionNeeds(op)...)
}

func updateRoleNeeds(op *command.Op) []auth.Need {
	all := append([]auth.Need{revokesAny}, namedRoles(op, auth.GrantRole)...)
	return append(append(all, namedPrivileges(op, auth.GrantRole)...), restrictionNeeds(op)...)
}

// usersInfoNeeds requires nothing of users who ask about themselves.
func usersInfoNeeds(op *command.Op) []auth.Need {
	v := op.Args.Value("usersInfo")
	if v.Type == bson.TypeDocument && v.Doc().Lookup("forAllDBs").Truthy() {
		return one(auth.Cluster, auth.ViewUser)
	}
	return infoNeeds(op, "UserName", "user", auth.ViewUser, func(p *auth.Principal, name, db string) bool {
		return p.User.Name == auth.UserName{User: name, DB: db}
	})
}

// rolesInfoNeeds requires nothing for roles that the client has.
func rolesInfoNeeds(op *command.Op) []auth.Need {
	return infoNeeds(op, "RoleName", "role", auth.ViewRole, func(p *auth.Principal, name, db string) bool {
		return p.Has(auth.RoleName{Role: name, DB: db})
	})
}

func infoNeeds(op *command.Op, what, field string, action auth.Action, own func(p *auth.Principal, name, db string) bool) []auth.Need {
	names, all, err := infoNames(op, what, field)
	if err != nil {
		return nil // the command itself reports the error
	}
	if all {
		return one(auth.Database(op.DB), action)
	}
	var list []auth.Need
	for _, name := range names {
		if p := op.Client.Principal(); p == nil || !own(p, name[0], name[1]) {
			list = append(list, auth.On(auth.Database(name[1]), action))
		}
	}
	return list
}

// mergeNeeds are the privileges to create and drop any user or role.
func mergeNeeds(*command.Op) []auth.Need {
	return one(auth.AnyNormal, auth.CreateUser, auth.DropUser, auth.CreateRole, auth.DropRole, auth.GrantRole, auth.RevokeRole)
}
