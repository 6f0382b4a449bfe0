package command

import (
	"context"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mayflydb/mayfly/internal/auth"
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/invariant"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/repl"
)

const (
	noLimit = math.MaxInt64
	// maxCursors bounds the table: each open cursor holds resources.
	maxCursors = 250_000
	// defaultAwait is how long a getMore waits for documents if not told.
	defaultAwait = time.Second
)

var (
	errNoAwait      = mongoerr.New(mongoerr.BadValue, "cannot set maxTimeMS on getMore command for a non-awaitData cursor")
	errCursorKilled = mongoerr.New(mongoerr.CursorKilled, "operation was interrupted because the cursor was killed")
)

// Cursors is the table of open cursors.
type Cursors struct {
	timeout   *IntParam
	frequency *IntParam
	mu        struct {
		sync.Mutex
		open    map[int64]*openCursor
		closing []*openCursor // that unlock closes
	}
	opened, timedOut, moreThanOneBatch atomic.Int64
	lifespans                          [len(lifespans) + 1]atomic.Int64
}

// NewCursors makes an empty table and registers its parameters.
func NewCursors(p *Params) *Cursors {
	cs := &Cursors{
		timeout:   p.Int(IntSpec{Name: "cursorTimeoutMillis", Default: 600_000, Long: true, Above: true}),
		frequency: p.Int(IntSpec{Name: "clientCursorMonitorFrequencySecs", Default: 4, Above: true}),
	}
	cs.mu.open = map[int64]*openCursor{}
	return cs
}

// openCursor is one entry of the table. Between batches it belongs to the table;
// while pinned is set, to that operation.
type openCursor struct {
	table       *Cursors
	id          int64
	spec        CursorSpec
	session     *SessionID
	txn         int64       // the number of the transaction in which it was opened; -1 for none
	owner       [32]byte    // the digest of the user who opened it
	needs       []auth.Need // of the opening command, and of a getMore
	api         API
	created     time.Time
	command     bson.Doc // that opened it
	planSummary string
	stash       bson.Doc // read, but too large for the previous batch
	budget      time.Duration
	keys, read  int64 // examined by earlier operations
	kept        bool
	// state is the snapshot at a cluster time that the query reads, else nil.
	state *repl.StateAt

	// Guarded by table.mu.
	pinned        *Op
	lastUse       time.Time
	failure       error // why it was killed
	closed        bool
	docs, batches int64
}

// newOpenCursor makes the cursor of an operation. Few cursors outlive their operation,
// so it is a value; Cursors.keep makes an entry of it.
func newOpenCursor(op *Op, s CursorSpec) openCursor {
	c := openCursor{table: op.Dispatcher.Cursors, spec: s, created: op.Start, owner: op.Client.Owner(), needs: op.Needs, api: op.Generic.API, txn: op.transactionNumber()}
	if op.Session != nil {
		c.session = &op.Session.ID
	}
	c.state, op.State = op.State, nil
	op.Stats.IsQuery = true
	return c
}

// closeQuery closes the query, and then its snapshot.
func (c *openCursor) closeQuery() {
	c.spec.Cursor.Close()
	if c.state != nil {
		c.state.Close()
	}
}

// closeUnlessKept closes the query unless finishBatch has put it back.
func (c *openCursor) closeUnlessKept() {
	if c.kept {
		return
	}
	c.closeQuery()
	if c.id != 0 {
		c.table.remove(c)
	}
}

