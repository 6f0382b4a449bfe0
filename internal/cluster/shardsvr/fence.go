package shardsvr

import (
	"context"
	"sync"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/cluster/step"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/node"
	"github.com/mayflydb/mayfly/internal/query/exec"
	"github.com/mayflydb/mayfly/internal/query/match"
	"github.com/mayflydb/mayfly/internal/query/plan"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

var (
	operations = schema.Namespace{DB: "config", Coll: "cache.operations"}
	databases  = schema.Namespace{DB: "config", Coll: "cache.databases"}
	receiving  = schema.Namespace{DB: "config", Coll: "receiving"}
)

// lowest is the _id of the document with the number below which all operations have
// ended. No database has that name.
const lowest = ""

// nameLocks serializes the requests for a namespace or a database.
type nameLocks struct {
	sync.Mutex
	held map[string]chan struct{}
}

// lock locks a name. Errors: the cause of ctx's end.
func (l *nameLocks) lock(ctx context.Context, name string) (unlock func(), err error) {
	for {
		l.Lock()
		held := l.held[name]
		if held == nil {
			if l.held == nil {
				l.held = map[string]chan struct{}{}
			}
			mine := make(chan struct{})
			l.held[name] = mine
			l.Unlock()
			return func() {
				l.Lock()
				defer l.Unlock()
				delete(l.held, name)
				close(mine)
			}, nil
		}
		l.Unlock()
		select {
		case <-held:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// request is a request that is being executed.
type request struct {
	s     *Shard
	op    *command.Op
	body  bson.Doc
	name  string // the database or the namespace of the request
	ns    schema.Namespace
	fence step.Fence // zero for a request that only reads
	reply *bson.Builder
}

// command declares the command of a request.
func (s *Shard) command(name string, do func(*request, context.Context) error) *command.Command {
	return &command.Command{
		Name: name, Flags: command.AdminOnly | command.TakesWriteConcern, Help: "internal command of a cluster",
		Run: func(ctx context.Context, op *command.Op) error {
			r := &request{s: s, op: op, body: op.Body, reply: op.Reply}
			if _, v := op.Body.First(); v.Type == bson.TypeString {
				r.name, r.ns = v.Str(), schema.ParseNamespace(v.Str())
			}
			if op.Command.Place != command.WhereReadable {
				inside, leave := s.inTerm(ctx, r)
				defer leave()
				ctx = inside
			}
			if v := op.Body.Lookup("operation"); !v.IsMissing() {
				unlock, err := s.names.lock(ctx, r.name)
				if err != nil {
					return err
				}
				defer unlock()
				if r.fence, err = step.ParseFence(v); err != nil {
					return err
				}
				if other, err := s.ofAnotherCluster(r.fence); err != nil || other {
					return r.answerAnother(ctx, err)
				}
				if err := s.raise(ctx, r.name, r.fence); err != nil {
					return err
				}
				if told, err := s.tells(name, r.ns.DB); err != nil {
					return err
				} else if !told {
					ctx = catalog.Internally(ctx)
				}
			}
			return do(r, ctx)
		},
	}
}

// told are the requests that do what a client has asked for. Of the others change streams tell
// nothing, nor of these on a shard that is not the primary one of the database.
var told = map[string]bool{
	"_shardsvrShard": true, "_shardsvrUnshard": true, "_shardsvrDrop": true, "_shardsvrDropDatabase": true, "_shardsvrRename": true,
	"_shardsvrIndexes": true,
}

// tells reports whether change streams tell of what a request does to a database here.
func (s *Shard) tells(name, db string) (bool, error) {
	if !told[name] {
		return false, nil
	}
	have, err := s.node.Stored(databases, db)
	return have != nil && have.Lookup("primary").Truthy(), err
}

// ofAnotherCluster reports whether a request comes from a cluster that this shard is not part of.
func (s *Shard) ofAnotherCluster(f step.Fence) (bool, error) {
	have, err := s.node.Stored(identities, node.ShardIdentity)
	if err != nil || have == nil || f.Cluster == [12]byte{} {
		return false, err
	}
	id := have.Lookup("clusterId")
	return id.Type == bson.TypeObjectID && id.ObjectID() != f.Cluster, nil
}

// answerAnother answers a request of another cluster, or passes err on. Nothing is done. Where
// an operation of that cluster only goes forward, that is no error, else it would ask for ever.
func (r *request) answerAnother(ctx context.Context, err error) error {
	if err != nil {
		return err
	}
	err = mongoerr.New(mongoerr.AlreadyInitialized, "this is shard %s of another cluster", r.s.node.ShardName())
	if r.fence.Phase == step.Trying {
		return err
	}
	r.s.log.WarnContext(ctx, "A request of another cluster has no effect", "id", logAnother, "request", r.op.Command.Name, "error", err.Error())
	return nil
}

// logAnother is the id of the log line about a request of another cluster.
const logAnother = 9000042

// errLate is the answer to a request that arrives behind later ones.
var errLate = mongoerr.New(mongoerr.ConflictingOperationInProgress, "the operation has advanced or ended")

// raise checks the fence of a request for a name, which is locked, and stores it.
// Errors: 117.
func (s *Shard) raise(ctx context.Context, name string, f step.Fence) error {
	low, err := s.node.Stored(operations, lowest)
	if err != nil {
		return err
	}
	have, err := s.node.Stored(operations, name)
	if err != nil {
		return err
	}
	sameCluster := func(d bson.Doc) bool {
		id := d.Lookup("cluster")
		return id.Type != bson.TypeObjectID || id.ObjectID() == f.Cluster
	}
	if !sameCluster(low) { // which this set has left since
		low = nil
	}
	if !sameCluster(have) {
		have = nil
	}
	was, _ := bson.ExactInt64(low.Lookup("number"))
	if f.Number < was {
		return errLate
	}
	if have != nil {
		switch c := f.Compare(storedFence(have)); {
		case c < 0:
			return errLate
		case c == 0 && f.Low <= was:
			return nil
		}
	}
	b := new(bson.Builder).String("_id", name).Int64("number", f.Number).Int32("phase", int32(f.Phase)).Int64("term", f.Term).Int32("seq", f.Seq)
	if f.Low <= was {
		return s.put(ctx, nil, operations, inCluster(b, f))
	}
	return s.raiseLow(ctx, inCluster(b, f), f)
}

// current fails if the fence of the request is not the one that is stored. Requests for a name
// come one after the other on a member, and end with its term: so it always is, and whoever
// changes what a shard owns holds that, and does not assume it. Errors: 117.
func (r *request) current() error {
	have, err := r.s.node.Stored(operations, r.name)
	if err != nil {
		return err
	}
	if have == nil || r.fence.Compare(storedFence(have)) != 0 {
		return errLate
	}
	return nil
}

// storedFence is the fence that a document has.
func storedFence(doc bson.Doc) step.Fence {
	number := func(field string) int64 { n, _ := bson.ExactInt64(doc.Lookup(field)); return n }
	return step.Fence{Number: number("number"), Phase: step.Phase(number("phase")), Term: number("term"), Seq: int32(number("seq"))}
}

// inCluster ends a document of a fence with the fence's cluster.
func inCluster(b *bson.Builder, f step.Fence) bson.Doc {
	if f.Cluster != [12]byte{} {
		b.ObjectID("cluster", f.Cluster)
	}
	return b.Finish()
}

// forgetMost is how many fences are removed with one request. Others go with the next one that
// tells of operations that have ended.
const forgetMost = 100

// raiseLow stores a fence, the number below which all operations have ended, and removes
// fences of these, in one unit: each wait for the disk is a part of the time for which a move
// blocks writes.
func (s *Shard) raiseLow(ctx context.Context, fence bson.Doc, f step.Fence) error {
	ended, err := s.endedFences(ctx, f.Low)
	if err != nil {
		return err
	}
	if _, err := s.collection(ctx, operations); err != nil {
		return err
	}
	return s.cat.Run(ctx, storage.Journaled, func(u *catalog.Unit) error {
		low := inCluster(new(bson.Builder).String("_id", lowest).Int64("number", f.Low), f)
		if err := s.put(ctx, u, operations, low); err != nil { // the first lock is waited for
			return err
		}
		if err := s.put(ctx, u, operations, fence); err != nil {
			return err
		}
		c := s.cat.Lookup(operations)
		for _, id := range ended {
			key, old, err := u.LockID(ctx, c, id)
			if err != nil {
				return err
			}
			if n, _ := bson.ExactInt64(old.Lookup("number")); old == nil || n >= f.Low {
				continue // raised meanwhile
			}
			if err := u.Delete(ctx, c, key, old); err != nil {
				return err
			}
		}
		return nil
	})
}

// endedFences returns the _ids of fences of operations below a number, forgetMost at most.
func (s *Shard) endedFences(ctx context.Context, low int64) (ids []bson.Value, err error) {
	c := s.cat.Lookup(operations)
	if c == nil {
		return nil, nil
	}
	filter, err := match.Parse(new(bson.Builder).OpenDoc("number").Int64("$lt", low).Close().OpenDoc("_id").String("$ne", lowest).Close().Finish(), nil)
	if err != nil {
		return nil, err
	}
	cur, err := s.exec.Find(ctx, c, &exec.Query{Query: plan.Query{Filter: filter}})
	if err != nil {
		return nil, err
	}
	defer cur.Close()
	for len(ids) < forgetMost {
		doc, err := cur.Next(ctx)
		if doc == nil || err != nil {
			return ids, err
		}
		ids = append(ids, doc.Lookup("_id").Clone())
	}
	return ids, nil
}
