package shardsvr_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/cluster/step"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
)

// sharded makes d.c a sharded collection by k, all of which m owns at version 1.
func (m *member) sharded(key string) (uuid string) {
	m.t.Helper()
	made := m.ask("admin", `{_shardsvrShard: "d.c", key: `+key+`, unique: false, version: `+version(0)+`, `+fence(1, step.Trying, 1)+`}`)
	_, id := made.Lookup("uuid").Binary()
	uuid = fmt.Sprintf(`{"$uuid": "%x-%x-%x-%x-%x"}`, id[:4], id[4:6], id[6:8], id[8:10], id[10:])
	m.ask("admin", `{_shardsvrVersion: "d.c", uuid: `+uuid+`, version: `+version(1)+`, `+fence(1, step.Committed, 1)+`}`)
	return uuid
}

// insert stores documents {_id, k, …} by version 1.
func (m *member) insert(docs ...string) {
	m.t.Helper()
	m.ask("d", `{insert: "c", documents: [`+strings.Join(docs, ", ")+`], shardVersion: `+version(1)+`}`)
}

// clone reads a range to its end, and returns how often each _id came; each is called with
// the place behind each batch.
func (m *member) clone(span string, each func(next bson.Value)) map[string]int {
	m.t.Helper()
	seen := map[string]int{}
	var after bson.Value
	for {
		b := new(bson.Builder).Fields(bson.MustParse(`{_shardsvrClone: "d.c", ` + span + `}`))
		if !after.IsMissing() {
			b.Value("after", after)
		}
		a, err := m.set.Run(m.t.Context(), client.Call{DB: "admin", Body: b.Finish()})
		if err != nil {
			m.t.Fatal(err)
		}
		for v := range a.Reply.Lookup("documents").Doc().Values() {
			seen[v.Doc().Lookup("_id").String()]++
		}
		if after = a.Reply.Lookup("next"); after.IsMissing() {
			return seen
		}
		after = after.Clone()
		each(after)
	}
}

const whole = `min: {k: {"$minKey": 1}}, max: {k: {"$maxKey": 1}}`

// TestClone: a range is read in batches, each document once, whatever the layout is, and
// however many have one key: in the order of the records where the collection lies by its
// shard key or in slots by date, else by the index on that, and where the index goes in between by all of the
// collection.
func TestClone(t *testing.T) {
	for _, tc := range []struct{ name, index, place string }{
		{"hashed", "", "record"},
		{"by id", "", "key"},
		{"slots", `{createIndexes: "c", indexes: [{key: {t: 1}, name: "t_1", expireAfterSeconds: 1000000000}]}`, "record"},
		{"slots by last writes", `{createIndexes: "c", indexes: [{key: {_ts: 1}, name: "ts", expireAfterSeconds: 1000000000, storageEngine: {mayfly: {expiry: {by: "lastWrite"}}}}]}`, "key"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := start(t, "s0")
			if tc.name == "by id" { // it has a document when it is sharded
				m.ask("d", `{createIndexes: "c", indexes: [{key: {k: "hashed"}, name: "k_hashed"}]}`)
				m.ask("d", `{insert: "c", documents: [{_id: -1, k: -1}]}`)
			}
			m.sharded(`{k: "hashed"}`)
			m.ask("d", `{delete: "c", deletes: [{q: {_id: -1}, limit: 1}], shardVersion: `+version(1)+`}`)
			if tc.index != "" {
				m.ask("d", tc.index)
			}
			// 5,000 documents with one key, in windows in the opposite order of their _ids,
			// which are more than a batch and more than a run; and 1,000 with others.
			text := strings.Repeat("x", 2000)
			for from := 0; from < 6000; from += 500 {
				var docs []string
				for i := from; i < from+500; i++ {
					k := max(0, i-5000)
					docs = append(docs, fmt.Sprintf(`{_id: %d, k: %d, t: {"$date": {"$numberLong": "%d"}}, x: "%s"}`, i, k, int64(1800000000000)-int64(i)*1000, text))
				}
				m.insert(docs...)
			}
			batches := 0
			seen := m.clone(whole, func(next bson.Value) {
				batches++
				if !next.Doc().Has(tc.place) {
					t.Errorf("it is not read by %s: %s", tc.place, next)
				}
			})
			if len(seen) != 6000 || batches < 2 {
				t.Errorf("%d documents in %d batches, want 6,000", len(seen), batches)
			}
			for id, n := range seen {
				if n != 1 {
					t.Errorf("%s came %d times", id, n)
				}
			}
			half := m.clone(upper, func(bson.Value) {})
			for i := range 6000 {
				inside := schema.HashOf(bson.Int32(int32(max(0, i-5000))), nil) >= 0
				if (half[fmt.Sprint(i)] == 1) != inside {
					t.Errorf("%d lies in the range: %t", i, inside)
				}
			}
			dropped := false
			seen = m.clone(whole, func(next bson.Value) {
				if !dropped {
					m.ask("d", `{dropIndexes: "c", index: "k_hashed"}`)
				} else if !next.Doc().Has("_id") && !next.Doc().Has("record") {
					t.Errorf("it is read by an index that was dropped: %s", next)
				}
				dropped = true
			})
			if len(seen) != 6000 {
				t.Errorf("%d documents, want 6,000", len(seen))
			}
		})
	}
}

