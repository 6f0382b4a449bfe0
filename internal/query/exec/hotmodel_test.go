package exec

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/sim"
	"github.com/mayflydb/mayfly/internal/storage"
)

const (
	hotDocuments = 3
	hotClients   = 8
	hotSteps     = 40
	hotCounter   = 100 // _id of a document that all count in
)

// hotModel is clients that use a few documents as registers, and one as a counter, while
// the log commits late, refuses, and changes its primary.
type hotModel struct {
	t   *testing.T
	h   *house
	log interface {
		Waiting() int
		Apply(int)
		Drop(int)
		StepDown()
		StepUp(int) error
	}
	pause func() // within an update; nil for nothing

	mu      sync.Mutex
	history []sim.RegisterOp
	values  int // handed out, so that no value is written twice
	counted, unknown,
	refused int
}

// operate runs a statement as one operation.
func (m *hotModel) operate(ctx context.Context, s string) (*Written, error) {
	w := m.h.exec.NewWriter(storage.Buffered)
	defer w.Abort()
	out, err := statement{parseDoc(m.t, s), m.pause}.do(ctx, m.t, m.h, w, m.h.catalog.Lookup(hotNS))
	if err != nil {
		return nil, err
	}
	return out, w.Commit(ctx)
}

func (m *hotModel) value() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.values++
	return m.values
}

// now is a number that rises with each call, also between things that happen at one
// instant of virtual time.
func (m *hotModel) now() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.values++
	return time.Now().UnixNano() + int64(m.values)
}

// register does something to a register, and notes it.
func (m *hotModel) register(ctx context.Context, rng *rand.Rand, client int) {
	op := sim.RegisterOp{Client: client, Key: rng.IntN(hotDocuments), Call: m.now()}
	var out *Written
	var err error
	switch rng.IntN(6) {
	case 0: // what is read by an update that changes nothing
		op.Kind = sim.Read
		if out, err = m.operate(ctx, fmt.Sprintf(`{"q": {"_id": %d}, "u": {"$max": {"v": -1}}, "keep": true}`, op.Key)); err == nil {
			op.Value = int(out.Old.Lookup("v").Int32())
		}
	case 1: // what readers see
		op.Kind = sim.Read
		op.Value = m.read(op.Key)
	case 2, 3:
		op.Kind, op.To = sim.Write, m.value()
		_, err = m.operate(ctx, fmt.Sprintf(`{"q": {"_id": %d}, "u": {"$set": {"v": %d, "u": %d}}}`, op.Key, op.To, 1000+op.To))
	default:
		op.Kind, op.From, op.To = sim.Swap, m.read(op.Key), m.value()
		if out, err = m.operate(ctx, fmt.Sprintf(`{"q": {"_id": %d, "v": %d}, "u": {"$set": {"v": %d}}}`, op.Key, op.From, op.To)); err == nil {
			op.Swapped = out.Matched > 0
		}
	}
	op.Return = m.now()
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case err == nil:
	case errIsUnknown(err) && op.Kind != sim.Read:
		op.Unknown = true
	default:
		m.check(err)
		return
	}
	m.history = append(m.history, op)
}

// check holds that an error is one of those that a log makes. mu is held.
func (m *hotModel) check(err error) {
	if !mongoerr.Is(err, mongoerr.InterruptedDueToReplStateChange) {
		m.t.Errorf("a client is told %v", err)
	}
	m.refused++
}

func (m *hotModel) read(key int) int {
	a, err := m.h.ask(m.t, m.h.catalog.Lookup(hotNS), asked{filter: fmt.Sprintf(`{"_id": %d}`, key)})
	if err != nil || len(a.docs) != 1 {
		m.t.Errorf("read: %v", err)
		return 0
	}
	return int(a.docs[0].Lookup("v").Int32())
}

func (m *hotModel) count(ctx context.Context) {
	_, err := m.operate(ctx, fmt.Sprintf(`{"q": {"_id": %d}, "u": {"$inc": {"v": 1}}}`, hotCounter))
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case err == nil:
		m.counted++
	case errIsUnknown(err):
		m.unknown++
	default:
		m.check(err)
	}
}

// churn makes, changes and removes a document whose keys others want.
func (m *hotModel) churn(ctx context.Context, rng *rand.Rand) {
	id, key := 10+rng.IntN(3), rng.IntN(4)
	s := fmt.Sprintf(`{"q": {"_id": %d}, "u": {"$set": {"u": %d, "m": [%d, 7]}}, "upsert": true}`, id, key, key)
	switch rng.IntN(5) {
	case 0:
		s = fmt.Sprintf(`{"q": {"_id": %d}, "remove": true}`, id)
	case 1:
		s = fmt.Sprintf(`{"q": {"m": %d}, "u": {"$inc": {"n": 1}}, "multi": true}`, key)
	}
	if _, err := m.operate(ctx, s); err != nil && !mongoerr.Is(err, mongoerr.DuplicateKey) && !errIsUnknown(err) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.check(err)
	}
}

