package command

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// counter is a Cursor over {n: 0}, {n: 1} … that knows whether it was closed.
type counter struct {
	next, end int
	size      int // of the padding of each document
	closed    int
	parked    int
	wake      chan int // with the new end
}

func (c *counter) Next(ctx context.Context) (bson.Doc, error) {
	if c.closed > 0 {
		panic("read after close")
	}
	if c.next >= c.end {
		return nil, ctx.Err()
	}
	c.next++
	return new(bson.Builder).Int32("n", int32(c.next-1)).String("pad", strings.Repeat("x", c.size)).Finish(), ctx.Err()
}

func (c *counter) Close()                       { c.closed++ }
func (c *counter) Park() error                  { c.parked++; return nil }
func (c *counter) Unpark(context.Context) error { c.parked--; return nil }
func (c *counter) Await(ctx context.Context) {
	select {
	case c.end = <-c.wake:
	case <-ctx.Done():
	}
}

// cursorServer answers open, with the spec that the test sets, and more.
func cursorServer(s *CursorSpec) *Dispatcher {
	d := NewDispatcher(quiet())
	d.Registry.Register(
		&Command{Name: "open", Kind: KindQuery, Fields: NewFields("open", Collection(), SafeInt64("batchSize").Min(0), SafeBool("single")),
			Run: func(ctx context.Context, op *Op) error {
				spec := *s
				spec.NS, spec.BatchSize = op.NS, op.Args.Int64Or("batchSize", DefaultBatch)
				spec.SingleBatch = op.Args.Bool("single")
				return WriteCursorReply(ctx, op, spec)
			}},
		&Command{Name: "more", Kind: KindGetMore, Fields: NewFields("more", Value(Int64("").Required()), String("c").Required(), SafeInt64("batchSize").Min(0)),
			Run: func(ctx context.Context, op *Op) error {
				_, id := op.Body.First()
				wait := int64(-1)
				if op.Generic.HasMaxTimeMS {
					wait = op.Generic.MaxTimeMS
				}
				return GetMore(ctx, op, id.Int64(), op.DB+"."+op.Args.Str("c"), op.Args.Int64Or("batchSize", DefaultBatch), wait)
			}},
	)
	return d
}

type batch struct {
	id   int64
	docs int
	code mongoerr.Code
}

func readBatch(reply bson.Doc) batch {
	c := reply.Lookup("cursor").Doc()
	b := batch{id: bson.ClampToInt64(c.Lookup("id")), code: code(reply)}
	for _, name := range []string{"firstBatch", "nextBatch"} {
		if v := c.Lookup(name); !v.IsMissing() {
			b.docs = v.Doc().Len()
		}
	}
	return b
}

func more(t *testing.T, d *Dispatcher, id int64, rest string) batch {
	t.Helper()
	return readBatch(run(t, d, &Client{}, fmt.Sprintf(`{"more":{"$numberLong":"%d"},"c":"c"%s}`, id, rest)))
}

func TestCursorBatches(t *testing.T) {
	var s CursorSpec
	d := cursorServer(&s)
	open := func(cur *counter, rest string) batch {
		s.Cursor = cur
		return readBatch(run(t, d, &Client{}, `{"open":"c"`+rest+`}`))
	}
	for _, c := range []struct {
		rest      string
		end, docs int
		kept      bool
	}{
		{"", 5, 5, false}, {"", 200, 101, true}, {`,"batchSize":0`, 5, 0, true}, {`,"batchSize":5`, 5, 5, true},
		{`,"batchSize":2,"single":true`, 5, 2, false},
	} {
		cur := &counter{end: c.end}
		b := open(cur, c.rest)
		if b.docs != c.docs || (b.id != 0) != c.kept || (cur.closed == 0) != c.kept || (cur.parked == 1) != c.kept {
			t.Errorf("%s: %+v, closed %d, parked %d", c.rest, b, cur.closed, cur.parked)
		}
	}
	cur := &counter{end: 5}
	b := open(cur, `,"batchSize":2`)
	if m := more(t, d, b.id, `,"batchSize":2`); m.docs != 2 || m.id != b.id {
		t.Errorf("second batch: %+v", m)
	}
	if m := more(t, d, b.id, ""); m.docs != 1 || m.id != 0 || cur.closed != 1 {
		t.Errorf("last batch: %+v, closed %d", m, cur.closed)
	}
	if m := more(t, d, b.id, ""); m.code != mongoerr.CursorNotFound {
		t.Errorf("after the end: %+v", m)
	}
}

func TestCursorBatchBytes(t *testing.T) {
	cur := &counter{end: 5, size: 5 << 20}
	d := cursorServer(&CursorSpec{Cursor: cur})
	b := readBatch(run(t, d, &Client{}, `{"open":"c"}`))
	m := more(t, d, b.id, "")
	if b.docs != 3 || m.docs != 2 || m.id != 0 || cur.closed != 1 {
		t.Errorf("%+v, then %+v", b, m)
	}
}

