package configsvr

import (
	"context"
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
)

// What the Cosmos DB endpoint's part on a config server asks about collections.

// ShardKey returns the shard key of a collection, nil if it is not sharded.
func (s *Server) ShardKey(ns string) (bson.Doc, error) {
	c, err := s.collection(ns)
	if err != nil || c.Namespace == "" || c.Unsplittable {
		return nil, err
	}
	return c.Key.Pattern(), nil
}

// NamesOf lists the collections and views of a database.
func (s *Server) NamesOf(ctx context.Context, name string) ([]string, error) {
	db, err := s.database(name)
	if err != nil || db.Name == "" {
		return nil, err
	}
	sh, err := s.shard(db.Primary)
	if err != nil {
		return nil, err
	}
	ask := new(bson.Builder).Int32("listCollections", 1).Bool("nameOnly", true).OpenDoc("cursor").Int32("batchSize", maxNames).Close().Finish()
	reply, err := s.Shards.Ask(ctx, sh.Host, db.Name, ask)
	if err != nil {
		return nil, err
	}
	var names []string
	for v := range reply.Lookup("cursor").Doc().Lookup("firstBatch").Doc().Values() {
		names = append(names, text(v.Doc(), "name"))
	}
	return names, nil
}

// maxNames bounds the names of a database's collections that are asked for at once.
const maxNames = 100_000

// IndexNames returns the names of the indexes of a sharded collection. Errors: 118.
func (s *Server) IndexNames(ctx context.Context, ns string) ([]string, error) {
	var owners []string
	err := s.read(func() error {
		c, err := s.sharded(ns)
		if err == nil {
			owners, err = s.owners(&c)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	on, err := s.indexesOn(ctx, ns, owners)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, of := range on {
		names = append(names, of...)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}
