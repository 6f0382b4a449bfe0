package configsvr

import (
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/cluster/clustertest"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/storage"
)

// cluster is config servers with shards in memory.
type cluster struct {
	s          *Server
	dispatcher *command.Dispatcher
	primary    *primary
	clock      atomic.Uint64
	end        func()
	mu         sync.Mutex
	sets       map[string]*set // by the set's name
	// failing says that requests with these names get no answer, and refusing that they
	// are refused, as often as that.
	failing, refusing map[string]int
	// onAsk sees each request before it is done and after; true has it without an answer.
	onAsk func(body bson.Doc, done bool) bool
	// onList is called once, before collections are listed.
	onList func()
}

// set is a replica set that may be a shard.
type set struct {
	shard     *clustertest.Shard
	hello     bson.Doc
	databases []string
	plain     bool // it was not started as a shard
}

// primary is a primary whose term a test chooses.
type primary struct {
	term    atomic.Uint64
	changed catalog.Notifier
}

func (p *primary) Term() uint64             { return p.term.Load() }
func (p *primary) Changed() <-chan struct{} { return p.changed.Next() }

func (p *primary) ReadIndex(context.Context) error { return nil }

func (p *primary) set(n uint64) {
	p.term.Store(n)
	p.changed.Broadcast()
}

