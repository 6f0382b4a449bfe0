package catalog

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog/retryable"
	"github.com/mayflydb/mayfly/internal/invariant"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/storage"
)

// Newest caches a session's newest transaction number. It is read again where another
// member may have written since. One operation of the session uses it at a time; the
// zero Newest is empty.
type Newest struct {
	known   bool
	at      Evaluation // the evaluation in which it was read
	txn     int64      // the newest that was begun; -1 for none
	stored  int64      // the one that has records; -1 for none
	records uint32     // the number of the next one of stored
	// noted is the count of records by transactions when it was read; lone says that there are
	// some of the session.
	noted int64
	lone  bool
}

// loneRecords is the first number of records that transactions have stored for a statement of
// another session: the statement's number is added. It needs to know nothing of that session's
// other records. The numbers of all others are below.
const loneRecords = 1 << 31

// Txn returns the current newest transaction number, -1 for none.
func (n *Newest) Txn(c *Catalog, s retryable.Session) (int64, error) {
	at, noted := c.evaluate(), c.lone.Load()
	if n.known && n.at == at && n.noted == noted {
		return n.txn, nil
	}
	begun := int64(-1)
	if n.known && n.at == at {
		begun = n.txn
	}
	*n = Newest{at: at, txn: -1, stored: -1, noted: noted}
	err := c.eachRecord(s, func(number uint32, r *retryable.Record) error {
		if n.stored = max(n.stored, r.Txn); number < loneRecords {
			n.records = number + 1
		} else {
			n.lone = true
		}
		return nil
	})
	n.txn, n.known = max(n.stored, begun), err == nil
	return n.txn, err
}

// Stored reports whether the session has records of a transaction number, as of the last Txn.
func (n *Newest) Stored(txn int64) bool { return n.stored == txn }

// eachRecord calls f with a session's records, in their order.
func (c *Catalog) eachRecord(s retryable.Session, f func(number uint32, r *retryable.Record) error) error {
	return c.recordsIn(retryable.AppendKey(nil, s, 0), retryable.AppendKey(nil, s, math.MaxUint32),
		func(_ retryable.Session, number uint32, r *retryable.Record) error { return f(number, r) })
}

// eachSession calls f with the records of all sessions, each one's in their order.
func (c *Catalog) eachSession(f func(s retryable.Session, number uint32, r *retryable.Record) error) error {
	return c.recordsIn(nil, nil, f)
}

// recordsIn calls f with the records between two keys, nil for no bound. The arguments
// of f are valid during the call.
func (c *Catalog) recordsIn(from, to []byte, f func(s retryable.Session, number uint32, r *retryable.Record) error) (err error) {
	it, err := c.engine.NewIter(storage.IdentSessions, from, to)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for ok := it.First(); ok; ok = it.Next() {
		v, err := it.Value()
		if err != nil {
			return err
		}
		session, number, err := retryable.ParseKey(it.Key())
		if err != nil {
			return err
		}
		r, err := retryable.Parse(v)
		if err != nil {
			return err
		}
		if err := f(session, number, &r); err != nil {
			return err
		}
	}
	return nil
}

// Execution is an operation whose statements a session has numbered, so that one
// that is sent again is executed only once (invariant once). It records what they
// do in the same units. One goroutine uses it, and ends it with End.
type Execution struct {
	c       *Catalog
	newest  *Newest
	session retryable.Session
	txn     int64
	at      Evaluation // of all its units: the records are valid for no other
	done    []done     // by earlier attempts, in the order of statements
	pending []retryable.Run
	now     int32 // the statement that is executed, -1 for none that has a number
	noted   int64 // the count of records by transactions when done was read
	failed  bool  // a unit has not been committed, or its outcome is not known
}

// done is a run that is stored: its document is in the record of that number.
type done struct {
	retryable.Run
	record uint32
}

// BeginExecution begins the operation txn of a session, or another attempt at it.
// REQUIRES: n.Txn has just shown that txn is not too old, and n is not shared.
func (c *Catalog) BeginExecution(n *Newest, s retryable.Session, txn int64) (*Execution, error) {
	if err := invariant.Require(n.known && txn >= n.txn, "catalog: an execution begins with a transaction number that is not too old"); err != nil {
		return nil, err
	}
	x := &Execution{c: c, newest: n, session: s, txn: txn, at: n.at, now: -1, noted: n.noted}
	n.txn = txn
	if n.stored != txn {
		return x, nil
	}
	return x, x.readDone()
}

