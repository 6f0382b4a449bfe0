package router

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// everywhere returns the commands that are run on all shards, or all owners of a collection.
func (r *Router) everywhere() []*command.Command {
	return declared([]*command.Command{
		{Name: "appendOplogNote", Flags: command.AdminOnly | command.TakesWriteConcern, Help: "Adds a no-op entry to the oplog of each shard", Run: r.runAppendOplogNote},
		{Name: "fsync", Flags: command.AdminOnly, Help: "flushes pending writes of all servers to disk", Run: r.runFsync},
		{Name: "fsyncUnlock", Flags: command.AdminOnly, Help: "unlocks all servers that fsync has locked", Run: r.runFsyncUnlock},
		{Name: "lockInfo", Flags: command.AdminOnly, Help: "show all lock info on the shards", Run: r.runLockInfo},
		{Name: "setUserWriteBlockMode", Help: "Set whether user write blocking is enabled", Run: r.runSetting},
		{Name: "setClusterParameter", Flags: command.AdminOnly, Help: "Set cluster parameter on the cluster", Run: r.runSetting},
		{Name: "getClusterParameter", Flags: command.AdminOnly, Help: "Get cluster parameter value(s)", Run: r.runGetClusterParameter},
		{Name: "setFeatureCompatibilityVersion", Flags: command.AdminOnly | command.TakesWriteConcern, Help: "Set the featureCompatibilityVersion of the cluster.", Run: r.runSetFCV},
		{Name: "setIndexCommitQuorum", Flags: command.TakesWriteConcern, Help: "Set the commitQuorum for an index build", Run: r.runSetIndexCommitQuorum},
	})
}

// onShards runs op's command on some shards, and answers with the first write concern that was
// not met.
func (r *Router) onShards(ctx context.Context, op *command.Op, names []string) error {
	answers, err := each(names, func(name string) (client.Answer, error) {
		return r.ask(ctx, op, question{shard: name, db: op.DB, body: passed(op)})
	})
	if err != nil {
		return err
	}
	for _, a := range answers {
		if unmet := a.Reply.Lookup("writeConcernError"); !unmet.IsMissing() {
			op.Reply.Value("writeConcernError", unmet)
			break
		}
	}
	return nil
}

// servers are the shards and, where these are none of them, the config servers.
func (r *Router) servers(ctx context.Context) ([]string, error) {
	names, err := r.shards.names(ctx)
	if err == nil && !slices.Contains(names, configShard) {
		names = append(names, configShard)
	}
	return names, err
}

// runLockInfo shows the locks of each shard, and those of the only one as a server does.
func (r *Router) runLockInfo(ctx context.Context, op *command.Op) error {
	names, err := r.shards.names(ctx)
	if err != nil {
		return err
	}
	answers, err := each(names, func(name string) (client.Answer, error) {
		return r.ask(ctx, op, question{shard: name, db: op.DB, body: passed(op), reads: true})
	})
	if err != nil {
		return err
	}
	op.Reply.OpenDoc("raw")
	for i, a := range answers {
		op.Reply.Doc(names[i], withoutFields(a.Reply, "$clusterTime", "operationTime"))
	}
	op.Reply.Close()
	if len(answers) == 1 {
		op.Reply.Value("lockInfo", answers[0].Reply.Lookup("lockInfo"))
	}
	return nil
}

// runAppendOplogNote advances the cluster's time by an entry in each shard's log.
func (r *Router) runAppendOplogNote(ctx context.Context, op *command.Op) error {
	names, err := r.shards.names(ctx)
	if err != nil {
		return err
	}
	return r.onShards(ctx, op, names)
}

// runFsync makes everything durable, on the config servers and all shards. With a lock it also
// blocks the writes of all of them, or none: whoever has locked is unlocked if another one
// cannot, and whose answer was lost is named in the error. (Manual: database command fsync.)
func (r *Router) runFsync(ctx context.Context, op *command.Op) error {
	if op.Args.Bool("lock") {
		return r.lockAll(ctx, op)
	}
	names, err := r.servers(ctx)
	if err != nil {
		return err
	}
	replies, errs := r.everyReply(ctx, op, names, passed(op))
	if err := firstOf(names, errs); err != nil {
		return err
	}
	op.Reply.Int32("numFiles", int32(len(names)))
	appendAll(op.Reply, names, replies)
	return nil
}

// lockTime bounds the wait for the answers to fsync with a lock. A server waits for 90 s by
// itself, if its client does not say otherwise, and then writes to disk what it has.
const lockTime = 10 * time.Minute

