package timeseries

import (
	"bytes"
	"encoding/binary"
	"errors"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/mayflydb/mayfly/internal/bson"
)

// A column is
//
//	form byte (0 plain, 1 zstd) ‖ body
//	body = gaps ‖ runs
//	gaps = number of spans ‖ length of each span, values and gaps in turn
//	run  = kind byte ‖ number of values ‖ payload of that kind
//
// All numbers are unsigned varints unless a payload says otherwise.
const (
	formPlain = 0
	formZstd  = 1
)

// The kinds of runs.
const (
	kindRaw      = iota // each value with its type
	kindSame            // one value, repeated
	kindIntegers        // differences of differences
	kindScaled          // doubles that are decimal fractions
	kindXOR             // doubles in general
	kindObjectID
	kindText // one type of variable length, by a dictionary where that pays
	kinds
)

// minCompressed is the length from which a body is tried with zstd: below it
// the frame costs more than it can save.
const minCompressed = 96

// maxColumn bounds a column's body, in bytes: a bucket is one document.
const maxColumn = 16 << 20

var errColumn = errors.New("timeseries: a column is corrupt")

var (
	encoder = sync.OnceValue(func() *zstd.Encoder {
		e, err := zstd.NewWriter(nil, zstd.WithEncoderCRC(false), zstd.WithEncoderConcurrency(1), zstd.WithSingleSegment(true))
		if err != nil {
			panic(err) // the options are constants
		}
		return e
	})
	decoder = sync.OnceValue(func() *zstd.Decoder {
		d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxColumn))
		if err != nil {
			panic(err)
		}
		return d
	})
)

// AppendColumn appends a series in the smallest encoding found.
func AppendColumn(dst []byte, s *Series) []byte {
	body := appendBody(nil, s)
	if len(body) >= minCompressed {
		if packed := encoder().EncodeAll(body, []byte{formZstd}); len(packed) < len(body) {
			return append(dst, packed...)
		}
	}
	return append(append(dst, formPlain), body...)
}

func appendBody(dst []byte, s *Series) []byte {
	if t, data := s.Fixed(); data != nil {
		dst = binary.AppendUvarint(append(dst, 1), uint64(s.n)) // one span, without gaps
		return appendFixedRun(dst, t, data, s.n)
	}
	values := s.values
	if values == nil {
		values = make([]bson.Value, s.n) // all of them gaps
	}
	return appendRuns(appendGaps(dst, values), present(values))
}

// Column is a packed column, checked as far as its gaps.
type Column struct {
	n     int   // values and gaps
	spans []int // lengths of values and gaps in turn, values first
	runs  []byte
}

// OpenColumn reads the frame of a column of n values and gaps. Its spans may not add up
// to more (invariant bounded).
func OpenColumn(b []byte, n int) (*Column, error) {
	if len(b) == 0 || n < 0 || n > MaxMeasurements {
		return nil, errColumn
	}
	body := b[1:]
	switch b[0] {
	case formPlain:
	case formZstd:
		var err error
		if body, err = decoder().DecodeAll(body, nil); err != nil {
			return nil, errors.Join(errColumn, err)
		}
	default:
		return nil, errColumn
	}
	c := &Column{n: n}
	r := reader{b: body}
	total := 0
	for range r.count(2*n + 1) {
		span := r.count(n - total)
		total += span
		c.spans = append(c.spans, span)
	}
	c.runs = r.b
	if r.bad || total > n {
		return nil, errColumn
	}
	return c, nil
}

// Values appends all values, Missing for the gaps. They share the column's
// bytes.
func (c *Column) Values(dst []bson.Value) ([]bson.Value, error) {
	dense := make([]bson.Value, 0, c.n)
	r := reader{b: c.runs}
	for len(r.b) > 0 && !r.bad {
		kind := r.byte()
		n := r.count(c.n - len(dense))
		if kind >= kinds || n == 0 {
			return dst, errColumn
		}
		dense = decoders[kind](&r, n, dense)
	}
	if r.bad {
		return dst, errColumn
	}
	base := len(dst)
	for i, span := range c.spans {
		if i%2 == 1 {
			dst = append(dst, make([]bson.Value, span)...)
			continue
		}
		if span > len(dense) {
			return dst, errColumn
		}
		dst = append(dst, dense[:span]...)
		dense = dense[span:]
	}
	if len(dense) > 0 {
		return dst, errColumn
	}
	return append(dst, make([]bson.Value, c.n-(len(dst)-base))...), nil
}

