package changestream

import (
	"bytes"
	"encoding/hex"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/bson/bsontest"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/keystring"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

func drawToken(t *rapid.T) Token {
	k := Token{Time: rapid.Uint64().Draw(t, "time"), Fragment: -1}
	if !rapid.Bool().Draw(t, "event") {
		return k
	}
	k.Event, k.Op = true, rapid.Uint64Range(0, 1<<54).Draw(t, "op")
	k.FromInvalidate = rapid.Bool().Draw(t, "invalidate")
	if rapid.Bool().Draw(t, "collection") {
		k.UUID = catalog.UUID{rapid.ByteRange(1, 255).Draw(t, "uuid"), 7}
	}
	k.Identifier = keystring.Append(nil, bson.Document(bsontest.Doc().Draw(t, "identifier")), false, nil)
	if rapid.Bool().Draw(t, "split") {
		k.Fragment = rapid.IntRange(0, 1000).Draw(t, "fragment")
	}
	return k
}

// A token that a client sends back is the one that it got. Tokens sort as their places in
// the log do: that is how streams of several shards are merged.
func TestToken(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := drawToken(t)
		b := new(bson.Builder)
		k.Doc(b, "_id")
		d := b.Finish().Lookup("_id").Doc()
		got, err := ParseToken(d)
		if err != nil || !reflect.DeepEqual(*got, k) {
			t.Fatalf("%s is %+v, %v, not %+v", d, got, err, k)
		}
		o := drawToken(t)
		if k.Time == o.Time && k.Op == o.Op {
			return
		}
		before := k.Time < o.Time || k.Time == o.Time && !k.Event && o.Event || k.Time == o.Time && k.Event == o.Event && k.Op < o.Op
		if before != (bytes.Compare(k.Append(nil), o.Append(nil)) < 0) {
			t.Fatalf("%+v and %+v: %x, %x", k, o, k.Append(nil), o.Append(nil))
		}
	})
}

// What is no token is refused with the code of mongod; no bytes make the reader panic.
func TestBadTokens(t *testing.T) {
	good := Token{Time: 1 << 32, Event: true, Identifier: keystring.Append(nil, bson.Document(bson.MustParse(`{operationType: "insert", documentKey: {_id: 1}}`)), false, nil), Fragment: -1}
	whole := hex.EncodeToString(good.Append(nil))
	for _, c := range []struct {
		doc  string
		code mongoerr.Code
	}{
		{`{}`, 40647}, {`{_data: 1}`, 40647}, {`{_data: ""}`, 40649}, {`{_data: "xy"}`, 9}, {`{_data: "820"}`, 9}, {`{_data: "00"}`, 50811},
		{`{_data: "` + whole + `", _typeBits: 1}`, 40648}, {`{_data: "` + whole + `"}`, 0}, {`{_data: "` + strings.ToUpper(whole) + `"}`, 0},
		{`{_data: "` + whole[:len(whole)-2] + `"}`, 0}, {`{_data: "` + whole[:len(whole)-4] + `"}`, 15}, {`{_data: "82"}`, 15},
		{`{_data: "8200000001000000002b022c0100296e1404"}`, 50796},
	} {
		_, err := ParseToken(bson.MustParse(c.doc))
		if code := codeOf(err); code != c.code {
			t.Errorf("%s: %d, %v", c.doc, code, err)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		b := append([]byte{tagTimestamp}, rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")...)
		_, _ = ParseToken(new(bson.Builder).String("_data", hex.EncodeToString(b)).Finish())
	})
}

func codeOf(err error) mongoerr.Code {
	if err == nil {
		return 0
	}
	return mongoerr.From(err).Code
}