// readDone reads what earlier attempts have done.
func (x *Execution) readDone() error {
	x.done = x.done[:0]
	err := x.c.eachRecord(x.session, func(number uint32, r *retryable.Record) error {
		if r.Txn != x.txn {
			return nil
		}
		for _, run := range r.Runs {
			run.Doc = nil // read again when it is needed
			x.done = append(x.done, done{run, number})
		}
		return nil
	})
	slices.SortFunc(x.done, func(a, b done) int { return int(a.First) - int(b.First) })
	return err
}

// Overtaken reports whether a transaction has executed a statement since the operation began:
// an earlier attempt has moved its document to another shard. Then the answer is the record's.
// Errors: those of the disk.
func (x *Execution) Overtaken(statement int32) (bool, error) {
	noted := x.c.lone.Load()
	if noted == x.noted {
		return false, nil
	}
	if err := x.readDone(); err != nil {
		return false, err
	}
	x.noted = noted
	_, ok, err := x.Executed(statement)
	return ok, err
}

// checkOvertaken is Overtaken for the statements that are about to be committed. Errors: 13388,
// so that the router asks again, and is answered from the record.
func (x *Execution) checkOvertaken() error {
	for _, run := range x.pending {
		if run.Kind.OfTransaction() {
			return nil
		}
		for i := range run.Count {
			if yes, err := x.Overtaken(run.First + i); err != nil {
				return err
			} else if yes {
				return ErrOvertaken
			}
		}
	}
	return nil
}

// ErrOvertaken says that an earlier attempt has executed a statement in the meantime: whoever
// asks again gets its answer.
var ErrOvertaken error = mongoerr.New(mongoerr.StaleConfig, "the statement was executed by an earlier attempt, which has moved its document to another shard; ask again")

// Executed returns what an earlier attempt did for a statement, or false where
// none has executed it.
func (x *Execution) Executed(statement int32) (run retryable.Run, ok bool, err error) {
	i, found := slices.BinarySearchFunc(x.done, statement, func(d done, s int32) int { return int(d.First) - int(s) })
	if !found {
		i--
	}
	if i < 0 || !x.done[i].Has(statement) {
		return run, false, nil
	}
	run = x.done[i].Run
	if run.Kind < retryable.Upserted {
		return run, true, nil
	}
	v, closer, err := x.c.engine.Get(storage.IdentSessions, retryable.AppendKey(nil, x.session, x.done[i].record))
	if err != nil {
		return run, false, err
	}
	defer closer.Close()
	r, err := retryable.Parse(v)
	if err != nil {
		return run, false, err
	}
	for _, stored := range r.Runs {
		if stored.First == run.First {
			run.Doc = stored.Doc.Clone()
		}
	}
	if run.Doc == nil {
		return run, false, fmt.Errorf("%w: a session's record lacks statement %d", storage.ErrCorruption, statement)
	}
	return run, true, nil
}

// Execute sets the statement to which the next writes belong.
func (x *Execution) Execute(statement int32) { x.now = max(statement, -1) }

// Write runs write on a unit of the operation, whose operations are recorded as those
// of the statement.
func (x *Execution) Write(u *Unit, write func(*Unit) error) error {
	u.SetStatement(x.now)
	return write(u)
}

// Did records what a statement has done to a document in the unit that is
// committed next. Statements below 0 have no number.
func (x *Execution) Did(kind retryable.Kind, statement int32, doc bson.Doc) {
	if statement >= 0 {
		x.pending = retryable.AppendRun(x.pending, kind, statement, doc)
	}
}

// Commit is u.Commit for a unit of the operation, with the record of what it did.
// Writes to this member alone have none: no other member could answer for them.
func (x *Execution) Commit(ctx context.Context, u *Unit, d storage.Durability) error {
	if err := x.checkOvertaken(); err != nil {
		x.pending = x.pending[:0]
		return err
	}
	if !u.e.own {
		u.e.at = x.at
		if u.e.ops.on {
			u.SetSession(Session{x.session.Document(), x.txn})
		}
		x.record(u.e)
	}
	noted := u.e.executed != nil
	x.pending = x.pending[:0]
	err := u.Commit(ctx, d)
	x.failed = x.failed || err != nil
	if noted && err == nil {
		x.c.noted.Add(1)
	}
	return err
}

