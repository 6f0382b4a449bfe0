package shard

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"pgregory.net/rapid"

	"github.com/mayflydb/mayfly/internal/bson"
)

// refine: patterns, one a line, which the script's key is refined to.
func (s *script) refine(d *datadriven.TestData) string {
	var out strings.Builder
	for _, line := range lines(d) {
		k := mustKey(line)
		chunks, err := s.chunks.Refine(k, Generation{Epoch: [12]byte{11: 8}, Timestamp: 9 << 32})
		if err != nil {
			out.WriteString(errText(err))
			continue
		}
		m, err := NewMap("d.c", k, Generation{Epoch: [12]byte{11: 8}, Timestamp: 9 << 32}, chunks)
		if err != nil {
			panic(err)
		}
		out.WriteString((&script{key: k, chunks: m}).show(d))
		for _, z := range s.zones.Refine(k).All() {
			fmt.Fprintf(&out, "zone %s %s\n", z.Name, k.RangeText(z.Range))
		}
	}
	return out.String()
}

// sample n=…: documents, a line each; where n parts are cut.
func (s *script) sample(d *datadriven.TestData) string {
	n := number(d, "n")
	var sample []Bound
	for _, line := range lines(d) {
		b, err := s.key.BoundOf(bson.MustParse(line))
		if err != nil {
			return errText(err)
		}
		sample = append(sample, b)
	}
	points, err := SamplePoints(s.key, sample, s.zones, n)
	if err != nil {
		return errText(err)
	}
	var out strings.Builder
	for _, p := range points {
		fmt.Fprintf(&out, "%s\n", s.key.Doc(p))
	}
	return out.String()
}

// number is an argument of a command.
func number(d *datadriven.TestData, name string) (n int) {
	for _, arg := range d.CmdArgs {
		if arg.Key == name {
			_, _ = fmt.Sscan(arg.Vals[0], &n)
		}
	}
	return n
}

// cutBySize size=… limit=…: documents with their bytes, {x, bytes} a line.
func (s *script) cutBySize(d *datadriven.TestData) string {
	size, limit := int64(number(d, "size")), number(d, "limit")
	var keys []Bound
	points := CutBySize(func(yield func(Bound, int64) bool) {
		for _, line := range lines(d) {
			doc := bson.MustParse(line)
			b, _ := s.key.BoundOf(doc)
			keys = append(keys, b)
			if !yield(b, bson.ClampToInt64(doc.Lookup("bytes"))) {
				return
			}
		}
	}, size, limit)
	var out strings.Builder
	for _, p := range points {
		fmt.Fprintf(&out, "cut at %s\n", s.key.Doc(p))
	}
	median, err := Median(keys)
	if err != nil {
		return out.String() + errText(err)
	}
	return out.String() + fmt.Sprintf("median %s\n", s.key.Doc(median))
}

// TestRefineKeepsPlaces: a document stays on its shard when the key is refined.
func TestRefineKeepsPlaces(t *testing.T) {
	for from, to := range map[string]string{`{x: 1}`: `{x: 1, a: "hashed"}`, `{x: "hashed"}`: `{x: "hashed", a: 1}`, `{a: 1}`: `{a: 1, x: 1, s: 1}`} {
		rapid.Check(t, func(t *rapid.T) {
			m := drawMap(t, mustKey(from))
			chunks, err := m.Refine(mustKey(to), testGeneration)
			if err != nil {
				t.Fatal(err)
			}
			refined, err := NewMap("d.c", mustKey(to), testGeneration, chunks)
			if err != nil {
				t.Fatal(err)
			}
			for range 20 {
				doc := drawDoc(t)
				was, err := m.TargetInsert(doc)
				is, refinedErr := refined.TargetInsert(doc)
				if err != nil || refinedErr != nil || was != is {
					t.Fatalf("%v was on %s, is on %s (%v, %v)", doc, was, is, err, refinedErr)
				}
			}
		})
	}
}

// FuzzKey: whatever comes as a shard key, what it parses to holds together.
func FuzzKey(f *testing.F) {
	for _, text := range []string{`{x: 1}`, `{x: "hashed"}`, `{"a.b": 1, u: "hashed"}`, `{"": 1}`, `{x: [1]}`, `{"a.": NaN}`, `{x: 1e300}`} {
		f.Add([]byte(bson.MustParse(text)), []byte(bson.MustParse(`{a: {b: 1}, x: 5}`)))
	}
	f.Fuzz(func(t *testing.T, pattern, doc []byte) {
		if bson.Validate(pattern, 100) != nil || bson.Validate(doc, 100) != nil {
			return
		}
		k, err := ParseKey(pattern)
		if err != nil {
			return
		}
		if _, ok := k.ParseBound(doc); ok && len(k.Fields()) == 0 {
			t.Error("a key without fields")
		}
		for _, b := range []Bound{k.Min(), k.Max()} {
			if back, ok := k.ParseBound(k.Doc(b)); !ok || back.Compare(b) != 0 {
				t.Errorf("%v: its end %v does not come back", k, k.Doc(b))
			}
		}
		at, err := k.Append(nil, doc)
		if err != nil {
			return
		}
		b, err := k.BoundOf(doc)
		if err != nil || string(b.Key) != string(at) {
			t.Errorf("%v: %v lies at %x, begins at %x", k, bson.Doc(doc), at, b.Key)
		}
		k.Doc(b)
	})
}
