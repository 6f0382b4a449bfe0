package shard

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
)

// script is the state of one script; see TestScripts.
type script struct {
	key    *Key
	chunks *Map
	zones  *Zones
	ids    uint32
}

// TestScripts checks each rule with golden output; the commands are the names
// below, and say what they take where they are defined.
func TestScripts(t *testing.T) {
	commands := map[string]func(*script, *datadriven.TestData) string{
		"key": (*script).parseKey, "extract": (*script).extract, "bound": (*script).bound, "index": (*script).index,
		"map": (*script).makeMap, "show": (*script).show, "refresh": (*script).refresh, "chunk": (*script).chunk,
		"split": (*script).split, "split-where": (*script).splitWhere, "merge": (*script).merge, "move": (*script).move, "stale": (*script).stale,
		"target": (*script).target, "write": (*script).write, "insert": (*script).insert, "change": (*script).change,
		"balance": (*script).balance, "settings": (*script).settings,
		"refine": (*script).refine, "sample": (*script).sample, "cut": (*script).cutBySize,
		"zones": (*script).makeZones, "zone-range": (*script).zoneRange, "zone-of": (*script).zoneOf, "initial": (*script).initial, "hash-points": (*script).hashPoints,
	}
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, path string) {
		s := &script{}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			f := commands[d.Cmd]
			if f == nil {
				t.Fatalf("%s: no such command", d.Cmd)
			}
			return f(s, d)
		})
	})
}

func errText(err error) string {
	e := mongoerr.From(err)
	out := fmt.Sprintf("error %d: %s\n", e.Code, e.Message)
	if e.Extra != nil {
		out += bson.Doc(e.Extra).String() + "\n"
	}
	return out
}

func lines(d *datadriven.TestData) []string { return strings.Split(strings.TrimSpace(d.Input), "\n") }

// parseKey: one pattern a line; the last good one stays.
func (s *script) parseKey(d *datadriven.TestData) string {
	var out strings.Builder
	for _, line := range lines(d) {
		k, err := ParseKey(bson.MustParse(line))
		if err != nil {
			out.WriteString(errText(err))
			continue
		}
		s.key = k
		fmt.Fprintf(&out, "%s fields %v hashed %v first %v, %s\n", k, k.Fields(), k.IsHashed(), k.HashedFirst(), k.RangeText(k.Whole()))
	}
	return out.String()
}

// extract: one document a line; its shard key and the bound it begins at.
func (s *script) extract(d *datadriven.TestData) string {
	var out strings.Builder
	for _, line := range lines(d) {
		doc := bson.MustParse(line)
		at, err := s.key.Append(nil, doc)
		if err != nil {
			out.WriteString(errText(err))
			continue
		}
		values, err := s.key.Values(doc)
		if err != nil {
			panic(err)
		}
		b, err := s.key.BoundOf(doc)
		if err != nil || string(b.Key) != string(at) {
			panic("a document does not lie where its bound is")
		}
		fmt.Fprintf(&out, "%s at %s\n", values, s.key.Doc(b))
	}
	return out.String()
}

// bound: one bound a line, there and back.
func (s *script) bound(d *datadriven.TestData) string {
	var out strings.Builder
	for _, line := range lines(d) {
		doc := bson.MustParse(line)
		b, ok := s.key.ParseBound(doc)
		if !ok {
			fmt.Fprintf(&out, "%s is no bound\n", doc)
			continue
		}
		back := s.key.Doc(b)
		fmt.Fprintf(&out, "%x %x %s\n", b.Key, b.TypeBits, back.AppendJSON(nil, bson.CanonicalJSON))
		if string(back) != string(doc) {
			out.WriteString("which is not what it was\n")
		}
	}
	return out.String()
}

func (s *script) newID() (id [12]byte) {
	s.ids++
	binary.BigEndian.PutUint32(id[8:], s.ids)
	return id
}

// mustBound reads a bound of a script.
func (s *script) mustBound(text string) Bound {
	b, ok := s.key.ParseBound(bson.MustParse(text))
	if !ok {
		panic(text + " is no bound of " + s.key.String())
	}
	return b
}