func TestCursorOwnership(t *testing.T) {
	s := CursorSpec{}
	d := cursorServer(&s)
	session := func(n int) string {
		return fmt.Sprintf(`,"lsid":{"id":{"$binary":{"base64":"AAAAAAAAAAAAAAAAAAAAA%c==","subType":"04"}}}`, "AQgw"[n])
	}
	open := func(rest string) batch {
		s.Cursor, s.Collections = &counter{end: 500}, []string{"held"}
		return readBatch(run(t, d, &Client{}, `{"open":"c"`+rest+`}`))
	}
	for _, c := range []struct {
		opened, asked string
		code          mongoerr.Code
	}{
		{"", "", 0}, {session(0), session(0), 0},
		{"", session(0), 50736}, {session(0), "", 50737}, {session(0), session(1), 50738},
		{"", `,"maxTimeMS":5`, mongoerr.BadValue},
	} {
		if m := more(t, d, open(c.opened).id, c.asked); m.code != c.code {
			t.Errorf("opened %q, asked %q: %d", c.opened, c.asked, m.code)
		}
	}
	id := open("").id
	other := readBatch(run(t, d, &Client{}, fmt.Sprintf(`{"more":{"$numberLong":"%d"},"c":"other"}`, id)))
	if other.code != mongoerr.Unauthorized {
		t.Errorf("another collection: %d", other.code)
	}
	d.Cursors.Invalidate("held", mongoerr.New(mongoerr.QueryPlanKilled, "collection dropped"))
	if m := more(t, d, id, ""); m.code != mongoerr.QueryPlanKilled {
		t.Errorf("after a drop: %d", m.code)
	}
	if m := more(t, d, id, ""); m.code != mongoerr.CursorNotFound {
		t.Errorf("after a drop was told: %d", m.code)
	}
	id = open("").id
	if !d.Cursors.Kill(id) || d.Cursors.Kill(id) {
		t.Error("a cursor is killed once")
	}
	id = open(session(2)).id
	se, _ := d.Sessions.Start(noUser)
	d.EndSession(se.ID)
	d.KillSessions(nil, func(s SessionID) bool { return s.ID != [16]byte{} })
	if m := more(t, d, id, session(2)); m.code != mongoerr.CursorNotFound {
		t.Errorf("after killSessions: %d", m.code)
	}
}

func TestCursorAwait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cur := &counter{end: 1, wake: make(chan int, 1)}
		d := cursorServer(&CursorSpec{Cursor: cur, Tailable: true, AwaitData: true})
		b := readBatch(run(t, d, &Client{}, `{"open":"c"}`))
		begun := time.Now()
		if m := more(t, d, b.id, `,"maxTimeMS":300`); m.docs != 0 || m.id != b.id || time.Since(begun) != 300*time.Millisecond {
			t.Errorf("%+v after %v", m, time.Since(begun))
		}
		begun = time.Now()
		time.AfterFunc(50*time.Millisecond, func() { cur.wake <- 3 })
		if m := more(t, d, b.id, ""); m.docs != 2 || time.Since(begun) != 50*time.Millisecond {
			t.Errorf("%+v after %v", m, time.Since(begun))
		}
		d.Cursors.CloseAll()
		if cur.closed != 1 {
			t.Errorf("closed %d times", cur.closed)
		}
	})
}

// A getMore is listed with the cursor that it reads, to who may see it, and nothing else is; what
// opened it is cut as every command.
func TestCurrentOpCursor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := cursorServer(&CursorSpec{Cursor: &counter{end: 2, wake: make(chan int, 1)}, Tailable: true, AwaitData: true})
		c, other := &Client{ConnectionID: 1}, &Client{ConnectionID: 2}
		for _, one := range []*Client{c, other} {
			d.Clients.Connect(one)
		}
		id := readBatch(run(t, d, c, `{"open":"c","comment":"`+strings.Repeat("x", maxShownCommand)+`"}`)).id
		shown := func(o CurrentOpOptions) []bson.Doc {
			var all []bson.Doc
			for _, op := range d.CurrentOps(o) {
				if v := op.Lookup("cursor"); !v.IsMissing() {
					all = append(all, v.Doc())
				}
			}
			return all
		}
		if all := shown(CurrentOpOptions{IdleConnections: true}); len(all) != 0 {
			t.Errorf("an idle cursor is one of an operation: %s", all)
		}
		done := make(chan bson.Doc)
		go func() { done <- run(t, d, c, fmt.Sprintf(`{"more":{"$numberLong":"%d"},"c":"c","maxTimeMS":300}`, id)) }()
		synctest.Wait()
		all := shown(CurrentOpOptions{IdleConnections: true, IdleCursors: true})
		if len(all) != 1 || all[0].Lookup("cursorId").Int64() != id || all[0].Lookup("nDocsReturned").Int64() != 2 || all[0].Lookup("originatingCommand").Doc().Lookup("open").Str() != "c" {
			t.Errorf("a getMore that waits shows the cursors %s", all)
		}
		if all := shown(CurrentOpOptions{Truncate: true}); len(all) != 1 || all[0].Lookup("originatingCommand").Doc().Lookup("$truncated").IsMissing() {
			t.Errorf("a listing that is cut shows the cursors %s", all)
		}
		if all := shown(CurrentOpOptions{OwnOps: true, For: &Op{Client: other}}); len(all) != 0 {
			t.Errorf("another client sees the cursors %s", all)
		}
		<-done
		if all := shown(CurrentOpOptions{}); len(all) != 0 {
			t.Errorf("when it has ended: %s", all)
		}
		d.Cursors.CloseAll()
	})
}