// batch writes up to limit documents, and reports whether the query is at its end.
func (c *openCursor) batch(ctx context.Context, op *Op, name string, limit int64) (done bool, err error) {
	op.Reply.OpenArray(name)
	defer op.Reply.Close()
	defer c.account(op)
	var n int64
	size := 0
	for n < limit {
		d := c.stash
		c.stash = nil
		if d == nil {
			if d, err = c.spec.Cursor.Next(ctx); err != nil {
				return false, err
			}
		}
		if d == nil {
			done = !c.spec.Tailable
			break
		}
		index := bson.Index(int(n))
		element := len(d) + len(index) + 2
		if n > 0 && size+element > maxBatchBytes {
			c.stash = d.Clone()
			break
		}
		if err := op.GrowReply(size + element); err != nil {
			if n == 0 {
				return false, err
			}
			c.stash = d.Clone()
			break
		}
		op.Reply.Doc(index, d)
		size += element
		n++
	}
	if f, ok := c.spec.Cursor.(Finite); ok && n == limit && n > 0 && c.stash == nil && f.Exhausted() {
		done = !c.spec.Tailable
	}
	if e, ok := c.spec.Cursor.(Invalidated); ok && c.stash == nil && e.Invalidated() {
		done = true
	}
	op.Stats.NReturned += n
	return done, nil
}

// account adds what the query has read since the last call.
func (c *openCursor) account(op *Op) {
	if e, ok := c.spec.Cursor.(Examiner); ok {
		keys, read := e.Examined()
		op.Stats.KeysExamined += keys - c.keys
		op.Stats.DocsExamined += read - c.read
		c.keys, c.read = keys, read
	}
	if s, ok := c.spec.Cursor.(Sorting); ok {
		op.Stats.HasSortStage, op.Stats.UsedDisk = s.Sorts()
	}
}

// finishBatch ends the document "cursor" and keeps the cursor for getMore.
func (c *openCursor) finishBatch(op *Op, done bool) error {
	var id int64
	if !done {
		if p, ok := c.spec.Cursor.(Parked); ok {
			if err := p.Park(); err != nil {
				return err
			}
		}
		c.spend(op)
	}
	if t, ok := c.spec.Cursor.(Resumable); ok { // while this operation owns it
		t.AppendToken(op.Reply, c.stash != nil)
	}
	if !done {
		var err error
		if id, err = c.table.keep(c, op); err != nil {
			return err
		}
	}
	op.Stats.CursorID, op.Stats.CursorExhausted = id, done
	op.Reply.Int64("id", id).String("ns", c.spec.NS)
	if c.state != nil {
		op.Reply.Timestamp("atClusterTime", uint64(c.state.Time))
	}
	if c.spec.Vars != nil {
		c.spec.Vars(op.Reply)
	}
	op.Reply.Close()
	return nil
}

// limit gives the getMore the rest of the opening command's time limit. A getMore that
// awaits documents has a time limit of its own.
func (c *openCursor) limit(ctx context.Context, op *Op) (context.Context, context.CancelFunc) {
	if c.budget <= 0 || c.spec.AwaitData {
		return ctx, func() {}
	}
	op.Deadline = op.Start.Add(c.budget)
	return context.WithDeadlineCause(ctx, op.Deadline, errMaxTime)
}

// spend records how much of the time limit is left after op.
func (c *openCursor) spend(op *Op) {
	if !op.Deadline.IsZero() {
		c.budget = max(time.Until(op.Deadline), 1)
	}
}

// awaits is how long a getMore waits for documents; maxTimeMS is −1 where the client gave none.
func awaits(maxTimeMS int64) time.Duration {
	if maxTimeMS < 0 {
		return defaultAwait
	}
	return time.Duration(maxTimeMS) * time.Millisecond
}

// rest waits before a getMore reads, so that more comes together. Errors: the interruption of
// ctx.
func (c *openCursor) rest(ctx context.Context, op *Op, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	from := time.Now()
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
	op.awaited += time.Since(from)
	return interruption(ctx)
}

// await waits, parked, until the query may have new documents; false if the time to
// wait is over.
func (c *openCursor) await(ctx context.Context, op *Op, began time.Time, maxTimeMS int64) (bool, error) {
	a, ok := c.spec.Cursor.(Awaiter)
	if p, paced := c.spec.Cursor.(Paced); paced && p.Passed() {
		return false, nil
	}
	left := awaits(maxTimeMS) - time.Since(began)
	if !ok || left <= 0 || ctx.Err() != nil {
		return false, interruption(ctx)
	}
	parked, _ := c.spec.Cursor.(Parked)
	if parked != nil {
		if err := parked.Park(); err != nil {
			return false, err
		}
	}
	waiting, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	from := time.Now()
	a.Await(waiting)
	op.awaited += time.Since(from)
	if err := interruption(ctx); err != nil {
		return false, err
	}
	if parked != nil {
		if err := parked.Unpark(ctx); err != nil {
			return false, err
		}
	}
	return waiting.Err() == nil, nil
}

