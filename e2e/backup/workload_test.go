package backup

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// stamp is a cluster time: seconds, and a counter in the lower 32 bits.
type stamp uint64

func stampOf(t *bson.Timestamp) stamp { return stamp(uint64(t.T)<<32 | uint64(t.I)) }

func (s stamp) String() string { return fmt.Sprintf("%d.%d", uint64(s)>>32, uint32(s)) }

// event is an acknowledged change of a collection: a document was set to a value or, where
// value is 0, deleted; or the collection was dropped.
type event struct {
	at    stamp
	coll  string
	id    int64
	value int64
	drop  bool
}

// worker changes collections of its own, one operation after the other, and knows when each
// took place.
type worker struct {
	client *mongo.Client
	name   string
	rand   *rand.Rand
	live   map[string]map[int64]int64
	events []event
	next   int64
}

// workload are workers.
type workload struct {
	workers []*worker
	stop    context.CancelFunc
	work    sync.WaitGroup
	mu      sync.Mutex
	err     error
}

// startWork starts n workers.
func startWork(t *testing.T, c *mongo.Client, n int) *workload {
	ctx, cancel := context.WithCancel(t.Context())
	w := &workload{stop: cancel}
	for i := range n {
		k := &worker{client: c, name: fmt.Sprintf("w%d", i), rand: rand.New(rand.NewPCG(uint64(i), rand.Uint64())), live: map[string]map[int64]int64{}}
		w.workers = append(w.workers, k)
		w.work.Go(func() {
			for ctx.Err() == nil {
				// An operation whose outcome is not known would make the model useless, so
				// each ends by itself.
				if err := k.step(context.WithoutCancel(ctx)); err != nil {
					w.mu.Lock()
					w.err = err
					w.mu.Unlock()
					return
				}
			}
		})
	}
	return w
}

// end ends the work.
func (w *workload) end(t *testing.T) {
	t.Helper()
	w.stop()
	w.work.Wait()
	if w.err != nil {
		t.Fatal(w.err)
	}
}

// step does one thing.
func (k *worker) step(ctx context.Context) error {
	s, err := k.client.StartSession()
	if err != nil {
		return err
	}
	defer s.EndSession(ctx)
	ctx = mongo.NewSessionContext(ctx, s)
	var all []event
	switch n := k.rand.IntN(100); {
	case n < 2:
		coll := k.coll()
		if err := k.client.Database("app").Collection(coll).Drop(ctx); err != nil {
			return err
		}
		all = []event{{coll: coll, drop: true}}
	case n < 4:
		_, err := k.client.Database("app").Collection(k.coll()).Indexes().CreateOne(ctx, mongo.IndexModel{Keys: bson.D{{Key: "v", Value: 1}}})
		return err
	case n < 14:
		all, err = k.transaction(ctx, s)
	default:
		e, err := k.write(ctx)
		if err != nil {
			return err
		}
		all = []event{e}
	}
	if err != nil {
		return err
	}
	for _, e := range all {
		e.at = stampOf(s.OperationTime())
		k.events = append(k.events, e)
		apply(k.live, e)
	}
	return nil
}

func (k *worker) coll() string { return fmt.Sprintf("%s_%d", k.name, k.rand.IntN(2)) }

// write changes one document.
func (k *worker) write(ctx context.Context) (event, error) {
	e := event{coll: k.coll(), value: 1 + k.rand.Int64N(1000)}
	c := k.client.Database("app").Collection(e.coll)
	for id := range k.live[e.coll] { // any
		e.id = id
		break
	}
	var err error
	switch n := k.rand.IntN(10); {
	case n < 5 || e.id == 0:
		k.next++
		e.id = k.next
		_, err = c.InsertOne(ctx, bson.D{{Key: "_id", Value: e.id}, {Key: "v", Value: e.value}, {Key: "pad", Value: make([]byte, k.rand.IntN(2000))}})
	case n < 8:
		_, err = c.UpdateOne(ctx, bson.D{{Key: "_id", Value: e.id}}, bson.D{{Key: "$set", Value: bson.D{{Key: "v", Value: e.value}}}})
	default:
		e.value = 0
		_, err = c.DeleteOne(ctx, bson.D{{Key: "_id", Value: e.id}})
	}
	return e, err
}

// transaction changes several documents of both collections at one time.
func (k *worker) transaction(ctx context.Context, s *mongo.Session) (all []event, err error) {
	if err := s.StartTransaction(); err != nil {
		return nil, err
	}
	before := map[string]map[int64]int64{}
	for name, docs := range k.live {
		before[name] = maps.Clone(docs)
	}
	for range 2 + k.rand.IntN(6) {
		e, err := k.write(ctx)
		if err != nil {
			return nil, err
		}
		apply(k.live, e) // for the next one
		all = append(all, e)
	}
	k.live = before
	return all, s.CommitTransaction(ctx)
}

func apply(docs map[string]map[int64]int64, e event) {
	if docs[e.coll] == nil || e.drop {
		docs[e.coll] = map[int64]int64{}
	}
	switch {
	case e.drop:
	case e.value == 0:
		delete(docs[e.coll], e.id)
	default:
		docs[e.coll][e.id] = e.value
	}
}

// at is what was acknowledged up to a time and nothing of later, and the same with the next
// operation of each worker, of which is only known that it was not before: what a reply says is
// when it had taken place.
func (k *worker) at(t stamp) (states [2]map[string]map[int64]int64) {
	next := stamp(1<<64 - 1)
	for _, e := range k.events {
		if e.at > t {
			next = min(next, e.at)
		}
	}
	for i, until := range []stamp{t, next} {
		states[i] = map[string]map[int64]int64{}
		for n := range 2 {
			states[i][fmt.Sprintf("%s_%d", k.name, n)] = map[int64]int64{}
		}
		for _, e := range k.events {
			if e.at <= until {
				apply(states[i], e)
			}
		}
	}
	return states
}

// compare compares what a server has with what was acknowledged up to a time.
func (w *workload) compare(t *testing.T, c *mongo.Client, at stamp) (documents int) {
	t.Helper()
	for _, k := range w.workers {
		states := k.at(at)
		found := map[string]map[int64]int64{}
		for name := range states[0] {
			cur, err := c.Database("app").Collection(name).Find(t.Context(), bson.D{})
			if err != nil {
				t.Fatal(err)
			}
			var got []struct {
				ID int64 `bson:"_id"`
				V  int64
			}
			if err := cur.All(t.Context(), &got); err != nil {
				t.Fatal(err)
			}
			found[name] = map[int64]int64{}
			for _, d := range got {
				found[name][d.ID] = d.V
			}
			documents += len(got)
		}
		if same := func(a, b map[int64]int64) bool { return maps.Equal(a, b) }; !maps.EqualFunc(found, states[0], same) && !maps.EqualFunc(found, states[1], same) {
			t.Errorf("at %s, %s has\n%v, and what was acknowledged is\n%v or\n%v", at, k.name, found, states[0], states[1])
		}
	}
	return documents
}