// TestCloneByAnotherIndex: an index that becomes multikey in the middle of a copy supports the
// shard key no more; the place in it is none in the index that comes next.
func TestCloneByAnotherIndex(t *testing.T) {
	m := start(t, "s0")
	m.ask("d", `{createIndexes: "c", indexes: [{key: {k: 1, y: 1}, name: "y"}, {key: {k: 1, z: 1}, name: "z"}]}`)
	m.ask("d", `{insert: "c", documents: [{_id: -1, k: 0}]}`) // so it lies by _id
	m.sharded(`{k: 1}`)
	text := strings.Repeat("x", 2000)
	for from := 0; from < 6000; from += 500 {
		var docs []string
		for i := from; i < from+500; i++ {
			docs = append(docs, fmt.Sprintf(`{_id: %d, k: 0, y: %d, z: %d, x: "%s"}`, i, i, 6000-i, text))
		}
		m.insert(docs...)
	}
	batches := 0
	seen := m.clone(whole, func(bson.Value) {
		if batches++; batches == 1 {
			m.insert(`{_id: -2, k: 1, y: [1, 2], z: 0}`)
		}
	})
	if batches < 2 {
		t.Errorf("%d batches", batches)
	}
	for i := range 6000 {
		if seen[fmt.Sprint(i)] == 0 {
			t.Fatalf("%d did not come", i)
		}
	}
}

