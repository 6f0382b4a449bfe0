package nemesis

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// queue has clients put jobs into a collection and take them out again (findAndModify with
// remove): a job is given to one client at the most.
type queue struct {
	put        *ledger
	collection *mongo.Collection
	next       atomic.Int64

	mu      sync.Mutex
	given   map[string]int // to clients, and how often
	unknown int            // takes whose outcome nobody knows
}

// queueClients put in and take out, in turn.
const queueClients = 4

func newQueue(s *set) *queue {
	return &queue{put: newLedger(), collection: s.connect().Database("app").Collection("jobs"), given: map[string]int{}}
}

func (q *queue) run(ctx context.Context) {
	clients(ctx, queueClients, func(ctx context.Context, client int) {
		if client%2 == 0 {
			token := fmt.Sprintf("job-%d", q.next.Add(1))
			_ = q.put.write(token, func() error {
				_, err := q.collection.InsertOne(ctx, bson.D{{Key: "_id", Value: token}})
				return err
			})
			return
		}
		var job struct {
			ID string `bson:"_id"`
		}
		err := q.collection.FindOneAndDelete(ctx, bson.D{}).Decode(&job)
		q.mu.Lock()
		defer q.mu.Unlock()
		switch {
		case err == nil:
			q.given[job.ID]++
		case !errors.Is(err, mongo.ErrNoDocuments):
			q.unknown++
		}
	})
}

func (q *queue) check(t *testing.T) {
	var left []struct {
		ID string `bson:"_id"`
	}
	all(t, q.collection, &left)
	found := map[string]int{}
	for _, job := range left {
		found[job.ID]++
		if q.given[job.ID] > 0 {
			t.Errorf("queue: %s was given away and is still there", job.ID)
		}
	}
	for id, n := range q.given {
		found[id] += n
	}
	// What was taken out without an answer is gone, one job at the most for each.
	missing := 0
	for id := range q.put.acked {
		if found[id] == 0 {
			missing++
			found[id] = 1
		}
	}
	if missing > q.unknown {
		t.Errorf("queue: %d acknowledged jobs are gone; only %d takes have an unknown outcome", missing, q.unknown)
	}
	t.Logf("queue: %d jobs given away, %d left, %d gone for %d takes without an answer", len(q.given), len(left), missing, q.unknown)
	q.put.judge(t, "queue", found)
}
