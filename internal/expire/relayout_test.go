package expire

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
)

// relayoutDocuments is how many documents there are that last; as many as are asked for
// are due.
const relayoutDocuments = 3000

// relayUnderWay makes a world with a filled collection c that is being laid anew, with
// slow commits, and has it come to the middle. (Not in virtual time: see TestBrakes.)
func relayUnderWay(t *testing.T, due int) *world {
	t.Helper()
	w := newWorld(t)
	w.must(bson.MustParse(`{setParameter: 1, expiryWindows: true, $db: "admin"}`))
	at := time.Now().Add(-time.Hour)
	for from := 0; from < relayoutDocuments+due; from += 500 {
		var docs []string
		for i := from; i < from+500; i++ {
			if i == due {
				at = time.Now().Add(24 * time.Hour)
			}
			docs = append(docs, fmt.Sprintf(`{_id: %d, at: {"$date": {"$numberLong": "%d"}}}`, i, at.UnixMilli()+int64(i)))
		}
		w.must(bson.MustParse(`{insert: "c", documents: [` + strings.Join(docs, ",") + `]}`))
	}
	w.must(bson.MustParse(`{createIndexes: "c", indexes: [{key: {at: 1}, name: "at_1", expireAfterSeconds: 60}]}`))
	w.takes.Store(int64(slowCommit))
	w.m.relays.rest.Store(int64(20 * slowCommit))
	if due == 0 {
		w.m.relays.part = 4 << 10 // of some 100 documents; else all that is due goes with one
	}
	if err := w.m.pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.untilMoved(t, relayoutDocuments/5)
	return w
}

// untilMoved waits until relayouts have moved so many documents.
func (w *world) untilMoved(t *testing.T, n int64) {
	t.Helper()
	for begun := time.Now(); w.m.relays.docs.Load() < n; time.Sleep(slowCommit / 10) {
		if time.Since(begun) > 10*time.Second {
			t.Fatalf("%d documents have moved\n%s", w.m.relays.docs.Load(), w.log.take())
		}
	}
}

// untilRelaid waits for the end of the first relayout, which goes on at once where
// something has ended it before.
func (w *world) untilRelaid(t *testing.T) {
	t.Helper()
	w.takes.Store(0)
	w.m.relays.rest.Store(0)
	for begun := time.Now(); w.m.relays.runs.Load() == 0; time.Sleep(slowCommit) {
		if time.Since(begun) > 10*time.Second {
			t.Fatalf("relayout does not end\n%s", w.log.take())
		}
		w.m.relays.mu.Lock()
		clear(w.m.relays.after)
		w.m.relays.mu.Unlock()
		select {
		case w.m.relays.wake <- struct{}{}:
		default:
		}
	}
	if v := w.must(bson.MustParse(`{validate: "c", full: true}`)); !v.Lookup("valid").Bool() {
		t.Error(v)
	}
}

