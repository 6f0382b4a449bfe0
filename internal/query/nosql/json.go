package nosql

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/mayflydb/mayfly/internal/bson"
)

// MaxJSONDepth bounds how deep JSON nests, as the service does (128).
const MaxJSONDepth = 128

// ParseJSON reads one JSON text as a value (RFC 8259): whole numbers as int or long,
// all others as double. Where an object has a name twice, the last one counts. Invalid
// UTF-8 becomes U+FFFD.
func ParseJSON(data []byte) (bson.Value, error) {
	text := string(data)
	if !utf8.ValidString(text) {
		text = string([]rune(text)) // each bad byte by itself
	}
	v, err := parseJSON(text, false)
	if errors.Is(err, errTwice) {
		return parseJSON(text, true)
	}
	return v, err
}

// errTwice says that an object has a name twice, which takes the slow way.
var errTwice = errors.New("duplicate name in an object")

func parseJSON(text string, twice bool) (bson.Value, error) {
	r := jsonReader{text: text, twice: twice}
	v, err := r.root()
	if err != nil {
		return bson.Value{}, err
	}
	if r.space(); r.at < len(text) {
		return bson.Value{}, r.unexpected()
	}
	return v, nil
}

// jsonReader reads JSON straight into the bytes of a document.
type jsonReader struct {
	text  string
	at    int
	depth int
	// names are those of the objects that are open, the innermost's last.
	names []string
	// twice allows names that come twice.
	twice bool
}

func (r *jsonReader) unexpected() error {
	if r.at >= len(r.text) {
		return errors.New("the JSON text ends too early")
	}
	return fmt.Errorf("unexpected character in JSON at %d", r.at)
}

func (r *jsonReader) space() {
	for r.at < len(r.text) {
		switch r.text[r.at] {
		case ' ', '\t', '\n', '\r':
			r.at++
		default:
			return
		}
	}
}

// take passes over c, after white space.
func (r *jsonReader) take(c byte) bool {
	r.space()
	if r.at < len(r.text) && r.text[r.at] == c {
		r.at++
		return true
	}
	return false
}

// root reads the outermost value.
func (r *jsonReader) root() (bson.Value, error) {
	r.space()
	var b bson.Builder
	b.Reset(make([]byte, 0, len(r.text)+len(r.text)/4+16))
	if r.take('{') {
		err := r.object(&b)
		return bson.Document(b.Finish()), err
	}
	if err := r.value(&b, ""); err != nil {
		return bson.Value{}, err
	}
	return b.Finish().Lookup(""), nil
}

// value reads a value as the field name of the document that b writes.
func (r *jsonReader) value(b *bson.Builder, name string) error {
	r.space()
	if r.at >= len(r.text) {
		return r.unexpected()
	}
	switch c := r.text[r.at]; c {
	case '{', '[':
		r.at++
		if c == '[' {
			b.OpenArray(name)
			if err := r.array(b); err != nil {
				return err
			}
		} else {
			b.OpenDoc(name)
			if err := r.object(b); err != nil {
				return err
			}
		}
		b.Close()
		return nil
	case '"':
		r.at++
		s, err := r.quoted()
		if err == nil {
			b.String(name, s)
		}
		return err
	case 't':
		return r.literal("true", b, name, bson.True)
	case 'f':
		return r.literal("false", b, name, bson.False)
	case 'n':
		return r.literal("null", b, name, bson.Null)
	}
	return r.number(b, name)
}

func (r *jsonReader) literal(text string, b *bson.Builder, name string, v bson.Value) error {
	if !strings.HasPrefix(r.text[r.at:], text) {
		return r.unexpected()
	}
	r.at += len(text)
	b.Value(name, v)
	return nil
}

func (r *jsonReader) enter() error {
	if r.depth++; r.depth > MaxJSONDepth {
		return fmt.Errorf("the JSON text nests deeper than %d levels", MaxJSONDepth)
	}
	return nil
}

func (r *jsonReader) array(b *bson.Builder) error {
	if err := r.enter(); err != nil {
		return err
	}
	defer func() { r.depth-- }()
	if r.take(']') {
		return nil
	}
	for i := 0; ; i++ {
		if err := r.value(b, bson.Index(i)); err != nil {
			return err
		}
		if r.take(']') {
			return nil
		}
		if !r.take(',') {
			return r.unexpected()
		}
	}
}