// keep puts the cursor into the table, or back, and returns its id. In the table it has
// memory of its own.
func (cs *Cursors) keep(c *openCursor, op *Op) (int64, error) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if c.failure != nil {
		return 0, c.failure
	}
	if c.id == 0 {
		if len(cs.mu.open) >= maxCursors {
			return 0, mongoerr.New(mongoerr.ExceededMemoryLimit, "too many open cursors: %d", len(cs.mu.open))
		}
		for c.id == 0 || cs.mu.open[c.id] != nil {
			c.id = rand.Int64N(math.MaxInt64) + 1
		}
		cs.opened.Add(1)
		c.command, c.planSummary = op.ShownCommand().Clone(), op.PlanSummary()
		c.spec.NS = strings.Clone(c.spec.NS)
		c.back(op)
		entry := *c
		cs.mu.open[c.id] = &entry
		return c.id, nil
	}
	if c.batches == 1 {
		cs.moreThanOneBatch.Add(1)
	}
	c.back(op)
	return c.id, nil
}

// back counts op's batch, after which the table owns the cursor.
func (c *openCursor) back(op *Op) {
	c.docs += op.Stats.NReturned
	c.batches++
	c.pinned, c.lastUse, c.kept = nil, time.Now(), true
}

// pin takes the cursor out for one getMore.
func (cs *Cursors) pin(op *Op, id int64, ns string) (*openCursor, error) {
	cs.mu.Lock()
	defer cs.unlock()
	c := cs.mu.open[id]
	if c == nil {
		return nil, mongoerr.New(mongoerr.CursorNotFound, "cursor id %d not found", id)
	}
	if err := c.usableBy(op, ns); err != nil {
		return nil, err
	}
	if c.failure != nil {
		err := c.failure
		cs.drop(c)
		return nil, err
	}
	c.pinned, c.kept = op, false
	return c, nil
}

func (c *openCursor) usableBy(op *Op, ns string) error {
	if c.pinned != nil {
		return mongoerr.New(mongoerr.CursorInUse, "cursor id %d is already in use", c.id)
	}
	switch {
	case c.owner != op.Client.Owner():
		return mongoerr.New(mongoerr.Unauthorized, "cursor id %d was not created by the authenticated user", c.id)
	case len(c.needs) > 0 && !op.Client.mayAll(c.needs):
		return mongoerr.New(mongoerr.Unauthorized, "not authorized for getMore with cursor id %d", c.id)
	case c.session == nil && op.Session != nil:
		return mongoerr.New(mongoerr.Code(50736), "Cannot run getMore on cursor %d, which was not created in a session, in session %s",
			c.id, op.Session.ID)
	case c.session != nil && op.Session == nil:
		return mongoerr.New(mongoerr.Code(50737), "Cannot run getMore on cursor %d, which was created in session %s, without an lsid",
			c.id, c.session)
	case c.session != nil && *c.session != op.Session.ID:
		return mongoerr.New(mongoerr.Code(50738), "Cannot run getMore on cursor %d, which was created in session %s, in session %s",
			c.id, c.session, op.Session.ID)
	case c.txn < 0 && op.InTransaction():
		return mongoerr.New(mongoerr.Code(50739), "Cannot run getMore on cursor %d, which was not created in a transaction, in transaction %d", c.id, op.Generic.TxnNumber)
	case c.txn >= 0 && !op.InTransaction():
		return mongoerr.New(mongoerr.Code(50740), "Cannot run getMore on cursor %d, which was created in transaction %d, without a txnNumber", c.id, c.txn)
	case c.txn != op.transactionNumber():
		return mongoerr.New(mongoerr.Code(50741), "Cannot run getMore on cursor %d, which was created in transaction %d, in transaction %d", c.id, c.txn, op.Generic.TxnNumber)
	case ns != c.spec.NS:
		return mongoerr.New(mongoerr.Unauthorized, "Requested getMore on namespace '%s', but cursor belongs to a different namespace %s",
			ns, c.spec.NS)
	}
	return nil
}

