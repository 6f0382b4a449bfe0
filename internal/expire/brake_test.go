package expire

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/schema"
)

// braked is a collection c of which many documents are about to go in many units, and
// the commands after whose reply none may.
type braked struct {
	name   string
	setup  []string
	fill   func(w *world)
	begin  []string // what makes the documents go
	due    int      // so many
	brakes []string
}

const (
	pausedRule = `storageEngine: {mayfly: {expiry: {paused: true}}}`
	// shutRule is a rule that may remove at another time of the day.
	shutRule = `storageEngine: {mayfly: {expiry: {window: {from: "FROM", to: "TO"}}}}`
)

// everyBrake are those that work on all kinds of collections.
var everyBrake = []string{
	`{setParameter: 1, ttlMonitorEnabled: false, $db: "admin"}`,
	`{collMod: "c", storageEngine: {mayfly: {expiry: {paused: true}}}}`,
	`{collMod: "c", ` + shutRule + `}`,
	`{drop: "c"}`,
	`{dropDatabase: 1}`,
}

// ofIndex are those of a TTL index.
func ofIndex(name string) []string {
	return append([]string{
		`{dropIndexes: "c", index: "` + name + `"}`,
		`{dropIndexes: "c", index: "*"}`,
		`{collMod: "c", index: {name: "` + name + `", expireAfterSeconds: 1000000}}`,
		`{collMod: "c", index: {name: "` + name + `", ` + pausedRule + `}}`,
		`{collMod: "c", index: {name: "` + name + `", ` + shutRule + `}}`,
	}, everyBrake...)
}

// ofCollection are those of a collection's own rule.
var ofCollection = append([]string{
	`{collMod: "c", expireAfterSeconds: "off"}`,
	`{collMod: "c", expireAfterSeconds: 1000000}`,
}, everyBrake...)

// ofLastWrite are those of a rule by last write whose documents have a ttl of their own,
// which no longer default holds.
var ofLastWrite = slices.DeleteFunc(ofIndex("at_1"), func(b string) bool { return strings.Contains(b, "expireAfterSeconds") })

// dated inserts documents of a form, in which "ID" stands for their number, and "AT" for a date that
// is due.
func dated(n int, form string) func(*world) {
	return func(w *world) {
		at := time.Now().Add(-time.Hour).UnixMilli()
		of := bson.MustParse(form)
		for from := 0; from < n; from += 1000 {
			var b bson.Builder
			b.String("insert", "c").OpenArray("documents")
			for i := from; i < min(n, from+1000); i++ {
				b.OpenDoc(bson.Index(i - from))
				for name, v := range of.All() {
					switch {
					case v.Type == bson.TypeString && v.Str() == "ID":
						b.Int32(name, int32(i))
					case v.Type == bson.TypeString && v.Str() == "AT":
						b.Date(name, at+int64(i))
					default:
						b.Value(name, v)
					}
				}
				b.Close()
			}
			w.must(b.Close().Finish())
		}
	}
}

