package archive

import (
	"encoding/binary"
	"os"
	"strings"
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
)

// BenchmarkWrite writes a batch of documents of 300 bytes into an object, and checks it: what a
// document costs before it is stored.
func BenchmarkWrite(b *testing.B) {
	const batch = 8192
	docs := make([]Document, batch)
	for i := range docs {
		var id [12]byte
		binary.BigEndian.PutUint64(id[4:], uint64(i)*2654435761)
		d := new(bson.Builder).ObjectID("_id", id).Date("at", int64(i)*10).String("user", "user-"+strings.Repeat(string(rune('a'+i%26)), 3)).Int32("n", int32(i*7919))
		d.String("text", strings.Repeat("line "+string(rune('a'+i%26)), 20)).Bool("ok", i%2 == 0).OpenDoc("in").Double("x", float64(i)/3).Int64("y", int64(i)).Close()
		docs[i] = Document{Date: int64(i) * 10, Doc: d.Finish()}
	}
	file, err := os.Create(b.TempDir() + "/object")
	if err != nil {
		b.Fatal(err)
	}
	defer file.Close()
	b.SetBytes(int64(len(docs[0].Doc)))
	b.ReportAllocs()
	for n := 0; n < b.N; n += batch {
		if _, err := file.Seek(0, 0); err != nil {
			b.Fatal(err)
		}
		w, err := Write(file, Header{Namespace: "d.c", Rule: "at_1", Fields: []string{"user"}}, docs)
		if err == nil {
			err = w.Check(file, docs)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}
