package command

import (
	"sync/atomic"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
)

// Metrics count what the dispatcher has done since start. Everything is an
// atomic counter that only grows; readers may see them mid-operation.
type Metrics struct {
	// Opcounters. The dispatcher counts Query, GetMore and Command; Insert,
	// Update and Delete count documents and statements, so their handlers do.
	Insert, Query, Update, Delete, GetMore, Command atomic.Int64

	// Documents that the handlers deleted, inserted, returned and updated.
	DocsDeleted, DocsInserted, DocsReturned, DocsUpdated atomic.Int64
	// Index keys and documents that queries examined.
	KeysScanned, DocsScanned atomic.Int64
	// ScanAndOrder counts sorts without an index, WriteConflicts retried writes.
	ScanAndOrder, WriteConflicts atomic.Int64
	// CollectionScans counts plans that scan a whole collection.
	CollectionScans, TailableScans atomic.Int64

	// Retryable writes: retried commands, and statements whose result came from a record.
	RetriedCommands, RetriedStatements atomic.Int64

	// Unknown counts requests for commands that do not exist.
	Unknown atomic.Int64
	// Operations that ended because they were killed, their client disconnected, or
	// their time limit was exceeded.
	Killed, Disconnected, TimedOut atomic.Int64

	// Asserts by kind: Regular counts our own bugs, User the users' errors.
	AssertRegular, AssertUser atomic.Int64

	reads, writes, commands, transactions latency
	tail                                  tail // of reads and writes
}

type latency struct{ micros, ops atomic.Int64 }

func (l *latency) add(d time.Duration) {
	l.micros.Add(d.Microseconds())
	l.ops.Add(1)
}

// commandCounts are the counters of one command.
type commandCounts struct{ total, failed atomic.Int64 }

// begin counts an operation when it starts.
func (m *Metrics) begin(c *Command) {
	c.counts.total.Add(1)
	switch {
	case c.Kind == KindQuery:
		m.Query.Add(1)
	case c.Kind == KindGetMore:
		m.GetMore.Add(1)
	case c.Kind == KindCommand && c.Flags&Uncounted == 0:
		m.Command.Add(1)
	}
}

// end counts what an operation did.
func (m *Metrics) end(op *Op, took time.Duration) {
	s := &op.Stats
	add := func(c *atomic.Int64, n int64) {
		if n > 0 {
			c.Add(n)
		}
	}
	add(&m.DocsReturned, s.NReturned)
	add(&m.DocsInserted, s.NInserted+s.NUpserted)
	add(&m.DocsUpdated, s.NModified)
	add(&m.DocsDeleted, s.NDeleted)
	add(&m.KeysScanned, s.KeysExamined)
	add(&m.DocsScanned, s.DocsExamined)
	add(&m.WriteConflicts, s.WriteConflicts)
	if s.HasSortStage {
		m.ScanAndOrder.Add(1)
	}
	switch {
	case s.IsWrite || op.Command.Flags&Writes != 0:
		m.writes.add(took)
		m.tail.add(took)
	case s.IsQuery || op.Command.Kind == KindQuery || op.Command.Kind == KindGetMore:
		m.reads.add(took)
		m.tail.add(took)
	default:
		m.commands.add(took)
	}
}

// AppendOpcounters writes the section opcounters.
func (m *Metrics) AppendOpcounters(b *bson.Builder) {
	b.Int64("insert", m.Insert.Load()).Int64("query", m.Query.Load()).Int64("update", m.Update.Load()).
		Int64("delete", m.Delete.Load()).Int64("getmore", m.GetMore.Load()).Int64("command", m.Command.Load())
}

// AppendLatencies writes the section opLatencies.
func (m *Metrics) AppendLatencies(b *bson.Builder) {
	for _, l := range []struct {
		name string
		l    *latency
	}{{"reads", &m.reads}, {"writes", &m.writes}, {"commands", &m.commands}, {"transactions", &m.transactions}} {
		b.OpenDoc(l.name).Int64("latency", l.l.micros.Load()).Int64("ops", l.l.ops.Load())
		if l.name != "transactions" {
			b.Int64("queryableEncryptionLatencyMicros", 0)
		}
		b.Close()
	}
}

// AppendCommands writes metrics.commands: for each command how often it ran, and how
// often it failed. None is ever rejected, as there are no query settings.
func (m *Metrics) AppendCommands(b *bson.Builder, r *Registry) {
	b.Int64("<UNKNOWN>", m.Unknown.Load())
	for _, c := range r.All() {
		b.OpenDoc(c.Name).Int64("failed", c.counts.failed.Load()).Int64("rejected", 0).Int64("total", c.counts.total.Load())
		if c.Extra != nil {
			c.Extra(b)
		}
		b.Close()
	}
}

// AppendDocument writes metrics.document.
func (m *Metrics) AppendDocument(b *bson.Builder) {
	b.Int64("deleted", m.DocsDeleted.Load()).Int64("inserted", m.DocsInserted.Load()).
		Int64("returned", m.DocsReturned.Load()).Int64("updated", m.DocsUpdated.Load())
}

// AppendOperation writes metrics.operation.
func (m *Metrics) AppendOperation(b *bson.Builder) {
	b.Int64("killedDueToClientDisconnect", m.Disconnected.Load()).Int64("killedDueToMaxTimeMSExpired", m.TimedOut.Load()).
		Int64("scanAndOrder", m.ScanAndOrder.Load()).Int64("writeConflicts", m.WriteConflicts.Load())
}

// AppendQueryExecutor writes metrics.queryExecutor.
func (m *Metrics) AppendQueryExecutor(b *bson.Builder) {
	b.Int64("scanned", m.KeysScanned.Load()).Int64("scannedObjects", m.DocsScanned.Load())
	b.OpenDoc("collectionScans").Int64("nonTailable", m.CollectionScans.Load()).
		Int64("total", m.CollectionScans.Load()+m.TailableScans.Load()).Close()
}

// CountQueries counts reads of a batch in opcounters.query.
func (op *Op) CountQueries(n int64) { op.Dispatcher.Metrics.Query.Add(n) }

// CountInserts counts documents to insert in opcounters.insert.
func (op *Op) CountInserts(n int64) { op.Dispatcher.Metrics.Insert.Add(n) }

// CountUpdates counts update statements in opcounters.update.
func (op *Op) CountUpdates(n int64) { op.Dispatcher.Metrics.Update.Add(n) }

// CountDeletes counts delete statements in opcounters.delete.
func (op *Op) CountDeletes(n int64) { op.Dispatcher.Metrics.Delete.Add(n) }
