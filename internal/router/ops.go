package router

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// operations returns the commands about running operations, on the router and on the shards.
func (r *Router) operations() []*command.Command {
	return []*command.Command{
		{Name: "currentOp", Flags: command.AdminOnly, Help: "show current operations", Run: r.runCurrentOp},
		{Name: "killOp", Flags: command.AdminOnly, Help: "kill op", Run: r.runKillOp},
	}
}

// coordinators matches the desc of what the config servers do for the cluster.
const coordinators = "Coordinator"

// runCurrentOp lists the operations of all shards, and what the config servers do for the
// cluster. Their opids are prefixed with the name of the shard. It says if any of them is locked
// by fsync.
func (r *Router) runCurrentOp(ctx context.Context, op *command.Op) error {
	names, err := r.shards.names(ctx)
	if err != nil {
		return err
	}
	answers, err := each(names, func(name string) (client.Answer, error) {
		b := new(bson.Builder).Int32("currentOp", 1)
		appendRest(b, op.Body)
		return r.ask(ctx, op, question{shard: name, db: "admin", body: b.Finish(), reads: true})
	})
	if err != nil {
		return err
	}
	dedicated := -1
	if !slices.Contains(names, configShard) { // which has what it does for the cluster
		b := new(bson.Builder).Int32("currentOp", 1)
		appendRest(b, op.Body)
		a, err := r.ask(ctx, op, question{shard: configShard, db: "admin", body: b.Finish(), reads: true})
		if err != nil {
			return err
		}
		dedicated = len(names)
		names, answers = append(names, configShard), append(answers, a)
	}
	own := op.Controlled() && op.Body.Lookup("$ownOps").Truthy()
	b, n := op.Reply.OpenArray("inprog"), 0
	for i, a := range answers {
		for _, d := range documents(a.Reply.Lookup("inprog")) {
			if own && !ownOps(op, d) || i == dedicated && !coordinates(d) {
				continue
			}
			b.Doc(bson.Index(n), labels["$currentOp"](names[i], d))
			n++
		}
	}
	b.Close()
	if slices.ContainsFunc(answers, func(a client.Answer) bool { return a.Reply.Lookup("fsyncLock").Truthy() }) {
		op.Reply.Bool("fsyncLock", true).String("info", "use db.fsyncUnlock() to terminate the fsync write/snapshot lock")
	}
	return nil
}

// coordinates reports whether an operation of the config servers, as currentOp shows it, is one
// on the cluster.
func coordinates(d bson.Doc) bool {
	v := d.Lookup("desc")
	return v.Type == bson.TypeString && strings.Contains(v.Str(), coordinators)
}

// runKillOp kills an operation of the router, by its opid, or of a shard, by "shard:opid".
func (r *Router) runKillOp(ctx context.Context, op *command.Op) error {
	v := op.Body.Lookup("op")
	if v.Type != bson.TypeString {
		return r.Process.KillOp().Run(ctx, op)
	}
	name, number, ok := strings.Cut(v.Str(), ":")
	id, err := strconv.ParseInt(number, 10, 32)
	if !ok || err != nil {
		return mongoerr.New(mongoerr.Code(28625), "The op argument to killOp must be of the format shardid:opid but found \"%s\"", v.Str())
	}
	body := new(bson.Builder).Int32("killOp", 1).Int32("op", int32(id)).Finish()
	a, err := r.ask(ctx, op, question{shard: name, db: "admin", body: body})
	if err != nil {
		return err
	}
	passReply(op, a.Reply)
	return nil
}