// disturb commits what waits, late, until all clients have ended.
func (m *hotModel) disturb(rng *rand.Rand, ended <-chan struct{}) {
	for {
		select {
		case <-ended:
			return
		case <-time.After(time.Duration(rng.IntN(5_000)) * time.Microsecond):
		}
		n := m.log.Waiting()
		switch {
		case n > 0 && rng.IntN(25) == 0:
			m.log.Drop(rng.IntN(n + 1))
		case n > 0 && rng.IntN(25) == 0:
			m.log.StepDown()
			time.Sleep(time.Duration(rng.IntN(300)) * time.Microsecond)
			if err := m.log.StepUp(rng.IntN(n + 1)); err != nil {
				m.t.Error(err)
			}
		default:
			m.log.Apply(1 + rng.IntN(n+1))
		}
	}
}

// TestHotDocumentsModel holds that what clients are told of a few documents is as if one
// did something after the other, however late the log commits, whatever it refuses, and
// whoever leads; that a counter counts what was acknowledged, and no more than what may
// have been; that documents and entries agree, also on another store that applies the
// same effects.
func TestHotDocumentsModel(t *testing.T) {
	read, handed := int64(0), int64(0)
	for seed := range uint64(40) {
		synctest.Test(t, func(t *testing.T) {
			ctx := t.Context()
			h, log := openLog(t, storage.NewMemFS())
			m := &hotModel{t: t, h: h, log: log}
			if _, err := h.catalog.Create(ctx, hotNS, nil); err != nil {
				t.Fatal(err)
			}
			if seed%3 == 0 { // updates move documents, or none
				h.lieByKey(t, hotNS, []string{`{"v": "hashed"}`, `{"_id": "hashed"}`}[seed%2])
			}
			h.index(t, hotNS, []string{`{"key": {"u": 1}, "name": "u", "unique": true, "sparse": true}`, `{"key": {"v": 1, "m": 1}, "name": "vm"}`})
			for _, id := range []int{0, 1, 2, hotCounter} {
				if _, err := m.operate(ctx, fmt.Sprintf(`{"q": {"_id": %d}, "u": {"$set": {"v": 0}}, "upsert": true}`, id)); err != nil {
					t.Fatal(err)
				}
			}
			log.Hold()
			if seed%4 > 0 {
				var turns atomic.Uint64
				m.pause = func() { // virtual time would not pass where DDL waits for the gate
					for range (turns.Add(7) + seed) % 40 {
						runtime.Gosched()
					}
				}
			}
			var clients sync.WaitGroup
			for c := range hotClients {
				clients.Go(func() {
					rng := rand.New(rand.NewPCG(seed, uint64(c)))
					for range hotSteps {
						time.Sleep(time.Duration(rng.IntN(3_000)) * time.Microsecond)
						switch rng.IntN(4) {
						case 0:
							m.count(ctx)
						case 1:
							m.churn(ctx, rng)
						default:
							m.register(ctx, rng, c)
						}
					}
				})
			}
			clients.Go(func() { // an index is built meanwhile
				time.Sleep(20 * time.Millisecond)
				h.index(t, hotNS, []string{`{"key": {"m": 1}, "name": "m"}`, `{"key": {"n": 1, "v": 1}, "name": "nv"}`})
			})
			ended := make(chan struct{})
			go func() { clients.Wait(); close(ended) }()
			m.disturb(rand.New(rand.NewPCG(seed, 1000)), ended)
			log.Release()
			m.judge(ctx)
			p := h.catalog.Pending()
			read, handed = read+p.Read, handed+p.Writes
			if p.Documents != 0 || p.Bytes != 0 {
				t.Errorf("seed %d: %+v is pending at the end", seed, p)
			}
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
			h.close(t)
		})
	}
	if read < handed/10 {
		t.Errorf("of %d writes that were handed over %d were evaluated on: the documents are not hot", handed, read)
	}
}

// judge holds the end against the history.
func (m *hotModel) judge(ctx context.Context) {
	for k := range hotDocuments {
		m.history = append(m.history, sim.RegisterOp{Client: 99, Key: k, Kind: sim.Read, Value: m.read(k), Call: m.now(), Return: m.now()})
	}
	if err := sim.CheckRegisters(m.history, time.Minute); err != nil {
		m.t.Error(err)
	}
	if n := m.read(hotCounter); n < m.counted || n > m.counted+m.unknown {
		m.t.Errorf("the counter has %d; %d were acknowledged, of %d nobody knows", n, m.counted, m.unknown)
	}
	v, err := m.h.catalog.Validate(ctx, m.h.catalog.Lookup(hotNS), true)
	if err != nil || !v.Valid {
		m.t.Errorf("validate: %v %v", err, v)
	}
}

