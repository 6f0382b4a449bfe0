package audit

import (
	"slices"

	"github.com/mayflydb/mayfly/internal/auth"
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
)

// logins are the commands that authenticate: the part that knows how it ended tells.
var logins = map[string]bool{"saslStart": true, "saslContinue": true, "authenticate": true, "logout": true}

// told makes the events of a command that has run.
type told func(op *command.Op) []event

// events has the commands that leave events of their own, by the manual's table ("Audit Event
// Actions, Details, and Results"). collMod and setParameter are beyond it: with them rules of
// expiry are changed and paused.
var events = map[string]told{
	"create":           one("createCollection", namespace("viewOn", "pipeline", "expireAfterSeconds", "timeseries", "clusteredIndex")),
	"drop":             one("dropCollection", namespace()),
	"dropDatabase":     one("dropDatabase", func(op *command.Op, b *bson.Builder) { b.String("ns", op.DB) }),
	"renameCollection": one("renameCollection", fields("renameCollection", "old", "to", "new")),
	"createIndexes":    indexesCreated,
	"dropIndexes":      indexesDropped,
	"collMod":          one("collMod", func(op *command.Op, b *bson.Builder) { b.String("ns", op.NS).Doc("args", op.ShownCommand()) }),
	"setParameter":     one("setParameter", func(op *command.Op, b *bson.Builder) { b.Doc("args", op.ShownCommand()) }),

	"createUser":               one("createUser", account("user", "customData", "roles", "authenticationRestrictions")),
	"updateUser":               one("updateUser", account("user", "customData", "roles", "authenticationRestrictions")),
	"dropUser":                 one("dropUser", account("user")),
	"dropAllUsersFromDatabase": one("dropAllUsersFromDatabase", func(op *command.Op, b *bson.Builder) { b.String("db", op.DB) }),
	"grantRolesToUser":         one("grantRolesToUser", account("user", "roles")),
	"revokeRolesFromUser":      one("revokeRolesFromUser", account("user", "roles")),
	"createRole":               one("createRole", account("role", "roles", "privileges", "authenticationRestrictions")),
	"updateRole":               one("updateRole", account("role", "roles", "privileges", "authenticationRestrictions")),
	"dropRole":                 one("dropRole", account("role")),
	"dropAllRolesFromDatabase": one("dropAllRolesFromDatabase", func(op *command.Op, b *bson.Builder) { b.String("db", op.DB) }),
	"grantRolesToRole":         one("grantRolesToRole", account("role", "roles")),
	"revokeRolesFromRole":      one("revokeRolesFromRole", account("role", "roles")),
	"grantPrivilegesToRole":    one("grantPrivilegesToRole", account("role", "privileges")),
	"revokePrivilegesFromRole": one("revokePrivilegesFromRole", account("role", "privileges")),

	"replSetInitiate":          one("replSetReconfig", fields("replSetInitiate", "new")),
	"replSetReconfig":          one("replSetReconfig", fields("replSetReconfig", "new")),
	"addShard":                 one("addShard", fields("name", "shard", "addShard", "connectionString")),
	"removeShard":              one("removeShard", fields("removeShard", "shard")),
	"enableSharding":           one("enableSharding", fields("enableSharding", "ns")),
	"shardCollection":          one("shardCollection", fields("shardCollection", "ns", "key", "key", "unique", "unique")),
	"reshardCollection":        one("reshardCollection", fields("reshardCollection", "ns", "key", "key")),
	"refineCollectionShardKey": one("refineCollectionShardKey", fields("refineCollectionShardKey", "ns", "key", "key")),
	"setClusterParameter":      one("setClusterParameter", fields("setClusterParameter", "updatedParameter")),

	"logApplicationMessage": one("applicationMessage", fields("logApplicationMessage", "msg")),
	"shutdown":              one("shutdown", func(*command.Op, *bson.Builder) {}),
	"logRotate":             one("rotateLog", fields("logRotate", "log")),
	"rotateCertificates":    one("rotateCertificates", func(*command.Op, *bson.Builder) {}),
}

// one is a single event.
func one(atype string, describe func(op *command.Op, b *bson.Builder)) told {
	return func(op *command.Op) []event {
		var b bson.Builder
		describe(op, &b)
		return []event{{atype: atype, param: b.Finish()}}
	}
}

// namespace describes by the collection, and some of the command's fields.
func namespace(names ...string) func(op *command.Op, b *bson.Builder) {
	return func(op *command.Op, b *bson.Builder) {
		b.String("ns", op.NS)
		for _, name := range names {
			if v := op.Body.Lookup(name); v.Type != 0 {
				b.Value(name, v)
			}
		}
	}
}

// fields describes by fields of the command, each with its name in the event after it.
func fields(pairs ...string) func(op *command.Op, b *bson.Builder) {
	return func(op *command.Op, b *bson.Builder) {
		for pair := range slices.Chunk(pairs, 2) {
			if v := op.Body.Lookup(pair[0]); v.Type != 0 {
				b.Value(pair[len(pair)-1], v)
			}
		}
	}
}

// account describes by the user or role that the command's first field names, and some of its
// other fields. The password is in none of them.
func account(kind string, names ...string) func(op *command.Op, b *bson.Builder) {
	return func(op *command.Op, b *bson.Builder) {
		_, v := op.Body.First()
		b.Value(kind, v).String("db", op.DB)
		for _, name := range names {
			v := op.Body.Lookup(name)
			switch {
			case v.Type == 0:
			case name == "roles" && v.Type == bson.TypeArray:
				auth.WriteRoles(b, name, auth.ParseRoles(v.Doc().Slice(), op.DB))
			default:
				b.Value(name, v)
			}
		}
		if op.Command.Name == "updateUser" {
			b.Bool("passwordChanged", op.Body.Has("pwd"))
		}
	}
}

// indexesCreated has an event for each index.
func indexesCreated(op *command.Op) []event {
	var all []event
	for _, spec := range op.Documents("indexes") {
		b := new(bson.Builder).String("ns", op.NS)
		if name := spec.Lookup("name"); name.Type != 0 {
			b.Value("indexName", name)
		}
		all = append(all, event{atype: "createIndex", param: b.Doc("indexSpec", spec).Finish()})
	}
	return all
}

// indexesDropped has an event for each index that is named; "*" names them all.
func indexesDropped(op *command.Op) []event {
	v := op.Body.Lookup("index")
	names := []bson.Value{v}
	if v.Type == bson.TypeArray {
		names = v.Doc().Slice()
	}
	var all []event
	for _, name := range names {
		all = append(all, event{atype: "dropIndex", param: new(bson.Builder).String("ns", op.NS).Value("indexName", name).Finish()})
	}
	return all
}