// unpin puts a cursor back that was not used.
func (cs *Cursors) unpin(c *openCursor) {
	cs.mu.Lock()
	defer cs.unlock()
	c.pinned, c.kept = nil, true
	if c.failure != nil {
		cs.drop(c)
	}
}

// remove takes a pinned cursor, which its operation has closed, out of the table.
func (cs *Cursors) remove(c *openCursor) {
	cs.mu.Lock()
	defer cs.unlock()
	c.closed = true
	cs.drop(c)
}

// drop takes a cursor out; unlock closes it. REQUIRES: cs.mu held, no operation uses c.
func (cs *Cursors) drop(c *openCursor) {
	invariant.Held(&cs.mu, "command: the lock of the cursors is held")
	if cs.mu.open[c.id] != c {
		return
	}
	delete(cs.mu.open, c.id)
	cs.lifespans[lifespan(time.Since(c.created))].Add(1)
	cs.close(c)
}

// close has unlock close a cursor that no operation uses.
func (cs *Cursors) close(c *openCursor) {
	if !c.closed {
		c.closed = true
		cs.mu.closing = append(cs.mu.closing, c)
	}
}

// unlock unlocks, and then closes what is to be closed: a router asks shards to, which may take
// long, and all operations with cursors need the lock.
func (cs *Cursors) unlock() {
	closing := cs.mu.closing
	cs.mu.closing = nil
	cs.mu.Unlock()
	for _, c := range closing {
		c.closeQuery()
	}
}

// Kill closes a cursor, ending the operation that uses it, and reports whether
// there was one.
func (cs *Cursors) Kill(id int64) bool {
	cs.mu.Lock()
	defer cs.unlock()
	c := cs.mu.open[id]
	if c == nil || c.failure == errCursorKilled {
		return false
	}
	cs.kill(c)
	return true
}

// Until tells the cursor of a stream up to which time a router waits to know; see Paced. It
// reports whether there is such a cursor.
func (cs *Cursors) Until(id int64, t uint64) bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	c := cs.mu.open[id]
	if c == nil || c.closed {
		return false
	}
	p, ok := c.spec.Cursor.(Paced)
	if ok {
		p.Until(t)
	}
	return ok
}

// OfOthers returns the namespaces of the cursors with these ids that do not belong to
// owner.
func (cs *Cursors) OfOthers(ids []bson.Value, owner [32]byte) []string {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	var spaces []string
	for _, id := range ids {
		if c := cs.mu.open[bson.ClampToInt64(id)]; c != nil && c.owner != owner {
			spaces = append(spaces, c.spec.NS)
		}
	}
	return spaces
}

// kill ends a cursor. REQUIRES: cs.mu held.
func (cs *Cursors) kill(c *openCursor) {
	invariant.Held(&cs.mu, "command: the lock of the cursors is held")
	if c.pinned == nil {
		cs.drop(c)
		return
	}
	c.failure = errCursorKilled
	c.pinned.kill(errCursorKilled)
}

// KillTransaction kills the cursors of a session's transaction.
func (cs *Cursors) KillTransaction(s SessionID, txn int64) {
	cs.mu.Lock()
	defer cs.unlock()
	for _, c := range cs.mu.open {
		if c.txn == txn && c.session != nil && *c.session == s {
			cs.kill(c)
		}
	}
}

// killSessions kills the cursors of the sessions that match, and counts them.
func (cs *Cursors) killSessions(match func(SessionID) bool) int {
	cs.mu.Lock()
	defer cs.unlock()
	n := 0
	for _, c := range cs.mu.open {
		if c.session != nil && match(*c.session) {
			cs.kill(c)
			n++
		}
	}
	return n
}

