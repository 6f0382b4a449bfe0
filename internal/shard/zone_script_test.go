package shard

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cockroachdb/datadriven"

	"github.com/mayflydb/mayfly/internal/bson"
)

// makeZones: {tag, min, max} a line; they replace those there were.
func (s *script) makeZones(d *datadriven.TestData) string {
	s.zones, _ = NewZones(s.key)
	var out strings.Builder
	for _, line := range lines(d) {
		if line == "" {
			continue
		}
		z, err := s.key.ParseZone(bson.MustParse(line))
		if err == nil {
			var next *Zones
			if next, err = s.zones.Add(z); err == nil {
				s.zones = next
			}
		}
		if err != nil {
			out.WriteString(errText(err))
		}
	}
	for _, z := range s.zones.All() {
		fmt.Fprintf(&out, "%s\n", s.key.ZoneDoc([12]byte{}, "d.c", z))
	}
	return out.String()
}

// zoneRange: {min, max} of updateZoneKeyRange a line.
func (s *script) zoneRange(d *datadriven.TestData) string {
	var out strings.Builder
	for _, line := range lines(d) {
		doc := bson.MustParse(line)
		r, err := s.key.ZoneRange("d.c", doc.Lookup("min").Doc(), doc.Lookup("max").Doc())
		if err != nil {
			out.WriteString(errText(err))
			continue
		}
		fmt.Fprintf(&out, "%s\n", s.key.RangeText(r))
	}
	return out.String()
}

// zoneOf: the lower and the upper bound of a range: its zone, and the ends of
// zones inside.
func (s *script) zoneOf(d *datadriven.TestData) string {
	r := s.scanRange(d)
	out := fmt.Sprintf("zone %q\n", s.zones.Of(r))
	for _, b := range s.zones.Within(r) {
		out += fmt.Sprintf("cut at %s\n", s.key.Doc(b))
	}
	return out
}

// initial: {empty, shards, zones: {name: [shard …]}, numInitialChunks, presplit}.
// "counts" prints the chunks of each shard only.
func (s *script) initial(d *datadriven.TestData) string {
	doc := bson.MustParse(d.Input)
	names := func(v bson.Value) (out []string) {
		if v.Type == bson.TypeArray {
			for e := range v.Doc().Values() {
				out = append(out, e.Str())
			}
		}
		return out
	}
	s.ids = 0
	r := Initial{
		Key: s.key, Empty: doc.Lookup("empty").Truthy(), Shards: names(doc.Lookup("shards")), Primary: "s0", Zones: s.zones, InZone: map[string][]string{},
		NumChunks: bson.ClampToInt64(doc.Lookup("numInitialChunks")), Presplit: doc.Lookup("presplit").Truthy(), Generation: testGeneration, NewID: s.newID,
	}
	if v := doc.Lookup("primary"); v.Type == bson.TypeString {
		r.Primary = v.Str()
	}
	if v := doc.Lookup("zones"); v.Type == bson.TypeDocument {
		for name, shards := range v.Doc().All() {
			r.InZone[name] = names(shards)
		}
	}
	chunks, err := r.Chunks()
	if err != nil {
		return errText(err)
	}
	if s.chunks, err = NewMap("d.c", s.key, testGeneration, chunks); err != nil {
		return errText(err)
	}
	for c := range s.chunks.Chunks() { // (invariant zone)
		if z := s.zones.Of(c.Range); z != "" && !slices.Contains(r.InZone[z], c.Shard) || len(s.zones.Within(c.Range)) > 0 {
			return fmt.Sprintf("chunk %s breaks a zone\n", s.chunkText(c))
		}
	}
	if !d.HasArg("counts") {
		return s.show(d)
	}
	var counts []int
	for _, name := range r.Shards {
		counts = append(counts, s.chunks.ChunksOn(name))
	}
	return fmt.Sprintln(counts)
}

// hashPoints: into how many parts the space of hashes is cut, a line each.
func (s *script) hashPoints(d *datadriven.TestData) string {
	var out strings.Builder
	for _, line := range lines(d) {
		var n int
		_, _ = fmt.Sscan(line, &n)
		fmt.Fprintf(&out, "%d:", n)
		for _, b := range s.key.HashPoints(nil, n) {
			fmt.Fprintf(&out, " %d", s.key.BoundValues(b)[s.key.Hashed].Int64())
		}
		out.WriteByte('\n')
	}
	return out.String()
}
