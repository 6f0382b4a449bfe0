package server

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"sync"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

const (
	// maxLogAttr bounds one attribute of a line, in bytes; a longer one is truncated,
	// as with the default of maxLogSizeKB.
	maxLogAttr = 10 << 10
	// pooledLine bounds the memory of a line that is kept for reuse.
	pooledLine = 64 << 10
	// The columns to which a line's first fields are padded.
	severityColumn, componentColumn, idColumn = 6, 12, 9
)

// lineBuffer is the buffer for a line.
type lineBuffer struct{ line, attr []byte }

var lines = sync.Pool{New: func() any { return &lineBuffer{} }}

func takeLine() *lineBuffer {
	b := lines.Get().(*lineBuffer)
	b.line, b.attr = b.line[:0], b.attr[:0]
	return b
}

func (b *lineBuffer) release() {
	if cap(b.line)+cap(b.attr) <= pooledLine {
		lines.Put(b)
	}
}

// appendLine writes the line without its end.
func appendLine(dst []byte, r slog.Record, h *lineHead, attr []byte, utc bool) []byte {
	dst = append(appendTime(append(dst, `{"t":{"$date":"`...), r.Time, utc), `"},"s":`...)
	dst = pad(appendString(dst, severity(r.Level)), len(dst), severityColumn)
	component := h.component
	if component == "" {
		component = "-"
	}
	dst = append(dst, `"c":`...)
	dst = pad(appendString(dst, component), len(dst), componentColumn)
	dst = append(dst, `"id":`...)
	dst = pad(strconv.AppendInt(dst, h.id, 10), len(dst), idColumn)
	name := h.context
	if name == "" {
		name = "main"
	}
	dst = appendString(append(dst, `"ctx":`...), name)
	dst = appendString(append(dst, `,"msg":`...), r.Message)
	if len(attr) > 0 {
		dst = append(append(append(dst, `,"attr":{`...), attr...), '}')
	}
	if len(h.tags) > 0 {
		dst = appendValue(append(dst, `,"tags":`...), slog.AnyValue(h.tags))
	}
	return append(dst, '}')
}

// pad ends the field that started at start with a comma and spaces up to column.
func pad(dst []byte, start, column int) []byte {
	dst = append(dst, ',')
	for len(dst)-start < column {
		dst = append(dst, ' ')
	}
	return dst
}

func appendTime(dst []byte, t time.Time, utc bool) []byte {
	if utc {
		return t.UTC().AppendFormat(dst, "2006-01-02T15:04:05.000Z")
	}
	return t.AppendFormat(dst, "2006-01-02T15:04:05.000-07:00")
}

func severity(level slog.Level) string {
	switch {
	case level >= LevelFatal:
		return "F"
	case level >= slog.LevelError:
		return "E"
	case level >= slog.LevelWarn:
		return "W"
	case level >= slog.LevelInfo:
		return "I"
	}
	return "D" + strconv.Itoa(min(debugLevel(level), maxVerbosity))
}

// appendAttr appends one attribute to the inside of an object.
func appendAttr(dst []byte, a slog.Attr) []byte {
	v := a.Value.Resolve()
	if v.Kind() == slog.KindGroup {
		if len(v.Group()) == 0 {
			return dst
		}
		if a.Key == "" { // its attributes stand in the object itself
			for _, inner := range v.Group() {
				dst = appendAttr(dst, inner)
			}
			return dst
		}
	}
	if a.Key == "" && v.Kind() == slog.KindAny && v.Any() == nil {
		return dst
	}
	return appendValue(appendName(dst, a.Key), v)
}

// appendName begins a field of an object.
func appendName(dst []byte, name string) []byte {
	if n := len(dst); n > 0 && dst[n-1] != '{' {
		dst = append(dst, ',')
	}
	return append(appendString(dst, name), ':')
}

func appendValue(dst []byte, v slog.Value) []byte {
	switch v.Kind() {
	case slog.KindString:
		return appendCut(dst, v.String())
	case slog.KindInt64:
		return strconv.AppendInt(dst, v.Int64(), 10)
	case slog.KindUint64:
		return strconv.AppendUint(dst, v.Uint64(), 10)
	case slog.KindFloat64:
		if f := v.Float64(); math.IsNaN(f) || math.IsInf(f, 0) {
			return appendString(dst, strconv.FormatFloat(f, 'g', -1, 64))
		}
		return strconv.AppendFloat(dst, v.Float64(), 'g', -1, 64)
	case slog.KindBool:
		return strconv.AppendBool(dst, v.Bool())
	case slog.KindDuration:
		return strconv.AppendInt(dst, v.Duration().Milliseconds(), 10)
	case slog.KindTime:
		return append(appendTime(append(dst, `{"$date":"`...), v.Time(), false), `"}`...)
	case slog.KindGroup:
		dst = append(dst, '{')
		for _, a := range v.Group() {
			dst = appendAttr(dst, a)
		}
		return append(dst, '}')
	}
	return appendAny(dst, v.Any())
}

func appendAny(dst []byte, v any) []byte {
	switch v := v.(type) {
	case bson.Doc:
		return appendDocument(dst, v)
	case bson.Value:
		if len(v.Data) <= maxLogAttr {
			return v.AppendJSON(dst, bson.RelaxedJSON)
		}
		return appendCut(dst, v.String())
	case *mongoerr.Error:
		return appendValue(dst, slog.GroupValue(slog.Int("code", int(v.Code)), slog.String("codeName", v.Code.String()), slog.String("errmsg", v.Message)))
	case error:
		return appendCut(dst, v.Error())
	case json.Marshaler:
	case fmt.Stringer:
		return appendCut(dst, v.String())
	}
	b, err := json.Marshal(v)
	if err != nil || len(b) > maxLogAttr {
		return appendCut(dst, fmt.Sprint(v))
	}
	return append(dst, b...)
}

// appendDocument appends as many of d's fields as fit into the bound.
func appendDocument(dst []byte, d bson.Doc) []byte {
	if len(d) <= maxLogAttr {
		return d.AppendJSON(dst, bson.RelaxedJSON)
	}
	b, room := new(bson.Builder), maxLogAttr
	for it := d.Iter(); it.Next(); {
		if n := len(it.Key) + len(it.Value.Data); n <= room {
			room -= n
			b.Value(it.Key, it.Value)
			continue
		}
		b.String(it.Key, "...")
	}
	kept := b.Finish()
	if len(kept) > 2*maxLogAttr { // very many fields left out
		return appendString(dst, "...")
	}
	return kept.AppendJSON(dst, bson.RelaxedJSON)
}

func appendCut(dst []byte, s string) []byte {
	if len(s) > maxLogAttr {
		s = s[:maxLogAttr] + "..."
	}
	return appendString(dst, s)
}

func appendString(dst []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= 0x7f {
			return bson.String(s).AppendJSON(dst, bson.RelaxedJSON)
		}
	}
	return append(append(append(dst, '"'), s...), '"')
}
