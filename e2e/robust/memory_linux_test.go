package robust

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mayflydb/mayfly/internal/testkit"
	"github.com/mayflydb/mayfly/internal/wire"
)

const (
	// operationBudget is the server's --operationMemoryGB, in bytes. The cache (50 MB)
	// and what the process takes besides lie within the three tenths above it.
	operationBudget = 1 << 30
	// mostResident is what the process may have in memory at any time.
	mostResident = operationBudget * 13 / 10
	// demand is what operations would hold in each of the ways below without a bound.
	demand = 5 * operationBudget

	largeDocs     = 7
	largeDocBytes = 14 << 20
	// wayTime bounds each operation.
	wayTime = 3 * time.Second
	// patience is how long what was asked may go on after that, on a busy machine.
	patience = time.Minute

	// writtenDocs are the documents of largeDocBytes that are updated; while one is, it
	// takes writtenBytes. keyedElements times keyedBytes are the keys of one document.
	writtenBytes  = 5 * largeDocBytes
	writtenDocs   = 24
	keyedElements = 2000
	// parsedCopies is how much more than its text a filter may take.
	parsedCopies = 20
	keyedBytes   = 20_000

	exceededMemoryLimit = 146
)

// proper are the codes of answers to operations for which there may be no
// memory: none, its time was over, the result or a stage too large by itself.
var proper = map[int]bool{exceededMemoryLimit: true, 50: true, 10334: true, 292: true, 4568: true, 4031700: true, 40099: true, 5414201: true, 139: true}

// TestMemoryIsBounded asks for five times the budget of operations in many ways,
// one after the other: the process never has more in memory than 1.3 times the
// budget, each request is answered, and the server goes on.
func TestMemoryIsBounded(t *testing.T) {
	s := testkit.Start(t, "--cacheSizeGB", "0.05", "--operationMemoryGB", "1", "--noscripting=false")
	c := largeCollection(t, s)
	each := func(bytes int) int { return demand/bytes + 1 }
	held := largeDocs * largeDocBytes
	for _, way := range []struct {
		name string
		n    int
		run  func(ctx context.Context, c *mongo.Collection) error
	}{
		{"groups", each(held), aggregation(`[{"$group": {"_id": null, "all": {"$push": "$$ROOT"}}}]`)},
		{"sets", each(held), aggregation(`[{"$group": {"_id": null, "all": {"$addToSet": "$pad"}}}]`)},
		{"sorts", each(held), aggregation(`[{"$sort": {"a": 1}}, {"$project": {"n": {"$bsonSize": "$$ROOT"}}}]`)},
		{"facets", each(held), aggregation(`[{"$facet": {"all": [{"$match": {}}]}}]`)},
		{"joins", each(held), aggregation(`[{"$limit": 1}, {"$lookup": {"from": "c", "pipeline": [], "as": "all"}}, {"$project": {"a": 1}}]`)},
		{"windows", each(held), aggregation(`[{"$setWindowFields": {"sortBy": {"a": 1}, "output": {"all": {"$push": "$pad", "window": {"documents": ["unbounded", "unbounded"]}}}}}, {"$project": {"a": 1}}]`)},
		{"arrays", each(held), aggregation(`[{"$project": {"n": {"$size": {"$map": {"input": {"$range": [0, 7]}, "in": {"$concat": ["$pad", "x"]}}}}}}]`)},
		{"open cursors", each(4 * largeDocBytes), func(ctx context.Context, c *mongo.Collection) error {
			cur, err := c.Find(ctx, bson.D{}, options.Find().SetBatchSize(1))
			if err != nil {
				return err
			}
			<-ctx.Done() // it stays open, and so does what it holds
			return cur.Close(context.Background())
		}},
		{"replies", each(5 * largeDocBytes), func(ctx context.Context, c *mongo.Collection) error {
			cur, err := c.Find(ctx, bson.D{}, options.Find().SetBatchSize(3))
			if err != nil {
				return err
			}
			return cur.Close(ctx)
		}},
	} {
		t.Run(way.name, func(t *testing.T) { allAtOnce(t, s, c, way.n, way.run) })
	}
	writes(t, s, c)
	t.Run("unfinished messages", func(t *testing.T) { unfinished(t, s) })
	for name, body := range map[string]string{
		"strings": `function() { let s = 'x', all = []; while (s.length < 1 << 23) s += s; for (let i = 0; ; i++) all.push(s + i) }`,
		"arrays":  `function() { let all = []; for (let i = 0; ; i++) { let s = 'x' + i; while (s.length < 1 << 20) s += s; all.push(s + i) } }`,
	} {
		run := aggregation(`[{"$limit": 1}, {"$project": {"n": {"$function": {"body": "` + body + `", "args": [], "lang": "js"}}}}]`)
		t.Run("JavaScript "+name, func(t *testing.T) { allAtOnce(t, s, c, 10, run) })
	}
	usable(t, s, c)
}

