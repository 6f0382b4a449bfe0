package timeseries

import (
	"encoding/binary"
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/mayflydb/mayfly/internal/bson"
)

// seriesOf is values as a measurement after the other brings them: gaps at the
// end are known last.
func seriesOf(values []bson.Value) *Series {
	s := &Series{}
	for i, v := range values {
		if !v.IsMissing() {
			s.put(i, v)
		}
	}
	if s.n < len(values) {
		s.extend(len(values))
	}
	return s
}

func checkColumn(t interface{ Fatalf(string, ...any) }, values []bson.Value) []byte {
	b := AppendColumn(nil, seriesOf(values))
	c, err := OpenColumn(b, len(values))
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	got, err := c.Values(nil)
	if err != nil || len(got) != len(values) {
		t.Fatalf("values: %d of %d, %v", len(got), len(values), err)
	}
	for i := range got {
		if !same(got[i], values[i]) {
			t.Fatalf("value %d: %v became %v", i, values[i], got[i])
		}
	}
	var s Series
	if err := c.unpack(&s); err != nil || s.Len() != len(values) {
		t.Fatalf("series: %d of %d, %v", s.Len(), len(values), err)
	}
	for i, v := range values {
		if !same(s.At(i), v) {
			t.Fatalf("value %d: %v became %v", i, v, s.At(i))
		}
	}
	return b
}

func number(t bson.Type, u uint64) bson.Value {
	if t == bson.TypeInt32 {
		return bson.Value{Type: t, Data: binary.LittleEndian.AppendUint32(nil, uint32(u))}
	}
	return bson.Value{Type: t, Data: binary.LittleEndian.AppendUint64(nil, u)}
}

// values draws one value of a kind that the encodings treat by themselves.
func drawValue(t *rapid.T, kind int) bson.Value {
	switch kind {
	case 0:
		return bson.Value{}
	case 1:
		return number(bson.TypeInt32, uint64(rapid.Int32().Draw(t, "int")))
	case 2:
		return number(bson.TypeInt64, uint64(rapid.Int64().Draw(t, "long")))
	case 3:
		return number(bson.TypeDate, uint64(1_700_000_000_000+rapid.Int64Range(-5, 5).Draw(t, "date")))
	case 4:
		return number(bson.TypeDouble, math.Float64bits(float64(rapid.IntRange(-1e6, 1e6).Draw(t, "tenths"))/10))
	case 5:
		return number(bson.TypeDouble, rapid.Uint64().Draw(t, "bits"))
	case 6:
		id := rapid.SliceOfN(rapid.Byte(), 12, 12).Draw(t, "id")
		return bson.Value{Type: bson.TypeObjectID, Data: id}
	case 7:
		return new(bson.Builder).String("", rapid.SampledFrom([]string{"", "a", "bc", "d"}).Draw(t, "text")).Finish().Lookup("")
	case 8:
		var b bson.Builder
		b.OpenDoc("").Int("x", int64(rapid.IntRange(0, 3).Draw(t, "x"))).Close()
		return b.Finish().Lookup("")
	}
	return bson.Value{Type: bson.TypeNull}
}

func TestColumnKeepsValues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var values []bson.Value
		for range rapid.IntRange(0, 8).Draw(t, "runs") {
			kind := rapid.IntRange(0, 9).Draw(t, "kind")
			for range rapid.IntRange(1, 40).Draw(t, "length") {
				values = append(values, drawValue(t, kind))
			}
		}
		checkColumn(t, values)
	})
}

func TestColumnKeepsOddDoubles(t *testing.T) {
	var values []bson.Value
	for _, f := range []float64{math.Copysign(0, -1), math.NaN(), math.Inf(1), math.Inf(-1), 0.1, 1e300, 5e-324, 1 << 53, 0.1 + 0.2, 123456789.123456789} {
		values = append(values, number(bson.TypeDouble, math.Float64bits(f)), number(bson.TypeDouble, math.Float64bits(1.5)))
	}
	checkColumn(t, values)
}

// A steady sensor costs a handful of bytes.
func TestColumnIsSmall(t *testing.T) {
	var times, temps, ids []bson.Value
	for i := range 1000 {
		times = append(times, number(bson.TypeDate, uint64(1_700_000_000_000+int64(i)*1000)))
		temps = append(temps, number(bson.TypeDouble, math.Float64bits(float64(200+i%7)/10)))
		id := make([]byte, 12)
		binary.BigEndian.PutUint32(id, uint32(1_700_000_000+i))
		id[11], id[10] = byte(i), byte(i>>8)
		ids = append(ids, bson.Value{Type: bson.TypeObjectID, Data: id})
	}
	for _, c := range []struct {
		name   string
		values []bson.Value
		most   int
	}{{"times", times, 32}, {"temperatures", temps, 128}, {"ids", ids, 64}} {
		if b := checkColumn(t, c.values); len(b) > c.most {
			t.Errorf("%s: %d bytes, want at most %d", c.name, len(b), c.most)
		}
	}
}

// FuzzColumn reads garbage: an error, or as many well-formed values as asked.
func FuzzColumn(f *testing.F) {
	var values []bson.Value
	for i := range 50 {
		values = append(values, number(bson.TypeInt64, uint64(i*i)))
	}
	f.Add(AppendColumn(nil, seriesOf(values)), 50)
	f.Add(AppendColumn(nil, seriesOf([]bson.Value{{Type: bson.TypeNull}, {}, {Type: bson.TypeMinKey}})), 3)
	f.Add([]byte{formPlain, 1, 4, kindText, 4, 2, 0}, 4)
	f.Fuzz(func(t *testing.T, b []byte, n int) {
		c, err := OpenColumn(b, n)
		if err != nil {
			return
		}
		got, err := c.Values(nil)
		var s Series
		if failed := c.unpack(&s); (failed == nil) != (err == nil) {
			t.Fatalf("values: %v, series: %v", err, failed)
		}
		if err != nil {
			return
		}
		if len(got) != n {
			t.Fatalf("%d values, want %d", len(got), n)
		}
		for i, v := range got {
			if !same(v, s.At(i)) {
				t.Fatalf("value %d: %v, series %v", i, v, s.At(i))
			}
			if !v.IsMissing() && bson.ValidateValue(v, bson.MaxDepth) != nil {
				t.Fatalf("malformed value %v", fmt.Sprintf("%d %x", v.Type, v.Data))
			}
		}
	})
}

func BenchmarkColumn(b *testing.B) {
	var temps []bson.Value
	for i := range 1000 {
		temps = append(temps, number(bson.TypeDouble, math.Float64bits(float64(200+i*i%97)/10)))
	}
	packed := AppendColumn(nil, seriesOf(temps))
	column := seriesOf(temps)
	b.Run("append", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			AppendColumn(packed[:0], column)
		}
	})
	b.Run("read", func(b *testing.B) {
		b.ReportAllocs()
		var s Series
		for b.Loop() {
			c, err := OpenColumn(packed, len(temps))
			if err == nil {
				err = c.unpack(&s)
			}
			if err != nil {
				b.Fatal(err)
			}
		}
	})
}
