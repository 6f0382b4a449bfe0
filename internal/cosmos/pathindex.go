package cosmos

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/query/nosql"
	"github.com/mayflydb/mayfly/internal/schema"
)

// An index is built when a query has read many items in vain, and the policy includes
// it: so the writes of a container pay only for the queries that it really has. On a
// property it is {property: 1, _n: 1}, which gives the items
// with one value in the order of feeds; a composite index has its properties
// and _n; a spatial one is of kind 2dsphere. The latter two leave out items that they
// cannot index, which the service accepts (schema.Lenient).

const (
	// The prefixes of these indexes' names: a property's path follows,
	// or those of a composite index with commas between and - before a
	// descending one.
	pathIndexPrefix      = "path/"
	compositeIndexPrefix = "composite/"
	spatialIndexPrefix   = "spatial/"
	// wastedItems is how many items a page may read in vain before an index is
	// requested, and wastedShare how many for each one that it finds.
	wastedItems = 1000
	wastedShare = 10
	// maxPathIndexes bounds these indexes of one container.
	maxPathIndexes = 32
	// maxWantedIndexes bounds the indexes that wait to be built; beyond it, the next
	// such query requests the index again.
	maxWantedIndexes = 64
)

// wantedIndex is an index that a query would have used.
type wantedIndex struct {
	db, container, name string
}

// elements ends the path of an index on an array's elements: the key is the same, but
// another path of the policy includes it.
const elements = ".[]"

// hasPathIndex reports whether there is an index on a path or on its elements.
func hasPathIndex(c *catalog.Collection, path string) bool {
	return c.Index(pathIndexPrefix+path) != nil || c.Index(pathIndexPrefix+path+elements) != nil
}

// hasIndex reports whether there is an index of a name, or an equivalent one.
func hasIndex(c *catalog.Collection, name string) bool {
	if path, single := strings.CutPrefix(name, pathIndexPrefix); single {
		return hasPathIndex(c, strings.TrimSuffix(path, elements))
	}
	return c.Index(name) != nil
}

// wantIndex requests an index that a query would have used.
func (s *Server) wantIndex(c *container, name string) {
	select {
	case s.wanted <- wantedIndex{c.db, c.id, name}:
	default:
	}
}

// wasted reports whether a page read far more items than it found.
func wasted(examined, found int64) bool {
	return examined-found >= wastedItems && examined >= wastedShare*found
}

// improve requests an index for a query's filter if its page read many items in vain.
func (s *Server) improve(c *container, paths []nosql.FilterPath, examined, found int64) {
	now := c.collection.Latest()
	if !wasted(examined, found) || now == nil {
		return
	}
	for _, name := range c.indexing.forFilter(paths) {
		if !hasIndex(now, name) {
			s.wantIndex(c, name)
			return
		}
	}
}

// forFilter returns the names of the indexes that the policy allows for a filter, the
// best first: on shapes, composite ones, by values, by ranges.
func (p indexPolicy) forFilter(paths []nosql.FilterPath) []string {
	var shapes, composite, values, ranges []string
	equal, compared := map[string]bool{}, map[string]bool{}
	for _, f := range paths {
		name := pathIndexPrefix + strings.Join(f.Names(), ".")
		switch {
		case f.Spatial:
			if p.indexesShapes(f.Names()) {
				shapes = append(shapes, spatialIndexPrefix+f.Path)
			}
			continue
		case f.Equality:
			values = append(values, name)
		default:
			ranges = append(ranges, name)
		}
		if !f.Elements {
			compared[f.Path] = true
			equal[f.Path] = equal[f.Path] || f.Equality
		}
	}
	for _, ix := range p.composite {
		if ix.bounds(equal, compared) > 1 {
			composite = append(composite, ix.name())
		}
	}
	singles := slices.DeleteFunc(append(values, ranges...), func(name string) bool { return !p.allows(name) })
	return slices.Concat(shapes, composite, singles)
}

// name is that of the index.
func (ix compositeIndex) name() string {
	var b strings.Builder
	b.WriteString(compositeIndexPrefix)
	for i, p := range ix {
		if i > 0 {
			b.WriteByte(',')
		}
		if p.descending {
			b.WriteByte('-')
		}
		b.WriteString(p.path)
	}
	return b.String()
}

// bounds returns how many properties of the index a filter bounds: leading ones by
// values, the last one by a range.
func (ix compositeIndex) bounds(equal, compared map[string]bool) int {
	for i, p := range ix {
		if !compared[p.path] {
			return i
		}
		if !equal[p.path] {
			return i + 1
		}
	}
	return len(ix)
}

