package shard

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"pgregory.net/rapid"

	"github.com/mayflydb/mayfly/internal/bson"
)

// balance: {members: [{id, draining, zones}], bytes: {shard: n}, maxChunk,
// settings: [documents of config.settings], jumbo: [numbers of chunks], minute of the day, and
// the flags of Balanced}: the next round over the script's map and zones.
func (s *script) balance(d *datadriven.TestData) string {
	doc := bson.MustParse(d.Input)
	set := DefaultSettings()
	if v := doc.Lookup("settings"); v.Type == bson.TypeArray {
		for e := range v.Doc().Values() {
			var err error
			if set, err = set.With(e.Doc()); err != nil {
				return errText(err)
			}
		}
	}
	var members []Member
	for e := range doc.Lookup("members").Doc().Values() {
		m := Member{ID: e.Doc().Lookup("id").Str(), Draining: e.Doc().Has("draining")}
		if z := e.Doc().Lookup("zones"); z.Type == bson.TypeArray {
			for name := range z.Doc().Values() {
				m.Zones = append(m.Zones, name.Str())
			}
		}
		members = append(members, m)
	}
	c := Balanced{
		Map: s.chunks, Zones: s.zones, Bytes: map[string]int64{}, MaxChunk: bson.ClampToInt64(doc.Lookup("maxChunk")), NoBalance: doc.Has("noBalance"),
		NoMigrations: doc.Has("noMigrations"), NoIndex: doc.Has("noIndex"), Defragmenting: doc.Has("defragmenting"),
	}
	if v := doc.Lookup("bytes"); v.Type == bson.TypeDocument {
		for name, n := range v.Doc().All() {
			c.Bytes[name] = bson.ClampToInt64(n)
		}
	}
	if v := doc.Lookup("jumbo"); v.Type == bson.TypeArray {
		var put []Chunk
		chunks := slices.Collect(s.chunks.Chunks())
		for n := range v.Doc().Values() {
			chunk := chunks[bson.ClampToInt64(n)]
			chunk.Jumbo, chunk.Version = true, s.chunks.next(len(put)+1)
			put = append(put, chunk)
		}
		var err error
		if c.Map, err = s.chunks.With(put); err != nil {
			return errText(err)
		}
	}
	cuts, moves := Round([]Balanced{c}, members, set)
	var out strings.Builder
	for _, cut := range cuts {
		fmt.Fprintf(&out, "cut %s at", s.key.RangeText(cut.Chunk))
		for _, b := range cut.At {
			fmt.Fprintf(&out, " %s", s.key.Doc(b))
		}
		out.WriteByte('\n')
	}
	for _, m := range moves {
		fmt.Fprintf(&out, "move %s from %s to %s: %s", s.key.RangeText(m.Range), m.From, m.To, m.Why)
		if m.MaxBytes > 0 {
			fmt.Fprintf(&out, ", up to %d bytes", m.MaxBytes)
		}
		if m.ForceJumbo {
			out.WriteString(", forced")
		}
		out.WriteByte('\n')
	}
	if st := c.Status(members, set, int(bson.ClampToInt64(doc.Lookup("minute")))); st != (Status{}) {
		fmt.Fprintf(&out, "%s: %s. %s\n", st.Violation, st.Details, st.Held)
	} else {
		out.WriteString("balanced\n")
	}
	return out.String()
}

// settings: documents of config.settings, one a line, one after the other, and
// whether the balancer is active at 0:00, 12:00, 23:30.
func (s *script) settings(d *datadriven.TestData) string {
	var out strings.Builder
	set := DefaultSettings()
	for _, line := range lines(d) {
		next, err := set.With(bson.MustParse(line))
		if err != nil {
			out.WriteString(errText(err))
			continue
		}
		set = next
		fmt.Fprintf(&out, "off %v, chunks of %d MB, jumbo %v, merge %v, active %v %v %v\n", set.Off, set.ChunkSize>>20, set.MoveJumbo, !set.NoMerge,
			set.Active(0), set.Active(12*60), set.Active(23*60+30))
		if set.BytesPerSecond > 0 {
			fmt.Fprintf(&out, "at most %d bytes a second\n", set.BytesPerSecond)
		}
	}
	return out.String()
}

// world is a cluster of one collection with a document of one byte at each whole
// number from 0 on.
type world struct {
	Balanced
	documents int
	members   []Member
	set       Settings
	ids       uint32
}

