package catalog

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog/measurements"
	"github.com/mayflydb/mayfly/internal/catalog/retryable"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
	"github.com/mayflydb/mayfly/internal/timeseries"
)

// logging is a Committer that keeps what it commits, and the live state after each.
type logging struct {
	t       *testing.T
	c       *Catalog
	effects [][]byte
	states  [][]string
	fail    error // what Commit returns instead
}

func (l *logging) Writable() error { return nil }

func (l *logging) Commit(ctx context.Context, e *Effect, d storage.Durability) error {
	if l.fail != nil {
		return l.fail
	}
	b := e.AppendEncoded(nil)
	if err := e.Commit(ctx, d); err != nil {
		return err
	}
	l.effects, l.states = append(l.effects, b), append(l.states, liveState(l.t, l.c))
	return nil
}

func liveState(t *testing.T, c *Catalog) []string {
	t.Helper()
	lines, err := c.LiveState()
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

// openLogging opens a catalog over an empty store.
func openLogging(t *testing.T, k Committer) *Catalog {
	t.Helper()
	e, err := storage.Open(storage.Options{Dir: "db", FS: storage.NewMemFS(), CacheBytes: 1 << 20, MemtableBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	c, err := Open(e, Options{Committer: k})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// readings are measurements of a source, at some seconds.
func readings(t *testing.T, coll *Collection, source string, seconds ...int64) (ms []timeseries.Measurement) {
	t.Helper()
	for _, s := range seconds {
		m, err := timeseries.NewMeasurement(new(bson.Builder).Date("t", s*1000).String("s", source).Finish(), coll.Settings.Timeseries)
		if err != nil {
			t.Fatal(err)
		}
		ms = append(ms, m)
	}
	return ms
}

// step is something that a catalog does.
type step struct {
	name string
	do   func(t *testing.T, c *Catalog) error
}

// eachNote are steps after which each kind of note has been made.
func eachNote() []step {
	of := func(name string) schema.Namespace { return schema.Namespace{DB: "d", Coll: name} }
	create := func(name, options string) step {
		return step{"create " + name, func(t *testing.T, c *Catalog) error {
			_, err := c.Create(t.Context(), of(name), parse(t, options))
			return err
		}}
	}
	index := func(name, spec string) step {
		return step{"index of " + name, func(t *testing.T, c *Catalog) error {
			_, _, err := c.CreateIndexes(t.Context(), of(name), specs(t, of(name), spec))
			return err
		}}
	}
	insert := func(name, doc string) step {
		return step{"insert into " + name, func(t *testing.T, c *Catalog) error { return write(c, c.Lookup(of(name)), nil, parse(t, doc)) }}
	}
	series := func(name string, f func(t *testing.T, c *Catalog, coll *Collection) error) step {
		return step{name, func(t *testing.T, c *Catalog) error { return f(t, c, c.Lookup(of("series"))) }}
	}
	// Each of the documents is inserted in a unit of its own.
	execute := func(name string, session byte, txn int64, more func(x *Execution), ids ...int32) step {
		return step{name, func(t *testing.T, c *Catalog) error {
			s := retryable.Session{ID: [16]byte{session}}
			var n Newest
			if _, err := n.Txn(c, s); err != nil {
				return err
			}
			x, err := c.BeginExecution(&n, s, txn)
			if err != nil {
				return err
			}
			defer x.End()
			for i, id := range ids {
				u := c.Begin()
				x.Execute(int32(i))
				err := x.Write(u, func(u *Unit) error {
					return u.Insert(t.Context(), c.Lookup(of("plain")), new(bson.Builder).Int32("_id", 100*int32(txn)+id).Finish())
				})
				if err != nil {
					return err
				}
				if more != nil {
					more(x)
				} else {
					x.Did(retryable.Inserted, int32(i), nil)
				}
				if err := x.Commit(t.Context(), u, storage.Buffered); err != nil {
					return err
				}
			}
			return nil
		}}
	}
	measure := func(source string, seconds ...int64) step {
		return series("measure "+source, func(t *testing.T, c *Catalog, coll *Collection) error {
			return c.Run(t.Context(), storage.Buffered, func(u *Unit) error {
				return u.InsertMeasurements(t.Context(), coll, readings(t, coll, source, seconds...))
			})
		})
	}
	return []step{
		create("plain", `{}`),
		index("plain", `{"key": {"a": 1}, "name": "a"}`),
		insert("plain", `{"_id": 1, "a": [1, 2]}`),
		create("hiding", `{"storageEngine": {"mayfly": {"expiry": {"visibility": "immediate"}}}}`),
		index("hiding", `{"key": {"at": 1}, "name": "at", "expireAfterSeconds": 10}`),
		insert("hiding", `{"_id": 1, "at": {"$date": "2099-01-01T00:00:00Z"}}`),
		insert("hiding", `{"_id": 2, "at": {"$date": "2098-01-01T00:00:00Z"}}`),
		create("windowed", `{}`),
		index("windowed", `{"key": {"at": 1}, "name": "at", "expireAfterSeconds": 10}`),
		index("windowed", `{"key": {"b": 1}, "name": "b"}`),
		insert("windowed", `{"_id": 1, "at": {"$date": "2001-01-01T00:00:00Z"}}`),
		insert("windowed", `{"_id": 2, "at": {"$date": "2002-01-01T00:00:00Z"}}`),
		insert("windowed", `{"_id": 3, "at": {"$date": "2003-01-01T00:00:00Z"}}`),
		{"touch", func(t *testing.T, c *Catalog) error {
			return c.Run(t.Context(), storage.Buffered, func(u *Unit) error {
				record, old, err := u.LockID(t.Context(), c.Lookup(of("windowed")), bson.Int32(3))
				if err != nil {
					return err
				}
				return u.Update(t.Context(), c.Lookup(of("windowed")), record, old, parse(t, `{"_id": 3, "at": {"$date": "2098-01-01T00:00:00Z"}}`))
			})
		}},
		{"drop windows", func(t *testing.T, c *Catalog) error {
			coll := c.Lookup(of("windowed"))
			_, err := c.DropWindows(t.Context(), coll, Drop{Rule: coll.Rules()[0], Now: time.Date(2001, 6, 1, 0, 0, 0, 0, time.UTC).UnixMilli()})
			return err
		}},
		{"sweep", func(t *testing.T, c *Catalog) error {
			_, err := c.Sweep(t.Context(), c.Lookup(of("windowed")), func(time.Duration) error { return nil })
			return err
		}},
		{"forget windows", func(t *testing.T, c *Catalog) error {
			coll := c.Lookup(of("windowed"))
			coll.live.gate.Lock()
			defer coll.live.gate.Unlock()
			return c.forgetWindows(t.Context(), coll, Evaluation{}, LowWater{}.UpTo(1, LowWater{}), LowWater{}.UpTo(2, LowWater{}))
		}},
		create("capped", `{"capped": true, "size": 4096, "max": 2}`),
		insert("capped", `{"_id": 1}`), insert("capped", `{"_id": 2}`), insert("capped", `{"_id": 3}`),
		create("series", `{"timeseries": {"timeField": "t", "metaField": "s"}}`),
		measure("a", 1, 2, 3), measure("b", 2),
		series("freeze", func(t *testing.T, c *Catalog, coll *Collection) error {
			return coll.live.measurements.Freeze(t.Context(), c.runIn(coll))
		}),
		measure("a", 4, 5),
		series("move", func(t *testing.T, c *Catalog, coll *Collection) error { return c.FlushStaged(t.Context(), coll) }),
		series("edit", func(t *testing.T, c *Catalog, coll *Collection) error {
			return c.EditOpen(t.Context(), coll, coll.OpenSources()[0].Key, storage.Buffered, nil, func(ms []timeseries.Measurement) ([]timeseries.Measurement, error) {
				return append(readings(t, coll, "c", 7), ms[1:]...), nil
			})
		}),
		series("seal", func(t *testing.T, c *Catalog, coll *Collection) error { return c.SealAll(t.Context(), coll) }),
		{"number", func(t *testing.T, c *Catalog) error {
			coll := c.Lookup(of("plain"))
			first := coll.Numbering().Take(2)
			defer coll.Numbering().Done(first)
			return c.Run(t.Context(), storage.Buffered, func(u *Unit) error {
				u.Numbered(coll, first, 2)
				return u.Insert(t.Context(), coll, parse(t, `{"_id": 7}`))
			})
		}},
		execute("insert one", 1, 1, nil, 1),
		execute("insert many", 1, 2, nil, 2, 3, 4),
		execute("insert more", 1, 3, func(x *Execution) { x.Did(retryable.Upserted, 0, bson.MustParse(`{"_id": 5}`)) }, 5),
		{"prepare", func(t *testing.T, c *Catalog) error {
			tr := transact(t, c, 9)
			if !tr.Enter() {
				t.Fatal("the transaction is over")
			}
			defer tr.Leave()
			if err := tr.Draft().Insert(t.Context(), c.Lookup(of("plain")), parse(t, `{"_id": 50}`)); err != nil {
				return err
			}
			_, err := tr.Prepare(t.Context(), "s0", nil)
			return err
		}},
		{"decide", func(t *testing.T, c *Catalog) error {
			tr := c.Prepared(retryable.Session{ID: [16]byte{9}})
			if tr == nil || !tr.Enter() {
				t.Fatal("nothing is prepared")
			}
			defer tr.Leave()
			return tr.Decide(t.Context(), new(Newest), 7, nil)
		}},
		{"rename", func(t *testing.T, c *Catalog) error {
			_, err := c.Rename(t.Context(), of("plain"), of("capped"), true)
			return err
		}},
		{"drop database", func(t *testing.T, c *Catalog) error { _, err := c.DropDatabase(t.Context(), "d"); return err }},
	}
}

// TestEffectsSayAll applies effects on another member, with one kind of note left
// out: then that one is not what the first one is, at some time.
func TestEffectsSayAll(t *testing.T) {
	l := &logging{t: t}
	l.c = openLogging(t, l)
	for _, s := range eachNote() {
		if err := s.do(t, l.c); err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
	}
	seen := map[noteKind]bool{0: true} // 0 is no kind
	for _, b := range l.effects {
		e, err := l.c.Decode(b)
		if err != nil {
			t.Fatal(err)
		}
		seen[noteDue] = seen[noteDue] || len(e.dues) > 0
		for _, n := range e.notes {
			seen[n.kind()] = true
		}
		e.u.Abort()
	}
	for kind := noteKind(0); kind < noteKinds; kind++ {
		if !seen[kind] {
			t.Errorf("no effect has a note of kind %d", kind)
		}
		found := l.replay(t, kind)
		if kind == 0 && found != "" {
			t.Fatal(found)
		}
		if kind > 0 && found == "" {
			t.Errorf("nobody sees that notes of kind %d are left out", kind)
		}
		t.Logf("without %d: %.200s", kind, found)
	}
}

// replay applies the effects on another member, without the notes of a kind, and
// says where that differs first.
func (l *logging) replay(t *testing.T, without noteKind) string {
	c := openLogging(t, refusing{errors.New("no primary")})
	if _, err := c.Create(t.Context(), schema.Namespace{DB: "d", Coll: "system.profile"}, nil); err != nil {
		t.Fatal(err)
	}
	for i, b := range l.effects {
		e, err := c.Decode(b)
		if err != nil {
			t.Fatal(err)
		}
		e.notes = slices.DeleteFunc(e.notes, func(n note) bool { return n.kind() == without })
		if without == noteDue {
			e.dues = nil
		}
		if without == noteExecuted {
			e.executed = nil
		}
		if err := e.Apply(LogPosition{Index: uint64(i + 1)}); err != nil {
			return fmt.Sprintf("effect %d: %v", i, err)
		}
		for at, line := range liveState(t, c) {
			if at >= len(l.states[i]) || line != l.states[i][at] {
				return fmt.Sprintf("effect %d: %s", i, line)
			}
		}
		for _, coll := range c.Collections("d") {
			// What is known of when the next document is due depends on notes from now on.
			if err := c.RaiseWatermark(coll, func(r *Rule) (int64, error) { return leastDue(t, c, r, coll), nil }); err != nil {
				t.Fatal(err)
			}
		}
	}
	if left := c.Collections("d"); len(left) > 0 {
		return fmt.Sprintf("%s is left", left[0].Namespace)
	}
	return ""
}

func leastDue(t *testing.T, c *Catalog, r *Rule, coll *Collection) int64 {
	due := int64(schema.Never)
	_, docs := records(t, c.engine, coll)
	for _, d := range docs {
		due = min(due, r.Due(d))
	}
	return due
}

// TestRefusedEffects: an effect whose proposal fails leaves no trace.
func TestRefusedEffects(t *testing.T) {
	l := &logging{t: t}
	l.c = openLogging(t, l)
	dropped := mongoerr.New(mongoerr.NotWritablePrimary, "proposal dropped")
	for _, s := range eachNote() {
		before := liveState(t, l.c)
		l.fail = dropped
		if err := s.do(t, l.c); !errors.Is(err, dropped) {
			t.Fatalf("%s: %v", s.name, err)
		}
		if after := liveState(t, l.c); !slices.Equal(before, after) {
			t.Errorf("%s, refused: the state was\n%s\nand is\n%s", s.name, strings.Join(before, "\n"), strings.Join(after, "\n"))
		}
		l.fail = nil
		if err := s.do(t, l.c); err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
	}
}

// everyNote is an effect with a note of each kind, and some operations.
func everyNote(c *Catalog) *Effect {
	e := &Effect{c: c, u: c.engine.Begin()}
	a := about{id: 300}
	e.dues = []dueNote{{a, -5}}
	for _, n := range []note{
		&descriptorNote{about: a}, &droppedNote{about: a}, &multikeyNote{about: a, index: 17, paths: schema.MultikeyPaths{1, 1 << 40}},
		&windowsNote{a, -1}, &staleNote{a, 1 << 63}, &forgottenNote{a}, &cappedNote{a, 0, 7}, &tableNote{a, &measurements.Staged{Number: 9}}, &tableNote{a, &measurements.Frozen{Cut: 10}},
		&tableNote{a, &measurements.Flushed{Seq: 11}},
		&tableNote{a, &measurements.Reopened{Seq: 12, Sources: []measurements.ReopenedSource{{Key: []byte("k"), Meta: bson.Int32(1), Count: 2, Size: 30, First: -4, Last: 5}, {Key: []byte{0}, Count: 1, Size: 1, First: 1, Last: 1}}}},
		&tableNote{a, &measurements.Rest{Key: []byte("k"), Count: 1, Size: 20, First: -3, Last: 4, Seq: 13, Buckets: 2}}, &numberedNote{about: a, first: 3, last: 4, settled: 2}, &databaseNote{db: "d"},
	} {
		e.note(n)
	}
	r := retryable.Record{Txn: 300, Date: 1700000000000, Runs: []retryable.Run{{Kind: retryable.Inserted, First: 2, Count: 3}}}
	e.executed = &executedNote{about: about{id: storage.IdentSessions}, session: retryable.Session{ID: [16]byte{1}, UID: [32]byte{2}}, number: 200, clears: true, body: r.AppendBody(nil)}
	e.note(e.executed)
	at := place{uuid: UUID{1}, ns: schema.Namespace{DB: "d", Coll: "c"}}
	e.ops.session = Session{new(bson.Builder).Int32("id", 1).Finish(), 5}
	e.ops.statement = 3
	e.ops.add(OpInsert, at, new(bson.Builder).Int32("_id", 1).Finish(), noWrite)
	e.ops.update(at, new(bson.Builder).Int32("_id", 1).String("a", "one").Finish(), new(bson.Builder).Int32("_id", 1).String("a", "on").Finish(), noWrite)
	e.ops.command(place{ns: schema.Namespace{DB: "e"}}, new(bson.Builder).Int32("dropDatabase", 1).Finish(), nil)
	stored := new(bson.Builder).Int32("_id", 2).Finish()
	e.ops.add(OpInsert, at, stored, e.u.Count())
	_ = e.u.Set(storage.FirstIdent+300, []byte("key"), stored)
	list := new(idList)
	for _, id := range []bson.Value{bson.Int32(1), bson.String("two")} {
		_ = list.add(new(bson.Builder).Value("_id", id).Finish())
	}
	e.ops.expired(at, new(bson.Builder).String("reason", "at").Finish(), list)
	old := new(bson.Builder).Int32("_id", 3).Bool("b", true).Finish()
	kept := place{uuid: UUID{1}, ns: at.ns, flags: placeImages | placeSilent, rule: "at"}
	e.ops.add(OpDelete, kept, new(bson.Builder).Int32("_id", 3).Finish(), noWrite)
	e.ops.bytes = binary.AppendVarint(storage.AppendSized(e.ops.bytes, old), 1700000000000)
	e.ops.all[len(e.ops.all)-1].to = len(e.ops.bytes)
	whole := &idList{whole: true}
	_ = whole.add(old)
	e.ops.expired(kept, new(bson.Builder).String("reason", "at").Finish(), whole)
	keyed := place{uuid: UUID{1}, ns: at.ns, flags: placeInternal, key: string(new(bson.Builder).Int32("k", 1).Finish())}
	keys := &idList{place: keyed}
	_ = keys.add(new(bson.Builder).Int32("_id", 3).Int32("k", 4).Finish())
	e.ops.expired(keyed, new(bson.Builder).String("reason", "at").Finish(), keys)
	return e
}

// goldenEffect is the encoding of everyNote.
const goldenEffect = "04baa27877230000000000000000010000000106f8013c6b65790e0e000000105f696400020000000000001001ac02010902ac020003ac020004ac02" +
	"11110100000000000000000000000001000005ac02010106ac020a8080808080808080800107ac020008ac0202000e09ac0201090aac02010a0bac02" +
	"010b0cac02160c02016b100401000000021e070a01000000010102020dac0208016b011405080d020eac02030608040f00016410073e010000000000" +
	"000000000000000000000200000000000000000000000000000000000000000000000000000000000000c80101ac0280d095ffbc31010203080d0d00" +
	"00001069640001000000000a040100000000000000000000000000000001640163000000000000000000000000000000000001650000010000000000" +
	"0000000000000000000001640163070261740100000000000000000000000000000001640163180c0c000000106b000100000000010300000e0e0000" +
	"00105f6964000100000000020300001818000000105f69640001000000026100030000006f6e000000021719000000105f6964000100000002610004" +
	"0000006f6e650503010017170000001064726f70446174616261736500010000000000010300150e07030000141400000002726561736f6e00030000" +
	"0061740000020e1001000000020400000074776f00030302000e0e000000105f69640003000000001212000000105f69640003000000086200010080" +
	"a0abfef96207030200141400000002726561736f6e000300000061740000011212000000105f69640003000000086200010007030300141400000002" +
	"726561736f6e000300000061740000011515000000106b0004000000105f6964000300000000"

// goldenEffectV3 is the encoding of everyNote as version 3 had it, without shard keys.
const goldenEffectV3 = "03de88af00230000000000000000010000000106f8013c6b65790e0e000000105f696400020000000000001001ac02010902ac020003ac020004ac02" +
	"11110100000000000000000000000001000005ac02010106ac020a8080808080808080800107ac020008ac0202000e09ac0201090aac02010a0bac02" +
	"010b0cac02160c02016b100401000000021e070a01000000010102020dac0208016b011405080d020eac02030608040f00016410073e010000000000" +
	"000000000000000000000200000000000000000000000000000000000000000000000000000000000000c80101ac0280d095ffbc31010203070d0d00" +
	"00001069640001000000000a030100000000000000000000000000000001640163000000000000000000000000000000000001650000010000000000" +
	"000000000000000000000164016307026174010300000e0e000000105f6964000100000000020300001818000000105f696400010000000261000300" +
	"00006f6e000000021719000000105f69640001000000026100040000006f6e650503010017170000001064726f704461746162617365000100000000" +
	"00010300150e07030000141400000002726561736f6e000300000061740000020e1001000000020400000074776f00030302000e0e000000105f6964" +
	"0003000000001212000000105f69640003000000086200010080a0abfef96207030200141400000002726561736f6e00030000006174000001121200" +
	"0000105f696400030000000862000100"

// goldenEffectV2 is the encoding of everyNote as version 2 had it, without images, rules
// and what is silent.
const goldenEffectV2 = "02acb5d69a230000000000000000010000000106f8013c6b65790e0e000000105f696400020000000000001001ac02010902ac020003ac020004ac02" +
	"11110100000000000000000000000001000005ac02010106ac020a8080808080808080800107ac020008ac0202000e09ac0201090aac02010a0bac02" +
	"010b0cac02160c02016b100401000000021e070a01000000010102020dac0208016b011405080d020eac02030608040f00016410073e010000000000" +
	"000000000000000000000200000000000000000000000000000000000000000000000000000000000000c80101ac0280d095ffbc31010203050d0d00" +
	"00001069640001000000000a02010000000000000000000000000000000164016300000000000000000000000000000000016500010300000e0e0000" +
	"00105f6964000100000000020300001818000000105f69640001000000026100030000006f6e000000021719000000105f6964000100000002610004" +
	"0000006f6e650503010017170000001064726f704461746162617365000100000000010300150e07030000141400000002726561736f6e0003000000" +
	"61740000020e1001000000020400000074776f00"

// goldenEffectV1 is the encoding of everyNote as version 1 had it, when an effect told nothing of
// what its batch has, nor of what expired.
const goldenEffectV1 = "01cab2514b0c00000000000000000000000000001001ac02010902ac020003ac020004ac0211110100000000000000000000000001000005ac020101" +
	"06ac020a8080808080808080800107ac020008ac0202000e09ac0201090aac02010a0bac02010b0cac02160c02016b100401000000021e070a010000" +
	"00010102020dac0208016b011405080d020eac02030608040f00016410073e0100000000000000000000000000000002000000000000000000000000" +
	"00000000000000000000000000000000000000c80101ac0280d095ffbc31010203030d0d0000001069640001000000000a0201000000000000000000" +
	"00000000000001640163000000000000000000000000000000000165000103000e0e000000105f69640001000000000203001818000000105f696400" +
	"01000000026100030000006f6e000000021719000000105f69640001000000026100040000006f6e6505030117170000001064726f70446174616261" +
	"7365000100000000"

// TestEffectEncoding holds the bytes of an effect, and that what is damaged is
// refused.
func TestEffectEncoding(t *testing.T) {
	c := openLogging(t, nil)
	e := everyNote(c)
	defer e.u.Abort()
	if err := e.u.Seal(); err != nil {
		t.Fatal(err)
	}
	b := e.AppendEncoded(nil)
	if got := hex.EncodeToString(b); got != goldenEffect {
		t.Fatalf("the encoding is\n%s", got)
	}
	again, err := c.Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	// Those of prepared transactions are in effects of another version (TestPreparedBytes).
	if len(again.notes) != int(noteKinds)-4 || !slices.Equal(again.AppendEncoded(nil), b) {
		t.Errorf("it has %d notes", len(again.notes))
	}
	again.u.Abort()
	for n := range b {
		if _, err := c.Decode(b[:n]); !errors.Is(err, storage.ErrCorruption) {
			t.Errorf("%d bytes of it: %v", n, err)
		}
		bad := slices.Clone(b)
		bad[n] ^= 0x10
		if _, err := c.Decode(bad); !errors.Is(err, storage.ErrCorruption) {
			t.Errorf("a flip at %d: %v", n, err)
		}
	}
	if _, err := c.Decode(append(slices.Clone(b), 0)); !errors.Is(err, storage.ErrCorruption) {
		t.Errorf("more than it: %v", err)
	}
}

// TestEffectEncodingOfBefore reads what earlier builds have written into the log: its
// notes, and the operations. In version 1 they had each document for themselves.
func TestEffectEncodingOfBefore(t *testing.T) {
	c := openLogging(t, nil)
	for _, v := range []struct {
		golden string
		docs   []string
	}{
		{goldenEffectV1, []string{`{ _id: 1 }`, `{ _id: 1, a: "on" }`, `{ dropDatabase: 1 }`}},
		{goldenEffectV2, []string{`{ _id: 1 }`, `{ _id: 1, a: "on" }`, `{ dropDatabase: 1 }`, `{ _id: 2 }`, `{ reason: "at" }`}},
		{goldenEffectV3, []string{`{ _id: 1 }`, `{ _id: 1, a: "on" }`, `{ dropDatabase: 1 }`, `{ _id: 2 }`, `{ reason: "at" }`, `{ _id: 3 }`, `{ reason: "at" }`}},
	} {
		b, err := hex.DecodeString(v.golden)
		if err != nil {
			t.Fatal(err)
		}
		e, err := c.Decode(b)
		if err != nil {
			t.Fatal(err)
		}
		if got := e.AppendEncoded(nil); !slices.Equal(got, b) {
			t.Errorf("encoded again it is %x", got)
		}
		for _, f := range []func() ([]Operation, Session, error){e.Operations, func() ([]Operation, Session, error) { return DecodeOperations(b) }} {
			all, session, err := f()
			if err != nil || len(all) != len(v.docs) || session.Txn != 5 {
				t.Fatalf("%d operations of %v: %v", len(all), session, err)
			}
			for i, want := range v.docs {
				if kept := i > 4; all[i].Doc.String() != want || all[i].Images != kept || all[i].Silent != kept || (all[i].Rule != "") != kept || all[i].Key != nil || all[i].Internal {
					t.Errorf("operation %d is %+v", i, all[i])
				}
			}
			if was := all[1].Old.String(); was != `{ _id: 1, a: "one" }` {
				t.Errorf("the update was of %s", was)
			}
		}
		e.u.Abort()
	}
}

// FuzzDecodeEffect decodes anything under a checksum that fits.
func FuzzDecodeEffect(f *testing.F) {
	e, err := storage.Open(storage.Options{Dir: "db", FS: storage.NewMemFS(), CacheBytes: 1 << 20})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { e.Close() })
	c, err := Open(e, Options{})
	if err != nil {
		f.Fatal(err)
	}
	x := everyNote(c)
	if err := x.u.Seal(); err != nil {
		f.Fatal(err)
	}
	f.Add(x.AppendEncoded(nil)[effectHeader:])
	x.u.Abort()
	f.Fuzz(func(t *testing.T, rest []byte) {
		b := append([]byte{effectVersion, 0, 0, 0, 0}, rest...)
		binary.LittleEndian.PutUint32(b[1:], crc32.Checksum(rest, castagnoli))
		x, err := c.Decode(b)
		if err != nil {
			if !errors.Is(err, storage.ErrCorruption) {
				t.Fatal(err)
			}
			return
		}
		defer x.u.Abort()
		again, err := c.Decode(x.AppendEncoded(nil))
		if err != nil {
			t.Fatal(err)
		}
		again.u.Abort()
	})
}
