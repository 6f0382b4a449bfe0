package cosmos

import (
	"encoding/base64"
	"strconv"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/query/nosql"
)

// place is where a feed continues: after the item with a number and, within it, after a
// number of rows. A query that returns rows only after it has read all items continues
// after a number of rows or, if its rows have places, after the last returned row, so
// that items that expire or are written between two pages do not remove or repeat rows
// of others.
type place struct {
	number int64
	rows   int64
	kept   int64  // the name of the cached rows, or 0
	key    string // the row's place, see rowPlace, or ""
}

// maxPlaceKey bounds the place of a row in a continuation, in bytes.
const maxPlaceKey = 512

// rowPlace returns the place of the current row as JSON, [[key] or [] for undefined,
// …, [item's number, row of the item]]; "" for one that is too long, or has keys that
// JSON cannot represent.
func (p *pager) rowPlace() string {
	if !p.placed {
		return ""
	}
	at := p.selecting.Place()
	var b bson.Builder
	for i, k := range at.Keys {
		if classOf(k) == classObject {
			return ""
		}
		key := bson.Array()
		if !k.IsMissing() {
			key = bson.Array(k)
		}
		b.Value(bson.Index(i), key)
	}
	b.Value(bson.Index(len(at.Keys)), bson.Array(bson.Int(at.Number), bson.Int(at.Index)))
	text := nosql.AppendJSON(nil, bson.Value{Type: bson.TypeArray, Data: b.Finish()})
	if len(text) > maxPlaceKey {
		return ""
	}
	return string(text)
}

// resume makes the run start after the row of the continuation. Errors: 400.
func (p *pager) resume(run *nosql.Run) error {
	v, err := nosql.ParseJSON([]byte(p.from.key))
	if err != nil || v.Type != bson.TypeArray {
		return errContinuation
	}
	parts := v.Doc().Slice()
	if len(parts) != len(p.shape.OrderByPaths)+1 {
		return errContinuation
	}
	at := nosql.RowPlace{}
	for i, part := range parts {
		if part.Type != bson.TypeArray {
			return errContinuation
		}
		values := part.Doc().Slice()
		switch last := i == len(parts)-1; {
		case !last && len(values) == 0:
			at.Keys = append(at.Keys, bson.Value{})
		case !last && len(values) == 1:
			at.Keys = append(at.Keys, values[0])
		case last && len(values) == 2 && values[0].IsNumber() && values[1].IsNumber():
			at.Number, _ = bson.ExactInt64(values[0])
			at.Index, _ = bson.ExactInt64(values[1])
		default:
			return errContinuation
		}
	}
	p.skip, p.behind = 0, &at
	run.Behind(at, p.from.rows)
	return nil
}

var errContinuation = badRequest("Invalid Continuation Token")

// continuation reads the place from the request. Errors: 400.
func (r *request) continuation() (place, error) {
	h := r.header("X-Ms-Continuation")
	if h == "" {
		return place{}, nil
	}
	d, err := parseObject([]byte(h))
	if err != nil || d.Lookup("token").Type != bson.TypeString {
		return place{}, errContinuation
	}
	parts := strings.Split(strings.TrimPrefix(d.Lookup("token").Str(), "+MF:"), "#")
	if len(parts) < 2 || len(parts) > 4 {
		return place{}, errContinuation
	}
	var p place
	if len(parts) == 4 {
		key, err := base64.StdEncoding.DecodeString(parts[3])
		if err != nil {
			return place{}, errContinuation
		}
		p.key, parts = string(key), parts[:3]
	}
	for i, into := range []*int64{&p.number, &p.rows, &p.kept}[:len(parts)] {
		if *into, err = strconv.ParseInt(parts[i], 10, 64); err != nil || *into < 0 {
			return place{}, errContinuation
		}
	}
	return p, nil
}

func (p place) token() string {
	var b bson.Builder
	token := "+MF:" + strconv.FormatInt(p.number, 10) + "#" + strconv.FormatInt(p.rows, 10)
	if p.kept != 0 || p.key != "" {
		token += "#" + strconv.FormatInt(p.kept, 10)
	}
	if p.key != "" {
		token += "#" + base64.StdEncoding.EncodeToString([]byte(p.key))
	}
	b.String("token", token)
	b.OpenDoc("range").String("min", "").String("max", "FF").Close()
	return string(nosql.AppendJSONDocument(nil, b.Finish()))
}
