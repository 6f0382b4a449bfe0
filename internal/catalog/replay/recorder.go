package replay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// tester is the common part of *testing.T and *rapid.T.
type tester interface {
	Helper()
	Fatal(...any)
}

const (
	// firstMiddle is after how many effects the first checkpoint is taken; each
	// following one after twice as many, and takes the place of the one before.
	firstMiddle = 4
	// raiseEvery is how many effects at most the replicas apply together, and after how
	// many of such runs they look up when the next document is due, so that they depend on
	// the notes of later effects.
	raiseEvery = 4
	// maxBytes bounds the effects that are kept; a test that writes more is not proved.
	maxBytes = 256 << 20
)

// Recorder is the Committer of a catalog under proof.
type Recorder struct {
	t       tester
	engine  *storage.Engine
	catalog *catalog.Catalog
	storage storage.Options
	options catalog.Options
	empty   bool // the store was empty at the beginning

	order order // of the effects that are not applied yet

	mu      sync.Mutex // held while effects are applied
	effects [][]byte
	bytes   int
	middle  int // effects before the last checkpoint
	closed  bool
}

// Open opens a store and its catalog, whose effects it records. When the catalog is
// closed, all is proved; a difference fails the test. A benchmark proves nothing.
func Open(t tester, s storage.Options, o catalog.Options) (*storage.Engine, *catalog.Catalog) {
	t.Helper()
	return OpenAround(t, s, o, func(r *Recorder) catalog.Committer { return r })
}

// OpenAround is Open with a committer around the recorder, which closes that when it
// is closed.
func OpenAround(t tester, s storage.Options, o catalog.Options, around func(*Recorder) catalog.Committer) (*storage.Engine, *catalog.Catalog) {
	t.Helper()
	engine, err := storage.Open(s)
	if err != nil {
		t.Fatal(err)
	}
	if _, measures := t.(*testing.B); measures {
		c, err := catalog.Open(engine, o)
		if err != nil {
			t.Fatal(err)
		}
		return engine, c
	}
	r := &Recorder{t: t, engine: engine, storage: s, options: o, empty: true}
	r.order.at.Term = 1
	err = engine.EachKey(func(storage.Ident, []byte, []byte) error {
		r.empty = false
		return errStop
	})
	if err != nil && err != errStop {
		t.Fatal(err)
	}
	if !r.empty {
		if err := r.checkpoint("start"); err != nil {
			t.Fatal(err)
		}
	}
	o.Committer, o.Operations = around(r), true
	if r.catalog, err = catalog.Open(engine, o); err != nil {
		t.Fatal(err)
	}
	return engine, r.catalog
}

var errStop = errors.New("replay: stop")

// Writable is Committer's.
func (r *Recorder) Writable() error { return nil }

// Commit is Committer's. Effects are applied in the order in which they came, one at a
// time: so it is one in which they may be applied elsewhere.
func (r *Recorder) Commit(ctx context.Context, e *catalog.Effect, d storage.Durability) error {
	if e.Empty() {
		return e.Commit(ctx, d)
	}
	g, err := r.order.put(e)
	if err != nil {
		return err
	}
	if !r.order.isHeld() {
		r.apply(1 << 30)
	}
	if err := <-g.done; err != nil {
		return err
	}
	return r.engine.Wait(ctx, d)
}

// apply applies a number of the waiting effects.
func (r *Recorder) apply(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for ; n > 0; n-- {
		g := r.order.next()
		if g == nil {
			return
		}
		g.done <- r.take(g.effect, g.bytes)
	}
}

// take applies an effect and records its encoding. mu is held.
func (r *Recorder) take(e *catalog.Effect, b []byte) error {
	if err := e.Commit(context.Background(), storage.Buffered); err != nil {
		return err
	}
	if r.bytes += len(b); r.bytes > maxBytes {
		r.effects = nil
		return nil
	}
	r.effects = append(r.effects, b)
	if n := len(r.effects); n == max(firstMiddle, 2*r.middle) {
		if err := r.checkpoint("middle"); err != nil {
			return err
		}
		r.middle = n
	}
	return nil
}

// checkpoint copies the store, as it is now, to a place of its own.
func (r *Recorder) checkpoint(name string) error {
	dir := r.dir(name)
	removeAll := os.RemoveAll
	if r.storage.FS != nil {
		removeAll = r.storage.FS.RemoveAll
	}
	if err := removeAll(dir); err != nil {
		return err
	}
	return r.engine.Checkpoint(dir)
}

func (r *Recorder) dir(name string) string { return r.storage.Dir + ".replay." + name }

// Close proves what was recorded, while the catalog's engine is open, and no unit
// under way.
func (r *Recorder) Close() error {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || r.bytes > maxBytes {
		return nil
	}
	r.closed = true
	want, err := r.state(r.engine, r.catalog)
	if err != nil {
		return err
	}
	start := storage.Options{Dir: "replica", FS: storage.NewMemFS(), CacheBytes: 1 << 20, MemtableBytes: 1 << 20}
	if !r.empty {
		start.Dir, start.FS = r.dir("start"), r.storage.FS
	}
	err = r.prove("replica", start, 0, want, r.empty)
	if err == nil && r.middle > 0 {
		middle := storage.Options{Dir: r.dir("middle"), FS: r.storage.FS, CacheBytes: 1 << 20, MemtableBytes: 1 << 20}
		err = r.prove("replica from the middle", middle, r.middle, want, false)
	}
	if err != nil {
		r.t.Fatal(err) // not every caller of Close checks the error
	}
	return nil
}

