package shard

import (
	"container/heap"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/query/match"
	"github.com/mayflydb/mayfly/internal/query/plan"
)

var atScale = flag.Bool("scale", false, "TestScale simulates 1,000 shards, 10,000,000 chunks and 100 routers")

// scale is how large the simulated cluster is, before its shards are doubled.
type scale struct{ shards, chunks, routers int }

// chunkBytes is the size of each chunk, the most that one move takes.
const chunkBytes = 128 << 20

// large is a cluster of that scale: one collection, what the config servers have of it, and
// routers. Chunk maps, the balancer's rounds, changes of chunks, targets and refreshes are the
// real ones; the wire, the disks and the documents are not there.
type large struct {
	*testing.T
	scale
	rng     *rand.Rand
	m       *Map // the config servers'
	members []Member
	bytes   map[string]int64
	zones   *Zones
	changes []Chunk // of config.chunks, in the order of their versions
	docSize int     // of a chunk in config.chunks
	sent    int     // and of what a router asks for of it
}

// fieldsOfChunk is what a router asks for of a document of config.chunks.
func fieldsOfChunk(doc bson.Doc) bson.Doc {
	b := new(bson.Builder)
	for name, v := range doc.All() {
		switch name {
		case "min", "max", "shard", "lastmod":
			b.Value(name, v)
		}
	}
	return b.Finish()
}

func megabytes() float64 {
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return float64(s.HeapAlloc) / (1 << 20)
}

func newLarge(t *testing.T, s scale) *large {
	k := mustKey(`{x: "hashed"}`)
	l := &large{T: t, scale: s, rng: rand.New(rand.NewPCG(1, 2)), bytes: map[string]int64{}}
	l.zones, _ = NewZones(k)
	for i := range s.shards {
		l.members = append(l.members, Member{ID: fmt.Sprintf("shard%04d", i)})
	}
	before := megabytes()
	ends := append(k.HashPoints(nil, s.chunks), k.Max())
	at := k.Min()
	b := NewBuilder("d.c", k, testGeneration)
	var took time.Duration
	for i, end := range ends {
		id := l.members[i%s.shards].ID
		c := Chunk{ID: bson.NewObjectID(), Range: Range{Min: at, Max: end}, Shard: id, Version: testGeneration.At(1<<32 + uint64(i)), History: []Placement{{1, id}}}
		l.bytes[id] += chunkBytes
		at = end
		doc := k.ChunkDoc(bson.UUID{}, &c)
		sent := fieldsOfChunk(doc)
		l.docSize, l.sent = max(l.docSize, len(doc)), max(l.sent, len(sent))
		began := time.Now()
		c, err := k.ParseChunk(testGeneration, sent)
		if err == nil {
			err = b.Add(c)
		}
		if took += time.Since(began); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	var err error
	if l.m, err = b.Map(); err != nil {
		t.Fatal(err)
	}
	took += time.Since(began)
	ends = nil
	t.Logf("%d shards, %d chunks: a chunk's document has %d bytes, of which a router asks for %d, %d MB at its first read; a batch after the other is made a map in %v; the map has %.0f MB",
		s.shards, s.chunks, l.docSize, l.sent, l.sent*s.chunks>>20, took, megabytes()-before)
	return l
}

// double adds as many shards as there are, which have nothing.
func (l *large) double() {
	for i := range l.shards {
		l.members = append(l.members, Member{ID: fmt.Sprintf("shard%04d", l.shards+i)})
	}
}

// round makes one round of the balancer, and returns how many moves it had. Each is a change of
// the map of its own, as on the config servers, or all are one, which is much faster: the moves
// of a round have no shard in common.
func (l *large) round(now uint64, single bool) (moves int, choosing, changing time.Duration) {
	began := time.Now()
	_, all := Round([]Balanced{{Map: l.m, Zones: l.zones, Bytes: l.bytes, MaxChunk: chunkBytes}}, l.members, DefaultSettings())
	choosing = time.Since(began)
	began = time.Now()
	var together []Chunk
	for i, mv := range all {
		change, err := l.m.Move(mv.Range, mv.To, now, now, bson.NewObjectID)
		if err == nil && single {
			l.m, err = l.m.With(change.Put)
		}
		if err != nil {
			l.Fatal(err)
		}
		if !single {
			for k := range change.Put {
				change.Put[k].Version.Major += uint32(i)
			}
			together = append(together, change.Put...)
		}
		l.changes = append(l.changes, change.Put...)
		l.bytes[mv.From] -= chunkBytes
		l.bytes[mv.To] += chunkBytes
	}
	if !single && len(together) > 0 {
		var err error
		if l.m, err = l.m.With(together); err != nil {
			l.Fatal(err)
		}
	}
	return len(all), choosing, time.Since(began)
}

// asked is a statement of a router, or the end of a refresh, in virtual time.
type asked struct {
	at     time.Duration
	router int
	fresh  bool // a refresh ends
}

type queue []asked

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].at < q[j].at }
func (q queue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)        { *q = append(*q, x.(asked)) }
func (q *queue) Pop() any {
	old := *q
	x := old[len(old)-1]
	*q = old[:len(old)-1]
	return x
}