// writes asks for as much by what clients write, and by filters as large as
// messages may be.
func writes(t *testing.T, s *testkit.Server, c *mongo.Collection) {
	wide := c.Database().Collection("wide")
	for i := range writtenDocs {
		d := bson.D{{Key: "_id", Value: i}, {Key: "n", Value: 0}, {Key: "pad", Value: strings.Repeat(string('a'+rune(i)), largeDocBytes)}}
		if _, err := wide.InsertOne(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	keyed := c.Database().Collection("keyed")
	if _, err := keyed.Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: bson.D{{Key: "a", Value: 1}, {Key: "b", Value: 1}}}); err != nil {
		t.Fatal(err)
	}
	numbers := func(n int) bson.A {
		a := make(bson.A, n)
		for i := range a {
			a[i] = int32(i)
		}
		return a
	}
	// What takes long to write is written once.
	raw := func(v any) bson.Raw {
		b, err := bson.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	alternatives := make(bson.A, 1<<17)
	for i := range alternatives {
		alternatives[i] = bson.D{{Key: "a", Value: int32(i)}, {Key: "b", Value: int32(i)}}
	}
	list := raw(bson.D{{Key: "a", Value: bson.D{{Key: "$in", Value: numbers(1 << 20)}}}})
	choice := raw(bson.D{{Key: "$or", Value: alternatives}})
	few := numbers(keyedElements)
	var next atomic.Int64
	for _, way := range []struct {
		name string
		n    int
		run  func(ctx context.Context, c *mongo.Collection) error
	}{
		{"updates", demand / writtenBytes, func(ctx context.Context, c *mongo.Collection) error {
			_, err := c.Database().Collection("wide").UpdateOne(ctx, bson.D{{Key: "_id", Value: next.Add(1) % writtenDocs}}, bson.D{{Key: "$inc", Value: bson.D{{Key: "n", Value: 1}}}})
			return err
		}},
		{"multi-updates", demand / writtenBytes, func(ctx context.Context, c *mongo.Collection) error {
			_, err := c.Database().Collection("wide").UpdateMany(ctx, bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: bson.A{next.Add(1) % writtenDocs}}}}}, bson.A{bson.D{{Key: "$set", Value: bson.D{{Key: "n", Value: bson.D{{Key: "$add", Value: bson.A{"$n", 1}}}}}}}})
			return err
		}},
		{"findAndModify", demand / writtenBytes, func(ctx context.Context, c *mongo.Collection) error {
			return c.Database().Collection("wide").FindOneAndUpdate(ctx, bson.D{{Key: "_id", Value: next.Add(1) % writtenDocs}}, bson.D{{Key: "$inc", Value: bson.D{{Key: "n", Value: 1}}}}).Err()
		}},
		{"merges", demand / writtenBytes, aggregation(`[{"$match": {"_id": 1}}, {"$merge": {"into": "wide", "whenMatched": "merge"}}]`)},
		{"keys", demand / (keyedElements * keyedBytes), func(ctx context.Context, c *mongo.Collection) error {
			_, err := c.Database().Collection("keyed").InsertOne(ctx, bson.D{{Key: "a", Value: few}, {Key: "b", Value: strings.Repeat("b", keyedBytes)}})
			return err
		}},
		{"lists", demand / (parsedCopies * len(list)), func(ctx context.Context, c *mongo.Collection) error {
			return c.FindOne(ctx, list).Err()
		}},
		{"alternatives", demand / (parsedCopies * len(choice)), func(ctx context.Context, c *mongo.Collection) error {
			return c.FindOne(ctx, choice).Err()
		}},
	} {
		t.Run(way.name, func(t *testing.T) { allAtOnce(t, s, c, way.n, way.run) })
	}
}

func aggregation(stages string) func(context.Context, *mongo.Collection) error {
	var p struct{ P bson.A }
	if err := bson.UnmarshalExtJSON([]byte(`{"p": `+stages+`}`), false, &p); err != nil {
		panic(err)
	}
	return func(ctx context.Context, c *mongo.Collection) error {
		cur, err := c.Aggregate(ctx, p.P, options.Aggregate().SetAllowDiskUse(false))
		if err != nil {
			return err
		}
		return cur.Close(ctx)
	}
}

