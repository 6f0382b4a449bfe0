package importer

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/server/servertest"
)

// peer is a server of a test, and a connection to it.
type peer struct {
	t       testing.TB
	address string
	c       *client.Conn
}

func startPeer(t testing.TB, args ...string) *peer {
	t.Helper()
	return connectPeer(t, servertest.Start(t, args...).Address)
}

func startSet(t testing.TB, name string, args ...string) *peer {
	t.Helper()
	return startPeer(t, append([]string{"--replSet", name, "--initiate"}, args...)...)
}

func connectPeer(t testing.TB, address string) *peer {
	t.Helper()
	c, err := client.Connect(context.Background(), client.Options{Address: address})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return &peer{t, address, c}
}

func (p *peer) uri() *client.URI { return direct(p.t, p.address) }

func direct(t testing.TB, address string) *client.URI {
	t.Helper()
	u, err := client.ParseURI("mongodb://"+address+"/?directConnection=true", client.Primary)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// run runs a command in extended JSON.
func (p *peer) run(db, command string) bson.Doc {
	p.t.Helper()
	reply, err := p.c.Run(context.Background(), db, bson.MustParse(command))
	if err == nil {
		for _, e := range writeErrors(reply) {
			err = e.Error
		}
	}
	if err != nil {
		p.t.Fatalf("%s: %v", command, err)
	}
	return reply
}

func (p *peer) end(name string) *end {
	p.t.Helper()
	e, err := openEnd(context.Background(), name, p.uri())
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(e.close)
	return e
}

// lines collects what an import tells.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) tell(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, line)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.all, "\n")
}

// equal fails the test unless two servers have the same collections, with the same definitions,
// and the same documents, byte for byte.
func equal(t testing.TB, from, to *peer) {
	t.Helper()
	ctx := context.Background()
	a, b := from.end("the source"), to.end("the target")
	have, err := list(ctx, b)
	if err != nil {
		t.Fatal(err)
	}
	want, err := list(ctx, a)
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]*definition{}
	for _, d := range have {
		byName[d.name()] = d
	}
	for _, d := range want {
		h := byName[d.name()]
		if h == nil || h.kind != d.kind {
			t.Errorf("%s: at the target %v", d.name(), h)
			continue
		}
		delete(byName, d.name())
		if err := same(h, d); err != nil {
			t.Error(err)
		}
		if len(h.indexes) != len(d.indexes) {
			t.Errorf("%s has %d indexes, and had %d", d.name(), len(h.indexes), len(d.indexes))
		}
		if d.kind == kindView || d.coll == "due" { // what was due is removed at the target since
			continue
		}
		find := new(bson.Builder).String("find", d.coll)
		if !d.late() {
			find.OpenDoc("hint").Int32("_id", 1).Close().OpenDoc("sort").Int32("_id", 1).Close()
		}
		query := find.Finish()
		x, err1 := a.all(ctx, d.db, query)
		y, err2 := b.all(ctx, d.db, query)
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		sameDocuments(t, d, x, y)
	}
	for name := range byName {
		t.Errorf("the target has %s", name)
	}
}

func sameDocuments(t testing.TB, d *definition, x, y []bson.Doc) {
	t.Helper()
	if len(x) != len(y) {
		t.Errorf("%s: %d documents, and %d at the target", d.name(), len(x), len(y))
	}
	for i := range min(len(x), len(y)) {
		if d.kind == kindTimeseries {
			x[i], y[i] = byName(x[i]), byName(y[i])
		}
		if !bytes.Equal(x[i], y[i]) {
			t.Errorf("%s: %s\nis at the target %s", d.name(), x[i], y[i])
			return
		}
	}
}