// TestSplitPoints: with the index and without it, the points cut a range into parts of the
// size, or into halves.
func TestSplitPoints(t *testing.T) {
	m := start(t, "s0")
	m.sharded(`{k: 1}`)
	m.ask("d", `{createIndexes: "c", indexes: [{key: {k: 1, n: 1}, name: "k_n"}]}`)
	ask := func(bytes int, span string) string {
		r := m.ask("admin", fmt.Sprintf(`{_shardsvrSplitPoints: "d.c", %s, bytes: %d, limit: 100}`, span, bytes))
		return fmt.Sprintf("%s %s %s", r.Lookup("points"), r.Lookup("documents"), r.Lookup("bytes"))
	}
	median := func(span string) string {
		r, err := m.try("admin", `{_shardsvrSplitPoints: "d.c", `+span+`, bytes: 0, limit: 1}`)
		if err != nil {
			return fmt.Sprint(mongoerr.From(err).Code)
		}
		return r.Lookup("points").String()
	}
	if got := median(whole); got != fmt.Sprint(mongoerr.CannotSplit) {
		t.Error(got)
	}
	for i := range 10 {
		var docs []string
		for j := range 100 {
			docs = append(docs, fmt.Sprintf(`{_id: %d, k: %d, n: %d}`, 1000+i*100+j, i*10+j/10, j))
		}
		m.insert(docs...)
	}
	size := len(bson.MustParse(`{_id: 1, k: 1, n: 1}`))
	for _, dropped := range []string{"", "k_1"} { // k_n serves where there is no other
		if dropped != "" {
			m.ask("d", `{dropIndexes: "c", index: "`+dropped+`"}`)
		}
		if got, want := ask(250*size, whole), fmt.Sprintf("[ { k: 25 }, { k: 50 }, { k: 75 } ] 1000 %d", 1000*size); got != want {
			t.Errorf("after %q: %s, want %s", dropped, got, want)
		}
		if got, want := ask(1000*size, whole), fmt.Sprintf("[] 1000 %d", 1000*size); got != want {
			t.Errorf("after %q: %s, want %s", dropped, got, want)
		}
		if got := median(`min: {k: 20}, max: {k: 30}`); got != "[ { k: 25 } ]" {
			t.Errorf("after %q: %s", dropped, got)
		}
		if got := median(`min: {k: 20}, max: {k: 21}`); got != fmt.Sprint(mongoerr.CannotSplit) {
			t.Errorf("after %q: %s", dropped, got)
		}
	}
	if _, err := m.try("d", `{dropIndexes: "c", index: "k_n"}`); !mongoerr.Is(err, mongoerr.CannotDropShardKeyIndex) {
		t.Errorf("the last index of the shard key goes: %v", err)
	}
	m.ask("d", `{dropIndexes: "c", index: "*"}`)
	if got := m.ask("d", `{listIndexes: "c"}`).String(); !strings.Contains(got, "k_n") {
		t.Errorf("all other indexes went, and %s is left", got)
	}
}

// TestSplitPointsOfRecords: a collection that is laid out by a hash is cut at the same points
// with its index and without it.
func TestSplitPointsOfRecords(t *testing.T) {
	m := start(t, "s0")
	m.sharded(`{k: "hashed"}`)
	var docs []string
	for i := range 1000 {
		docs = append(docs, fmt.Sprintf(`{_id: %d, k: %d}`, i, i))
	}
	m.insert(docs...)
	size := len(bson.MustParse(`{_id: 1, k: 1}`))
	ask := func() string {
		cut := m.ask("admin", fmt.Sprintf(`{_shardsvrSplitPoints: "d.c", %s, bytes: %d, limit: 100}`, whole, 250*size))
		half := m.ask("admin", `{_shardsvrSplitPoints: "d.c", `+upper+`, bytes: 0, limit: 1}`)
		return fmt.Sprint(cut.Lookup("points"), cut.Lookup("documents"), cut.Lookup("bytes"), half.Lookup("points"))
	}
	want := ask()
	if n := strings.Count(want, "{ k: "); n != 4 {
		t.Errorf("%d points, want 3 and the median: %s", n, want)
	}
	m.ask("d", `{dropIndexes: "c", index: "k_hashed"}`)
	if got := ask(); got != want {
		t.Errorf("without the index %s, want %s", got, want)
	}
}

// TestCountHidden: what is hidden is not counted, and no more than that is read to leave it
// out, by the records: with the index on the shard key and without it.
func TestCountHidden(t *testing.T) {
	a, b := start(t, "s0"), start(t, "s1")
	uuid := a.sharded(`{k: "hashed"}`)
	want := 0
	for i := range 100 {
		a.insert(fmt.Sprintf(`{_id: %d, k: %d}`, i, i))
		if schema.HashOf(bson.Int32(int32(i)), nil) >= 0 {
			want++
		}
	}
	receive(b, 10, uuid, `{k: "hashed"}`, a, upper)
	if n := awaitReceived(b, upper); n != int64(want) {
		t.Fatalf("%d documents were received, want %d", n, want)
	}
	count := func() string { return b.ask("d", `{count: "c"}`).Lookup("n").String() }
	if n := count(); n != "0" {
		t.Errorf("count is %s", n)
	}
	explained := b.ask("d", `{explain: {count: "c"}}`).String()
	if strings.Contains(explained, "COLLSCAN") || !strings.Contains(explained, "COUNT") {
		t.Errorf("all of the collection is read to count: %s", explained)
	}
	if got := b.ask("admin", `{_shardsvrOwned: 1, namespaces: ["d.c"]}`).Lookup("owned").String(); !strings.Contains(got, "documents: 0, bytes: 0, keyIndex: true") {
		t.Error(got)
	}
	b.ask("d", `{dropIndexes: "c", index: "k_hashed"}`)
	if n := count(); n != "0" {
		t.Errorf("without the index count is %s", n)
	}
	if explained := b.ask("d", `{explain: {count: "c"}}`).String(); strings.Contains(explained, "COLLSCAN") {
		t.Errorf("without the index: %s", explained)
	}
}