// object reads the fields of an object into the document that b has open.
func (r *jsonReader) object(b *bson.Builder) error {
	if err := r.enter(); err != nil {
		return err
	}
	own := len(r.names)
	defer func() { r.depth, r.names = r.depth-1, r.names[:own] }()
	if r.twice {
		return r.objectTwice(b)
	}
	return r.fields(func(name string) error {
		if own := r.names[own:]; len(own) <= maxCompared && slices.Contains(own, name) {
			return errTwice
		}
		if r.names = append(r.names, name); len(r.names)-own == maxCompared+1 {
			// So many names are told apart by the slow way's table.
			return errTwice
		}
		return r.value(b, name)
	})
}

// maxCompared is how many names of an object are compared one by one.
const maxCompared = 64

// objectTwice is object in which a name may come twice: the last value counts, in
// the first one's place.
func (r *jsonReader) objectTwice(b *bson.Builder) error {
	var names []string
	values := map[string]bson.Value{}
	err := r.fields(func(name string) error {
		var one bson.Builder
		if err := r.value(&one, ""); err != nil {
			return err
		}
		if _, again := values[name]; !again {
			names = append(names, name)
		}
		values[name] = one.Finish().Lookup("")
		return nil
	})
	for _, name := range names {
		b.Value(name, values[name])
	}
	return err
}

// fields calls f at each value of an object.
func (r *jsonReader) fields(f func(name string) error) error {
	if r.take('}') {
		return nil
	}
	for {
		if !r.take('"') {
			return r.unexpected()
		}
		name, err := r.quoted()
		if err != nil {
			return err
		}
		if strings.IndexByte(name, 0) >= 0 {
			return errors.New("a property name contains a zero character")
		}
		if !r.take(':') {
			return r.unexpected()
		}
		if err := f(name); err != nil {
			return err
		}
		if r.take('}') {
			return nil
		}
		if !r.take(',') {
			return r.unexpected()
		}
	}
}

// quoted reads a string after its first quote: a part of the text itself if
// nothing in it is escaped.
func (r *jsonReader) quoted() (string, error) {
	from := r.at
	r.at += plain(r.text[from:])
	if r.at < len(r.text) {
		switch r.text[r.at] {
		case '"':
			r.at++
			return r.text[from : r.at-1], nil
		case '\\':
			return r.escaped(from)
		}
	}
	return "", r.unexpected()
}

func (r *jsonReader) escaped(from int) (string, error) {
	out := append(make([]byte, 0, 2*(r.at-from)+16), r.text[from:r.at]...)
	for r.at < len(r.text) {
		switch c := r.text[r.at]; {
		case c == '"':
			r.at++
			return string(out), nil
		case c < ' ':
			return "", r.unexpected()
		case c != '\\':
			out = append(out, c)
			r.at++
		case strings.HasPrefix(r.text[r.at:], `\u`):
			u, n := unicodeEscape(r.text[r.at:])
			if n == 0 {
				return "", r.unexpected()
			}
			out = utf8.AppendRune(out, u)
			r.at += n
		default:
			if r.at++; r.at >= len(r.text) || r.text[r.at] == '\'' {
				return "", r.unexpected()
			}
			e, known := escapes[r.text[r.at]]
			if !known {
				return "", r.unexpected()
			}
			out = append(out, e)
			r.at++
		}
	}
	return "", r.unexpected()
}

// number reads a number. Errors: what JSON does not have, and what no double
// reaches.
func (r *jsonReader) number(b *bson.Builder, name string) error {
	from := r.at
	if r.text[r.at] == '-' {
		r.at++
	}
	whole := r.digits()
	if whole == 0 || whole > 1 && r.text[r.at-whole] == '0' {
		r.at = from
		return r.unexpected()
	}
	fraction := false
	if r.at < len(r.text) && r.text[r.at] == '.' {
		r.at++
		if fraction = true; r.digits() == 0 {
			return r.unexpected()
		}
	}
	if r.at < len(r.text) && r.text[r.at]|0x20 == 'e' {
		r.at++
		if r.at < len(r.text) && (r.text[r.at] == '+' || r.text[r.at] == '-') {
			r.at++
		}
		if fraction = true; r.digits() == 0 {
			return r.unexpected()
		}
	}
	s := r.text[from:r.at]
	if i, err := strconv.ParseInt(s, 10, 64); !fraction && err == nil && s != "-0" {
		if i == int64(int32(i)) {
			b.Int32(name, int32(i))
		} else {
			b.Int64(name, i)
		}
		return nil
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsInf(f, 0) {
		return fmt.Errorf("the number %.40s is out of range", s)
	}
	b.Double(name, f)
	return nil
}

func (r *jsonReader) digits() int {
	from := r.at
	for r.at < len(r.text) && r.text[r.at] >= '0' && r.text[r.at] <= '9' {
		r.at++
	}
	return r.at - from
}