var brakedKinds = []braked{
	{
		name: "index", fill: dated(3000, `{_id: "ID", at: "AT"}`), due: 3000, brakes: ofIndex("at_1"),
		begin: []string{`{createIndexes: "c", indexes: [{key: {at: 1}, name: "at_1", expireAfterSeconds: 60}]}`},
	},
	{
		name: "partial index", fill: dated(3000, `{_id: "ID", at: "AT", k: 1}`), due: 3000, brakes: ofIndex("at_1"),
		begin: []string{`{createIndexes: "c", indexes: [{key: {at: 1}, name: "at_1", expireAfterSeconds: 60, partialFilterExpression: {k: 1}}]}`},
	},
	{
		name: "single deletes", fill: dated(300, `{_id: "ID", at: "AT"}`), due: 300, brakes: ofIndex("at_1"),
		begin: []string{
			`{setParameter: 1, ttlMonitorBatchDeletes: false, $db: "admin"}`,
			`{createIndexes: "c", indexes: [{key: {at: 1}, name: "at_1", expireAfterSeconds: 60}]}`,
		},
	},
	{
		// Half of the documents live on, so the windows that are due are thinned.
		name: "windows", due: 3000, brakes: ofIndex("at_1"),
		setup: []string{
			`{setParameter: 1, expiryWindows: true, $db: "admin"}`,
			`{createIndexes: "c", indexes: [{key: {at: 1}, name: "at_1", expireAfterSeconds: 36000}]}`,
		},
		fill: func(w *world) {
			dated(6000, `{_id: "ID", at: "AT"}`)(w)
			w.must(bson.MustParse(`{update: "c", updates: [{q: {_id: {$mod: [2, 1]}}, u: {$set: {at: {"$date": "2126-01-03T00:00:00Z"}}}, multi: true}]}`))
		},
		begin: []string{`{collMod: "c", index: {name: "at_1", expireAfterSeconds: 60}}`},
	},
	{
		name: "last write", fill: dated(3000, `{_id: "ID", ttl: 1}`), due: 3000, brakes: ofLastWrite,
		begin: []string{
			`{createIndexes: "c", indexes: [{key: {_ts: 1}, name: "at_1", expireAfterSeconds: -1, storageEngine: {mayfly: {expiry: {by: "lastWrite"}}}}]}`,
		},
	},
	{
		// Half of the documents have none that is near, so the windows that are due are thinned.
		name: "last write, windows", due: 3000, brakes: ofIndex("at_1"),
		setup: []string{
			`{setParameter: 1, expiryWindows: true, $db: "admin"}`,
			`{createIndexes: "c", indexes: [{key: {_ts: 1}, name: "at_1", expireAfterSeconds: 36000, storageEngine: {mayfly: {expiry: {by: "lastWrite"}}}}]}`,
		},
		fill: func(w *world) {
			dated(6000, `{_id: "ID"}`)(w)
			w.must(bson.MustParse(`{update: "c", updates: [{q: {_id: {$mod: [2, 1]}}, u: {$set: {ttl: -1}}, multi: true}]}`))
		},
		begin: []string{`{collMod: "c", index: {name: "at_1", expireAfterSeconds: 1}}`},
	},
	{
		name: "clustered", fill: dated(3000, `{_id: "AT"}`), due: 3000, brakes: ofCollection,
		setup: []string{`{create: "c", clusteredIndex: {key: {_id: 1}, unique: true}, expireAfterSeconds: 36000}`},
		begin: []string{`{collMod: "c", expireAfterSeconds: 60}`},
	},
	{
		name: "open measurements", fill: dated(300, `{t: "AT", m: "ID"}`), due: 300, brakes: ofCollection,
		setup: []string{`{create: "c", timeseries: {timeField: "t", metaField: "m"}, expireAfterSeconds: 36000}`},
		begin: []string{`{collMod: "c", expireAfterSeconds: 60}`},
	},
	{
		name: "buckets", due: 2000,
		// The time to live of such an index does not change.
		brakes: slices.DeleteFunc(ofIndex("t"), func(b string) bool { return strings.Contains(b, "expireAfterSeconds") }),
		setup:  []string{`{create: "c", timeseries: {timeField: "t", metaField: "m"}}`},
		fill: func(w *world) {
			dated(2000, `{t: "AT", m: "ID"}`)(w)
			w.must(bson.MustParse(`{aggregate: "system.buckets.c", pipeline: [], cursor: {}}`)) // seals
		},
		begin: []string{
			`{createIndexes: "c", indexes: [{key: {t: 1}, name: "t", expireAfterSeconds: 60, partialFilterExpression: {m: {$gte: 0}}}]}`,
		},
	},
}

// TestBrakes holds invariant brake (package catalog): after the reply of a command that
// keeps documents from going, none goes that would have otherwise, also where a visit
// was in the middle of many. (Not in virtual time, which stands still while a command
// waits for a gate.)
func TestBrakes(t *testing.T) {
	for _, kind := range brakedKinds {
		for _, brake := range kind.brakes {
			t.Run(kind.name+"/"+brake, func(t *testing.T) { kind.run(t, brake) })
		}
	}
}

