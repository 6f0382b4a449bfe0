package clustersim

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/server"
)

// bug is planted on purpose: the simulation has to find it.
type bug int

const (
	noBug bug = iota
	// bugUnblocked: a donor answers that it blocks, and does so when it is told to give.
	bugUnblocked
	// bugStale: reads are answered whatever version they come with.
	bugStale
	// bugTruncated: who reads the log of a donor is told less than there is.
	bugTruncated
	// bugEarly: a donor gives a range away before the commit.
	bugEarly
	// bugGoesOn: a recipient that is told to abort goes on.
	bugGoesOn
	// bugHalf: a participant of a transaction answers that it has committed, and has not.
	bugHalf
	// bugYes: a participant that cannot prepare says yes.
	bugYes
	// bugSilent: a stream leaves an event out, as if it had told of it.
	bugSilent
	// bugDonates: a donor of a resharding leaves a document out, and does not say how many there
	// are, as an earlier build does not.
	bugDonates
	// bugIndexes: a shard answers that it has made or dropped an index, and has not.
	bugIndexes
)

// inTheWay stands before the dispatcher of a process: requests come twice there, the second
// time late, and bugs are planted.
type inTheWay struct {
	w    *world
	p    *process
	life *life
	next server.Dispatcher
	seen atomic.Uint64

	mu       sync.Mutex
	blocks   map[string]bson.Doc   // of bugUnblocked, by namespace
	versions map[string]bson.Value // of bugEarly: the last that came with a statement
}

// doubles reports whether a request may come a second time, as whoever sent it sends it again
// where its answer was lost.
func doubles(name string, body bson.Doc) bool {
	switch {
	case strings.HasPrefix(name, "_shardsvr"):
		return body.Has("operation")
	case name == "prepareTransaction", name == "commitTransaction", name == "abortTransaction", name == "coordinateCommitTransaction":
		return true
	}
	return body.Has("txnNumber") && !body.Has("autocommit")
}

// Dispatch implements server.Dispatcher.
func (x *inTheWay) Dispatch(ctx context.Context, r *command.Request) command.Response {
	name, _ := r.Body.First()
	if x.p.fs == nil {
		return x.next.Dispatch(ctx, r)
	}
	if len(r.Sequences) == 0 && doubles(name, r.Body) {
		x.double(r)
	}
	if x.w.bug != noBug && x.p.name != "cfg" {
		return x.wrongly(ctx, name, r)
	}
	return x.next.Dispatch(ctx, r)
}

// double has a request come again, by chance: as often as *doubled says.
func (x *inTheWay) double(r *command.Request) {
	rng := rand.New(rand.NewPCG(x.w.seed, uint64(x.p.name[1])<<40+x.seen.Add(1)))
	for often := *doubled; often > rng.IntN(100) && !x.w.isCalm(); often -= 100 {
		x.doubleOnce(rng, r)
	}
}

// doubleOnce has a request come once more.
func (x *inTheWay) doubleOnce(rng *rand.Rand, r *command.Request) {
	again := &command.Request{Client: &command.Client{Internal: true}, DB: r.DB, Body: r.Body.Clone()}
	late := time.Duration(rng.IntN(1000)) * time.Microsecond
	if rng.IntN(2) == 0 {
		late = time.Duration(rng.IntN(4000)) * time.Millisecond
	}
	if lsid := again.Body.Lookup("lsid"); lsid.Type == bson.TypeDocument {
		x.w.mu.Lock()
		if x.w.cameAgain == nil {
			x.w.cameAgain = map[string]bool{}
		}
		x.w.cameAgain[statementOf(lsid.Doc(), bson.ClampToInt64(again.Body.Lookup("txnNumber")))] = true
		x.w.mu.Unlock()
	}
	x.w.doubled.Go(func() {
		time.Sleep(late)
		if x.p.isAlive(x.life) && !x.w.isCalm() {
			x.w.mu.Lock()
			x.w.doubles++
			x.w.mu.Unlock()
			x.do(again)
		}
	})
}

// do has a request done that nobody waits for.
func (x *inTheWay) do(r *command.Request) {
	reply := x.next.Dispatch(context.Background(), r)
	reply.Release()
}

func (w *world) isCalm() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.calm
}

// without is a body without a field.
func without(body bson.Doc, field string) bson.Doc {
	b := new(bson.Builder)
	for name, v := range body.All() {
		if name != field {
			b.Value(name, v)
		}
	}
	return b.Finish()
}

// answer is a reply with some fields, and the time of another one.
func (x *inTheWay) answer(ctx context.Context, fill func(b *bson.Builder, time bson.Value)) command.Response {
	ping := x.next.Dispatch(ctx, &command.Request{Client: &command.Client{Internal: true}, DB: "admin", Body: new(bson.Builder).Int32("hello", 1).Finish()})
	b := new(bson.Builder)
	fill(b, ping.Body.Lookup("operationTime"))
	ping.Release()
	return command.Response{Body: b.Double("ok", 1).Finish()}
}