// start makes a cluster without shards.
func start(t testing.TB) *cluster {
	t.Helper()
	e, err := storage.Open(storage.Options{Dir: "db", FS: storage.NewMemFS(), CacheBytes: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	cat, err := catalog.Open(e, catalog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{primary: &primary{}, sets: map[string]*set{}, failing: map[string]int{}, refusing: map[string]int{}}
	c.primary.term.Store(1)
	c.clock.Store(1_000_000 << 32)
	c.s = New(Options{
		Catalog: cat, Shards: c, Primary: c.primary, ClusterTime: func() uint64 { return c.clock.Add(1) }, Host: "cfg1:27019",
		Enter:    func(ctx context.Context) (context.Context, func(), error) { return ctx, func() {}, nil },
		ConfigDB: func() string { return "cfg/cfg1:27019" }, Log: slog.New(slog.DiscardHandler), Pause: time.Millisecond, RoundPause: -1,
	})
	c.dispatcher = command.NewDispatcher(slog.New(slog.DiscardHandler))
	c.dispatcher.Registry.Register(c.s.Commands()...)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { c.s.Run(ctx) })
	c.end = func() {
		cancel()
		running.Wait()
		_ = cat.Close()
		_ = e.Close()
	}
	c.await(t)
	return c
}

// await waits until a term has begun.
func (c *cluster) await(t testing.TB) {
	t.Helper()
	for range 5000 {
		if now, err := c.s.term(); err == nil && now.number == c.primary.Term() {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatal("no term begins")
}

// Ask is what shards answer.
func (c *cluster) Ask(ctx context.Context, host, db string, body bson.Doc) (bson.Doc, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	name, _ := body.First()
	c.mu.Lock()
	defer c.mu.Unlock()
	if f := c.onList; f != nil && name == "listCollections" {
		c.onList = nil
		c.mu.Unlock()
		f()
		c.mu.Lock()
	}
	if c.failing[name] > 0 {
		c.failing[name]--
		return nil, mongoerr.New(mongoerr.HostUnreachable, "no answer")
	}
	if c.refusing[name] > 0 {
		c.refusing[name]--
		return nil, mongoerr.New(mongoerr.OperationFailed, "%s is refused", name)
	}
	id, _, _ := strings.Cut(host, "/")
	set := c.sets[id]
	if set == nil {
		return nil, mongoerr.New(mongoerr.HostUnreachable, "no such set: %s", host)
	}
	switch name {
	case "hello":
		return set.hello, nil
	case "listDatabases":
		b := new(bson.Builder).OpenArray("databases")
		for i, name := range set.databases {
			b.OpenDoc(bson.Index(i)).String("name", name).Close()
		}
		total := int64(0)
		for _, coll := range set.shard.Collections {
			total += int64(len(coll.Docs)) * coll.Bytes
		}
		return b.Close().Int64("totalSize", total).Finish(), nil
	case "listCollections":
		b := new(bson.Builder).OpenDoc("cursor").OpenArray("firstBatch")
		names := body.Lookup("filter").Doc().Lookup("name").Doc().Lookup("$in").Doc()
		if name := text(names, "0"); set.shard.Collections[db+"."+name] != nil {
			b.OpenDoc("0").String("name", name).OpenDoc("info").Close().Close()
		}
		return b.Close().Close().Finish(), nil
	case "listIndexes":
		b := new(bson.Builder).OpenDoc("cursor").OpenArray("firstBatch")
		return b.OpenDoc("0").String("name", "_id_").Close().Close().Close().Finish(), nil
	}
	if set.plain {
		return nil, mongoerr.New(mongoerr.CommandNotFound, "no such command: '%s'", name)
	}
	lost := mongoerr.New(mongoerr.HostUnreachable, "no answer")
	if c.onAsk != nil && c.onAsk(body, false) {
		return nil, lost
	}
	reply, err := set.shard.Do(body)
	if c.onAsk != nil && c.onAsk(body, true) {
		return nil, lost
	}
	return reply, err
}

// add makes a set, "s0", which answers at s0:27018.
func (c *cluster) add(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	sh := clustertest.New(id)
	sh.Copies = true
	sh.Peer = func(host string) *clustertest.Shard {
		id, _, _ := strings.Cut(host, "/")
		return c.sets[id].shard
	}
	hello := fmt.Sprintf(`{setName: "%s", hosts: ["%s:27018"], isWritablePrimary: true, ok: 1}`, id, id)
	c.sets[id] = &set{shard: sh, hello: bson.MustParse(hello)}
}

// run runs a command as a router sends it.
func (c *cluster) run(body bson.Doc) (bson.Doc, error) {
	r := c.dispatcher.Dispatch(context.Background(), &command.Request{Client: &command.Client{Internal: true}, DB: "admin", Body: body})
	if e := r.Body.Lookup("code"); !e.IsMissing() {
		return nil, mongoerr.New(mongoerr.Code(e.Int32()), "%s", text(r.Body, "errmsg"))
	}
	return r.Body, nil
}

// What differs from run to run is not shown.
var (
	objectID  = regexp.MustCompile(`ObjectId\('[0-9a-f]{24}'\)`)
	anyUUID   = regexp.MustCompile(`UUID\("[0-9a-f]{8}-[0-9a-f-]*"\)`)
	timestamp = regexp.MustCompile(`Timestamp\(10[0-9]*, [0-9]+\)`)
	took      = regexp.MustCompile(`(executionTimeMillis|millis|bytesPerSecond|secondsLeft|writesBlockedMillis): [0-9]+`)
	date      = regexp.MustCompile(`new Date\([0-9]+\)`)
)

func shown(d bson.Doc) string { return hide(d.String()) }

func hide(s string) string {
	s = objectID.ReplaceAllString(s, "ObjectId")
	s = anyUUID.ReplaceAllString(s, "UUID")
	s = timestamp.ReplaceAllString(s, "Timestamp")
	return took.ReplaceAllString(date.ReplaceAllString(s, "Date"), "$1: n")
}

// TestScripts runs commands against config servers with three shards in memory.
// "run" sends commands, one a line; "show" prints collections of config; "shards" what
// the shards have; "documents" puts some onto a shard; "fail" and "refuse" have shards
// not answer, or refuse, a request as often as that; "set" makes another replica set.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		c := start(t)
		defer c.end()
		for _, id := range []string{"s0", "s1", "s2"} {
			c.add(id)
		}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			f := scriptCommands[d.Cmd]
			if f == nil {
				t.Fatalf("%s: no such command", d.Cmd)
			}
			return f(c, t, d)
		})
	})
}

var scriptCommands = map[string]func(*cluster, *testing.T, *datadriven.TestData) string{
	"run": (*cluster).scriptRun, "show": (*cluster).scriptShow, "shards": (*cluster).scriptShards, "documents": (*cluster).scriptDocuments,
	"fail": (*cluster).scriptFail, "refuse": (*cluster).scriptFail, "set": (*cluster).scriptSet, "round": (*cluster).scriptRound, "write": (*cluster).scriptWrite,
	"takeover": (*cluster).scriptTakeover, "later": (*cluster).scriptLater,
}

func lines(d *datadriven.TestData) []string {
	return strings.Split(strings.TrimSpace(d.Input), "\n")
}

func (c *cluster) scriptRun(_ *testing.T, d *datadriven.TestData) string {
	var out strings.Builder
	for _, line := range lines(d) {
		reply, err := c.run(bson.MustParse(line))
		if err != nil {
			e := mongoerr.From(err)
			fmt.Fprintf(&out, "error %d: %s\n", e.Code, hide(e.Message))
			continue
		}
		fmt.Fprintln(&out, shown(reply))
	}
	return out.String()
}