var testGeneration = Generation{Epoch: [12]byte{11: 7}, Timestamp: 5 << 32}

// makeMap: one "shard: bound" a line; each chunk ends there, the last at the
// highest bound.
func (s *script) makeMap(d *datadriven.TestData) string {
	var chunks []Chunk
	at := s.key.Min()
	for i, line := range lines(d) {
		shard, text, _ := strings.Cut(line, ":")
		end := s.key.Max()
		if text = strings.TrimSpace(text); text != "" {
			end = s.mustBound(text)
		}
		c := Chunk{ID: s.newID(), Range: Range{Min: at, Max: end}, Shard: shard, Version: testGeneration.At(1<<32 + uint64(i)), History: []Placement{{5 << 32, shard}}}
		chunks = append(chunks, c)
		at = end
	}
	m, err := NewMap("d.c", s.key, testGeneration, chunks)
	if err != nil {
		return errText(err)
	}
	s.chunks = m
	return s.show(d)
}

func (s *script) show(*datadriven.TestData) string {
	var out strings.Builder
	for c := range s.chunks.Chunks() {
		out.WriteString(s.chunkText(c))
	}
	for _, name := range s.chunks.Owners() {
		v := s.chunks.ShardVersion(name)
		fmt.Fprintf(&out, "%s: %d chunks, version %d|%d, owns", name, s.chunks.ChunksOn(name), v.Major, v.Minor)
		for r := range s.chunks.OwnedBy(name) {
			out.WriteString(" " + s.key.RangeText(r))
		}
		out.WriteByte('\n')
	}
	fmt.Fprintf(&out, "%d chunks, version %s\n", s.chunks.Len(), s.chunks.Version())
	return out.String()
}

func (s *script) chunkText(c Chunk) string {
	out := fmt.Sprintf("%d %s %s %d|%d", binary.BigEndian.Uint32(c.ID[8:]), c.Shard, s.key.RangeText(c.Range), c.Version.Major, c.Version.Minor)
	if c.Jumbo {
		out += " jumbo"
	}
	for _, p := range c.History {
		out += fmt.Sprintf(" %s since %d", p.Shard, p.ValidAfter>>32)
	}
	return out + "\n"
}

// refresh: one document of config.chunks a line.
func (s *script) refresh(d *datadriven.TestData) string {
	var changes []Chunk
	for _, line := range lines(d) {
		c, err := s.key.ParseChunk(testGeneration, bson.MustParse(line))
		if err != nil {
			return errText(err)
		}
		changes = append(changes, c)
	}
	m, err := s.chunks.With(changes)
	if err != nil {
		return errText(err)
	}
	s.chunks = m
	return s.show(d)
}

// chunk: one document of config.chunks a line, there and back.
func (s *script) chunk(d *datadriven.TestData) string {
	var out strings.Builder
	for _, line := range lines(d) {
		doc := bson.MustParse(line)
		c, err := s.key.ParseChunk(testGeneration, doc)
		if err != nil {
			out.WriteString(errText(err))
			continue
		}
		fmt.Fprintf(&out, "%s\n", s.key.ChunkDoc(bson.UUID(doc.Lookup("uuid").Data[5:]), &c))
	}
	return out.String()
}

func (s *script) apply(c Change, err error) string {
	if err != nil {
		return errText(err)
	}
	out := ""
	for _, id := range c.Removed {
		out += fmt.Sprintf("removed %d\n", binary.BigEndian.Uint32(id[8:]))
	}
	for _, put := range c.Put {
		out += "put " + s.chunkText(put)
	}
	if s.chunks, err = s.chunks.With(c.Put); err != nil {
		return errText(err)
	}
	return out
}

// split: the lower and the upper bound of a chunk, and points, a line each.
func (s *script) split(d *datadriven.TestData) string {
	var bounds []Bound
	for _, line := range lines(d) {
		bounds = append(bounds, s.mustBound(line))
	}
	return s.apply(s.chunks.Split(Range{Min: bounds[0], Max: bounds[1]}, bounds[2:], s.newID))
}

