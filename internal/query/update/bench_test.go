package update

import (
	"fmt"
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
)

// session is a document of some 300 bytes.
func session() bson.Doc {
	var b bson.Builder
	b.Reset(nil).Int32("_id", 1)
	for i := range 8 {
		b.String(fmt.Sprintf("field%d", i), "a string of medium length")
	}
	return b.OpenDoc("stats").Int32("hits", 5).Int32("misses", 7).Close().Finish()
}

func BenchmarkApply(b *testing.B) {
	for _, bench := range []struct{ name, update string }{
		{"inc", `{$inc: {"stats.hits": 1}}`},
		{"set", `{$set: {field3: "another string", "stats.misses": 3}}`},
		{"same", `{$set: {"stats.hits": 5}}`},
		{"push", `{$push: {list: {$each: [1, 2, 3]}}}`},
		{"replace", `{a: 1, b: 2}`},
	} {
		b.Run(bench.name, func(b *testing.B) {
			u, err := Parse(bson.MustParseValue(bench.update), nil)
			if err != nil {
				b.Fatal(err)
			}
			doc, c := session(), &Context{}
			b.ReportAllocs()
			b.SetBytes(int64(len(doc)))
			for b.Loop() {
				if _, _, err := u.Apply(doc, c); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