func largeCollection(t *testing.T, s *testkit.Server) *mongo.Collection {
	c := s.Client().Database("d").Collection("c")
	r := rand.New(rand.NewPCG(1, 2))
	pad := make([]byte, largeDocBytes)
	for i := range pad {
		pad[i] = 'a' + byte(r.IntN(26))
	}
	for i := range largeDocs {
		if _, err := c.InsertOne(t.Context(), bson.D{{Key: "_id", Value: i}, {Key: "a", Value: largeDocs - i}, {Key: "pad", Value: string(pad[i:])}}); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// allAtOnce runs n operations at the same time.
func allAtOnce(t *testing.T, s *testkit.Server, c *mongo.Collection, n int, run func(context.Context, *mongo.Collection) error) {
	peak := resetPeak(t, s)
	begun := time.Now()
	client, err := mongo.Connect(options.Client().ApplyURI(s.URI()).SetMaxPoolSize(uint64(n)).SetRetryReads(false))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Disconnect(context.Background()) }()
	own := client.Database(c.Database().Name()).Collection(c.Name())
	outcomes := map[int]int{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			// The driver sends it as maxTimeMS.
			ctx, cancel := context.WithTimeout(t.Context(), wayTime)
			defer cancel()
			err := run(ctx, own)
			code := 0
			var said mongo.CommandError
			var wrote mongo.WriteException
			switch {
			case errors.As(err, &wrote) && len(wrote.WriteErrors) > 0:
				code = wrote.WriteErrors[0].Code
			case errors.As(err, &said) && said.Code != 0:
				code = int(said.Code)
			case errors.Is(err, mongo.ErrNoDocuments):
			case errors.Is(err, context.DeadlineExceeded) || mongo.IsTimeout(err):
				code = 50
			case err != nil:
				t.Error(err)
			}
			mu.Lock()
			outcomes[code]++
			mu.Unlock()
		})
	}
	all.Wait()
	for code := range outcomes {
		if code != 0 && !proper[code] {
			t.Errorf("%d operations ended with code %d", outcomes[code], code)
		}
	}
	peak(t)
	t.Logf("%d operations, by code %v, in %v", n, outcomes, time.Since(begun).Round(time.Millisecond))
}

// unfinished sends large messages but for their last byte.
func unfinished(t *testing.T, s *testkit.Server) {
	peak := resetPeak(t, s)
	message := make([]byte, wire.MaxMessageSize)
	binary.LittleEndian.PutUint32(message, wire.MaxMessageSize)
	binary.LittleEndian.PutUint32(message[12:], uint32(wire.OpMsg))
	var all sync.WaitGroup
	for range demand/len(message) + 1 {
		all.Go(func() {
			nc, err := net.Dial("tcp", "127.0.0.1:"+strconv.Itoa(s.Port))
			if err != nil {
				t.Error(err)
				return
			}
			defer nc.Close()
			_ = nc.SetDeadline(time.Now().Add(wayTime))
			if _, err := io.Copy(nc, bytes.NewReader(message[:len(message)-1])); err == nil {
				_, _ = nc.Read(make([]byte, 1)) // until the deadline: nothing comes
			}
		})
	}
	all.Wait()
	peak(t)
}

// resetPeak makes the process forget its peak; what it returns holds the peak
// since then.
func resetPeak(t *testing.T, s *testkit.Server) func(t *testing.T) {
	t.Helper()
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", s.PID()), []byte("5"), 0); err != nil {
		t.Fatal(err)
	}
	return func(t *testing.T) {
		t.Helper()
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.PID()))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(b)) {
			if f := strings.Fields(line); len(f) > 1 && f[0] == "VmHWM:" {
				kb, err := strconv.Atoi(f[1])
				if err != nil {
					t.Fatal(err)
				}
				t.Logf("%d MB in memory at the most", kb>>10)
				if kb<<10 > mostResident {
					t.Errorf("%d MB in memory, %.2f times the budget", kb>>10, float64(kb<<10)/operationBudget)
				}
			}
		}
	}
}

// usable holds that the server works as before, and that all memory is given back.
func usable(t *testing.T, s *testkit.Server, c *mongo.Collection) {
	// Cursors that were opened for clients whose patience was over would stay for ten
	// minutes.
	if err := s.Client().Database("admin").RunCommand(t.Context(), bson.D{{Key: "killAllSessions", Value: bson.A{}}}).Err(); err != nil {
		t.Fatal(err)
	}
	small := c.Database().Collection("small")
	if _, err := small.InsertOne(t.Context(), bson.D{{Key: "_id", Value: 1}}); err != nil {
		t.Error(err)
	}
	if n, err := c.CountDocuments(t.Context(), bson.D{}); err != nil || n != largeDocs {
		t.Errorf("%d documents, %v", n, err)
	}
	cur, err := c.Aggregate(t.Context(), bson.A{bson.D{{Key: "$sort", Value: bson.D{{Key: "a", Value: 1}}}}, bson.D{{Key: "$project", Value: bson.D{{Key: "a", Value: 1}}}}})
	if err != nil {
		t.Fatal(err)
	}
	var docs []bson.D
	if err := cur.All(t.Context(), &docs); err != nil || len(docs) != largeDocs {
		t.Errorf("%d documents, %v", len(docs), err)
	}
	deadline := time.Now().Add(patience)
	for {
		var st struct {
			Mayfly struct {
				OperationMemory struct {
					LimitBytes           int64
					Operations, Requests struct{ HeldBytes, Refused, Waiting int64 }
				}
			}
		}
		if err := c.Database().RunCommand(t.Context(), bson.D{{Key: "serverStatus", Value: 1}}).Decode(&st); err != nil {
			t.Fatal(err)
		}
		m := st.Mayfly.OperationMemory
		if m.LimitBytes != operationBudget || m.Operations.Refused == 0 {
			t.Errorf("%+v", m)
		}
		if m.Operations.HeldBytes == 0 && m.Requests.HeldBytes == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("memory is still held: %+v", m)
		}
		time.Sleep(50 * time.Millisecond)
	}
}