// Invalidate makes every cursor that holds the state of a collection (see
// CursorSpec.Collections) fail with err at its next getMore, or at once where one is
// running: the collection was dropped or renamed. What it holds is released now.
func (cs *Cursors) Invalidate(collection string, err error) {
	cs.mu.Lock()
	defer cs.unlock()
	for _, c := range cs.mu.open {
		if c.failure != nil || !slices.Contains(c.spec.Collections, collection) {
			continue
		}
		c.failure = err
		if c.pinned != nil {
			c.pinned.kill(err)
			continue
		}
		cs.close(c)
	}
}

// CloseAll closes every cursor, for the end of the server: no operation runs any
// more.
func (cs *Cursors) CloseAll() {
	cs.mu.Lock()
	defer cs.unlock()
	for _, c := range cs.mu.open {
		cs.drop(c)
	}
}

// reap closes the cursors that were idle for the timeout, and counts them.
func (cs *Cursors) reap(now time.Time) int {
	before := now.Add(-time.Duration(cs.timeout.Load()) * time.Millisecond)
	cs.mu.Lock()
	defer cs.unlock()
	n := 0
	for _, c := range cs.mu.open {
		if c.pinned == nil && !c.spec.NoTimeout && c.lastUse.Before(before) {
			cs.drop(c)
			n++
		}
	}
	cs.timedOut.Add(int64(n))
	return n
}

// sessionSweep is the interval of checks for idle sessions.
const sessionSweep = time.Minute

// Housekeep closes idle cursors and ends idle sessions until ctx ends. The
// server runs it on a separate goroutine and waits for it.
func (d *Dispatcher) Housekeep(ctx context.Context) {
	swept := time.Now()
	for {
		wait := time.NewTimer(time.Duration(d.Cursors.frequency.Load()) * time.Second)
		select {
		case <-ctx.Done():
			wait.Stop()
			return
		case now := <-wait.C:
			if n := d.Cursors.reap(now); n > 0 {
				d.Log.LogAttrs(ctx, slog.LevelInfo, "Cursors timed out", slog.String("c", "QUERY"),
					slog.Int("id", logCursorReap), slog.Int("count", n))
			}
			if now.Sub(swept) >= sessionSweep {
				swept = now
				d.reapSessions(now)
				d.forgetSessions(ctx, now)
			}
		}
	}
}

var lifespans = [...]struct {
	name  string
	below time.Duration
}{
	{"lessThan1Second", time.Second}, {"lessThan5Seconds", 5 * time.Second}, {"lessThan15Seconds", 15 * time.Second},
	{"lessThan30Seconds", 30 * time.Second}, {"lessThan1Minute", time.Minute}, {"lessThan10Minutes", 10 * time.Minute},
}

func lifespan(d time.Duration) int {
	for i, l := range lifespans {
		if d < l.below {
			return i
		}
	}
	return len(lifespans)
}

// AppendMetrics writes the document "cursor" of serverStatus's metrics.
func (cs *Cursors) AppendMetrics(b *bson.Builder) {
	var noTimeout, pinned, total int64
	cs.mu.Lock()
	for _, c := range cs.mu.open {
		total++
		if c.spec.NoTimeout {
			noTimeout++
		}
		if c.pinned != nil {
			pinned++
		}
	}
	cs.mu.Unlock()
	b.OpenDoc("lifespan").Int64("greaterThanOrEqual10Minutes", cs.lifespans[len(lifespans)].Load())
	for _, i := range []int{5, 2, 4, 0, 3, 1} {
		b.Int64(lifespans[i].name, cs.lifespans[i].Load())
	}
	b.Close()
	b.Int64("moreThanOneBatch", cs.moreThanOneBatch.Load()).Int64("timedOut", cs.timedOut.Load()).
		Int64("totalOpened", cs.opened.Load())
	b.OpenDoc("open").Int64("noTimeout", noTimeout).Int64("pinned", pinned).Int64("total", total).Close()
}
