package command

import (
	"sync/atomic"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
)

// shownTransaction is what currentOp shows of an open transaction. Any goroutine may read
// it.
type shownTransaction struct {
	number      int64
	readConcern bson.Doc // of the first statement; nil for none
	readTime    uint64   // of its state, where its read concern is snapshot, else 0
	begun       time.Time
	life        time.Duration
	active      atomic.Int64 // nanoseconds, of the statements that have ended
	since       atomic.Int64 // when the running statement began, in nanoseconds after begun; -1 for none
	client      atomic.Pointer[Client]
	// preparedAt is when it was prepared, since begun in nanoseconds and 1 at the least; 0 if it
	// is not.
	preparedAt atomic.Int64
}

// prepared notes that the transaction is prepared.
func (t *shownTransaction) prepared() { t.preparedAt.Store(max(time.Since(t.begun).Nanoseconds(), 1)) }

// newShown returns what is shown of the transaction that op begins.
func newShown(op *Op, life time.Duration) *shownTransaction {
	t := &shownTransaction{number: op.Generic.TxnNumber, begun: time.Now(), life: life}
	t.since.Store(-1)
	if v := op.Generic.ReadConcern; v.Type == bson.TypeDocument {
		t.readConcern = v.Doc().Clone()
	}
	switch at := op.ReadConcern.AtClusterTime; {
	case at != 0:
		t.readTime = at
	case op.ReadConcern.Level == "snapshot":
		t.readTime = uint64(op.Dispatcher.Member.Applied().Time)
	}
	return t
}

// enter notes that a statement of a client begins, leave that it ends.
func (t *shownTransaction) enter(c *Client) {
	t.client.Store(c)
	t.since.Store(time.Since(t.begun).Nanoseconds())
}

func (t *shownTransaction) leave() {
	t.active.Add(time.Since(t.begun).Nanoseconds() - t.since.Swap(-1))
}

// append writes the document "transaction".
func (t *shownTransaction) append(b *bson.Builder, now time.Time) {
	open, active := now.Sub(t.begun), time.Duration(t.active.Load())
	if since := t.since.Load(); since >= 0 {
		active += open - time.Duration(since)
	}
	active = min(max(active, 0), open)
	b.OpenDoc("transaction").OpenDoc("parameters").Int64("txnNumber", t.number).Bool("autocommit", false)
	if t.readConcern != nil {
		b.Doc("readConcern", t.readConcern)
	}
	b.Close().Timestamp("readTimestamp", t.readTime)
	b.String("startWallClockTime", t.begun.Format(currentOpTime)).Int64("timeOpenMicros", open.Microseconds())
	b.Int64("timeActiveMicros", active.Microseconds()).Int64("timeInactiveMicros", (open - active).Microseconds())
	if at := t.preparedAt.Load(); at > 0 { // no limit of time ends it
		b.Int64("timePreparedMicros", max(open-time.Duration(at), 0).Microseconds()).Close()
		return
	}
	b.String("expiryTime", t.begun.Add(t.life).Format(currentOpTime)).Close()
}

// idleSessions lists the sessions with a transaction of which no statement runs.
func (d *Dispatcher) idleSessions(o CurrentOpOptions, now time.Time) []bson.Doc {
	var docs []bson.Doc
	for _, se := range d.Sessions.All() {
		t := se.shown.Load()
		if t == nil || t.since.Load() >= 0 || o.OwnOps && o.For != nil && se.ID.UID != o.For.Client.Owner() {
			continue
		}
		b := new(bson.Builder).String("type", "idleSession").String("host", d.Host).String("desc", "inactive transaction")
		if c := t.client.Load(); c != nil {
			b.String("client", c.Remote).Int64("connectionId", c.ConnectionID)
			if m := c.Metadata(); m != nil {
				b.String("appName", m.AppName).Doc("clientMetadata", m.Document)
			}
		}
		b.Doc("lsid", se.ID.Document())
		t.append(b, now)
		b.Bool("waitingForLock", false).Bool("active", false).OpenDoc("locks").Close().OpenDoc("lockStats").Close()
		docs = append(docs, b.Finish())
	}
	return docs
}