// relayLeft is how many documents of c have still to move.
func (w *world) relayLeft(t *testing.T) int64 {
	t.Helper()
	c := w.cat.Lookup(trialName)
	if c == nil {
		return 0
	}
	n, err := w.cat.RelayLeft(c)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestRelayoutBrakes holds invariant brake for relayout: after the reply of what
// switches it off, no document moves; and where it is switched on again, it goes on.
func TestRelayoutBrakes(t *testing.T) {
	for _, brake := range []struct{ off, on string }{
		{`{setParameter: 1, expiryRelayout: false, $db: "admin"}`, `{setParameter: 1, expiryRelayout: true, $db: "admin"}`},
		{`{setParameter: 1, expiryWindows: false, $db: "admin"}`, `{setParameter: 1, expiryWindows: true, $db: "admin"}`},
		{`{setParameter: 1, ttlMonitorEnabled: false, $db: "admin"}`, `{setParameter: 1, ttlMonitorEnabled: true, $db: "admin"}`},
		{`{setParameter: 1, ttlMonitorBatchDeletes: false, $db: "admin"}`, `{setParameter: 1, ttlMonitorBatchDeletes: true, $db: "admin"}`},
		{`{collMod: "c", storageEngine: {mayfly: {expiry: {relayout: "off"}}}}`, `{collMod: "c", storageEngine: {mayfly: {expiry: {relayout: null}}}}`},
		{`{fsync: 1, lock: true, $db: "admin"}`, `{fsyncUnlock: 1, $db: "admin"}`},
		{`{drop: "c"}`, ``},
		{`{dropDatabase: 1}`, ``},
	} {
		t.Run(brake.off, func(t *testing.T) {
			w := relayUnderWay(t, 0)
			defer w.close()
			w.must(bson.MustParse(brake.off))
			left := w.relayLeft(t)
			time.Sleep(20 * slowCommit)
			if more := left - w.relayLeft(t); more != 0 {
				t.Errorf("%d documents moved after the reply", more)
			}
			if brake.on == "" {
				return
			}
			if left == 0 {
				t.Error("all had moved before the brake")
			}
			if n := w.must(bson.MustParse(`{count: "c"}`)).Lookup("n").Int32(); n != relayoutDocuments {
				t.Errorf("%d documents", n)
			}
			w.must(bson.MustParse(brake.on))
			w.untilRelaid(t)
		})
	}
}

// TestRelayoutDropBrakes holds the same for what is due and goes with its part: it does
// not, but moves, where its rule may not act any more.
func TestRelayoutDropBrakes(t *testing.T) {
	const due = 1000
	for _, brake := range ofIndex("at_1") {
		if strings.HasPrefix(brake, `{drop:`) || strings.HasPrefix(brake, `{dropDatabase`) || strings.Contains(brake, "ttlMonitorEnabled") {
			continue
		}
		later := func(h int) string { return time.Now().UTC().Add(time.Duration(h) * time.Hour).Format("15:04") }
		brake = strings.NewReplacer("FROM", later(6), "TO", later(7)).Replace(brake)
		t.Run(brake, func(t *testing.T) {
			w := relayUnderWay(t, due)
			defer w.close()
			w.must(bson.MustParse(brake))
			if n := w.m.Stats.Deleted.Load(); n != 0 {
				t.Fatalf("%d were gone before the brake", n)
			}
			w.untilRelaid(t)
			if n := w.must(bson.MustParse(`{count: "c"}`)).Lookup("n").Int32(); n != relayoutDocuments+due {
				t.Errorf("%d documents of %d are left", n, relayoutDocuments+due)
			}
		})
	}
}

// TestRelayoutDrops is the same without a brake: what is due goes.
func TestRelayoutDrops(t *testing.T) {
	w := relayUnderWay(t, 1000)
	defer w.close()
	w.untilRelaid(t)
	if n := w.must(bson.MustParse(`{count: "c"}`)).Lookup("n").Int32(); n != relayoutDocuments {
		t.Errorf("%d documents are left", n)
	}
}

// TestRelayoutDisk holds how much of what has moved is not freed on disk at any time: where
// a reader keeps it, relayout waits for that, and then goes on.
func TestRelayoutDisk(t *testing.T) {
	const docs, size, part, unfreed = 10_000, 400, 64 << 10, 2 << 20
	w := newWorld(t)
	defer w.close()
	w.must(bson.MustParse(`{setParameter: 1, expiryWindows: true, $db: "admin"}`))
	v, pad := rand.NewChaCha8([32]byte{}), make([]byte, size)
	for from := 0; from < docs; from += 1000 {
		var b bson.Builder
		b.String("insert", "c").OpenArray("documents")
		for i := range 1000 {
			_, _ = v.Read(pad) // which does not fail
			b.OpenDoc(bson.Index(i)).Int("_id", int64(from+i)).Date("at", time.Now().Add(time.Hour).UnixMilli()).Binary("pad", 0, pad).Close()
		}
		w.must(b.Close().Finish())
	}
	w.must(bson.MustParse(`{createIndexes: "c", indexes: [{key: {at: 1}, name: "at_1", expireAfterSeconds: 60}]}`))
	if err := w.engine.Flush(); err != nil {
		t.Fatal(err)
	}
	used, err := w.engine.DiskUsage(w.cat.Lookup(trialName).Ident)
	if err != nil || used < docs*size {
		t.Fatalf("%d bytes, %v", used, err)
	}
	w.m.relays.part, w.m.relays.unfreed = part, unfreed
	reader := w.engine.NewSnapshot()
	if err := w.m.pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	message := func() string {
		for _, op := range w.must(bson.MustParse(`{currentOp: 1, "command.relayout": "c", $db: "admin"}`)).Lookup("inprog").Doc().Slice() {
			if msg := op.Doc().Lookup("msg"); !msg.IsMissing() { // it has none before its first step
				return msg.Str()
			}
		}
		return ""
	}
	for begun := time.Now(); !strings.HasPrefix(message(), "Relayout: waiting for disk space"); time.Sleep(slowCommit) {
		if time.Since(begun) > 20*time.Second {
			t.Fatalf("it does not wait: %q\n%s", message(), w.log.take())
		}
	}
	if moved := w.m.relays.docs.Load() * size; moved < unfreed/2 || moved > unfreed+unfreed/4 {
		t.Errorf("%d bytes have moved when it waits", moved)
	}
	if err := reader.Close(); err != nil {
		t.Fatal(err)
	}
	for begun := time.Now(); w.m.relays.runs.Load() == 0; time.Sleep(slowCommit) {
		if time.Since(begun) > 60*time.Second {
			t.Fatalf("it does not go on: %q", message())
		}
	}
	if n := w.m.relays.docs.Load(); n != docs {
		t.Errorf("%d documents have moved", n)
	}
}

// TestRelayoutKilled sees a relayout in currentOp, serverStatus and $expiryStats, and
// ends it by killOp: it moves nothing more, until it goes on.
func TestRelayoutKilled(t *testing.T) {
	w := relayUnderWay(t, 0)
	defer w.close()
	ops := w.must(bson.MustParse(`{currentOp: 1, "command.relayout": "c", $db: "admin"}`)).Lookup("inprog").Doc().Slice()
	if len(ops) != 1 {
		t.Fatal(ops)
	}
	op := ops[0].Doc()
	progress := op.Lookup("progress").Doc()
	if done, total := progress.Lookup("done").Int64(), progress.Lookup("total").Int64(); done < relayoutDocuments/5 || done >= total || total != relayoutDocuments {
		t.Error(op)
	}
	if op.Lookup("ns").Str() != "d.c" || op.Lookup("desc").Str() != client || !strings.HasPrefix(op.Lookup("msg").Str(), "Relayout: moving documents, ") {
		t.Error(op)
	}
	now := w.m.Relayouts()
	if !now.Lookup("running").Bool() || now.Lookup("ns").Str() != "d.c" || now.Lookup("documents").Int64() == 0 || now.Lookup("of").Int64() != relayoutDocuments {
		t.Error(now)
	}
	stats := w.must(bson.MustParse(`{aggregate: "c", pipeline: [{$expiryStats: {}}], cursor: {}}`)).Lookup("cursor").Doc().Lookup("firstBatch").Doc().Slice()[0].Doc()
	if stats.Lookup("relayout").Doc().Lookup("state").Str() != "running" {
		t.Error(stats)
	}
	w.must(new(bson.Builder).Int32("killOp", 1).Int32("op", op.Lookup("opid").Int32()).String("$db", "admin").Finish())
	for begun := time.Now(); w.m.Relayouts().Lookup("running").Bool(); time.Sleep(slowCommit) {
		if time.Since(begun) > 10*time.Second {
			t.Fatal("it is killed and goes on")
		}
	}
	left := w.relayLeft(t)
	if time.Sleep(10 * slowCommit); left == 0 || w.relayLeft(t) != left {
		t.Errorf("%d are left, %d were", w.relayLeft(t), left)
	}
	w.untilRelaid(t)
}