// bytes counts the documents of a range.
func (w *world) bytes(r Range) int64 { return int64(w.place(r.Max) - w.place(r.Min)) }

// place is the first document at or behind a bound.
func (w *world) place(b Bound) int {
	switch v := w.Map.key.BoundValues(b)[0]; v.Type {
	case bson.TypeMinKey:
		return 0
	case bson.TypeMaxKey:
		return w.documents
	default:
		return min(max(int(v.Int32()), 0), w.documents)
	}
}

func (w *world) measure() {
	w.Bytes = map[string]int64{}
	for c := range w.Map.Chunks() {
		w.Bytes[c.Shard] += w.bytes(c.Range)
	}
}

func (w *world) newID() (id [12]byte) {
	w.ids++
	id[10], id[11], id[9] = byte(w.ids>>8), byte(w.ids), 1
	return id
}

func (w *world) apply(t *rapid.T, change Change, err error) {
	if err == nil {
		w.Map, err = w.Map.With(change.Put)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (w *world) step(t *rapid.T) (idle bool) {
	w.measure()
	cuts, moves := Round([]Balanced{w.Balanced}, w.members, w.set)
	busy := map[string]bool{}
	for _, c := range cuts {
		change, err := w.Map.Split(c.Chunk, c.At, w.newID)
		w.apply(t, change, err)
	}
	for _, m := range moves {
		if busy[m.From] || busy[m.To] || m.From == m.To { // (invariant pairs)
			t.Fatalf("%v: a shard takes part in two moves", moves)
		}
		busy[m.From], busy[m.To] = true, true
		to := w.members[slices.IndexFunc(w.members, func(s Member) bool { return s.ID == m.To })]
		if zone := w.Zones.Of(m.Range); to.Draining || !to.inZone(zone) { // (invariant zone)
			t.Fatalf("%v goes to %v, zone %q", m, to, zone)
		}
		r := m.Range
		if m.MaxBytes > 0 && w.bytes(r) > m.MaxBytes {
			r.Max = intBound(w.Map.key, w.place(r.Min)+int(m.MaxBytes))
		}
		change, err := w.Map.Move(r, m.To, 5, 0, w.newID)
		w.apply(t, change, err)
	}
	return len(cuts)+len(moves) == 0
}

// TestBalancerConverges: whatever the chunks, zones and shards that drain, the
// balancer comes to rest, with nothing left to mend that can be, and keeps every
// chunk of a zone on its shards.
func TestBalancerConverges(t *testing.T) {
	k := mustKey(`{x: 1}`)
	rapid.Check(t, func(t *rapid.T) {
		w := &world{documents: rapid.IntRange(0, 3000).Draw(t, "documents"), set: DefaultSettings()}
		w.MaxChunk = int64(rapid.SampledFrom([]int{7, 50}).Draw(t, "size"))
		n := rapid.IntRange(1, 5).Draw(t, "shards")
		for i := range n {
			m := Member{ID: fmt.Sprintf("s%d", i), Draining: i > 0 && rapid.IntRange(0, 4).Draw(t, "draining") == 0}
			if !m.Draining { // each zone has a shard that stays
				m.Zones = append(m.Zones, "all")
			}
			if i == 0 || rapid.Bool().Draw(t, "zone") {
				m.Zones = append(m.Zones, "z")
			}
			w.members = append(w.members, m)
		}
		m, err := NewMap("d.c", k, testGeneration, evenChunks(k, rapid.IntRange(1, 200).Draw(t, "chunks"), n))
		if err != nil {
			t.Fatal(err)
		}
		w.Map = m
		w.Zones, _ = NewZones(k)
		at := -20
		for range rapid.IntRange(0, 3).Draw(t, "zones") {
			lo := at + rapid.IntRange(1, 300).Draw(t, "gap")
			at = lo + rapid.IntRange(1, 500).Draw(t, "length")
			if w.Zones, err = w.Zones.Add(Zone{Range{Min: intBound(k, lo), Max: intBound(k, at)}, rapid.SampledFrom([]string{"z", "all"}).Draw(t, "name")}); err != nil {
				t.Fatal(err)
			}
		}
		rounds := 0
		for !w.step(t) {
			if rounds++; rounds > 3000 {
				t.Fatal("the balancer does not come to rest")
			}
		}
		w.measure()
		if st := w.Status(w.members, w.set, 0); st.Violation != "" {
			t.Fatalf("it rests at %+v, %v", st, w.Bytes)
		}
	})
}