// TestIndexIsRecords: the index on the shard key is the records, and clients see an index
// like any other.
func TestIndexIsRecords(t *testing.T) {
	m := start(t, "s0")
	m.sharded(`{k: "hashed"}`)
	for i := range 100 {
		m.insert(fmt.Sprintf(`{_id: %d, k: %d}`, i, i%50))
	}
	check := func() {
		t.Helper()
		explained := m.ask("d", `{explain: {find: "c", filter: {k: 5}}, verbosity: "executionStats"}`).String()
		for _, want := range []string{`stage: "FETCH"`, `stage: "IXSCAN"`, `indexName: "k_hashed"`, "totalKeysExamined: 2, totalDocsExamined: 2", "isMultiKey: false"} {
			if !strings.Contains(explained, want) {
				t.Errorf("no %s in %s", want, explained)
			}
		}
		key := m.ask("d", `{find: "c", filter: {k: 5}, returnKey: true}`).String()
		if want := bson.Int64(schema.HashOf(bson.Int32(5), nil)).String(); strings.Count(key, want) != 2 {
			t.Errorf("the key is %s, want %s", key, want)
		}
		if v := m.ask("d", `{validate: "c", full: true}`).String(); !strings.Contains(v, "valid: true") || !strings.Contains(v, "k_hashed: 100") {
			t.Error(v)
		}
		if sizes := m.ask("d", `{collStats: "c"}`).Lookup("indexSizes").String(); !strings.Contains(sizes, "k_hashed: 4096") {
			t.Errorf("it has a size: %s", sizes)
		}
	}
	check()
	m.ask("d", `{dropIndexes: "c", index: "*"}`)
	if explained := m.ask("d", `{explain: {find: "c", filter: {k: 5}}}`).String(); !strings.Contains(explained, "COLLSCAN") {
		t.Errorf("it was not dropped: %s", explained)
	}
	m.ask("d", `{createIndexes: "c", indexes: [{key: {k: "hashed"}, name: "k_hashed"}]}`)
	check()
	if _, err := m.try("d", `{collMod: "c", index: {name: "k_hashed", prepareUnique: true}}`); !mongoerr.Is(err, mongoerr.Code(16764)) {
		t.Errorf("prepareUnique: %v", err)
	}
	m.ask("d", `{collMod: "c", index: {name: "k_hashed", hidden: true}}`)
	m.ask("d", `{collMod: "c", index: {name: "k_hashed", hidden: false}}`)
	check()
}