// TestHandedOver holds that no document goes once its range was given to another shard, also
// where a visit has found it before.
func TestHandedOver(t *testing.T) {
	for _, kind := range brakedKinds {
		key := `{_id: 1}`
		if strings.Contains(kind.name, "buckets") {
			key = `{meta: 1}` // of a stored bucket
		} else if kind.name == "open measurements" {
			continue // a move has put them into buckets
		}
		t.Run(kind.name, func(t *testing.T) {
			k, err := schema.ParseShardKey(bson.MustParse(key))
			if err != nil {
				t.Fatal(err)
			}
			kind.stopsAt(t, func(w *world) {
				if _, err := w.cat.SetSharding(t.Context(), schema.Namespace{DB: "d", Coll: "c"}, func(*catalog.Collection) (*schema.Sharding, error) {
					return &schema.Sharding{Key: k, Shard: "s0", Version: schema.ShardVersion{ShardGeneration: schema.ShardGeneration{Timestamp: 9}, Major: 1},
						Hidden: []schema.HiddenRange{{ShardRange: k.Whole(), Operation: 1}}}, nil
				}); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

// slowCommit is how long a commit takes, so that a visit is long.
const slowCommit = 3 * time.Millisecond

func (k *braked) run(t *testing.T, brake string) {
	later := func(h int) string { return time.Now().UTC().Add(time.Duration(h) * time.Hour).Format("15:04") }
	brake = strings.NewReplacer("FROM", later(6), "TO", later(7)).Replace(brake)
	k.stopsAt(t, func(w *world) { w.must(bson.MustParse(brake)) })
}

// stopsAt demands that no document goes after what brakes.
func (k *braked) stopsAt(t *testing.T, brake func(*world)) {
	t.Helper()
	w := newWorld(t)
	defer w.close()
	ended := k.begun(t.Context(), t, w)
	brake(w)
	time.Sleep(slowCommit) // for who counts the unit that the brake has waited for
	gone := w.m.Stats.Deleted.Load()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if left := int64(k.due) - gone; left <= 0 {
		t.Fatalf("all %d were gone before the brake", gone)
	}
	if more := w.m.Stats.Deleted.Load() - gone; more != 0 {
		t.Errorf("%d documents went after the reply, %d before", more, gone)
	}
}

// begun is the error at the end of a pass that is in the middle of what is due.
func (k *braked) begun(ctx context.Context, t *testing.T, w *world) <-chan error {
	t.Helper()
	for _, text := range k.setup {
		w.must(bson.MustParse(text))
	}
	k.fill(w)
	w.takes.Store(int64(slowCommit))
	for _, text := range k.begin {
		w.must(bson.MustParse(text))
	}
	return w.passUntil(ctx, t, int64(k.due)/5)
}

// passUntil begins a pass, and returns in the middle of it, when so many documents are
// gone. Its error comes at its end.
func (w *world) passUntil(ctx context.Context, t *testing.T, gone int64) <-chan error {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- w.m.pass(ctx) }()
	for begun := time.Now(); w.m.Stats.Deleted.Load() < gone; time.Sleep(slowCommit / 10) {
		if time.Since(begun) > 10*time.Second {
			t.Fatalf("%d documents of %d are gone\n%s", w.m.Stats.Deleted.Load(), gone, w.log.take())
		}
	}
	return ended
}

// TestLowerBudget holds that a lower budget counts from its reply on.
func TestLowerBudget(t *testing.T) {
	for _, kind := range brakedKinds {
		brakes := []string{
			`{collMod: "c", storageEngine: {mayfly: {expiry: {budget: {documentsPerSecond: 1}}}}}`,
			`{setParameter: 1, ttlMonitorDocumentsPerSecond: 1, $db: "admin"}`,
		}
		if kind.name == "index" {
			brakes = append(brakes, `{collMod: "c", index: {name: "at_1", storageEngine: {mayfly: {expiry: {budget: {documentsPerSecond: 1}}}}}}`)
		}
		for _, brake := range brakes {
			t.Run(kind.name+"/"+brake, func(t *testing.T) { kind.lower(t, brake) })
		}
	}
}

func (k *braked) lower(t *testing.T, brake string) {
	w := newWorld(t)
	defer w.close()
	w.must(bson.MustParse(`{setParameter: 1, ttlMonitorSubPassTargetSecs: 0, $db: "admin"}`))
	ctx, cancel := context.WithCancel(t.Context())
	ended := k.begun(ctx, t, w)
	w.must(bson.MustParse(brake))
	time.Sleep(slowCommit)
	begun, gone := time.Now(), w.m.Stats.Deleted.Load()
	if gone >= int64(k.due) {
		t.Errorf("all %d were gone before the brake", gone)
	}
	time.Sleep(20 * slowCommit)
	if more := w.m.Stats.Deleted.Load() - gone; more > 2+int64(time.Since(begun)/time.Second) {
		t.Errorf("%d documents", more)
	}
	cancel()
	<-ended
}