// rests is a counter that is not read before a moment.
type rests struct {
	counter
	until time.Time
}

func (r *rests) Rest() time.Time { return r.until }

// A cursor that rests is read when it has rested, or when the getMore may not wait any longer.
func TestCursorRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cur := &rests{counter: counter{wake: make(chan int, 1)}}
		d := cursorServer(&CursorSpec{Cursor: cur, Tailable: true, AwaitData: true})
		id := readBatch(run(t, d, &Client{}, `{"open":"c"}`)).id
		for _, c := range []struct {
			rest, took time.Duration
			more       string
			docs       int
		}{
			{-time.Second, 0, "", 1},
			{40 * time.Millisecond, 40 * time.Millisecond, "", 2},
			{40 * time.Millisecond, 30 * time.Millisecond, `,"maxTimeMS":30`, 2},
			{40 * time.Millisecond, 10 * time.Millisecond, `,"maxTimeMS":10`, 1},
			{40 * time.Millisecond, 0, `,"maxTimeMS":0`, 1},
		} {
			cur.end, cur.until = cur.next+1, time.Now().Add(c.rest) // one is there, and one comes
			begun, later := time.Now(), time.AfterFunc(20*time.Millisecond, func() { cur.end++ })
			if m := more(t, d, id, c.more); m.docs != c.docs || time.Since(begun) != c.took {
				t.Errorf("resting for %v%s: %+v after %v", c.rest, c.more, m, time.Since(begun))
			}
			later.Stop()
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Millisecond, func() { cancel(mongoerr.New(mongoerr.Interrupted, "killed")) })
		body := doc(t, fmt.Sprintf(`{"more":{"$numberLong":"%d"},"c":"c"}`, id))
		cur.until = time.Now().Add(time.Second)
		if m := readBatch(d.Dispatch(ctx, &Request{Client: &Client{}, DB: "test", Body: body}).Body); m.code != mongoerr.Interrupted {
			t.Errorf("killed while it rests: %+v", m)
		}
		d.Cursors.CloseAll()
	})
}

func TestHousekeeping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := CursorSpec{Cursor: &counter{end: 500}}
		d := cursorServer(&s)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { d.Housekeep(ctx); close(done) }()
		idle := readBatch(run(t, d, &Client{}, `{"open":"c"}`)).id
		s = CursorSpec{Cursor: &counter{end: 500}, NoTimeout: true}
		kept := readBatch(run(t, d, &Client{}, `{"open":"c"}`)).id
		const session = `,"lsid":{"id":{"$binary":{"base64":"AAAAAAAAAAAAAAAAAAAAAA==","subType":"04"}}}`
		s.Cursor = &counter{end: 500}
		owned := readBatch(run(t, d, &Client{}, `{"open":"c"`+session+`}`)).id
		time.Sleep(10*time.Minute + 5*time.Second)
		if m := more(t, d, idle, ""); m.code != mongoerr.CursorNotFound {
			t.Errorf("the idle cursor is there: %+v", m)
		}
		if m := more(t, d, kept, `,"batchSize":1`); m.id != kept {
			t.Errorf("the cursor without timeout is gone: %+v", m)
		}
		time.Sleep(SessionTimeout)
		if d.Sessions.Count() != 0 {
			t.Errorf("%d sessions are left", d.Sessions.Count())
		}
		if m := more(t, d, owned, session); m.code != mongoerr.CursorNotFound {
			t.Errorf("the session's cursor is there: %+v", m)
		}
		cancel()
		<-done
		d.Cursors.CloseAll()
	})
}

// slow is a Cursor whose Close takes until it is let go.
type slow struct {
	counter
	closes chan struct{}
	let    chan struct{}
}

func (c *slow) Close() { close(c.closes); <-c.let }

// TestSlowClose: while a cursor is closed, which on a router asks shards, others are read.
func TestSlowClose(t *testing.T) {
	var s CursorSpec
	d := cursorServer(&s)
	closing := &slow{counter{end: 5}, make(chan struct{}), make(chan struct{})}
	s.Cursor = closing
	first := readBatch(run(t, d, &Client{}, `{"open":"c","batchSize":1}`))
	s.Cursor = &counter{end: 5}
	other := readBatch(run(t, d, &Client{}, `{"open":"c","batchSize":1}`))
	killed := make(chan bool)
	go func() { killed <- d.Cursors.Kill(first.id) }()
	<-closing.closes
	if m := more(t, d, other.id, ""); m.docs != 4 {
		t.Errorf("%+v", m)
	}
	if m := more(t, d, first.id, ""); m.code != mongoerr.CursorNotFound {
		t.Errorf("the closed one: %+v", m)
	}
	close(closing.let)
	if !<-killed {
		t.Error("there was no cursor")
	}
}