// TestRangedLies: a collection with a ranged key lies by it. Its chunks are read, cut and counted by
// the records, the index is those, and it takes arrays when the collection is no longer sharded.
func TestRangedLies(t *testing.T) {
	m := start(t, "s0")
	uuid := m.sharded(`{k: 1}`)
	text := strings.Repeat("x", 1500)
	for from := 0; from < 6000; from += 500 {
		var docs []string
		for i := from; i < from+500; i++ {
			docs = append(docs, fmt.Sprintf(`{_id: %d, k: %d, x: "%s"}`, i, (i*7919)%6000/2, text))
		}
		m.insert(docs...)
	}
	batches := 0
	seen := m.clone(`min: {k: 1000}, max: {k: {"$maxKey": 1}}`, func(next bson.Value) {
		if batches++; !next.Doc().Has("record") {
			t.Errorf("it is not read by the records: %s", next)
		}
	})
	if len(seen) != 4000 || batches < 1 {
		t.Errorf("%d documents in %d batches and one, want 4,000", len(seen), batches)
	}
	explained := func(command string, wants ...string) {
		t.Helper()
		got := m.ask("d", `{explain: `+command+`, verbosity: "executionStats"}`).String()
		for _, want := range wants {
			if !strings.Contains(got, want) {
				t.Errorf("%s: no %s in %s", command, want, got)
			}
		}
	}
	valid := func(keys int) {
		t.Helper()
		if v := m.ask("d", `{validate: "c", full: true}`).String(); !strings.Contains(v, "valid: true") || !strings.Contains(v, fmt.Sprintf("k_1: %d", keys)) {
			t.Error(v)
		}
	}
	values := func(command, list string) string {
		return m.ask("d", command).Lookup("cursor").Doc().Lookup(list).String()
	}
	explained(`{find: "c", filter: {k: 5}}`, "FETCH", "IXSCAN", `k_1`, "totalKeysExamined: 2, totalDocsExamined: 2", "isMultiKey: false")
	explained(`{find: "c", filter: {k: {$gte: 5, $lt: 10}}, sort: {k: -1}, projection: {_id: 0, k: 1}}`, "PROJECTION_COVERED", "totalKeysExamined: 10, totalDocsExamined: 0", `direction: "backward"`)
	explained(`{count: "c", query: {k: {$gte: 5, $lt: 10}}}`, "COUNT_SCAN")
	if got := m.ask("d", `{distinct: "c", key: "k", query: {k: {$lt: 3}}}`).Lookup("values").String(); got != "[ 0, 1, 2 ]" {
		t.Errorf("distinct is %s", got)
	}
	if got := values(`{find: "c", filter: {k: {$in: [7, 3]}}, sort: {k: 1}, returnKey: true}`, "firstBatch"); got != "[ { k: 3 }, { k: 3 }, { k: 7 }, { k: 7 } ]" {
		t.Errorf("the keys are %s", got)
	}
	valid(6000)
	// While an index is there, and without it, as other shards may be asked to make it again.
	m.ask("d", `{createIndexes: "c", indexes: [{key: {k: 1, x: 1}, name: "k_x"}]}`)
	m.ask("d", `{dropIndexes: "c", index: "k_1"}`)
	m.ask("d", `{createIndexes: "c", indexes: [{key: {k: 1}, name: "k_1"}]}`)
	m.ask("d", `{dropIndexes: "c", index: "k_x"}`)
	valid(6000)

	// As the operation unshard does: nothing moves, and arrays come at once.
	m.ask("admin", `{_shardsvrRefine: "d.c", uuid: `+uuid+`, key: {_id: 1}, unsplittable: true, version: `+version(2)+`, `+fence(2, step.Committed, 1)+`}`)
	write := func(command string) {
		t.Helper()
		if r := m.ask("d", strings.TrimSuffix(command, "}")+`, shardVersion: `+version(2)+`}`); r.Has("writeErrors") {
			t.Fatal(r)
		}
	}
	write(`{insert: "c", documents: [{_id: 6000, k: [5, 6, 5]}, {_id: 6001, k: []}]}`)
	write(`{update: "c", updates: [{q: {_id: 1}, u: {$set: {k: [1, -1]}}}]}`)
	explained(`{find: "c", filter: {k: 5}}`, "totalKeysExamined: 3, totalDocsExamined: 3", "isMultiKey: true", `multiKeyPaths: { k: [ "k" ] }`)
	if n := m.ask("d", `{count: "c", query: {k: {$gte: 5, $lt: 7}}}`).Lookup("n").String(); n != "5" {
		t.Errorf("%s documents have 5 or 6", n)
	}
	if got := values(`{find: "c", filter: {k: {$lt: 2}}, sort: {k: 1}, projection: {k: 1}}`, "firstBatch"); strings.Count(got, "_id") != 5 || !strings.HasPrefix(got, "[ { _id: 1, k: [ 1, -1 ] }, { _id: 0, k: 0 }") {
		t.Errorf("in order: %s", got)
	}
	valid(6004)
	write(`{update: "c", updates: [{q: {k: {$exists: true}}, u: [{$set: {k: {$cond: [{$isArray: "$k"}, 100, {$add: ["$k", 1]}]}}}], multi: true}]}`)
	if got := m.ask("d", `{aggregate: "c", pipeline: [{$group: {_id: null, n: {$sum: 1}, k: {$sum: "$k"}}}], cursor: {}}`).Lookup("cursor").String(); !strings.Contains(got, "n: 6002, k: ") || !strings.Contains(got, fmt.Sprint(2*(2999*3000/2)+6000-1-7919%6000/2+300)) {
		t.Errorf("after an update of all: %s", got)
	}
	valid(6002)

	// It becomes unique, if it is.
	m.ask("d", `{collMod: "c", index: {name: "k_1", prepareUnique: true}}`)
	taken := func(key string) {
		t.Helper()
		if r, err := m.try("d", `{insert: "c", documents: [{_id: 7000, k: `+key+`}], shardVersion: `+version(2)+`}`); err != nil || !strings.Contains(r.String(), "code: 11000") {
			t.Errorf("a second one is stored: %s, %v", r, err)
		}
	}
	taken("7")
	if _, err := m.try("d", `{collMod: "c", index: {name: "k_1", unique: true}}`); !mongoerr.Is(err, mongoerr.CannotConvertIndexToUnique) {
		t.Errorf("it became unique: %v", err)
	}
	write(`{update: "c", updates: [{q: {}, u: [{$set: {k: {$add: ["$_id", 100000]}}}], multi: true}]}`)
	m.ask("d", `{collMod: "c", index: {name: "k_1", unique: true}}`)
	taken("100007")
	taken("[7000, 100007]")
	valid(6002)
}