// slowLog commits what it has been given, all at once, and again after a while.
type slowLog struct {
	hands bool // tells that effects are ordered
	every time.Duration

	mu   sync.Mutex
	list []slowEffect
	held bool
}

type slowEffect struct {
	e    *catalog.Effect
	done chan error
}

func (l *slowLog) Evaluate() catalog.Evaluation { return catalog.Evaluation{Term: 1} }
func (l *slowLog) Writable() error              { return nil }

func (l *slowLog) Commit(ctx context.Context, e *catalog.Effect, d storage.Durability) error {
	if e.Empty() || !l.held {
		return e.Commit(ctx, d)
	}
	s := slowEffect{e, make(chan error, 1)}
	e.AppendEncoded(nil) // what a log takes
	l.mu.Lock()
	l.list = append(l.list, s)
	if l.hands {
		e.Ordered()
	}
	l.mu.Unlock()
	return <-s.done
}

// run commits until stop.
func (l *slowLog) run(stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(l.every):
		}
		l.mu.Lock()
		list := l.list
		l.list = nil
		l.mu.Unlock()
		for _, s := range list {
			s.done <- s.e.Commit(context.Background(), storage.Buffered)
		}
	}
}

// hotCounting counts in one document, with so many clients, until each has counted so
// often.
func hotCounting(t opener, hands bool, clients, each int) time.Duration {
	log := &slowLog{hands: hands, every: 5 * time.Millisecond}
	e, err := storage.Open(storage.Options{Dir: "db", FS: storage.NewMemFS(), CacheBytes: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	c, err := catalog.Open(e, catalog.Options{Committer: log, Operations: true})
	if err != nil {
		t.Fatal(err)
	}
	h := &house{e, c, &Executor{Catalog: c}}
	defer h.close(t)
	ctx := context.Background()
	coll, err := c.Create(ctx, hotNS, nil)
	if err != nil {
		t.Fatal(err)
	}
	w := h.exec.NewWriter(storage.Buffered)
	if err := w.Insert(ctx, coll, new(bson.Builder).Int32("_id", 1).Int32("n", 0).Finish()); err != nil {
		t.Fatal(err)
	}
	if err := w.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	log.held = true
	stop := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() { log.run(stop) })
	var counting sync.WaitGroup
	errs := make([]error, clients)
	begun := time.Now()
	for i := range clients {
		counting.Go(func() {
			s := statement{Doc: hotIncrement}
			for range each {
				w := h.exec.NewWriter(storage.Buffered)
				if _, errs[i] = s.do(ctx, panicker{}, h, w, coll); errs[i] == nil {
					errs[i] = w.Commit(ctx)
				}
				if errs[i] != nil {
					return
				}
			}
		})
	}
	counting.Wait()
	took := time.Since(begun)
	close(stop)
	running.Wait()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
	a, err := h.ask(panicker{}, coll, asked{filter: "{}"})
	if err != nil {
		t.Fatal(err)
	}
	if n := a.docs[0].Lookup("n").Int32(); int(n) != clients*each {
		t.Fatal(fmt.Sprintf("%d clients have counted to %d", clients, n))
	}
	return took
}

// panicker is an asker of what cannot fail.
type panicker struct{}

func (panicker) Helper()                        {}
func (panicker) Fatalf(format string, a ...any) { panic(fmt.Sprintf(format, a...)) }

var hotIncrement = bson.MustParse(`{"q": {"_id": 1}, "u": {"$inc": {"n": 1}}}`)

// TestHotDocumentSharesRounds holds, in virtual time, that a log which commits every 5 ms
// takes one update of a document a round where locks are kept, and one of each client
// where they are handed over.
func TestHotDocumentSharesRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const clients, each = 64, 5
		kept, handed := hotCounting(t, false, clients, each), hotCounting(t, true, clients, each)
		if kept != clients*each*5*time.Millisecond || handed != each*5*time.Millisecond {
			t.Errorf("%d updates took %s where locks are kept, and %s where they are handed over", clients*each, kept, handed)
		}
	})
}

// BenchmarkHotDocument counts in one document with 64 clients by a log that commits every
// 5 ms: updates a second.
func BenchmarkHotDocument(b *testing.B) {
	for name, hands := range map[string]bool{"locks=kept": false, "locks=handed-over": true} {
		b.Run(name, func(b *testing.B) {
			const clients = 64
			each := max(1, b.N/clients)
			took := hotCounting(b, hands, clients, each)
			b.ReportMetric(float64(clients*each)/took.Seconds(), "updates/s")
		})
	}
}