// lockAll locks the config servers and all shards. It waits for their answers also when its
// client has gone, so that no lock is left of which nobody knows; each of them ends its wait by
// itself. Whoever has not answered is named, and not unlocked: the lock that it has may be an
// earlier one. A shard that was added after the list was read is locked then: no more can be added,
// as the config servers are locked.
func (r *Router) lockAll(ctx context.Context, op *command.Op) error {
	all, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), lockTime, mongoerr.New(mongoerr.LockTimeout, "a server has not answered within %s, and may be locked", lockTime))
	defer cancel()
	body := passed(op)
	var locked, open []string
	var replies []bson.Doc
	lock := func() (more bool, err error) {
		names, err := r.servers(all)
		if err != nil {
			return false, err
		}
		names = slices.DeleteFunc(names, func(name string) bool { return slices.Contains(locked, name) })
		got, errs := r.everyReply(all, op, names, body)
		for i, name := range names {
			switch {
			case errs[i] == nil:
				locked, replies = append(locked, name), append(replies, got[i])
			case all.Err() != nil || mongoerr.Is(errs[i], mongoerr.HostUnreachable):
				open = append(open, name)
			}
		}
		return len(names) > 0, mongoerr.Prefix(firstOf(names, errs), "cannot lock")
	}
	for more, err := true, error(nil); more; {
		if more, err = lock(); err == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			r.unlockAfter(ctx, op, locked)
			if len(open) > 0 {
				err = mongoerr.Prefix(err, strings.Join(open, ", ")+" may be locked, as fsyncLock in currentOp there says")
			}
			return err
		}
	}
	op.Reply.Int32("numFiles", int32(len(locked))).String("info", "now locked against writes, use db.fsyncUnlock() to unlock").Int64("lockCount", mostLocks(replies)).
		String("seeAlso", "http://dochub.mongodb.org/core/fsynccommand")
	appendAll(op.Reply, locked, replies)
	return nil
}

// firstOf is the first error with the name of its server.
func firstOf(names []string, errs []error) error {
	for i, err := range errs {
		if err != nil {
			return mongoerr.Prefix(err, names[i])
		}
	}
	return nil
}

// unlockAfter unlocks those that have locked while others could not. It goes on when the
// client has gone.
func (r *Router) unlockAfter(ctx context.Context, op *command.Op, locked []string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), killTime)
	defer cancel()
	_, errs := r.everyReply(ctx, op, locked, new(bson.Builder).Int32("fsyncUnlock", 1).Finish())
	for i, err := range errs {
		if err != nil {
			r.Log.WarnContext(ctx, "A server that fsync has locked could not be unlocked", "server", locked[i], "error", err)
		}
	}
}

// runFsyncUnlock releases one lock of each server. It asks all, and then tells the first
// error: of one that is not locked, for instance because another member has become primary.
func (r *Router) runFsyncUnlock(ctx context.Context, op *command.Op) error {
	names, err := r.servers(ctx)
	if err != nil {
		return err
	}
	replies, errs := r.everyReply(ctx, op, names, passed(op))
	if err := firstOf(names, errs); err != nil {
		return err
	}
	op.Reply.Int32("numFiles", int32(len(names))).String("info", "fsyncUnlock completed").Int64("lockCount", mostLocks(replies))
	appendAll(op.Reply, names, replies)
	return nil
}

// passed is op's command as it is passed on.
func passed(op *command.Op) bson.Doc {
	name, first := op.Body.First()
	b := new(bson.Builder).Value(name, first)
	appendRest(b, op.Body)
	return b.Finish()
}

// everyReply asks some servers the same, each of them whatever others answer.
func (r *Router) everyReply(ctx context.Context, op *command.Op, names []string, body bson.Doc) ([]bson.Doc, []error) {
	replies, errs := make([]bson.Doc, len(names)), make([]error, len(names))
	var all sync.WaitGroup
	for i, name := range names {
		all.Go(func() {
			var a client.Answer
			a, errs[i] = r.ask(ctx, op, question{shard: name, db: op.DB, body: body})
			replies[i] = a.Reply
		})
	}
	all.Wait()
	return replies, errs
}

// mostLocks is the highest lockCount.
func mostLocks(replies []bson.Doc) (n int64) {
	for _, d := range replies {
		n = max(n, bson.ClampToInt64(d.Lookup("lockCount")))
	}
	return n
}

// appendAll writes what each server has answered.
func appendAll(b *bson.Builder, names []string, replies []bson.Doc) {
	b.OpenDoc("all")
	for i, name := range names {
		b.Doc(name, withoutFields(replies[i], "$clusterTime", "operationTime"))
	}
	b.Close()
}

// runSetting has the config servers set what holds for the whole cluster, on all shards or none.
func (r *Router) runSetting(ctx context.Context, op *command.Op) error {
	_, first := op.Body.First()
	b := new(bson.Builder).Value(configName(op.Command.Name), first)
	appendRest(b, op.Body)
	if err := r.passToConfig(ctx, op, client.Call{DB: "admin", Body: b.Finish(), Idempotent: true}); err != nil {
		return err
	}
	r.refreshSettings(ctx)
	return nil
}

// runGetClusterParameter asks the config servers, which have the parameters of the cluster.
func (r *Router) runGetClusterParameter(ctx context.Context, op *command.Op) error {
	return r.passToConfig(ctx, op, client.Call{DB: "admin", Body: passed(op), Idempotent: true})
}

// runSetFCV sets the version of the config servers, which check it, and then of the shards.
func (r *Router) runSetFCV(ctx context.Context, op *command.Op) error {
	if err := r.onShards(ctx, op, []string{configShard}); err != nil {
		return err
	}
	names, err := r.shards.names(ctx)
	if err != nil {
		return err
	}
	return r.onShards(ctx, op, slices.DeleteFunc(names, func(name string) bool { return name == configShard }))
}

// runSetIndexCommitQuorum asks the owners of the collection, of which each builds its part.
func (r *Router) runSetIndexCommitQuorum(ctx context.Context, op *command.Op) error {
	ns, err := collection(op)
	if err != nil {
		return err
	}
	return r.byRoute(ctx, op, ns, func(rt *route) error { return r.onShards(ctx, op, rt.owners()) })
}
