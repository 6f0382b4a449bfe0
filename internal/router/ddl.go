package router

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/node"
)

// ddl returns the commands that change collections and databases.
func (r *Router) ddl() []*command.Command {
	flags := command.Writes | command.TakesWriteConcern
	return []*command.Command{
		{Name: "create", Flags: flags | command.APIv1 | command.Transaction, Help: "create a collection", Run: r.runCreate},
		{Name: "drop", Flags: flags | command.APIv1, Help: "drop a collection", Run: r.runDrop},
		{Name: "dropDatabase", Flags: flags | command.APIv1, Help: "drop (delete) this database", Run: r.runDropDatabase},
		{Name: "renameCollection", Flags: flags | command.AdminOnly, Help: "rename a collection", Run: r.runRename},
		{Name: "createIndexes", Flags: flags | command.APIv1 | command.Transaction, Help: "create indexes", Run: r.indexes("createIndexes")},
		{Name: "dropIndexes", Aliases: []string{"deleteIndexes"}, Flags: flags | command.APIv1, Help: "drop indexes", Run: r.indexes("dropIndexes")},
		{Name: "collMod", Flags: flags | command.APIv1, Help: "change a collection", Run: r.indexes("collMod")},
		{Name: "convertToCapped", Flags: flags, Help: "make a collection capped", Run: r.onPrimary},
		{Name: "compactStructuredEncryptionData", Flags: command.APIv1, Help: "Compact a structured encryption collection", Run: r.onOwner},
	}
}

// runCreate creates a collection on the primary shard of its database.
func (r *Router) runCreate(ctx context.Context, op *command.Op) error {
	ns, err := collection(op)
	if err != nil {
		return err
	}
	return r.byRoute(ctx, op, ns, func(rt *route) error {
		if rt.primary == "" {
			if rt, err = r.createDatabase(ctx, op, rt); err != nil {
				return err
			}
		}
		if rt.chunks != nil { // its shards compare the options
			return r.passTo(ctx, op, rt, rt.owners()[0])
		}
		return r.passTo(ctx, op, rt, rt.primary)
	})
}

// onPrimary forwards a command on an unsharded collection to the primary shard of its
// database. Error 20 for a sharded one.
func (r *Router) onPrimary(ctx context.Context, op *command.Op) error {
	ns, err := namedCollection(op)
	if err != nil {
		return err
	}
	return r.byRoute(ctx, op, ns, func(rt *route) error {
		switch {
		case rt.chunks != nil:
			return mongoerr.New(mongoerr.IllegalOperation, "%s does not work on a sharded or tracked collection: %s", op.Command.Name, ns)
		}
		return r.passTo(ctx, op, rt, rt.owners()[0])
	})
}

// onOwner forwards a command to a shard that has a part of the collection.
func (r *Router) onOwner(ctx context.Context, op *command.Op) error {
	ns, err := namedCollection(op)
	if err != nil {
		return err
	}
	return r.byRoute(ctx, op, ns, func(rt *route) error { return r.passTo(ctx, op, rt, rt.owners()[0]) })
}

// passTo runs op's command unchanged on one shard, and returns its reply.
func (r *Router) passTo(ctx context.Context, op *command.Op, rt *route, name string) error {
	command, first := op.Body.First()
	b := new(bson.Builder).Value(command, first)
	appendRest(b, op.Body)
	rt.appendVersions(b, name)
	a, err := r.ask(ctx, op, question{shard: name, db: op.DB, body: b.Finish(), reads: op.Generic.SecondaryOK})
	if err != nil {
		return err
	}
	passReply(op, a.Reply)
	return nil
}

// isOnConfig reports whether a database is stored on the config servers.
func isOnConfig(db string) bool { return db == "admin" || db == "config" }

// runDrop drops a collection, sharded or not.
func (r *Router) runDrop(ctx context.Context, op *command.Op) error {
	ns, err := collection(op)
	if err != nil {
		return err
	}
	if isOnConfig(op.DB) {
		return r.byRoute(ctx, op, ns, func(rt *route) error { return r.passTo(ctx, op, rt, configShard) })
	}
	return r.onConfig(ctx, op, "drop", bson.String(ns))
}

func (r *Router) runDropDatabase(ctx context.Context, op *command.Op) error {
	if isOnConfig(op.DB) {
		return mongoerr.New(mongoerr.IllegalOperation, "Dropping the '%s' database is prohibited.", op.DB)
	}
	if err := node.CheckDropDatabase(op); err != nil {
		return err
	}
	return r.onConfig(ctx, op, "dropDatabase", bson.String(op.DB))
}

func (r *Router) runRename(ctx context.Context, op *command.Op) error {
	if to := op.Body.Lookup("to"); to.Type == bson.TypeString {
		defer r.routes.forget(func(ns string) bool { return ns == to.Str() })
	}
	_, from := op.Body.First()
	if err := node.CheckRename(from.Str(), op.Args.Str("to")); err != nil {
		return err
	}
	return r.onConfig(ctx, op, "renameCollection", from)
}

// indexes runs createIndexes, dropIndexes or collMod. For a sharded collection the config
// servers make sure that all shards execute it, or none.
func (r *Router) indexes(name string) command.Handler {
	return func(ctx context.Context, op *command.Op) error {
		ns, err := collection(op)
		if err != nil {
			return err
		}
		sharded := false
		err = r.byRoute(ctx, op, ns, func(rt *route) error {
			if rt.primary == "" && name == "createIndexes" {
				if rt, err = r.createDatabase(ctx, op, rt); err != nil {
					return err
				}
			}
			if sharded = rt.chunks != nil; sharded {
				return nil
			}
			return r.passTo(ctx, op, rt, rt.owners()[0])
		})
		if err != nil || !sharded {
			return err
		}
		if op.InTransaction() {
			return mongoerr.New(mongoerr.OperationNotSupportedInTransaction, "Cannot create indexes of the sharded collection %s in a transaction", ns)
		}
		_, coll := op.Body.First()
		b := new(bson.Builder).String(configName(name), ns).OpenDoc("command").Value(name, coll)
		for field, v := range op.Body.All() {
			if field != op.Name && !command.IsGeneric(field) {
				b.Value(field, v)
			}
		}
		return r.passToConfig(ctx, op, client.Call{DB: "admin", Body: b.Close().Finish()})
	}
}
