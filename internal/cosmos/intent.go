package cosmos

import (
	"context"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/command"
)

// A request is an operation of the server like a command that comes as BSON: the
// dispatcher runs it as a command.Intent, so that the gate of fsyncLock, killOp,
// time limits, counters and the profiler are the same for both.

// Protocol is how logs and the profile show the protocol (command.Client).
const Protocol = "cosmos"

// adminDB is the database in whose profile requests without a database are.
const adminDB = "admin"

// run runs the request in the dispatcher. The error is for the client.
func (r *request) run(client *command.Client) error {
	if client.Metadata() == nil {
		client.SetMetadata(metadata(r.header("User-Agent")))
	}
	e := r.route()
	r.answers, r.keyText = e.answer, r.header("X-Ms-Documentdb-Partitionkey")
	op := r.op
	op.Client, op.Command, op.Start, op.DB = client, e.command, r.now, adminDB
	switch {
	case r.path.container != "":
		ns := namespace(r.path.db, r.path.container)
		op.DB, op.Collection = ns.DB, ns.Coll
	case r.path.db != "":
		op.DB = databaseName(r.path.db)
	}
	if !command.ValidDatabaseName(op.DB) { // it does not exist
		op.DB, op.Collection = adminDB, ""
	}
	return r.s.o.Dispatcher.Do(r.Request.Context(), op, r)
}

// metadata returns the client's metadata.
func metadata(agent string) *command.Metadata {
	agent = strings.ToValidUTF8(agent[:min(len(agent), maxAgent)], "")
	return &command.Metadata{AppName: agent, Document: new(bson.Builder).OpenDoc("application").String("name", agent).Close().Finish()}
}

// maxAgent bounds the displayed part of a User-Agent, in bytes.
const maxAgent = 512

// Authorize is command.Intent's. Errors: 401, 403.
func (r *request) Authorize(ctx context.Context) error {
	r.ctx = ctx
	return r.authorize()
}

// Run is command.Intent's.
func (r *request) Run(ctx context.Context, _ *command.Op) error {
	r.ctx = ctx
	if r.path.byRID && r.path.kind == kindItem && r.s.o.Cluster == nil {
		if err := r.resolveItem(); err != nil {
			return err
		}
	}
	if err := r.checkHeaders(); err != nil {
		return err
	}
	if r.s.o.Cluster != nil {
		return r.answerInCluster()
	}
	return r.answers(r)
}

// Context ends when the operation is killed, its time is over, or its client is
// gone.
func (r *request) Context() context.Context { return r.ctx }

// interrupted returns why the operation has to end, or nil.
func (r *request) interrupted() error { return context.Cause(r.ctx) }

// Shown is command.Intent's: the name of the operation with what it is on, and
// what the path and a query say. It reads only what stays as it is once the
// operation has begun.
func (r *request) Shown() bson.Doc {
	var b bson.Builder
	switch name := r.op.Command.Name; {
	case r.op.Collection != "":
		b.String(name, r.op.Collection)
	default:
		b.Int32(name, 1)
	}
	for _, f := range [...]struct{ name, value string }{
		{"id", r.path.item}, {"user", r.path.user}, {"permission", r.path.permission}, {"offer", r.path.offer}, {"partitionKey", r.keyText},
	} {
		if f.value != "" {
			b.String(f.name, f.value)
		}
	}
	if q := r.asked.Load(); q != nil {
		b.Value("query", q.Lookup("query")).Value("parameters", q.Lookup("parameters"))
	}
	return b.String("$db", r.op.DB).Finish()
}

// find is findFor the request's operation.
func (r *request) find(c *catalog.Collection, filter, sort bson.Doc, limit int64, f func(bson.Doc) (bool, error)) (docs int64, err error) {
	if r.s.o.Cluster != nil {
		return r.findInCluster(filter, sort, f)
	}
	return findFor(r.ctx, r, r.s.o.Exec, c, filter, sort, limit, f)
}
