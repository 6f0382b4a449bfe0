package crash

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/testkit"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"
)

var rounds = flag.Int("crash.rounds", 6, "how often the server is killed")

// concerns are how the clients that write at once want it: what is
// acknowledged with j:true or w:1 outlives the process; what is not
// acknowledged may be lost, whole.
var concerns = []*writeconcern.WriteConcern{journaled(), journaled(), {W: 1}, {W: 1}, {W: 0}}

// maxUnacknowledged is how many inserts with w:0 a writer sends in a round.
const maxUnacknowledged = 2000

func journaled() *writeconcern.WriteConcern {
	j := true
	return &writeconcern.WriteConcern{W: 1, Journal: &j}
}

// ledger is what the server has acknowledged: by _id, the last acknowledged
// value, and the one that was under way when the server died.
type ledger struct {
	mu      sync.Mutex
	acked   map[int64]int32
	pending map[int64]int32
	deleted map[int64]bool
}

// TestAcknowledgedWritesSurviveKill keeps writers inserting, updating and
// deleting, kills the server under them, restarts it, and demands every
// acknowledged effect and a clean validate.
func TestAcknowledgedWritesSurviveKill(t *testing.T) { survivesKill(t, testkit.Start(t), *rounds) }

// TestEncryptedSurvivesKill is the same of a server whose data are encrypted.
func TestEncryptedSurvivesKill(t *testing.T) {
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte(strings.Repeat("A", 43)+"=\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	survivesKill(t, testkit.Start(t, "--enableEncryption", "--encryptionKeyFile", key), max(2, *rounds/3))
}

func survivesKill(t *testing.T, s *testkit.Server, rounds int) {
	l := &ledger{acked: map[int64]int32{}, pending: map[int64]int32{}, deleted: map[int64]bool{}}
	var next atomic.Int64
	prepare(t, collection(s, concerns[0]))
	for round := range rounds {
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for w, wc := range concerns {
			wg.Go(func() { write(ctx, collection(s, wc), l, &next, uint64(round*len(concerns)+w)) })
		}
		time.Sleep(time.Duration(300+rand.IntN(700)) * time.Millisecond)
		s.Kill()
		cancel()
		wg.Wait()
		s.Run()
		verify(t, collection(s, concerns[0]), l)
	}
	if len(l.acked) == 0 {
		t.Fatal("nothing was ever acknowledged")
	}
}

func collection(s *testkit.Server, wc *writeconcern.WriteConcern) *mongo.Collection {
	return s.Client().Database("crash").Collection("docs", options.Collection().SetWriteConcern(wc))
}

func prepare(t *testing.T, c *mongo.Collection) {
	t.Helper()
	_, err := c.Indexes().CreateMany(t.Context(), []mongo.IndexModel{
		{Keys: bson.D{{Key: "n", Value: 1}}},
		{Keys: bson.D{{Key: "tags", Value: 1}, {Key: "n", Value: -1}}},
		{Keys: bson.D{{Key: "u", Value: 1}}, Options: options.Index().SetUnique(true)},
		{Keys: bson.D{{Key: "at", Value: 1}}, Options: options.Index().SetExpireAfterSeconds(3600)},
	})
	if err != nil {
		t.Fatal(err)
	}
}

// write runs random operations until one fails; that one stays pending. With
// w:0 it only inserts, and all stays pending.
func write(ctx context.Context, c *mongo.Collection, l *ledger, next *atomic.Int64, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 1))
	mine := []int64{}
	for unacknowledged := 0; unacknowledged < maxUnacknowledged; {
		if len(mine) < 10 || r.IntN(3) == 0 {
			id := next.Add(1)
			l.begin(id, 1)
			doc := bson.D{{Key: "_id", Value: id}, {Key: "n", Value: int32(1)}, {Key: "u", Value: fmt.Sprint(id)},
				{Key: "tags", Value: bson.A{"a", id % 7}}, {Key: "at", Value: time.Now()}}
			res, err := c.InsertOne(ctx, doc)
			if err != nil {
				return
			}
			if !res.Acknowledged {
				unacknowledged++ // and stays pending
				continue
			}
			l.ack(id, 1)
			mine = append(mine, id)
			continue
		}
		at := r.IntN(len(mine))
		id := mine[at]
		if r.IntN(5) == 0 {
			l.begin(id, -1)
			if _, err := c.DeleteOne(ctx, bson.D{{Key: "_id", Value: id}}); err != nil {
				return
			}
			l.gone(id)
			mine = append(mine[:at], mine[at+1:]...)
			continue
		}
		n := l.value(id) + 1
		l.begin(id, n)
		if _, err := c.UpdateOne(ctx, bson.D{{Key: "_id", Value: id}}, bson.D{{Key: "$set", Value: bson.D{{Key: "n", Value: n}}}}); err != nil {
			return
		}
		l.ack(id, n)
	}
}

func (l *ledger) begin(id int64, n int32) { l.mu.Lock(); l.pending[id] = n; l.mu.Unlock() }

func (l *ledger) ack(id int64, n int32) {
	l.mu.Lock()
	l.acked[id] = n
	delete(l.pending, id)
	l.mu.Unlock()
}

func (l *ledger) gone(id int64) {
	l.mu.Lock()
	delete(l.acked, id)
	delete(l.pending, id)
	l.deleted[id] = true
	l.mu.Unlock()
}

func (l *ledger) value(id int64) int32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.acked[id]
}

// verify compares the collection with the ledger, takes over what was pending,
// and validates.
func verify(t *testing.T, c *mongo.Collection, l *ledger) {
	t.Helper()
	cur, err := c.Find(t.Context(), bson.D{})
	if err != nil {
		t.Fatal(err)
	}
	found := map[int64]int32{}
	for cur.Next(t.Context()) {
		found[cur.Current.Lookup("_id").Int64()] = cur.Current.Lookup("n").Int32()
	}
	if err := cur.Err(); err != nil {
		t.Fatal(err)
	}
	for id, n := range l.acked {
		got, ok := found[id]
		maybe, under := l.pending[id]
		if !(ok && got == n || under && (ok && got == maybe || !ok && maybe == -1)) {
			t.Errorf("document %d: acknowledged n = %d, pending %d (%v), found %d (%v)", id, n, maybe, under, got, ok)
		}
	}
	for id := range l.deleted {
		if _, ok := found[id]; ok {
			t.Errorf("document %d is back after its delete was acknowledged", id)
		}
	}
	for id, n := range l.pending {
		got, ok := found[id]
		delete(l.acked, id)
		if ok {
			l.acked[id] = got
		} else if n == -1 {
			l.deleted[id] = true
		}
	}
	clear(l.pending)
	for id := range found {
		if _, ok := l.acked[id]; !ok {
			t.Errorf("document %d was never written", id)
		}
	}
	var res bson.M
	if err := c.Database().RunCommand(t.Context(), bson.D{{Key: "validate", Value: c.Name()}, {Key: "full", Value: true}}).Decode(&res); err != nil {
		t.Fatal(err)
	}
	if res["valid"] != true {
		t.Fatalf("validate: %v", res)
	}
}