// storm is what routers ask for while chunks move.
type storm struct {
	statements, stale, refreshes, chunks int
	targets, refreshing                  time.Duration
	longest                              int // the most chunks in one refresh
	moves                                int
	changing                             time.Duration
}

// refreshTime is how long the config servers take for a refresh.
const refreshTime = 2 * time.Millisecond

// storm has each router send statements for as long as a round takes, in which the moves commit
// one after the other.
func (l *large) storm(rounds int, each time.Duration, perSecond int) (s storm) {
	type router struct {
		m          *Map
		refreshing bool
		seen       int // of changes
	}
	routers := make([]router, l.routers)
	for i := range routers {
		routers[i] = router{m: l.m, seen: len(l.changes)}
	}
	key := make([]byte, 0, 64)
	for round := range rounds {
		from := len(l.changes)
		moves, _, changing := l.round(uint64(round+2)<<32, true)
		s.moves, s.changing = s.moves+moves, s.changing+changing
		if moves == 0 {
			break
		}
		new := l.changes[from:]
		// Versions of shards as they were told, by the commits so far.
		current := map[string]uint64{}
		var q queue
		for i := range routers {
			routers[i].seen = min(routers[i].seen, from)
			for range int(each.Seconds() * float64(perSecond)) {
				q = append(q, asked{at: time.Duration(l.rng.Int64N(int64(each))), router: i})
			}
		}
		heap.Init(&q)
		committed := 0
		for len(q) > 0 {
			e := heap.Pop(&q).(asked)
			for committed < len(new) && time.Duration(committed)*each/time.Duration(len(new)) <= e.at {
				c := &new[committed]
				if v := c.Version.Lastmod(); v > current[c.Shard] {
					current[c.Shard] = v
				}
				committed++
			}
			r := &routers[e.router]
			if e.fresh {
				r.refreshing = false
				got := l.changes[r.seen : from+committed]
				began := time.Now()
				m, err := r.m.With(got)
				if err != nil { // it ends within a move: the rest comes with the next one
					continue
				}
				r.m, r.seen = m, from+committed
				s.refreshing += time.Since(began)
				s.refreshes++
				s.chunks += len(got)
				s.longest = max(s.longest, len(got))
				continue
			}
			s.statements++
			began := time.Now()
			key, _ = r.m.key.Append(key[:0], new1(l.rng.Int64()))
			to := r.m.ShardOf(key)
			s.targets += time.Since(began)
			if r.m.ShardVersion(to).Lastmod() < current[to] {
				s.stale++
				if !r.refreshing {
					r.refreshing = true
					heap.Push(&q, asked{at: e.at + refreshTime, router: e.router, fresh: true})
				}
			}
		}
	}
	return s
}

func new1(x int64) bson.Doc { return new(bson.Builder).Int64("x", x).Finish() }