// splitWhere: {find, bounds, middle} of a split command.
func (s *script) splitWhere(d *datadriven.TestData) string {
	var out strings.Builder
	for _, line := range lines(d) {
		doc := bson.MustParse(line)
		var find, middle bson.Doc
		var bounds []bson.Value
		if v := doc.Lookup("find"); v.Type == bson.TypeDocument {
			find = v.Doc()
		}
		if v := doc.Lookup("middle"); v.Type == bson.TypeDocument {
			middle = v.Doc()
		}
		if v := doc.Lookup("bounds"); v.Type == bson.TypeArray {
			bounds = v.Doc().Slice()
		}
		c, at, err := s.chunks.SplitWhere(find, bounds, middle)
		switch {
		case err != nil:
			out.WriteString(errText(err))
		case at != nil:
			fmt.Fprintf(&out, "%s at %s\n", s.key.RangeText(c.Range), s.key.Doc(*at))
		default:
			fmt.Fprintf(&out, "%s at its median\n", s.key.RangeText(c.Range))
		}
	}
	return out.String()
}

func (s *script) scanRange(d *datadriven.TestData) Range {
	l := lines(d)
	return Range{Min: s.mustBound(l[0]), Max: s.mustBound(l[1])}
}

// merge: the lower and the upper bound of a range.
func (s *script) merge(d *datadriven.TestData) string { return s.apply(s.chunks.Merge(s.scanRange(d))) }

// move to=shard at=seconds keep=seconds: the lower and the upper bound of a range.
func (s *script) move(d *datadriven.TestData) string {
	var to string
	at, keep := 10, 0
	for _, arg := range d.CmdArgs {
		switch arg.Key {
		case "to":
			to = arg.Vals[0]
		case "at":
			_, _ = fmt.Sscan(arg.Vals[0], &at)
		case "keep":
			_, _ = fmt.Sscan(arg.Vals[0], &keep)
		}
	}
	return s.apply(s.chunks.Move(s.scanRange(d), to, uint64(at)<<32, uint64(keep)<<32, s.newID))
}

// index: {key, multikey, …}, specifications of indexes; whether each serves the
// shard key.
func (s *script) index(d *datadriven.TestData) string {
	var out strings.Builder
	for _, line := range lines(d) {
		doc := bson.MustParse(line)
		var spec bson.Builder
		for name, v := range doc.All() {
			if name != "multikey" {
				spec.Value(name, v)
			}
		}
		ix := mustIndex(spec.Finish())
		ok, reason := s.key.Serves(ix, doc.Has("multikey"))
		fmt.Fprintf(&out, "%s serves %v %s unique %v\n", doc, ok, reason, s.key.AllowsUnique(ix.Key))
	}
	return out.String()
}

// stale: received and wanted as [major, minor, generation]; zeros are unsharded.
func (s *script) stale(d *datadriven.TestData) string {
	var out strings.Builder
	for _, line := range lines(d) {
		var v [6]uint32
		_, err := fmt.Sscan(line, &v[0], &v[1], &v[2], &v[3], &v[4], &v[5])
		if err != nil {
			panic(err)
		}
		of := func(v []uint32) Version {
			return Version{ShardGeneration: Generation{Epoch: [12]byte{11: byte(v[2])}, Timestamp: uint64(v[2]) << 32}, Major: v[0], Minor: v[1]}
		}
		err = schema.CheckShardVersion("d.c", "s0", of(v[:3]), of(v[3:]))
		if err == nil {
			out.WriteString("the same\n")
			continue
		}
		info, parseErr := ParseStale(mongoerr.From(err).Extra)
		if parseErr != nil || info.Received != of(v[:3]) || *info.Wanted != of(v[3:]) || info.Shard != "s0" || info.Namespace != "d.c" {
			panic(fmt.Sprint("it does not come back: ", info, parseErr))
		}
		out.WriteString(errText(err))
	}
	return out.String()
}

func mustIndex(spec bson.Doc) *schema.Index {
	spec, err := schema.ParseIndexSpec(schema.Namespace{DB: "d", Coll: "c"}, spec, false)
	if err != nil {
		panic(err)
	}
	ix, err := schema.LoadIndex(spec)
	if err != nil {
		panic(err)
	}
	return ix
}