// SessionWrites counts the records of sessions' statements written on this member.
func (c *Catalog) SessionWrites() int64 { return c.noted.Load() }

// record adds the pending record to an effect.
func (x *Execution) record(e *Effect) {
	if len(x.pending) == 0 {
		return
	}
	n := x.newest
	note := &executedNote{about: about{id: storage.IdentSessions}, session: x.session}
	if n.stored == x.txn {
		note.number = n.records
	} else {
		note.clears = n.records > 1 || n.lone
		n.stored, n.records, n.lone = x.txn, 0, false
	}
	n.records++
	r := retryable.Record{Txn: x.txn, Date: time.Now().UnixMilli(), Runs: x.pending}
	note.body = r.AppendBody(nil)
	e.note(note)
	e.executed = note
}

// forgetBatch is how many sessions ForgetSessions forgets in one unit: operations of
// those it has reserved must wait.
const forgetBatch = 256

// ForgetSessions removes the records of sessions that have executed nothing since a
// date, in milliseconds, and returns how many sessions. reserve reserves a session,
// which nobody may use until release is called; a nil release says that it may not be
// forgotten. Errors: those of commits, the cause of ctx's end.
func (c *Catalog) ForgetSessions(ctx context.Context, before int64, reserve func(retryable.Session) (release func())) (n int, err error) {
	var from []byte
	for {
		idle, next, err := c.idleSessions(from, before)
		if err != nil {
			return n, err
		}
		gone, err := c.forgetSessions(ctx, idle, before, reserve)
		n += gone
		if err != nil || next == nil {
			return n, err
		}
		from = next
		if ctx.Err() != nil {
			return n, context.Cause(ctx)
		}
	}
}