func (c *cluster) scriptShow(t *testing.T, d *datadriven.TestData) string {
	var out strings.Builder
	for _, a := range d.CmdArgs {
		docs, err := c.s.all(a.Key)
		if err != nil {
			t.Fatal(err)
		}
		if a.Key == chunks {
			slices.SortFunc(docs, func(a, b bson.Doc) int { return bson.Compare(a.Lookup("min"), b.Lookup("min")) })
		}
		for _, doc := range docs {
			if a.Key == changelog || a.Key == actionlog {
				doc = new(bson.Builder).Only(doc, []string{"what", "ns", "details"}).Finish()
			}
			fmt.Fprintf(&out, "%s: %s\n", a.Key, shown(doc))
		}
	}
	return out.String()
}

func (c *cluster) scriptShards(*testing.T, *datadriven.TestData) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out strings.Builder
	for _, id := range []string{"s0", "s1", "s2"} {
		text := c.sets[id].shard.String()
		fmt.Fprintln(&out, regexp.MustCompile(`@[0-9]+`).ReplaceAllString(hide(text), ""))
	}
	return out.String()
}

// scriptDocuments: shard=s0 ns=app.events from=0 to=9 bytes=1000000, documents {x: n}.
func (c *cluster) scriptDocuments(t *testing.T, d *datadriven.TestData) string {
	var id, ns string
	var from, to, bytes int
	d.ScanArgs(t, "shard", &id)
	d.ScanArgs(t, "ns", &ns)
	d.ScanArgs(t, "from", &from)
	d.ScanArgs(t, "to", &to)
	d.ScanArgs(t, "bytes", &bytes)
	c.fill(id, ns, from, to)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sets[id].shard.Collections[ns].Bytes = int64(bytes)
	return ""
}

// fill puts documents {_id: n, x: n} onto a shard.
func (c *cluster) fill(id, ns string, from, to int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	sh := c.sets[id].shard
	one := clustertest.Collection{UUID: "of " + ns, Bytes: 1}
	if sh.Collections[ns] != nil {
		one = *sh.Collections[ns]
	}
	for i := from; i < to; i++ {
		one.Docs = append(one.Docs, new(bson.Builder).Int32("_id", int32(i)).Int32("x", int32(i)).Finish())
	}
	sh.Collections[ns] = &one
}

func (c *cluster) scriptFail(t *testing.T, d *datadriven.TestData) string {
	var times int
	d.ScanArgs(t, "times", &times)
	c.mu.Lock()
	defer c.mu.Unlock()
	of := c.failing
	if d.Cmd == "refuse" {
		of = c.refusing
	}
	of[d.CmdArgs[0].Key] = times
	return ""
}

// scriptSet: a set by its name, with its hello as input, and databases=(a,b); plain was not
// started as a shard.
func (c *cluster) scriptSet(_ *testing.T, d *datadriven.TestData) string {
	id := d.CmdArgs[0].Key
	c.add(id)
	c.mu.Lock()
	defer c.mu.Unlock()
	if in := strings.TrimSpace(d.Input); in != "" {
		c.sets[id].hello = bson.MustParse(in)
	}
	for _, a := range d.CmdArgs[1:] {
		c.sets[id].databases, c.sets[id].plain = a.Vals, a.Key == "plain"
	}
	return ""
}

func (c *cluster) scriptRound(t *testing.T, _ *datadriven.TestData) string {
	now, err := c.s.term()
	if err != nil {
		t.Fatal(err)
	}
	moved, _, err := c.s.round(now.ctx)
	if err != nil {
		return fmt.Sprintf("error: %v\n", err)
	}
	return fmt.Sprintf("moved %d\n", moved)
}

// scriptWrite puts documents into a collection of config, as a shell does.
func (c *cluster) scriptWrite(t *testing.T, d *datadriven.TestData) string {
	for _, line := range lines(d) {
		if err := c.s.commit(context.Background(), put(d.CmdArgs[0].Key, bson.MustParse(line))); err != nil {
			t.Fatal(err)
		}
	}
	return ""
}

// scriptLater lets an hour pass.
func (c *cluster) scriptLater(*testing.T, *datadriven.TestData) string {
	c.clock.Add(3600 << 32)
	return ""
}

// scriptTakeover has the primary step down and another term begin.
func (c *cluster) scriptTakeover(t *testing.T, _ *datadriven.TestData) string {
	n := c.primary.Term()
	c.primary.set(0)
	c.primary.set(n + 1)
	c.await(t)
	return ""
}