// fill makes what an import has to copy: of each kind of collection, index and _id.
func fill(p *peer) {
	for _, c := range []string{
		`{"create":"ids","validator":{"a":{"$type":"int"}},"validationAction":"error"}`,
		`{"create":"folded","collation":{"locale":"en","strength":2}}`,
		`{"create":"clustered","clusteredIndex":{"key":{"_id":1},"unique":true},"expireAfterSeconds":{"$numberLong":"1000"}}`,
		`{"create":"capped","capped":true,"size":1048576,"max":1000}`,
		`{"create":"measured","timeseries":{"timeField":"at","metaField":"of"},"expireAfterSeconds":{"$numberLong":"1000000000"}}`,
		`{"create":"images","changeStreamPreAndPostImages":{"enabled":true}}`,
		`{"create":"seen","viewOn":"ids","pipeline":[{"$match":{"a":{"$gt":1}}}]}`,
		`{"create":"empty"}`,
		`{"create":"rules"}`,
		`{"createIndexes":"rules","indexes":[{"key":{"at":1},"name":"at_1","expireAfterSeconds":60},{"key":{"u":1},"name":"u_1","unique":true},
			{"key":{"p":1},"name":"p_1","unique":true,"partialFilterExpression":{"p":{"$gt":5}}},{"key":{"t":"text"},"name":"t_text"},{"key":{"l":"2dsphere"},"name":"l_2dsphere"},
			{"key":{"w.$**":1},"name":"w"},{"key":{"h":"hashed"},"name":"h","hidden":true},{"key":{"s":-1},"name":"s_-1","sparse":true,"collation":{"locale":"fr"}}]}`,
		`{"create":"written"}`,
		`{"createIndexes":"written","indexes":[{"key":{"_ts":1},"name":"_ts_1","expireAfterSeconds":100000,"storageEngine":{"mayfly":{"expiry":{"by":"lastWrite"}}}}]}`,
		`{"insert":"written","documents":[{"_id":1},{"_id":2,"ttl":-1}]}`,
		`{"insert":"folded","documents":[{"_id":"a"},{"_id":"B"},{"_id":"c"},{"_id":"ß"}]}`,
		`{"insert":"clustered","documents":[{"_id":1},{"_id":{"$date":"2100-01-01T00:00:00Z"}}]}`,
		`{"insert":"capped","documents":[{"_id":3},{"_id":1},{"_id":2}]}`,
		`{"insert":"measured","documents":[{"at":{"$date":"2026-01-01T00:00:00Z"},"of":1,"v":1},{"at":{"$date":"2026-01-01T00:00:01Z"},"of":1,"v":2},{"at":{"$date":"2026-01-01T00:00:01Z"},"of":2,"v":2}]}`,
		`{"insert":"images","documents":[{"_id":1}]}`,
		`{"insert":"rules","documents":[{"_id":1,"u":1,"p":9},{"_id":2,"u":2,"p":3,"at":{"$date":"2100-01-01T00:00:00Z"}},{"_id":3,"p":3}]}`,
	} {
		p.run("d", c)
	}
	ids := []string{`{"$minKey":1}`, `null`, `-1`, `{"$numberDouble":"NaN"}`, `{"$numberDouble":"-0.0"}`, `1`, `{"$numberLong":"2"}`, `{"$numberDecimal":"2.50"}`, `""`, `"a"`, `{"a":1}`, `{"b":{"$numberDouble":"1"}}`,
		`{"$binary":{"base64":"AAE=","subType":"04"}}`, `{"$oid":"5f0000000000000000000001"}`, `true`, `false`, `{"$date":{"$numberLong":"-1"}}`, `{"$timestamp":{"t":1,"i":2}}`, `{"$maxKey":1}`}
	for _, id := range ids {
		p.run("d", `{"insert":"ids","bypassDocumentValidation":true,"bypassEmptyTsReplacement":true,"documents":[{"_id":`+id+`,"b":[1,{}],"e":{"$timestamp":{"t":0,"i":0}},"$odd":1,"a.b":2,"":3}]}`)
	}
	for i := range 30 {
		p.run("e", fmt.Sprintf(`{"insert":"many","documents":[{"_id":%d},{"_id":"%d"},{"_id":{"n":%d}}]}`, i, i, i))
	}
}

// TestOnce copies all there is, from a standalone, with batches that end between all types of
// _id; then it finds what somebody has changed.
func TestOnce(t *testing.T) {
	from, to := startPeer(t), startSet(t, "to")
	fill(from)
	for _, batch := range []int{1, 7, 0} {
		told := &lines{}
		if err := Run(t.Context(), Options{From: from.uri(), To: to.uri(), Once: true, Parallel: 2, Tell: told.tell, batch: batch}); err != nil {
			t.Fatalf("%v\n%s", err, told)
		}
		equal(t, from, to)
		if t.Failed() {
			t.FailNow()
		}
		for _, db := range []string{"d", "e", ownDB} {
			to.run(db, `{"dropDatabase":1}`)
		}
	}
	to.run("d", `{"create":"ids"}`)
	told := &lines{}
	if err := Run(t.Context(), Options{From: from.uri(), To: to.uri(), Once: true, Parallel: 2, Tell: told.tell}); err == nil || !strings.Contains(err.Error(), "has d.ids already") {
		t.Errorf("into a collection that is there: %v", err)
	}
}

var kills = flag.Int("kills", 6, "how many imports are killed, some times each")

// TestKilled kills an import at requests of which any may be the one, and lets the last request of
// a dead importer arrive while a successor is at work; in the end, the target is equal.
func TestKilled(t *testing.T) {
	from, to := startPeer(t), startSet(t, "to")
	fill(from)
	ends := newEnds(t, from, to)
	options := Options{Once: true, Parallel: 2, batch: 10}
	count := &gate{}
	if err := ends.run(t.Context(), options, count); err != nil {
		t.Fatal(err)
	}
	seed := time.Now().UnixNano()
	random := rand.New(rand.NewPCG(uint64(seed), 0))
	for i := range *kills {
		for _, db := range []string{"d", "e", ownDB} {
			to.run(db, `{"dropDatabase":1}`)
		}
		var late []*gate
		for range 1 + random.IntN(4) {
			g := &gate{at: 1 + random.IntN(count.n), how: random.IntN(deaths)}
			if err := ends.run(t.Context(), options, g); err == nil {
				break
			} else if !g.dead.Load() {
				t.Fatalf("seed %d, %d: %v", seed, i, err)
			}
			late = append(late, g)
		}
		last := &gate{passed: func(n int) { // behind the successors' claims
			for n == count.n/2 && len(late) > 0 {
				late[0].deliver()
				late = late[1:]
			}
		}}
		if err := ends.run(t.Context(), options, last); err != nil {
			t.Fatalf("seed %d, %d: %v", seed, i, err)
		}
		equal(t, from, to)
		if t.Failed() {
			t.Fatalf("seed %d, %d", seed, i)
		}
	}
}

// ends are a source and a target behind gates.
type ends struct {
	t        testing.TB
	from, to *proxy
}

func newEnds(t testing.TB, from, to *peer) *ends {
	return &ends{t, newProxy(t, from.address), newProxy(t, to.address)}
}

// run runs an importer behind a gate.
func (e *ends) run(ctx context.Context, o Options, g *gate) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	g.die = cancel
	e.from.gate.Store(g)
	e.to.gate.Store(g)
	o.From, o.To = direct(e.t, e.from.address), direct(e.t, e.to.address)
	if o.Tell == nil {
		o.Tell = func(string) {}
	}
	return Run(ctx, o)
}
