package shardsvr_test

import (
	"flag"
	"fmt"
	"os"
	"runtime/pprof"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
)

// BenchmarkMoveChunk moves one of 64 chunks of 200,000 documents of 300 bytes, from the
// request to receive it until nothing of it is left on the donor: of a collection that lies
// by its shard key, of one that lies by _id (it had a document when it was sharded) by the
// index on the shard key, and without that, when all of the collection is walked; of one that
// expires over an hour, in slots, and by windows (it had a document) by the index; of one with a
// ranged key, by that and by _id.
func BenchmarkMoveChunk(b *testing.B) {
	const documents, chunks = 200_000, 64
	for _, index := range []string{"hashed", "index", "dropped", "slots", "windows", "ranged", "rangedIndex"} {
		b.Run(index, func(b *testing.B) {
			key := `{k: "hashed"}`
			if strings.HasPrefix(index, "ranged") {
				key = `{k: 1}`
			}
			donor, recipient := start(b, "s0"), start(b, "s1")
			if index == "slots" || index == "windows" {
				donor.ask("d", `{createIndexes: "c", indexes: [{key: {t: 1}, name: "t_1", expireAfterSeconds: 3600}]}`)
			}
			if index != "hashed" && index != "slots" && index != "ranged" {
				donor.ask("d", `{createIndexes: "c", indexes: [{key: `+key+`, name: "k_index"}]}`)
				donor.ask("d", `{insert: "c", documents: [{_id: -1, k: -1}]}`)
			}
			uuid := donor.sharded(key)
			text, now := strings.Repeat("x", 250), time.Now().UnixMilli()
			for from := 0; from < documents; from += 2000 {
				var docs []string
				for i := from; i < from+2000; i++ {
					docs = append(docs, fmt.Sprintf(`{_id: %d, k: %d, x: "%s", t: {"$date": {"$numberLong": "%d"}}}`, i, i, text, now+int64(i)*18))
				}
				donor.insert(docs...)
			}
			if index == "dropped" {
				donor.ask("d", `{dropIndexes: "c", index: "k_index"}`)
			}
			width := int64(1) << 58
			n, all, used := 0, int64(0), processorTime()
			for b.Loop() {
				min := int64(-1<<63) + int64(n%chunks)*width
				span := fmt.Sprintf(`min: {k: {"$numberLong": "%d"}}, max: {k: {"$numberLong": "%d"}}`, min+1, min+width)
				if strings.HasPrefix(index, "ranged") {
					span = fmt.Sprintf(`min: {k: %d}, max: {k: %d}`, n%chunks*documents/chunks, (n%chunks+1)*documents/chunks)
				}
				from := bson.ClampToInt64(donor.ask("d", `{collStats: "c"}`).Lookup("count"))
				moved := moveRange(b, int64(10+n), uuid, key, donor, recipient, span, 2*n+2, 2*n+3)
				for {
					stored := bson.ClampToInt64(donor.ask("d", `{collStats: "c"}`).Lookup("count"))
					if stored == from-moved {
						break
					}
					time.Sleep(time.Millisecond)
				}
				n, all = n+1, all+moved
			}
			b.ReportMetric(float64((processorTime()-used).Nanoseconds())/1000/float64(all), "cpu-µs/document")
		})
	}
}

// BenchmarkMoveHalf moves half of a collection of documents of 300 bytes, which lies by its
// shard key: MB of documents per second until all of it is received, beside the time that the
// process took, for donor and recipient together.
//
//	go test -run '^$' -bench BenchmarkMoveHalf -benchtime 1x ./internal/cluster/shardsvr -args -move.docs=1000000
func BenchmarkMoveHalf(b *testing.B) {
	donor, recipient := start(b, "s0"), start(b, "s1")
	key := fmt.Sprintf(`{%s: "hashed"}`, *moveKey)
	span := strings.ReplaceAll(upper, "{k: ", "{"+*moveKey+": ")
	uuid := donor.sharded(key)
	text := strings.Repeat("x", 250)
	for from := 0; from < *moveDocs; from += 2000 {
		var docs []string
		for i := from; i < from+2000; i++ {
			docs = append(docs, fmt.Sprintf(`{_id: %d, k: %d, x: "%s"}`, i, i, text))
		}
		donor.insert(docs...)
	}
	for b.Loop() {
		stop := profileMove(b)
		begun, used := time.Now(), processorTime()
		receive(recipient, 10, uuid, key, donor, span)
		n := awaitReceived(recipient, span)
		stop()
		size := float64(bson.ClampToInt64(recipient.ask("d", `{collStats: "c"}`).Lookup("size")))
		b.ReportMetric(size/1e6/time.Since(begun).Seconds(), "MB/s")
		b.ReportMetric(float64(n)/time.Since(begun).Seconds(), "documents/s")
		b.ReportMetric(float64((processorTime()-used).Nanoseconds())/1000/float64(n), "cpu-µs/document")
	}
}

var moveDocs = flag.Int("move.docs", 100_000, "how many documents BenchmarkMoveHalf has")

var moveKey = flag.String("move.key", "k", "by whose hash it is sharded: k or _id")

var moveProfile = flag.String("move.profile", "", "where BenchmarkMoveHalf writes a profile of the processor's time in the move alone")

// profileMove begins that profile. The returned function ends it.
func profileMove(b *testing.B) func() {
	if *moveProfile == "" {
		return func() {}
	}
	f, err := os.Create(*moveProfile)
	if err != nil {
		b.Fatal(err)
	}
	time.Sleep(25 * time.Second) // until compactions of what the donor was filled with have ended
	if err := pprof.StartCPUProfile(f); err != nil {
		b.Fatal(err)
	}
	return func() {
		pprof.StopCPUProfile()
		f.Close()
	}
}

// processorTime is that of the process.
func processorTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
