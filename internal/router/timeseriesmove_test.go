package router_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
)

// seriesModel is what measurements a time series has by what was acknowledged.
type seriesModel struct {
	c    *realCluster
	mu   sync.Mutex
	next int
	has  map[int]bool // by _id; what is under way is in neither
}

// sensors is how many sources the model has.
const sensors = 12

// write inserts some measurements, late ones among them, and removes some of before, through a
// connection.
func (m *seriesModel) write(conn *client.Conn) error {
	m.mu.Lock()
	from := m.next
	m.next += 5 + rand.IntN(20)
	to := m.next
	var gone []int
	for n := range m.has {
		if len(gone) < 2 && rand.IntN(20) == 0 {
			gone = append(gone, n)
			delete(m.has, n)
		}
	}
	m.mu.Unlock()
	run := func(text string) error {
		reply, err := conn.Run(m.c.t.Context(), "app", bson.MustParse(text))
		if err == nil && reply.Has("writeErrors") {
			err = fmt.Errorf("%s", reply)
		}
		return err
	}
	var docs []string
	for n := from; n < to; n++ {
		docs = append(docs, fmt.Sprintf(`{_id: %d, at: {"$date": {"$numberLong": "%d"}}, sensor: {n: %d}, v: %d}`, n, 1_700_000_000_000+int64(rand.IntN(20_000))*1000, n%sensors, n))
	}
	if err := run(fmt.Sprintf(`{insert: "c", ordered: %v, documents: [%s]}`, rand.IntN(2) == 0, strings.Join(docs, ", "))); err != nil {
		return err
	}
	for _, n := range gone {
		limit := rand.IntN(2)
		if err := run(fmt.Sprintf(`{delete: "c", deletes: [{q: {_id: %d, "sensor.n": %d}, limit: %d}]}`, n, n%sensors, limit)); err != nil {
			return err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for n := from; n < to; n++ {
		m.has[n] = true
	}
	return nil
}

// check reads all measurements, and compares them with what was acknowledged before and after.
func (m *seriesModel) check(conn *client.Conn) error {
	m.mu.Lock()
	before := map[int]bool{}
	for n := range m.has {
		before[n] = true
	}
	m.mu.Unlock()
	reply, err := conn.Run(m.c.t.Context(), "app", bson.MustParse(`{find: "c", projection: {_id: 1}, batchSize: 1000000}`))
	if err != nil {
		return err
	}
	seen := map[int]bool{}
	for v := range reply.Lookup("cursor").Doc().Lookup("firstBatch").Doc().Values() {
		n := int(v.Doc().Lookup("_id").Int32())
		if seen[n] {
			return fmt.Errorf("measurement %d is seen twice", n)
		}
		seen[n] = true
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for n := range before {
		if m.has[n] && !seen[n] {
			return fmt.Errorf("measurement %d was acknowledged, and is not seen", n)
		}
	}
	return nil
}

// TestSeriesMoves: while chunks of a time series move all the time, clients insert, delete and
// read: what was acknowledged is seen once, by readers and at the end, whatever the shard key.
// (Invariant sealed, held.)
func TestSeriesMoves(t *testing.T) {
	for name, key := range map[string]string{"hashed": `{sensor: "hashed", at: 1}`, "ranged": `{"sensor.n": 1}`, "time": `{at: 1}`} {
		t.Run(name, func(t *testing.T) { testSeriesMoves(t, key) })
	}
}

func testSeriesMoves(t *testing.T, key string) {
	c := newCluster(t, 2)
	c.do("admin", `{enableSharding: "app", primaryShard: "s0"}`)
	c.do("admin", `{shardCollection: "app.c", key: `+key+`, `+series+`}`)
	m := &seriesModel{c: c, has: map[int]bool{}}
	for range 20 {
		if err := m.write(c.router); err != nil {
			t.Fatal(err)
		}
	}
	if !strings.Contains(key, "hashed") {
		field, _, _ := strings.Cut(strings.NewReplacer("{", "", `"`, "", "sensor", "meta", "at", "control.min.at").Replace(key), ":")
		c.do("admin", fmt.Sprintf(`{split: "app.system.buckets.c", bounds: [{%q: {"$minKey": 1}}, {%[1]q: {"$maxKey": 1}}]}`, field))
	}
	stop := make(chan struct{})
	var work sync.WaitGroup
	for i := range 3 {
		conn := c.connect(c.address)
		do := m.write
		if i == 2 {
			do = m.check
		}
		work.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := do(conn); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	moved := 0
	for i := range 8 {
		chunks := c.do("config", `{find: "chunks"}`).Lookup("cursor").Doc().Lookup("firstBatch").Doc().Slice()
		k := chunks[rand.IntN(len(chunks))].Doc()
		to := "s0"
		if k.Lookup("shard").Str() == to {
			to = "s1"
		}
		name := []string{"app.c", "app.system.buckets.c"}[i%2]
		body := new(bson.Builder).String("moveRange", name).Value("min", k.Lookup("min")).Value("max", k.Lookup("max")).String("toShard", to).Finish()
		if _, err := c.router.Run(t.Context(), "admin", body); err != nil {
			t.Errorf("%s: %v", body, err)
			break
		}
		moved++
	}
	close(stop)
	work.Wait()
	if err := m.check(c.router); err != nil || t.Failed() {
		t.Fatal(err)
	}
	if n := c.count("c", `{}`); n != len(m.has) {
		t.Errorf("%d measurements, not %d", n, len(m.has))
	}
	for _, s := range []string{"s0", "s1"} {
		if r := c.on(s, "app", `{validate: "c", full: true}`); !r.Lookup("valid").Bool() {
			t.Errorf("%s: %s", s, r)
		}
	}
	t.Logf("%d moves, %d measurements", moved, len(m.has))
}