// TestByIDMoves: a collection that lies by _id, which is its shard key, moves by its records, also
// what was there before it was sharded, and its indexes go along.
func TestByIDMoves(t *testing.T) {
	a, b := start(t, "s0"), start(t, "s1")
	a.ask("d", `{createIndexes: "c", indexes: [{key: {k: 1}, name: "k_1"}]}`)
	var docs []string
	for i := range 3000 {
		docs = append(docs, fmt.Sprintf(`{_id: %d, k: %d}`, i, -i))
	}
	a.ask("d", `{insert: "c", documents: [`+strings.Join(docs, ", ")+`]}`)
	uuid := a.sharded(`{_id: 1}`)
	for number, span := range []string{`min: {_id: 1000}, max: {_id: 2500}`, `min: {_id: 1500}, max: {_id: 2000}`} {
		from, to, given, own := a, b, 2, 3
		if number == 1 {
			from, to, given, own = b, a, 4, 5
		}
		if number == 0 {
			batch := from.ask("admin", `{_shardsvrClone: "d.c", `+span+`}`)
			if n := batch.Lookup("documents").Doc().Len(); n != 1500 {
				t.Errorf("%d documents are in the range", n)
			}
		}
		moveRange(t, int64(10+number), uuid, `{_id: 1}`, from, to, span, given, own)
		if n := len(a.ids()) + len(b.ids()); n != 3000 {
			t.Errorf("%d documents, want 3,000", n)
		}
		for _, m := range []*member{a, b} {
			n := m.ask("d", `{count: "c"}`).Lookup("n").String()
			if explained := m.ask("d", `{explain: {count: "c"}}`).String(); strings.Contains(explained, "COLLSCAN") {
				t.Errorf("all of the collection is read to count: %s", explained)
			}
			for deadline := time.Now().Add(time.Minute); m.ask("d", `{collStats: "c"}`).Lookup("count").String() != n; time.Sleep(5 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatalf("what was given away is left: %s", m.ask("d", `{collStats: "c"}`).Lookup("count"))
				}
			}
			if v := m.ask("d", `{validate: "c", full: true}`).String(); !strings.Contains(v, "valid: true") || !strings.Contains(v, "k_1: "+n) {
				t.Error(v)
			}
		}
	}
}

