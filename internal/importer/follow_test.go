package importer

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

var follows = flag.Int("follows", 1, "how many imports of a source that is written to are killed, some times each")

// writer of a test: writes of all kinds, DDL, and documents that expire, until ctx ends.
func (p *peer) disturb(ctx context.Context, random *rand.Rand) {
	p = connectPeer(p.t, p.address)
	colls := []string{"a", "b", "c"}
	for ctx.Err() == nil {
		coll, id := colls[random.IntN(len(colls))], random.IntN(200)
		_id := fmt.Sprint(id)
		if id%3 == 0 {
			_id = fmt.Sprintf(`"s%d"`, id)
		}
		if id%7 == 0 {
			_id = fmt.Sprintf(`{"$numberDouble":"%d"}`, id)
		}
		var command string
		db := "w"
		switch n := random.IntN(100); {
		case n < 30:
			command = fmt.Sprintf(`{"insert":"%s","documents":[{"_id":%s,"u":%d}]}`, coll, _id, random.Int32())
		case n < 55:
			command = fmt.Sprintf(`{"update":"%s","updates":[{"q":{"_id":%s},"u":{"$inc":{"n":1},"$set":{"u":%d}},"upsert":true}]}`, coll, _id, random.Int32())
		case n < 65:
			command = fmt.Sprintf(`{"update":"%s","updates":[{"q":{"_id":%s},"u":{"r":%d},"upsert":true}]}`, coll, _id, random.Int32())
		case n < 85:
			command = fmt.Sprintf(`{"delete":"%s","deletes":[{"q":{"_id":%s},"limit":1}]}`, coll, _id)
		case n < 90: // due at once
			command = fmt.Sprintf(`{"insert":"due","documents":[{"at":{"$date":{"$numberLong":"%d"}}}]}`, time.Now().UnixMilli())
		case n < 92:
			command = fmt.Sprintf(`{"insert":"%s","documents":[{"_id":"odd%d","$x":1,"e":{"$timestamp":{"t":0,"i":0}}}],"bypassEmptyTsReplacement":true}`, coll, id)
		case n < 94:
			command = fmt.Sprintf(`{"createIndexes":"%s","indexes":[{"key":{"n":1},"name":"n%d"}]}`, coll, random.IntN(2))
		case n < 95:
			command = fmt.Sprintf(`{"dropIndexes":"%s","index":"n%d"}`, coll, random.IntN(2))
		case n < 97:
			command = fmt.Sprintf(`{"collMod":"%s","validator":{"n":{"$lt":%d}},"validationLevel":"moderate"}`, coll, 100+id)
		case n < 98:
			command = fmt.Sprintf(`{"drop":"%s"}`, coll)
		default:
			command = fmt.Sprintf(`{"renameCollection":"w.%s","to":"w.%s","dropTarget":%t}`, coll, colls[random.IntN(len(colls))], random.IntN(2) == 0)
			db = "admin"
		}
		if _, err := p.c.Run(ctx, db, bson.MustParse(command)); err != nil && mongoerr.Is(err, mongoerr.UserWritesBlocked) {
			return
		}
	}
}

// TestFollow imports a source that is written to all the time, with importers that are killed at
// requests of which any may be the one, whose last request may arrive while a successor is at work.
// After the cut-over, the target is equal to the source.
func TestFollow(t *testing.T) {
	from, to := startSet(t, "from", "--setParameter", "ttlMonitorSleepSecs=1"), startSet(t, "to", "--setParameter", "ttlMonitorSleepSecs=1")
	fill(from)
	ends := newEnds(t, from, to)
	seed := uint64(time.Now().UnixNano())
	for i := range *follows {
		t.Logf("seed %d, %d", seed, i)
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		from.run("admin", `{"setUserWriteBlockMode":1,"global":false}`)
		from.run("w", `{"dropDatabase":1}`)
		for _, db := range []string{"d", "e", "w", ownDB} {
			to.run(db, `{"dropDatabase":1}`)
		}
		from.run("w", `{"createIndexes":"due","indexes":[{"key":{"at":1},"name":"at_1","expireAfterSeconds":0}]}`)
		from.run("w", `{"createIndexes":"a","indexes":[{"key":{"u":1},"name":"u_1","unique":true,"sparse":true}]}`)
		disturbing, end := context.WithCancel(t.Context())
		var writers sync.WaitGroup
		for j := range 3 {
			writers.Go(func() { from.disturb(disturbing, rand.New(rand.NewPCG(seed, uint64(1000*i+j)))) })
		}
		err := ends.survive(t, Options{Parallel: 2, batch: 10, CutOver: true, Block: true}, random)
		end()
		writers.Wait()
		if err != nil {
			t.Fatal(err)
		}
		equal(t, from, to)
		if t.Failed() {
			t.FailNow()
		}
	}
}

// survive kills importers until one is done.
func (e *ends) survive(t *testing.T, o Options, random *rand.Rand) error {
	told := &lines{}
	o.Tell = told.tell
	slowness := rand.New(rand.NewPCG(random.Uint64(), 0))
	var mu sync.Mutex
	slow := func() time.Duration { // now and then longer than it takes to apply what happens meanwhile
		mu.Lock()
		defer mu.Unlock()
		if slowness.IntN(8) > 0 {
			return 0
		}
		return time.Duration(slowness.IntN(60)) * time.Millisecond
	}
	var late []*gate
	for i := range 2 + random.IntN(5) {
		most := 300
		if i == 0 { // fewer than any import has
			most = 30
		}
		g := &gate{at: 1 + random.IntN(most), how: random.IntN(deaths), onlyFenced: true, slow: slow}
		if err := e.run(t.Context(), o, g); err == nil || !g.dead.Load() {
			if i == 0 && err == nil {
				t.Error("no importer was killed")
			}
			return err
		}
		late = append(late, g)
	}
	last := &gate{slow: slow, passed: func(n int) {
		if n == 60 {
			for _, g := range late {
				g.deliver()
			}
		}
	}}
	err := e.run(t.Context(), o, last)
	if err != nil {
		t.Log(told)
	}
	return err
}
