package layout

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"pgregory.net/rapid"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/keystring"
	"github.com/mayflydb/mayfly/internal/schema"
)

// script is the state of one file of testdata:
//
//	layout byid|capped|window|relay|relayBack|bucket|bykey    by a TTL index's specification, a timeField, or a shard key
//	layout slots|relaySlots                       by a TTL index's specification and, in the next line, a shard key
//	key [seq=N] [low=SECTION] [own=N] [drops=N]   record key of a document, its parts and its section
//	stays                                         whether a document keeps its record key when it becomes another
//	chunk key=PATTERN                             the records in a range of a shard key
//	has key=PATTERN                               whether a chunk has records, or where to seek to: a range, and a record in each line
//	third in=SECTION                              what a document adds there
//	due now=N                                     the marks of a rule at an instant
//	dead key=HEX low=… own=… drops=… byid=HEX     whether an entry is dead
//	spans from=… to=…                             ranges of records without others
//	state low=… own=… drops=… swept=…             what is stored of a collection's sections
type script struct {
	layout Layout
	index  *schema.Index
}

func TestLayouts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		s := &script{layout: ByID{}}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var b strings.Builder
			if err := s.run(t, d, &b); err != nil {
				fmt.Fprintf(&b, "error: %v\n", err)
			}
			return b.String()
		})
	})
}

func (s *script) run(t *testing.T, d *datadriven.TestData, b *strings.Builder) error {
	switch d.Cmd {
	case "layout":
		return s.make(d)
	case "key":
		doc := document(t, d.Input)
		p := Place{Doc: doc, ID: keystring.Append(nil, doc.Lookup("_id"), false, nil), Low: low(d)}
		d.MaybeScanArgs(t, "seq", &p.Sequence)
		k := s.layout.Append(nil, p)
		fmt.Fprintf(b, "%x identity %x\n", []byte(k), s.layout.Identity(k))
		if sections := s.layout.Sections(); sections != nil {
			fmt.Fprintf(b, "section %016x, belongs to %016x\n", sections.In(k), sections.Of(doc))
		}
	case "stays":
		before, after, _ := strings.Cut(d.Input, "\n")
		fmt.Fprintf(b, "%t\n", s.layout.Stays(document(t, before), document(t, after)))
	case "chunk":
		k, err := schema.ParseShardKey(bson.MustParse(d.CmdArgs[0].Vals[0]))
		if err != nil {
			return err
		}
		r, ok := k.ParseRange(document(t, d.Input))
		if !ok {
			return fmt.Errorf("no range of %s", k)
		}
		if records, ok := s.layout.Chunk(k, r); ok {
			fmt.Fprintf(b, "%x to %x\n", []byte(records.From), []byte(records.To))
			if whole, ok := records.Whole(); !ok {
				fmt.Fprintln(b, "none of it whole")
			} else if !bytes.Equal(whole.From, records.From) || !bytes.Equal(whole.To, records.To) {
				fmt.Fprintf(b, "whole %x to %x\n", []byte(whole.From), []byte(whole.To))
			}
		} else {
			fmt.Fprintln(b, "not a range of records")
		}
	case "has":
		k, err := schema.ParseShardKey(bson.MustParse(d.CmdArgs[0].Vals[0]))
		if err != nil {
			return err
		}
		lines := strings.Split(d.Input, "\n")
		r, _ := k.ParseRange(document(t, lines[0]))
		c, _ := s.layout.Chunk(k, r)
		for _, line := range lines[1:] {
			var key []byte
			if _, err := fmt.Sscanf(line, "%x", &key); err != nil {
				return err
			}
			if to, has := c.Has(key); has {
				fmt.Fprintln(b, "yes")
			} else {
				fmt.Fprintf(b, "seek %x\n", []byte(to))
			}
		}
	case "third":
		fmt.Fprintf(b, "%d\n", s.layout.Sections().Third(document(t, d.Input), hex(d, "in")))
	case "due":
		var now int64
		d.ScanArgs(t, "now", &now)
		r := schema.IndexRule(s.index, &schema.Expiry{})
		fmt.Fprintf(b, "%v\n", s.layout.Sections().Due(r, now))
	case "before":
		var date int64
		d.ScanArgs(t, "date", &date)
		fmt.Fprintf(b, "%v, whole until %d\n", s.layout.Sections().Before(date), s.layout.Sections().WholeUntil(date))
	case "dead":
		var key []byte
		if _, err := fmt.Sscanf(strings.TrimSpace(d.Input), "%x", &key); err != nil {
			return err
		}
		var byID []byte
		for _, a := range d.CmdArgs {
			if a.Key == "byid" {
				fmt.Sscanf(a.Vals[0], "%x", &byID)
			}
		}
		fmt.Fprintf(b, "%v\n", Gone{low(d), string(byID)}.Dead(key))
	case "spans":
		for _, span := range s.layout.Sections().Spans(LowWater{first: hex(d, "from")}, LowWater{first: hex(d, "to"), own: hex(d, "own")}) {
			fmt.Fprintf(b, "%016x to %016x\n", span.From, span.To)
			if ranges := s.layout.Sections().Ranges(span); len(ranges) > 1 {
				last := ranges[len(ranges)-1]
				fmt.Fprintf(b, "%d ranges, from %x to %x, …, to %x\n", len(ranges), []byte(ranges[0].From), []byte(ranges[0].To), []byte(last.To))
			}
		}
	case "state":
		s := State{Low: low(d), Swept: LowWater{first: hex(d, "swept")}}
		if d.HasArg("byid") {
			s.ByID = string(binary.BigEndian.AppendUint16(nil, uint16(hex(d, "byid"))))
		}
		fmt.Fprintf(b, "%x\n", s.Encode())
	default:
		t.Fatalf("no command %q", d.Cmd)
	}
	return nil
}