// TestScale doubles the shards of a large cluster, and tells what that costs: rounds of the
// balancer, what routers ask the config servers for, memory, and a target.
func TestScale(t *testing.T) {
	s := scale{shards: 40, chunks: 20_000, routers: 8}
	if *atScale {
		s = scale{shards: 1000, chunks: 10_000_000, routers: 100}
	}
	l := newLarge(t, s)
	l.target()
	l.double()
	// A quarter of a storm is enough to know it; a round takes as long as 128 MB at 50 MB/s and
	// the pause behind it.
	const roundTime = 3600 * time.Millisecond
	began := time.Now()
	st := l.storm(3, roundTime, 100)
	t.Logf("3 rounds with %d routers, 100 statements a second each: %d statements, %d stale, %d refreshes with %d chunks (%.1f MB; the most in one %d) in %.1f s of virtual time; a target %.2f µs, a refresh %.0f µs, a commit of a move to the map %.0f µs (%v)",
		l.routers, st.statements, st.stale, st.refreshes, st.chunks, float64(st.chunks*l.sent)/(1<<20), st.longest, 3*roundTime.Seconds(),
		float64(st.targets.Nanoseconds())/1000/float64(st.statements), float64(st.refreshing.Microseconds())/float64(max(st.refreshes, 1)), float64(st.changing.Microseconds())/float64(max(st.moves, 1)), time.Since(began).Round(time.Millisecond))
	if st.refreshes == 0 || st.refreshes > st.stale {
		t.Errorf("%d refreshes for %d stale statements", st.refreshes, st.stale)
	}
	l.rest(t)
	l.target()
}

// rest balances until the balancer has nothing to do.
func (l *large) rest(t *testing.T) {
	t.Helper()
	rounds, moves := 3, 0
	var choosing, changing, longest time.Duration
	for n := -1; n != 0; {
		var choose, change time.Duration
		l.changes = l.changes[:0]
		n, choose, change = l.round(uint64(rounds+2)<<32, false)
		rounds, moves, choosing, changing = rounds+1, moves+n, choosing+choose, changing+change
		longest = max(longest, choose)
		if *atScale && rounds%500 == 0 {
			t.Logf("%d rounds, %d moves: choosing %v a round, the longest %v, changing %v a move", rounds, moves, choosing/time.Duration(rounds), longest, changing/time.Duration(moves))
		}
		if rounds > 2*l.chunks/l.shards+100 {
			t.Fatal("the balancer does not come to rest")
		}
	}
	sizes := make([]int64, 0, len(l.members))
	for _, m := range l.members {
		if got := int64(l.m.ChunksOn(m.ID)) * chunkBytes; got != l.bytes[m.ID] {
			t.Fatalf("%s has %d chunks and %d bytes", m.ID, l.m.ChunksOn(m.ID), l.bytes[m.ID])
		}
		sizes = append(sizes, l.bytes[m.ID])
	}
	slices.Sort(sizes)
	if sizes[len(sizes)-1]-sizes[0] > imbalance*chunkBytes {
		t.Errorf("it rests with %d to %d bytes on a shard", sizes[0], sizes[len(sizes)-1])
	}
	t.Logf("%d rounds, %d moves (%.1f hours of rounds of 3.6 s): choosing %v a round, the longest %v, changing the map %v a move; config.chunks: %d MB written; _shardsvrOwned: %d requests",
		rounds, moves, float64(rounds)*3.6/3600, choosing/time.Duration(rounds), longest, changing/time.Duration(max(moves, 1)), 2*moves*l.docSize>>20, rounds*len(l.members))
}

// target tells what one target costs.
func (l *large) target() {
	f, err := match.Parse(bson.MustParse(`{x: 12345, y: {$gt: 5}}`), nil)
	if err != nil {
		l.Fatal(err)
	}
	q := &plan.Query{Filter: f}
	const n = 10_000
	began := time.Now()
	for range n {
		l.m.Target(q)
	}
	l.Logf("a target by equality: %.2f µs", float64(time.Since(began).Nanoseconds())/1000/n)
}