// state is all keys that are replicated, and the live state.
func (r *Recorder) state(e *storage.Engine, c *catalog.Catalog) (s state, err error) {
	err = e.EachKey(func(id storage.Ident, key, value []byte) error {
		if !storage.OwnKey(id, key) {
			s.keys = append(s.keys, fmt.Appendf(nil, "%d %x = %x", id, key, value))
		}
		return nil
	})
	if err != nil {
		return s, err
	}
	s.live, err = c.LiveState()
	return s, err
}

type state struct {
	keys [][]byte
	live []string
}

// prove applies the effects from one on to a replica, whose state must then be the
// expected one; whole says that it has all effects since the beginning.
func (r *Recorder) prove(name string, o storage.Options, from int, want state, whole bool) error {
	r.t.Helper()
	engine, err := storage.Open(o)
	if err != nil {
		return err
	}
	defer engine.Close()
	c, err := catalog.Open(engine, catalog.Options{Committer: follower{}, Clock: r.options.Clock})
	if err != nil {
		return err
	}
	told, err := tell(engine, c)
	if err != nil {
		return err
	}
	for at, run := from, 1; at < len(r.effects); run++ {
		n, err := r.follow(c, at, run%raiseEvery+1, told)
		if err != nil {
			return fmt.Errorf("%s: effects from %d on: %w", name, at, err)
		}
		if run%raiseEvery == 0 {
			if _, err := r.follow(c, at, n, nil); err != nil { // again: nothing happens
				return err
			}
			if err := raiseWatermarks(engine, c); err != nil {
				return err
			}
		}
		at += n
	}
	if err := told.check(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	got, err := r.state(engine, c)
	if err != nil {
		return err
	}
	if d := difference(want, got, whole); d != "" {
		return fmt.Errorf("%s differs after %d effects from the %dth on:\n%s", name, len(r.effects)-from, from, d)
	}
	return c.Close()
}

// follow applies effects to a replica as one run of its log, at most so many, and returns
// how many: one with an operation that says what it does only in the state before it comes
// alone. t is nil where they were told already.
func (r *Recorder) follow(c *catalog.Catalog, from, most int, t *told) (n int, err error) {
	var run []catalog.Logged
	for alone := false; !alone && len(run) < most && from+len(run) < len(r.effects); {
		e, err := c.Decode(r.effects[from+len(run)])
		if err != nil {
			return 0, err
		}
		ops, _, err := e.Operations()
		if err != nil {
			return 0, err
		}
		if alone = slices.ContainsFunc(ops, func(o catalog.Operation) bool { return o.Kind > catalog.OpDelete && o.Kind != catalog.OpReplace }); alone && len(run) > 0 {
			break
		}
		if t != nil {
			if err := t.follow(ops); err != nil {
				return 0, err
			}
		}
		run = append(run, catalog.Logged{Effect: e, At: catalog.LogPosition{Index: uint64(from + len(run) + 1)}})
	}
	return len(run), c.ApplyAll(run)
}

// raiseWatermarks raises the expiry watermarks of collections that hide expired documents.
func raiseWatermarks(engine *storage.Engine, c *catalog.Catalog) error {
	for _, db := range c.Databases() {
		for _, coll := range c.Collections(db) {
			if coll.Hiding() == nil {
				continue
			}
			err := c.RaiseWatermark(coll, func(r *catalog.Rule) (int64, error) {
				it, err := engine.NewIter(coll.Ident, nil, nil)
				if err != nil {
					return 0, err
				}
				defer it.Close()
				due := int64(schema.Never)
				for ok := it.First(); ok; ok = it.Next() {
					v, err := it.Value()
					if err != nil {
						return 0, err
					}
					due = min(due, r.Due(v))
				}
				return due, it.Err()
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// difference describes the first differences of two states; "" for none. Only a whole
// replica has the complete background state.
func difference(want, got state, whole bool) string {
	var out strings.Builder
	n := 0
	line := func(sign string, s []byte) {
		if n++; n <= 20 {
			fmt.Fprintf(&out, "%s %.600s\n", sign, s)
		}
	}
	walk(want.keys, got.keys, line)
	of := func(s state) (lines [][]byte) {
		for _, l := range s.live {
			if whole || !strings.HasPrefix(l, "pace") {
				lines = append(lines, []byte(l))
			}
		}
		return lines
	}
	a, b := of(want), of(got)
	for i := range max(len(a), len(b)) {
		switch {
		case i >= len(a):
			line("+", b[i])
		case i >= len(b):
			line("-", a[i])
		case !bytes.Equal(a[i], b[i]):
			line("-", a[i])
			line("+", b[i])
		}
	}
	return out.String()
}

// walk reports lines that are in only one of two sorted lists.
func walk(want, got [][]byte, line func(sign string, s []byte)) {
	has := make(map[string]bool, len(want))
	for _, s := range want {
		has[string(s)] = true
	}
	for _, s := range got {
		if !has[string(s)] {
			line("+", s)
		}
		delete(has, string(s))
	}
	for _, s := range want {
		if has[string(s)] {
			line("-", s)
		}
	}
}