// idleSessions finds a batch of idle sessions from a key on, and where to continue: nil at
// the end.
func (c *Catalog) idleSessions(from []byte, before int64) (idle []retryable.Session, next []byte, err error) {
	var last retryable.Session
	err = c.recordsIn(from, nil, func(s retryable.Session, number uint32, r *retryable.Record) error {
		if len(idle) == forgetBatch {
			next = retryable.AppendKey(nil, s, 0)
			return errEnough
		}
		if s != last && r.Date < before {
			idle = append(idle, s)
		}
		last = s
		return nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return idle, next, err
}

var errEnough = errors.New("enough")

// Executed is a record of what a session has executed, as it is stored.
type Executed struct {
	Session retryable.Session
	Record  retryable.Record // with documents of its own
}

// ExecutedSince lists at most limit records of what sessions have executed since a date, in
// milliseconds, in the order of their keys: those behind the key after, nil for all. It
// returns the key of the last one that it has examined, nil at the end.
func (c *Catalog) ExecutedSince(after []byte, date int64, limit int) (all []Executed, last []byte, err error) {
	from := after
	if from != nil {
		from = append(slices.Clone(after), 0)
	}
	err = c.recordsIn(from, nil, func(s retryable.Session, number uint32, r *retryable.Record) error {
		if len(all) == limit {
			return errEnough
		}
		last = retryable.AppendKey(last[:0], s, number)
		if r.Date < date || r.Transaction() != 0 {
			return nil
		}
		mine := *r
		mine.Runs = slices.Clone(r.Runs)
		for i := range mine.Runs {
			mine.Runs[i].Doc = mine.Runs[i].Doc.Clone()
		}
		all = append(all, Executed{s, mine})
		return nil
	})
	if errors.Is(err, errEnough) {
		return all, last, nil
	}
	return all, nil, err
}

// Adopt records what a session has executed elsewhere, as far as that is of its newest
// transaction number here, or of a newer one, so that no statement of it is executed again.
// Nobody else uses n, which is the session's.
func (c *Catalog) Adopt(ctx context.Context, n *Newest, s retryable.Session, r *retryable.Record) error {
	newest, err := n.Txn(c, s)
	if err != nil || r.Txn < newest || r.Transaction() != 0 { // what became of a transaction is a shard's own
		return err
	}
	x, err := c.BeginExecution(n, s, r.Txn)
	if err != nil {
		return err
	}
	defer x.End()
	for _, run := range r.Runs {
		for i := range run.Count {
			if _, known, err := x.Executed(run.First + i); err != nil {
				return err
			} else if !known {
				x.Did(run.Kind, run.First+i, run.Doc)
			}
		}
	}
	if len(x.pending) == 0 {
		return nil
	}
	return x.Commit(ctx, c.Begin(), storage.Buffered)
}

// forgetSessions forgets sessions in one unit, if they are still idle.
func (c *Catalog) forgetSessions(ctx context.Context, idle []retryable.Session, before int64, reserve func(retryable.Session) (release func())) (n int, err error) {
	u := c.Begin()
	defer u.Abort()
	for _, s := range idle {
		release := reserve(s)
		if release == nil {
			continue
		}
		defer release()
		var newest int64
		var last uint32
		err := c.eachRecord(s, func(number uint32, r *retryable.Record) error {
			if newest, last = max(newest, r.Date), number; r.Transaction() == retryable.Prepared {
				newest = math.MaxInt64 // its decision may come at any time
			}
			return nil
		})
		first := retryable.AppendKey(nil, s, 0)
		switch {
		case err != nil:
		case newest >= before:
			continue
		case last == 0: // the usual case, for which no range is needed
			err = u.u.Delete(storage.IdentSessions, first, -1)
		default:
			err = u.u.DeleteRange(storage.IdentSessions, first, retryable.AppendKey(nil, s, math.MaxUint32))
		}
		if err != nil {
			return 0, err
		}
		n++
	}
	if n == 0 {
		return 0, nil
	}
	return n, u.Commit(ctx, storage.Buffered)
}

// executedNote says that a session has executed statements. Its record is stored with
// the unit's position in the log, which is known when the unit is applied.
type executedNote struct {
	about
	session retryable.Session
	number  uint32
	clears  bool // the records after number are of an older transaction number, and are removed
	body    []byte
}

func (n *executedNote) kind() noteKind { return noteExecuted }
func (n *executedNote) joins() bool    { return true }
func (n *executedNote) apply(c *Catalog) error {
	if n.number >= loneRecords {
		c.lone.Add(1)
	}
	return nil
}

func (n *executedNote) append(dst []byte) []byte {
	dst = append(append(dst, n.session.ID[:]...), n.session.UID[:]...)
	clears := byte(0)
	if n.clears {
		clears = 1
	}
	return append(append(binary.AppendUvarint(dst, uint64(n.number)), clears), n.body...)
}

// read reads from r what append has written.
func (n *executedNote) read(r *storage.EncodingReader) {
	copy(n.session.ID[:], r.Bytes(uint64(len(n.session.ID))))
	copy(n.session.UID[:], r.Bytes(uint64(len(n.session.UID))))
	number, clears := r.Uvarint(), r.Bytes(1)
	n.body = r.Bytes(uint64(len(r.Rest)))
	if r.Bad || number >= math.MaxUint32 || clears[0] > 1 || !retryable.ValidBody(n.body) {
		r.Bad = true
		return
	}
	n.number, n.clears = uint32(number), clears[0] == 1
}

// write puts the record into the batch of the unit.
func (n *executedNote) write(u *storage.Unit, at LogPosition) error {
	var room [2 * retryable.SessionLen]byte
	key := retryable.AppendKey(room[:0], n.session, n.number)
	if err := u.Set(storage.IdentSessions, key, retryable.AppendValue(make([]byte, 0, 32+len(n.body)), at.Term, at.Time, n.body)); err != nil || !n.clears {
		return err
	}
	return u.DeleteRange(storage.IdentSessions, retryable.AppendKey(nil, n.session, n.number+1), retryable.AppendKey(nil, n.session, math.MaxUint32))
}

// Drop discards what statements did in a unit that was given up.
func (x *Execution) Drop() { x.pending = x.pending[:0] }

// End ends the operation.
func (x *Execution) End() {
	if x.failed {
		*x.newest = Newest{}
	}
}