func (s *script) make(d *datadriven.TestData) (err error) {
	switch d.CmdArgs[0].Key {
	case "byid":
		s.layout = ByID{}
	case "capped":
		s.layout = Capped{}
	case "bucket":
		s.layout = Bucket{TimeField: strings.TrimSpace(d.Input)}
	case "bykey":
		k, err := schema.ParseShardKey(bson.MustParse(d.Input))
		if err != nil || !Placeable(k) {
			return fmt.Errorf("no layout by %s: %v", d.Input, err)
		}
		l := LoadByKey(NewByKey(k).Stored())
		if l == nil || !bytes.Equal(l.Stored(), NewByKey(k).Stored()) {
			return fmt.Errorf("loaded %v of %s", l, NewByKey(k).Stored())
		}
		s.layout = l
	case "window", "relay", "relayBack", "slots", "relaySlots":
		spec, pattern, _ := strings.Cut(d.Input, "\n")
		doc, err := bson.ParseJSON(spec)
		if err != nil {
			return err
		}
		if s.index, err = schema.LoadIndex(doc); err != nil {
			return err
		}
		if !Windowable(s.index) {
			return fmt.Errorf("no windows by %s", s.index.Name)
		}
		var w Windowed = NewWindow(s.index)
		if pattern != "" {
			k, err := schema.ParseShardKey(bson.MustParse(pattern))
			if err != nil {
				return err
			}
			w = NewSlots(w.(*Window), k)
		}
		again := LoadWindowed(w.Stored(), schema.LoadIndex)
		if again == nil || !bytes.Equal(again.Stored(), w.Stored()) {
			return fmt.Errorf("loaded %v of %s", again, w.Stored())
		}
		s.layout = again
		if kind := d.CmdArgs[0].Key; strings.HasPrefix(kind, "relay") {
			r := &Relay{Windowed: w, Back: kind == "relayBack"}
			loaded, ok := Relaying(LoadWindowed(r.Stored(), schema.LoadIndex), r.Stored())
			if !ok || !bytes.Equal(loaded.Stored(), r.Stored()) {
				return fmt.Errorf("loaded %v of %s", loaded, r.Stored())
			}
			s.layout = loaded
		}
	}
	return err
}

func document(t *testing.T, text string) bson.Doc {
	doc, err := bson.ParseJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func hex(d *datadriven.TestData, name string) (n uint64) {
	for _, a := range d.CmdArgs {
		if a.Key == name {
			fmt.Sscanf(a.Vals[0], "%x", &n)
		}
	}
	return n
}

func low(d *datadriven.TestData) LowWater {
	return LowWater{first: hex(d, "low"), own: hex(d, "own"), drops: uint32(hex(d, "drops"))}
}

// TestState: what is stored is read as it was, and nothing else is read.
func TestState(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		mark := func() LowWater {
			m := LowWater{first: rapid.Uint64().Draw(t, "first")}
			if rapid.Bool().Draw(t, "two kinds") {
				m.own = rapid.Uint64Min(ownWindows).Draw(t, "own")
			}
			return m
		}
		s := State{Low: mark(), Swept: mark()}
		if s.Low.own == 0 {
			s.Swept.own = 0
		}
		if rapid.Bool().Draw(t, "buckets") {
			s.Low.drops, s.Swept.drops = rapid.Uint32Min(1).Draw(t, "drops"), rapid.Uint32().Draw(t, "swept drops")
		}
		if rapid.Bool().Draw(t, "relay") {
			s.ByID = string(rapid.SliceOfN(rapid.Byte(), 1, 40).Draw(t, "by _id"))
		}
		b := s.Encode()
		got, ok := DecodeState(b)
		if !ok || got != s {
			t.Fatalf("%v became %v", s, got)
		}
		if s.ByID != "" && len(b)%16 == 0 && len(b) < 64 {
			t.Fatalf("a build from before would take %x for a state", b)
		}
		if cut, ok := DecodeState(b[:len(b)-1]); ok && len(s.ByID) < 2 && len(b) != 49 {
			t.Fatalf("%x without its end was read as %v", b, cut)
		}
	})
}

// TestSectionsAreInOrder: by dates, record keys are in the order of the dates,
// and all that is below the mark of a date is at or before it.
func TestSectionsAreInOrder(t *testing.T) {
	layouts := []Layout{windowByDate("at", windowWidthMS), windowByDate("at", ownWindowWidthMS), Bucket{TimeField: "at"}}
	rapid.Check(t, func(t *rapid.T) {
		l := rapid.SampledFrom(layouts).Draw(t, "layout")
		place := func(date int64) Key {
			at := new(bson.Builder).Date("at", date).Finish()
			doc := new(bson.Builder).Date("at", date).OpenDoc("control").Doc("max", at).Close().Finish()
			return l.Append(nil, Place{Doc: doc, ID: []byte{0x18}})
		}
		a, b := rapid.Int64().Draw(t, "a"), rapid.Int64().Draw(t, "b")
		if a > b {
			a, b = b, a
		}
		if bytes.Compare(place(a), place(b)) > 0 {
			t.Fatalf("%d lies behind %d", a, b)
		}
		if m := l.Sections().Before(a); a < b && m.Below(place(b).Section()) {
			t.Fatalf("%d is below the mark of %d", b, a)
		}
	})
}
