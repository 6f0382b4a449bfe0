package shardsvr_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
)

// BenchmarkMoveChunk moves one of 64 chunks of 200,000 documents of 300 bytes, from the
// request to receive it until nothing of it is left on the donor: of a collection that lies
// by its shard key, of one that lies by _id (it had a document when it was sharded) by the
// index on the shard key, and without that, when all of the collection is walked.
func BenchmarkMoveChunk(b *testing.B) {
	const documents, chunks = 200_000, 64
	for _, index := range []string{"hashed", "index", "dropped"} {
		b.Run(index, func(b *testing.B) {
			donor, recipient := start(b, "s0"), start(b, "s1")
			if index != "hashed" {
				donor.ask("d", `{createIndexes: "c", indexes: [{key: {k: "hashed"}, name: "k_hashed"}]}`)
				donor.ask("d", `{insert: "c", documents: [{_id: -1, k: -1}]}`)
			}
			uuid := donor.sharded(`{k: "hashed"}`)
			text := strings.Repeat("x", 250)
			for from := 0; from < documents; from += 2000 {
				var docs []string
				for i := from; i < from+2000; i++ {
					docs = append(docs, fmt.Sprintf(`{_id: %d, k: %d, x: "%s"}`, i, i, text))
				}
				donor.insert(docs...)
			}
			if index == "dropped" {
				donor.ask("d", `{dropIndexes: "c", index: "k_hashed"}`)
			}
			width := int64(1) << 58
			n := 0
			for b.Loop() {
				min := int64(-1<<63) + int64(n%chunks)*width
				span := fmt.Sprintf(`min: {k: {"$numberLong": "%d"}}, max: {k: {"$numberLong": "%d"}}`, min+1, min+width)
				from := bson.ClampToInt64(donor.ask("d", `{collStats: "c"}`).Lookup("count"))
				moved := moveRange(b, int64(10+n), uuid, `{k: "hashed"}`, donor, recipient, span, 2*n+2, 2*n+3)
				for {
					stored := bson.ClampToInt64(donor.ask("d", `{collStats: "c"}`).Lookup("count"))
					if stored == from-moved {
						break
					}
					time.Sleep(time.Millisecond)
				}
				n++
			}
		})
	}
}