// spec is the specification of the index. Equal entries are in the order of feeds, or
// reversed if the first property descends.
func (ix compositeIndex) spec() bson.Doc {
	var b bson.Builder
	b.Int32("v", 2).OpenDoc("key")
	for _, p := range ix {
		b.Int32(p.path, direction(p.descending))
	}
	b.Int32(fieldNumber, direction(ix[0].descending)).Close().String("name", ix.name())
	return schema.Lenient(b.Finish())
}

func direction(descending bool) int32 {
	if descending {
		return -1
	}
	return 1
}

// allows reports whether the policy includes an index of a name.
func (p indexPolicy) allows(name string) bool { return p.spec(name) != nil }

// spec returns the specification of an index of a name, nil if the policy does not
// include it.
func (p indexPolicy) spec(name string) bson.Doc {
	if path, ok := strings.CutPrefix(name, pathIndexPrefix); ok && p.indexesDotted(path) {
		return indexSpec(name, false, strings.TrimSuffix(path, elements), fieldNumber)
	}
	if path, ok := strings.CutPrefix(name, spatialIndexPrefix); ok && p.indexesShapes(strings.Split(path, ".")) {
		var b bson.Builder
		b.Int32("v", 2).OpenDoc("key").String(path, "2dsphere").Close().String("name", name)
		return schema.Lenient(b.Int32("2dsphereIndexVersion", 3).Finish())
	}
	for _, ix := range p.composite {
		if ix.name() == name {
			return ix.spec()
		}
	}
	return nil
}

// retainTick is how often a member looks how long it has to keep its log, in case another
// one has changed that.
const retainTick = time.Minute

// Tend builds the indexes that queries ask for, one after the other, lets the rows that
// are kept of queries go when their time is over, and follows how long the log has to be
// kept, until ctx ends.
func (s *Server) Tend(ctx context.Context) {
	tick, retain := time.NewTicker(resultLife), time.NewTicker(retainTick)
	defer tick.Stop()
	defer retain.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			s.results.expire(now)
		case <-retain.C:
			if err := s.retain(ctx); err != nil && ctx.Err() == nil {
				s.o.Log.Warn("How long the log has to be kept could not be read", "error", err)
			}
		case w := <-s.wanted:
			if err := s.buildIndex(ctx, w); err != nil && ctx.Err() == nil {
				s.o.Log.Warn("An index could not be built", "database", w.db, "container", w.container, "index", w.name, "error", err)
			}
		}
	}
}

func (s *Server) buildIndex(ctx context.Context, w wantedIndex) error {
	if s.shard != nil || s.o.Cluster != nil {
		return s.buildInCluster(ctx, w)
	}
	c, err := s.registry.container(w.db, w.container)
	if err != nil {
		return nil // it is gone
	}
	now := c.collection.Latest()
	spec := c.indexing.spec(w.name)
	if now == nil || spec == nil || hasIndex(now, w.name) || len(pathIndexes(now)) >= maxPathIndexes {
		return nil
	}
	d := s.o.Dispatcher
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	shown := new(bson.Builder).String("createIndexes", now.Namespace.Coll).OpenArray("indexes").Doc("0", spec).Close().Finish()
	defer d.BeginBackground("CosmosIndexBuild", command.KindCommand, now.Namespace.String(), shown, stop).End()
	pass, err := d.Enter(ctx, now.Namespace.DB)
	if err != nil {
		return err
	}
	defer pass.Leave()
	if err := d.MayWrite(now.Namespace.DB); err != nil {
		return err
	}
	if _, _, err := s.o.Catalog.CreateIndexes(ctx, c.collection.Namespace, []bson.Doc{spec}); err != nil {
		return err
	}
	s.o.Log.Info("An index was built for queries", "database", c.db, "container", c.id, "index", w.name)
	// The policy may have changed in the meantime.
	if c, err = s.registry.container(w.db, w.container); err != nil {
		return nil // it is gone
	}
	return s.keeper.dropExcluded(ctx, c)
}

// pathIndexes returns the indexes of a container that queries have requested.
func pathIndexes(c *catalog.Collection) []*catalog.Index {
	var own []*catalog.Index
	if c != nil {
		for _, ix := range c.Indexes() {
			if onDemand(ix.Name) {
				own = append(own, ix)
			}
		}
	}
	return own
}

// dropExcluded implements keeper.
func (k local) dropExcluded(ctx context.Context, c *container) error {
	_, err := k.s.o.Catalog.DropIndexes(ctx, c.collection.Namespace, func(now *catalog.Collection) ([]*catalog.Index, error) {
		var gone []*catalog.Index
		for _, ix := range pathIndexes(now) {
			if !c.indexing.allows(ix.Name) {
				gone = append(gone, ix)
			}
		}
		return gone, nil
	})
	return err
}
