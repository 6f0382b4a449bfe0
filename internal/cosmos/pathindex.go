package cosmos

import (
	"context"
	"strings"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/query/nosql"
)

// A property gets an index when a query has looked at many items in vain by
// it, and the policy includes it: so the writes of a container pay for the
// queries that it really has. The index is {property: 1, _n: 1}, which gives
// the items with one value in the order of feeds.

const (
	// pathIndexPrefix begins the names of these indexes.
	pathIndexPrefix = "path/"
	// wastedItems is how many items a page may look at in vain before an index
	// is asked for, and wastedShare how many for each one that it finds.
	wastedItems = 1000
	wastedShare = 10
	// maxPathIndexes bounds these indexes of one container.
	maxPathIndexes = 32
	// maxWantedIndexes bounds the indexes that wait to be built; what finds no
	// room is asked for again by the next such query.
	maxWantedIndexes = 64
)

// wantedIndex is an index that a query would have used.
type wantedIndex struct {
	db, container, path string
}

// elements ends the path of an index that was asked for by an array's elements:
// the key is the same, but another path of the policy includes it.
const elements = ".[]"

// hasPathIndex says whether there is an index on a path or on its elements.
func hasPathIndex(c *catalog.Collection, path string) bool {
	return c.Index(pathIndexPrefix+path) != nil || c.Index(pathIndexPrefix+path+elements) != nil
}

// wantIndex asks for an index on a path that a query has filtered by.
func (s *Server) wantIndex(c *container, path string) {
	select {
	case s.wanted <- wantedIndex{c.db, c.id, path}:
	default:
	}
}

// wasted says whether a page looked at far more items than it found.
func wasted(examined, found int64) bool {
	return examined-found >= wastedItems && examined >= wastedShare*found
}

// improve asks for an index on one of the properties that a query filters by,
// where its page went through many items in vain.
func (s *Server) improve(c *container, paths []nosql.FilterPath, examined, found int64) {
	if !wasted(examined, found) {
		return
	}
	now := c.collection.Latest()
	for _, equal := range []bool{true, false} {
		for _, p := range paths {
			if p.Equality == equal && now != nil && c.indexing.indexes(p.Names()) && !hasPathIndex(now, p.Path) {
				s.wantIndex(c, strings.Join(p.Names(), "."))
				return
			}
		}
	}
}

// Tend builds the indexes that queries ask for, one after the other, and lets
// the rows that are kept of queries go when their time is over, until ctx ends.
func (s *Server) Tend(ctx context.Context) {
	tick := time.NewTicker(resultLife)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			s.results.expire(now)
		case w := <-s.wanted:
			if err := s.buildIndex(ctx, w); err != nil && ctx.Err() == nil {
				s.o.Log.Warn("An index could not be built", "database", w.db, "container", w.container, "path", w.path, "error", err)
			}
		}
	}
}

func (s *Server) buildIndex(ctx context.Context, w wantedIndex) error {
	c, err := s.registry.container(w.db, w.container)
	if err != nil {
		return nil // it is gone
	}
	now := c.collection.Latest()
	path := strings.TrimSuffix(w.path, elements)
	if now == nil || hasPathIndex(now, path) || len(pathIndexes(now)) >= maxPathIndexes || !c.indexing.indexesDotted(w.path) {
		return nil
	}
	spec := indexSpec(pathIndexPrefix+w.path, false, path, fieldNumber)
	if _, _, err := s.o.Catalog.CreateIndexes(ctx, c.collection.Namespace, []bson.Doc{spec}); err != nil {
		return err
	}
	s.o.Log.Info("An index was built for queries", "database", c.db, "container", c.id, "path", w.path)
	// The policy may have changed meanwhile.
	return s.dropExcluded(ctx, w.db, w.container)
}

// pathIndexes are the indexes of a container that queries asked for.
func pathIndexes(c *catalog.Collection) []*catalog.Index {
	var own []*catalog.Index
	if c != nil {
		for _, ix := range c.Indexes() {
			if strings.HasPrefix(ix.Name, pathIndexPrefix) {
				own = append(own, ix)
			}
		}
	}
	return own
}

// dropExcluded drops the indexes on properties that the policy excludes.
func (s *Server) dropExcluded(ctx context.Context, db, id string) error {
	c, err := s.registry.container(db, id)
	if err != nil {
		return nil // it is gone
	}
	_, err = s.o.Catalog.DropIndexes(ctx, c.collection.Namespace, func(now *catalog.Collection) ([]*catalog.Index, error) {
		var gone []*catalog.Index
		for _, ix := range pathIndexes(now) {
			if !c.indexing.indexesDotted(strings.TrimPrefix(ix.Name, pathIndexPrefix)) {
				gone = append(gone, ix)
			}
		}
		return gone, nil
	})
	return err
}
