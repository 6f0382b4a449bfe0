package exec

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/catalog/replay"
	"github.com/mayflydb/mayfly/internal/geo"
	"github.com/mayflydb/mayfly/internal/geo/geotest"
	"github.com/mayflydb/mayfly/internal/query/match"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// geoWorld is a collection with an index, and its documents beside it.
type geoWorld struct {
	x    *Executor
	coll *catalog.Collection
	docs []bson.Doc
}

// geoTest is a test, of either kind.
type geoTest interface{ Fatal(args ...any) }

func must(t geoTest, err error) {
	if err != nil {
		t.Fatal(err)
	}
}

func newExecutor(t testing.TB) *Executor {
	e, c := replay.Open(t, storage.Options{Dir: "db", FS: storage.NewMemFS(), CacheBytes: 8 << 20, MemtableBytes: 512 << 10}, catalog.Options{})
	t.Cleanup(func() { e.Close() })
	t.Cleanup(func() { c.Close() })
	return &Executor{Catalog: c}
}

// newGeoWorld fills a new collection.
func newGeoWorld(t geoTest, x *Executor, spec string, docs []bson.Doc) *geoWorld {
	ctx := context.Background()
	ns := schema.Namespace{DB: "db", Coll: fmt.Sprint("places", worlds.Add(1))}
	_, err := x.Catalog.Create(ctx, ns, bson.Empty)
	must(t, err)
	parsed, err := schema.ParseIndexSpec(ns, bson.MustParse(spec), false)
	must(t, err)
	_, _, err = x.Catalog.CreateIndexes(ctx, ns, []bson.Doc{parsed})
	must(t, err)
	w := &geoWorld{x, x.Catalog.Lookup(ns), docs}
	writer := x.NewWriter(storage.Buffered)
	for _, d := range docs {
		must(t, writer.Insert(ctx, w.coll, d))
	}
	must(t, writer.Commit(ctx))
	return w
}

var worlds atomic.Int64

// find runs a filter and returns the _ids and the plan.
func (w *geoWorld) find(t geoTest, f *match.Filter) (ids []int64, summary string) {
	q := &Query{}
	q.Filter = f
	cur, err := w.x.Find(context.Background(), w.coll, q)
	must(t, err)
	defer cur.Close()
	for {
		d, err := cur.Next(context.Background())
		must(t, err)
		if d == nil {
			return ids, cur.Summary()
		}
		ids = append(ids, d.Lookup("_id").Int64())
	}
}

// places makes documents of geometries, a part of them under several.
func places(t *rapid.T, g *rapid.Generator[bson.Value], several bool) []bson.Doc {
	var docs []bson.Doc
	for range rapid.IntRange(0, 20).Draw(t, "documents") {
		v := g.Draw(t, "loc")
		if _, err := geo.ParseStored(v); err != nil {
			continue // few rings cross themselves on the sphere
		}
		b := new(bson.Builder).Int64("_id", int64(len(docs))).Int32("cat", rapid.Int32Range(0, 2).Draw(t, "cat"))
		if several && rapid.Bool().Draw(t, "several") {
			b.OpenArray("a").OpenDoc("0").Value("loc", v).Close().OpenDoc("1").Value("loc", geotest.Coordinate().Draw(t, "second")).Close().Close()
		} else {
			b.OpenDoc("a").Value("loc", v).Close()
		}
		docs = append(docs, b.Finish())
	}
	return docs
}

// An index answers a containment or an intersection as a scan of all documents
// does.
func TestGeoIndexFindsWhatAScanFinds(t *testing.T) {
	indexes := map[string]bool{ // and whether on the sphere
		`{key: {"a.loc": "2dsphere"}, name: "i"}`:                        true,
		`{key: {"a.loc": "2d", cat: 1}, name: "i"}`:                      false,
		`{key: {"a.loc": "2d"}, name: "i", bits: 4}`:                     false,
		`{key: {cat: -1, "a.loc": "2dsphere"}, name: "i", sparse: true}`: true,
	}
	for spec, sphere := range indexes {
		t.Run(spec, func(t *testing.T) {
			x := newExecutor(t)
			rapid.Check(t, func(rt *rapid.T) {
				g := geotest.Geometry()
				if !sphere {
					g = geotest.Coordinate()
				}
				w := newGeoWorld(rt, x, spec, places(rt, g, true))
				for range 3 {
					op := "$geoWithin"
					shape := geotest.Shape(sphere).Draw(rt, "shape")
					if sphere && rapid.Bool().Draw(rt, "intersects") {
						op = "$geoIntersects"
					}
					b := new(bson.Builder).OpenDoc("a.loc").Doc(op, shape).Close()
					b.OpenDoc("cat").Int32("$lt", rapid.Int32Range(1, 3).Draw(rt, "below")).Close()
					f, err := match.Parse(b.Finish(), nil)
					if err != nil {
						continue
					}
					got, summary := w.find(rt, f)
					slices.Sort(got)
					if want := w.scan(rt, f); !slices.Equal(got, want) || !strings.HasPrefix(summary, "IXSCAN") {
						rt.Fatalf("%s: %v, want %v", summary, got, want)
					}
				}
			})
		})
	}
}