// shortened is a reply that has one document less, the last one.
func shortened(reply bson.Doc) bson.Doc {
	b := new(bson.Builder)
	for name, v := range reply.All() {
		switch {
		case name == "cursor" && v.Type == bson.TypeDocument:
			b.Doc(name, shortened(v.Doc()))
		case (name == "firstBatch" || name == "nextBatch" || name == "documents") && v.Type == bson.TypeArray && v.Doc().Len() > 0:
			all := v.Doc().Slice()
			b.OpenArray(name)
			for i, one := range all[:len(all)-1] {
				b.Value(bson.Index(i), one)
			}
			b.Close()
		default:
			b.Value(name, v)
		}
	}
	return b.Finish()
}

// wrongly does a request with the bug.
func (x *inTheWay) wrongly(ctx context.Context, name string, r *command.Request) command.Response {
	x.mu.Lock()
	defer x.mu.Unlock()
	ns := r.Body.Lookup(name)
	switch {
	case x.w.bug == bugUnblocked && name == "_shardsvrBlock":
		if x.blocks == nil {
			x.blocks = map[string]bson.Doc{}
		}
		x.blocks[ns.Str()] = r.Body.Clone()
		return x.answer(ctx, func(b *bson.Builder, time bson.Value) { b.Value("position", time) })
	case x.w.bug == bugUnblocked && name == "_shardsvrGiven" && x.blocks[ns.Str()] != nil:
		block := &command.Request{Client: r.Client, DB: r.DB, Body: x.blocks[ns.Str()]}
		x.mu.Unlock()
		time.Sleep(500 * time.Millisecond)
		x.do(block)
		x.mu.Lock()
	case x.w.bug == bugStale && (name == "find" || name == "aggregate") && !r.Body.Has("autocommit"):
		r.Body = without(r.Body, "shardVersion")
	case x.w.bug == bugTruncated && name == "find" && ns.Str() == "oplog.rs" && r.Body.Has("filter"):
		x.mu.Unlock()
		reply := x.next.Dispatch(ctx, r)
		x.mu.Lock()
		if cursor := reply.Body.Lookup("cursor"); cursor.Type == bson.TypeDocument {
			body := shortened(reply.Body.Clone())
			reply.Release()
			return command.Response{Body: body}
		}
		return reply
	case x.w.bug == bugEarly && (name == "find" || name == "aggregate") && r.Body.Has("shardVersion"):
		if x.versions == nil {
			x.versions = map[string]bson.Value{}
		}
		x.versions[r.Body.Lookup("$db").Str()+"."+ns.Str()] = r.Body.Clone().Lookup("shardVersion")
	case x.w.bug == bugEarly && name == "_shardsvrBlock" && x.versions[ns.Str()].Type == bson.TypeDocument:
		b := new(bson.Builder).Value("_shardsvrGiven", ns).Value("version", x.versions[ns.Str()])
		for _, field := range []string{"min", "max", "operation", "$db"} {
			b.Value(field, r.Body.Lookup(field))
		}
		given := &command.Request{Client: &command.Client{Internal: true}, DB: r.DB, Body: b.Finish()}
		x.mu.Unlock()
		reply := x.next.Dispatch(ctx, r)
		x.do(given)
		time.Sleep(300 * time.Millisecond)
		x.mu.Lock()
		return reply
	case x.w.bug == bugGoesOn && name == "_shardsvrAbort":
		return x.answer(ctx, func(*bson.Builder, bson.Value) {})
	case x.w.bug == bugHalf && name == "commitTransaction" && r.Body.Has("commitTimestamp") && x.seen.Add(1)%3 == 0:
		return x.answer(ctx, func(*bson.Builder, bson.Value) {})
	case x.w.bug == bugIndexes && name == "_shardsvrIndexes" && x.p.name == "s1":
		return x.answer(ctx, func(*bson.Builder, bson.Value) {})
	case x.w.bug == bugSilent && name == "getMore", x.w.bug == bugDonates && name == "_shardsvrDonate":
		x.mu.Unlock()
		reply := x.next.Dispatch(ctx, r)
		x.mu.Lock()
		if x.seen.Add(1)%3 == 0 {
			body := shortened(reply.Body.Clone())
			reply.Release()
			return command.Response{Body: body}
		}
		return reply
	case x.w.bug == bugDonates && name == "_shardsvrBlock":
		x.mu.Unlock()
		reply := x.next.Dispatch(ctx, r)
		x.mu.Lock()
		body := without(reply.Body.Clone(), "documents")
		reply.Release()
		return command.Response{Body: body}
	case x.w.bug == bugYes && name == "prepareTransaction":
		x.mu.Unlock()
		reply := x.next.Dispatch(ctx, r)
		x.mu.Lock()
		if reply.Body.Lookup("ok").Truthy() {
			return reply
		}
		reply.Release()
		return x.answer(ctx, func(b *bson.Builder, time bson.Value) { b.Value("prepareTimestamp", time) })
	}
	x.mu.Unlock()
	reply := x.next.Dispatch(ctx, r)
	x.mu.Lock()
	return reply
}
