package crash

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/testkit"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// relaidDocuments are there before the index by which they expire: every second one is
// due, the others last.
const relaidDocuments = 40_000

// TestRelayoutSurvivesKill makes a TTL index on a filled collection, and kills the
// server again and again while the collection is laid by windows of expiry and others
// write to it: after each restart it is whole, no document is gone that was acknowledged
// with an instant in the future, and relayout goes on. At the end all that is due is
// gone, and the collection lies by windows.
func TestRelayoutSurvivesKill(t *testing.T) {
	s := testkit.Start(t, "--setParameter", "ttlMonitorSleepSecs=1")
	e := expirings()[0]
	e.name = "relaid"
	k := &keeper{expiring: e, docs: map[int64]bool{}}
	var next atomic.Int64
	pad := strings.Repeat("x", 250)
	for first := int64(0); first < relaidDocuments; first += 1000 {
		docs := make([]any, 1000)
		for i := range docs {
			id := first + int64(i)
			doc := fields("_id", id, "k", id, "pad", pad)
			if id%2 == 0 {
				docs[i] = append(doc, fields("at", time.Now().Add(-lasting))...)
			} else {
				docs[i] = append(doc, k.last()...)
				k.keep(id)
			}
		}
		if _, err := removalOf(s, k.name).InsertMany(t.Context(), docs); err != nil {
			t.Fatal(err)
		}
	}
	next.Store(relaidDocuments)
	prepareRemoval(t, removalOf(s, k.name), k.index)
	for range max(3, *rounds/2) {
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() { k.feed(ctx, removalOf(s, k.name), &next) })
		}
		awaitRelayout(t, s)
		time.Sleep(time.Duration(rand.IntN(300)) * time.Millisecond)
		s.Kill()
		cancel()
		wg.Wait()
		s.Run()
		k.verify(t, removalOf(s, k.name))
	}
	k.awaitRemoval(t, removalOf(s, k.name))
	for deadline := time.Now().Add(time.Minute); relaying(t, s) != ""; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("relayout does not end")
		}
	}
	k.verify(t, removalOf(s, k.name))
}

// awaitRelayout waits until relayout is under way, or is known to be over.
func awaitRelayout(t *testing.T, s *testkit.Server) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); relaying(t, s) != "running"; time.Sleep(5 * time.Millisecond) {
		var stats bson.Raw
		stats, err := s.Client().Database("admin").RunCommand(t.Context(), bson.D{{Key: "serverStatus", Value: 1}}).Raw()
		if err != nil {
			t.Fatal(err)
		}
		if stats.Lookup("metrics", "relayout", "collections").AsInt64() > 0 || time.Now().After(deadline) {
			return
		}
	}
}

// relaying is what $expiryStats says of the relayout, "" where there is none.
func relaying(t *testing.T, s *testkit.Server) string {
	t.Helper()
	cur, err := removalOf(s, "relaid").Aggregate(t.Context(), bson.A{bson.D{{Key: "$expiryStats", Value: bson.D{}}}})
	if err != nil {
		t.Fatal(err)
	}
	defer cur.Close(t.Context())
	if !cur.Next(t.Context()) {
		return ""
	}
	state, _ := cur.Current.Lookup("relayout", "state").StringValueOK()
	return state
}