// TestLaidAnewAsItMoves: a collection that was filled before it was sharded lies by _id, and by
// its shard key once all of it has moved away and some comes back: then the index on that is
// the records, and cannot become unique.
func TestLaidAnewAsItMoves(t *testing.T) {
	a, b := start(t, "s0"), start(t, "s1")
	a.ask("d", `{createIndexes: "c", indexes: [{key: {k: "hashed"}, name: "k_hashed"}]}`)
	a.ask("d", `{insert: "c", documents: [{_id: -1, k: -1}]}`)
	uuid := a.sharded(`{k: "hashed"}`)
	for i := range 100 {
		a.insert(fmt.Sprintf(`{_id: %d, k: %d}`, i, i))
	}
	laid := func() bool {
		t.Helper()
		_, err := a.try("d", `{collMod: "c", index: {name: "k_hashed", prepareUnique: true}}`)
		return mongoerr.Is(err, mongoerr.Code(16764))
	}
	stored := func(m *member) int64 { return bson.ClampToInt64(m.ask("d", `{collStats: "c"}`).Lookup("count")) }
	moveRange(t, 10, uuid, `{k: "hashed"}`, a, b, whole, 0, 3)
	for deadline := time.Now().Add(time.Minute); stored(a) > 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d documents are left on the donor", stored(a))
		}
	}
	moveRange(t, 11, uuid, `{k: "hashed"}`, b, a, upper, 4, 5)
	if !laid() {
		t.Error("what came back does not lie by its shard key")
	}
	if v := a.ask("d", `{validate: "c", full: true}`).String(); !strings.Contains(v, "valid: true") {
		t.Error(v)
	}
	if n := len(a.ids()) + len(b.ids()); n != 101 {
		t.Errorf("%d documents, want 101", n)
	}
}

// TestPartComesBack: a part of a range that was given away comes back before what was left
// of the range has gone: it stays.
func TestPartComesBack(t *testing.T) {
	a, b := start(t, "s0"), start(t, "s1")
	uuid := a.sharded(`{k: 1}`)
	for from := 0; from < 20_000; from += 2000 {
		var docs []string
		for i := from; i < from+2000; i++ {
			docs = append(docs, fmt.Sprintf(`{_id: %d, k: %d}`, i, i/200))
		}
		a.insert(docs...)
	}
	moveRange(t, 10, uuid, `{k: 1}`, a, b, `min: {k: 0}, max: {k: 100}`, 0, 3)
	// What the donor has left is not awaited.
	moveRange(t, 11, uuid, `{k: 1}`, b, a, `min: {k: 20}, max: {k: 40}`, 4, 5)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		stored := bson.ClampToInt64(a.ask("d", `{collStats: "c"}`).Lookup("count"))
		if stored <= 4000 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d documents are left on the donor, want 4,000", stored)
		}
	}
	if n := len(a.ids()); n != 4000 {
		t.Errorf("%d documents came back, want 4,000", n)
	}
	if n := len(b.ids()); n != 16_000 {
		t.Errorf("%d documents stayed, want 16,000", n)
	}
}

// TestReceivedWaits: who asks how far a recipient is need not ask again and again: the answer
// comes when the range is nearly received.
func TestReceivedWaits(t *testing.T) {
	a, b := start(t, "s0"), start(t, "s1")
	uuid := a.sharded(`{k: "hashed"}`)
	text := strings.Repeat("x", 2000)
	for from := 0; from < 5000; from += 500 {
		var docs []string
		for i := from; i < from+500; i++ {
			docs = append(docs, fmt.Sprintf(`{_id: %d, k: %d, x: "%s"}`, i, i, text))
		}
		a.insert(docs...)
	}
	receive(b, 10, uuid, `{k: "hashed"}`, a, whole)
	for range 60 { // each of which waits for a second at most
		r := b.ask("admin", `{_shardsvrReceived: "d.c", `+whole+`, behind: {"$numberLong": "1200"}}`)
		if r.Has("behind") {
			if n := r.Lookup("documents").Int64(); n != 5000 {
				t.Errorf("%d documents were received, want 5,000", n)
			}
			return
		}
	}
	t.Error("60 answers came before the range was received")
}