// decoders read n values of a run. On malformed input they mark the reader bad.
var decoders = [kinds]func(r *reader, n int, dst []bson.Value) []bson.Value{
	kindRaw: readRaw, kindSame: readSame, kindIntegers: appendFixed(kindIntegers), kindScaled: appendFixed(kindScaled),
	kindXOR: appendFixed(kindXOR), kindObjectID: appendFixed(kindObjectID), kindText: readText,
}

func appendGaps(dst []byte, values []bson.Value) []byte {
	var spans []int
	for i, gap := 0, false; i < len(values); gap = !gap {
		from := i
		for i < len(values) && values[i].IsMissing() == gap {
			i++
		}
		spans = append(spans, i-from)
	}
	dst = binary.AppendUvarint(dst, uint64(len(spans)))
	for _, n := range spans {
		dst = binary.AppendUvarint(dst, uint64(n))
	}
	return dst
}

func present(values []bson.Value) []bson.Value {
	for i, v := range values {
		if v.IsMissing() {
			dense := append(make([]bson.Value, 0, len(values)), values[:i]...)
			for _, v := range values[i:] {
				if !v.IsMissing() {
					dense = append(dense, v)
				}
			}
			return dense
		}
	}
	return values
}

// shortRun is the average length of runs below which a column of changing
// types is kept raw.
const shortRun = 4

func appendRuns(dst []byte, values []bson.Value) []byte {
	var ends []int
	for i := range values {
		if i+1 == len(values) || values[i+1].Type != values[i].Type {
			ends = append(ends, i+1)
		}
	}
	if len(ends) > 1 && len(ends)*shortRun > len(values) {
		return appendRaw(appendHead(dst, kindRaw, len(values)), values)
	}
	from := 0
	for _, to := range ends {
		dst = appendRun(dst, values[from:to])
		from = to
	}
	return dst
}

func appendHead(dst []byte, kind byte, n int) []byte {
	return binary.AppendUvarint(append(dst, kind), uint64(n))
}

// appendRun appends values of one type.
func appendRun(dst []byte, values []bson.Value) []byte {
	n, t := len(values), values[0].Type
	if allSame(values) {
		return appendValue(appendHead(dst, kindSame, n), values[0])
	}
	if w := widthOf(t); w > 0 {
		data := make([]byte, 0, n*w)
		for _, v := range values {
			data = append(data, v.Data...)
		}
		return appendFixedRun(dst, t, data, n)
	}
	switch t {
	case bson.TypeString, bson.TypeSymbol, bson.TypeDocument, bson.TypeArray, bson.TypeBinary:
		return appendText(appendHead(dst, kindText, n), values)
	}
	return appendRaw(appendHead(dst, kindRaw, n), values)
}

// appendFixedRun appends n values of a type that has a width, one behind the
// other in data.
func appendFixedRun(dst []byte, t bson.Type, data []byte, n int) []byte {
	w := len(data) / n
	switch {
	case bytes.Equal(data[w:], data[:len(data)-w]):
		return appendValue(appendHead(dst, kindSame, n), bson.Value{Type: t, Data: data[:w]})
	case t == bson.TypeObjectID:
		return appendObjectIDs(appendHead(dst, kindObjectID, n), data)
	case t != bson.TypeDouble:
		return appendIntegers(appendHead(dst, kindIntegers, n), t, data)
	}
	if scale, ok := commonScale(data); ok {
		return appendScaled(appendHead(dst, kindScaled, n), data, scale)
	}
	return appendXOR(appendHead(dst, kindXOR, n), data)
}

func allSame(values []bson.Value) bool {
	for _, v := range values[1:] {
		if !same(v, values[0]) {
			return false
		}
	}
	return true
}

// same compares type and bytes, as 1 and 1.0 are two values here (invariant exact).
func same(a, b bson.Value) bool { return a.Type == b.Type && string(a.Data) == string(b.Data) }
