package changestream

import (
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// Fragment is a part of an event that was split, and its token.
type Fragment struct{ Token, Doc bson.Doc }

// fragmentRoom is how many bytes of a fragment are left for its token and number, besides
// those of the token itself.
const fragmentRoom = 16 << 10

// Split makes fragments of an event with a token, from a number on: small fields first, as
// many as a document holds. There are none behind the last one. Errors: 10334 for a field that no document holds, 280 if there are
// not so many fragments. (Manual: "$changeStreamSplitLargeEvent".)
func Split(d bson.Doc, token Token, from int) ([]Fragment, error) {
	type field struct {
		name string
		v    bson.Value
	}
	var fields []field
	for name, v := range d.All() {
		if name != "_id" {
			fields = append(fields, field{name, v.Clone()})
		}
	}
	slices.SortStableFunc(fields, func(a, b field) int { return len(a.v.Data) - len(b.v.Data) })
	most := bson.MaxDocumentSize - fragmentRoom - len(token.document())
	parts, size := [][]field{nil}, 0
	for _, f := range fields {
		n := len(f.name) + len(f.v.Data) + 2
		if n > most {
			return nil, bson.SizeError(n, d)
		}
		if size += n; size > most {
			parts, size = append(parts, nil), n
		}
		parts[len(parts)-1] = append(parts[len(parts)-1], f)
	}
	if from > len(parts) {
		return nil, NotFound(&token)
	}
	var out []Fragment
	for i, part := range parts[from:] {
		token.Fragment = from + i
		b := new(bson.Builder)
		token.Doc(b, "_id")
		b.OpenDoc("splitEvent").Int32("fragment", int32(from+i+1)).Int32("of", int32(len(parts))).Close()
		for _, f := range part {
			b.Value(f.name, f.v)
		}
		out = append(out, Fragment{token.document(), b.Finish()})
	}
	return out, nil
}

// document is the token as a document.
func (t *Token) document() bson.Doc { return t.AppendDoc(nil) }

// NotFound is the error 280 of a stream that was resumed behind an event that is not in the
// log.
func NotFound(t *Token) error {
	return mongoerr.New(mongoerr.ChangeStreamFatalError, "cannot resume stream; the resume token was not found. %s", t.document())
}

// CheckToken checks that what comes out of the pipeline behind a stream has the token of its
// event. Errors: 280.
func CheckToken(d, want bson.Doc) error {
	id := d.Lookup("_id")
	if id.Type == bson.TypeDocument && string(id.Data) == string(want) {
		return nil
	}
	return mongoerr.New(mongoerr.ChangeStreamFatalError,
		"Encountered an event whose _id field, which contains the resume token, was modified by the pipeline. Modifying the _id field of an event makes it impossible to resume the stream from that point. Only transformations that retain the unmodified _id field are allowed. Expected: {_id: %s} but found: {_id: %s}", want, id)
}
