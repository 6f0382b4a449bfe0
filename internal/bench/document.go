package bench

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math"
	"math/rand/v2"
	"strings"
	"sync"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// documentBytes is the size of a document in BSON.
const documentBytes = 300

// never is the instant of expiry, in milliseconds since 1970, of documents
// that stay: the year 2100.
const never = 4_102_444_800_000

// indexKey is the value of field k of document id: unique, and in another
// order than the ids.
func indexKey(id int64) int64 { return int64(uint32(id) * 0x9e3779b1) }

// fixedBytes is what document has besides its padding.
const fixedBytes = 4 + (1 + 4 + 8) + (1 + 2 + 8) + (1 + 2 + 8) + (1 + 4 + 8) + (1 + 4 + 4 + 1) + 1

var padding = strings.Repeat("x", documentBytes-fixedBytes)

// mixture is the source of paddings that do not compress.
var mixture = sync.OnceValue(func() string {
	v, b := rand.NewChaCha8([32]byte{1}), make([]byte, 8<<20)
	_, _ = v.Read(b) // which does not fail
	for i := range b {
		b[i] = ' ' + b[i]%64
	}
	return string(b)
})

// mixedPadding is n bytes that are not those of the surrounding documents.
func mixedPadding(id int64, n int) string {
	all := mixture()
	at := int(uint64(id) * uint64(n) % uint64(len(all)-n))
	return all[at : at+n]
}

// document is {_id, k, n, due, pad} in BSON.
func document(id, due int64, padding string) bson.Raw {
	b := make([]byte, 4, fixedBytes+len(padding))
	number := func(t byte, name string, v int64) {
		b = append(append(append(b, t), name...), 0)
		b = binary.LittleEndian.AppendUint64(b, uint64(v))
	}
	number(0x12, "_id", id)
	number(0x12, "k", indexKey(id))
	number(0x12, "n", 0)
	number(0x09, "due", due)
	b = append(b, 0x02)
	b = append(b, "pad\x00"...)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(padding)+1))
	b = append(append(b, padding...), 0, 0)
	binary.LittleEndian.PutUint32(b, uint32(len(b)))
	return b
}

// jsonDocument is the same document in JSON, with the date as milliseconds.
func jsonDocument(id, due int64, padding string) json.RawMessage {
	var b bytes.Buffer
	b.Grow(documentBytes)
	e := json.NewEncoder(&b)
	// Encoding a struct of numbers and a string does not fail.
	_ = e.Encode(struct {
		ID  int64  `json:"_id"`
		K   int64  `json:"k"`
		N   int64  `json:"n"`
		Due int64  `json:"due"`
		Pad string `json:"pad"`
	}{id, indexKey(id), 0, due, padding})
	return b.Bytes()
}

// The keyspaces of the raw store: documents by id, ids by k, ids by due. Keys
// are as long as the server's.
const (
	spaceDocuments = 20
	spaceByKey     = 21
	spaceByDue     = 22
	spaceOrders    = 23
)

// numberKey is the length of a number in a raw key, as the server's key strings
// have it.
const numberKey = 9

func appendNumber(dst []byte, v int64) []byte {
	dst = append(dst, 0x2b)
	return binary.BigEndian.AppendUint64(dst, uint64(v)^(1<<63))
}

func parseNumber(b []byte) int64 { return int64(binary.BigEndian.Uint64(b[1:]) ^ (1 << 63)) }

// documentKey is the raw key of a document.
func documentKey(dst []byte, id int64) []byte {
	return appendNumber(append(dst, spaceDocuments), id)
}

// entryKey is the raw key of the entry of document id in an index, under value.
func entryKey(dst []byte, space byte, value, id int64) []byte {
	return appendNumber(appendNumber(append(dst, space), value), id)
}

// entryBound is below all entries with value and above those with less.
func entryBound(space byte, value int64) []byte {
	if value == math.MaxInt64 {
		return []byte{space + 1}
	}
	return appendNumber([]byte{space}, value)
}
