package command

import (
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
)

// Top counts time and operations by collection, for the command top. The zero
// value is empty.
type Top struct {
	collections sync.Map // namespace → *usage
	count       atomic.Int64
}

// maxTop bounds the collections in Top, so that the reply fits into a message.
const maxTop = 20_000

// usage has the counters of one collection.
type usage struct {
	readLock, writeLock, queries, getMore latency
	insert, update, remove, commands      latency
	// Durations of reads, writes and other operations, over all commands.
	readTimes, writeTimes, commandTimes histogram
	// scans and tailableScans count plans that read the whole collection.
	scans, tailableScans atomic.Int64
}

// record counts an operation that has ended.
func (t *Top) record(op *Op, took time.Duration) {
	if op.Gone || strings.HasPrefix(op.Collection, "$cmd") || !ValidCollectionName(op.Collection) {
		return
	}
	u := t.of(op.NS)
	write := op.Command.Flags&Writes != 0
	if write {
		u.writeLock.add(took)
	} else {
		u.readLock.add(took)
	}
	switch op.Command.Kind {
	case KindQuery:
		u.queries.add(took)
		u.readTimes.add(took)
	case KindGetMore:
		u.getMore.add(took)
		u.readTimes.add(took)
	case KindInsert:
		u.insert.add(took)
		u.writeTimes.add(took)
	case KindUpdate:
		u.update.add(took)
		u.writeTimes.add(took)
	case KindRemove:
		u.remove.add(took)
		u.writeTimes.add(took)
	default: // aggregate, count, findAndModify: commands that read or write
		u.commands.add(took)
		switch {
		case op.Stats.IsWrite || write:
			u.writeTimes.add(took)
		case op.Stats.IsQuery:
			u.readTimes.add(took)
		default:
			u.commandTimes.add(took)
		}
	}
}

// Scanned counts a plan that scans the whole of a collection.
func (t *Top) Scanned(ns string, tailable bool) {
	if u := t.of(ns); tailable {
		u.tailableScans.Add(1)
	} else {
		u.scans.Add(1)
	}
}

// Scans returns how often a collection was scanned as a whole, by tailable cursors and
// by others.
func (t *Top) Scans(ns string) (tailable, others int64) {
	if v, ok := t.collections.Load(ns); ok {
		u := v.(*usage)
		return u.tailableScans.Load(), u.scans.Load()
	}
	return 0, 0
}

func (t *Top) of(ns string) *usage {
	if u, ok := t.collections.Load(ns); ok {
		return u.(*usage)
	}
	if t.count.Load() >= maxTop {
		t.makeRoom()
	}
	u, known := t.collections.LoadOrStore(strings.Clone(ns), &usage{})
	if !known {
		t.count.Add(1)
	}
	return u.(*usage)
}

// makeRoom removes arbitrary collections; their counters restart from 0. When there are
// so many, most are names that were read once and do not exist.
func (t *Top) makeRoom() {
	room := maxTop / 16
	t.collections.Range(func(ns, _ any) bool {
		t.Forget(ns.(string))
		room--
		return room > 0
	})
}

// Forget drops what is known about a collection that no longer exists.
func (t *Top) Forget(ns string) {
	if _, ok := t.collections.LoadAndDelete(ns); ok {
		t.count.Add(-1)
	}
}

// Append writes the fields of top's "totals", in order of the names.
func (t *Top) Append(b *bson.Builder) {
	var names []string
	t.collections.Range(func(ns, _ any) bool { names = append(names, ns.(string)); return true })
	sort.Strings(names)
	for _, ns := range names {
		v, ok := t.collections.Load(ns)
		if !ok {
			continue
		}
		v.(*usage).append(b, ns)
	}
}

func (u *usage) append(b *bson.Builder, ns string) {
	b.OpenDoc(ns)
	write := func(name string, time, count int64) {
		b.OpenDoc(name).Int64("time", time).Int64("count", count).Close()
	}
	write("total", u.readLock.micros.Load()+u.writeLock.micros.Load(), u.readLock.ops.Load()+u.writeLock.ops.Load())
	for _, l := range []struct {
		name string
		l    *latency
	}{
		{"readLock", &u.readLock}, {"writeLock", &u.writeLock}, {"queries", &u.queries}, {"getmore", &u.getMore},
		{"insert", &u.insert}, {"update", &u.update}, {"remove", &u.remove}, {"commands", &u.commands},
	} {
		write(l.name, l.l.micros.Load(), l.l.ops.Load())
	}
	b.Close()
}

// AppendLatency writes the document latencyStats of $collStats for a collection: reads,
// writes, commands and transactions, with the distribution of their times where
// histograms are asked for.
func (t *Top) AppendLatency(b *bson.Builder, ns string, histograms bool) {
	u := &usage{}
	if v, ok := t.collections.Load(ns); ok {
		u = v.(*usage)
	}
	write := func(name string, h *histogram) {
		b.OpenDoc(name)
		if histograms {
			h.append(b)
		}
		b.Int64("latency", h.total.micros.Load()).Int64("ops", h.total.ops.Load()).Int64("queryableEncryptionLatencyMicros", 0).Close()
	}
	write("reads", &u.readTimes)
	write("writes", &u.writeTimes)
	write("commands", &u.commandTimes)
	write("transactions", &histogram{})
}

// CountScan counts a plan that scans the whole of a collection, for the server and for
// the collection.
func (d *Dispatcher) CountScan(ns string, tailable bool) {
	if tailable {
		d.Metrics.TailableScans.Add(1)
	} else {
		d.Metrics.CollectionScans.Add(1)
	}
	d.Top.Scanned(ns, tailable)
}