// scan is the dumb twin: it matches each document.
func (w *geoWorld) scan(t geoTest, f *match.Filter) []int64 {
	var ids []int64
	for _, d := range w.docs {
		ok, err := f.Match(d)
		must(t, err)
		if ok {
			ids = append(ids, d.Lookup("_id").Int64())
		}
	}
	return ids
}

// A search by distance delivers what lies within the distances, nearest first.
func TestGeoNearDeliversAllInOrder(t *testing.T) {
	for _, spec := range []string{
		`{key: {"a.loc": "2dsphere"}, name: "i"}`,
		`{key: {"a.loc": "2d"}, name: "i", bits: 10}`,
	} {
		t.Run(spec, func(t *testing.T) {
			x := newExecutor(t)
			sphere := bytes.Contains([]byte(spec), []byte("sphere"))
			rapid.Check(t, func(rt *rapid.T) {
				g := geotest.Coordinate()
				if sphere {
					g = geotest.Geometry()
				}
				w := newGeoWorld(rt, x, spec, places(rt, g, true))
				op := "$nearSphere"
				if !sphere && rapid.Bool().Draw(rt, "flat") {
					op = "$near"
				}
				b := new(bson.Builder).OpenDoc("a.loc").Value(op, geotest.Coordinate().Draw(rt, "from"))
				if rapid.Bool().Draw(rt, "bounded") {
					b.Double("$minDistance", rapid.Float64Range(0, 1).Draw(rt, "min")).Double("$maxDistance", rapid.Float64Range(0, 4).Draw(rt, "max"))
				}
				f, err := match.Parse(b.Close().Finish(), nil)
				if err != nil {
					rt.Fatal(err)
				}
				got, summary := w.find(rt, f)
				if err := w.checkNear(got, f.Root().(*match.GeoNear).Near); err != nil {
					rt.Fatalf("%s: %v", summary, err)
				}
			})
		})
	}
}

func (w *geoWorld) checkNear(got []int64, near *match.Near) error {
	distances := map[int64]float64{}
	for _, d := range w.docs {
		part := schema.Part{Path: "a.loc", Components: []string{"a", "loc"}}
		at, _, ok := nearest(part.Values(d), near.Point)
		if ok && at >= near.Min && at <= near.Max {
			distances[d.Lookup("_id").Int64()] = at
		}
	}
	if len(got) != len(distances) {
		return fmt.Errorf("%v, want those of %v", got, distances)
	}
	last := math.Inf(-1)
	for _, id := range got {
		at, ok := distances[id]
		if !ok || at < last {
			return fmt.Errorf("%d is out of place in %v of %v", id, got, distances)
		}
		last = at
	}
	return nil
}

func BenchmarkGeoNearFirstTen(b *testing.B) {
	var docs []bson.Doc
	for i := range 20000 {
		x, y := float64(i%200)*0.1, float64(i/200)*0.1
		docs = append(docs, new(bson.Builder).Int64("_id", int64(i)).OpenArray("loc").Double("0", x).Double("1", y).Close().Finish())
	}
	w := newGeoWorld(b, newExecutor(b), `{key: {loc: "2dsphere"}, name: "i"}`, docs)
	f, err := match.Parse(bson.MustParse(`{loc: {"$nearSphere": [10.03, 5.07]}}`), nil)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		q := &Query{}
		q.Filter, q.Limit = f, 10
		cur, err := w.x.Find(context.Background(), w.coll, q)
		if err != nil {
			b.Fatal(err)
		}
		for range 10 {
			if d, err := cur.Next(context.Background()); d == nil || err != nil {
				b.Fatal(err)
			}
		}
		cur.Close()
	}
}
