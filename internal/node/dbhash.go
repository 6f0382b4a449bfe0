package node

import (
	"context"
	"crypto/md5"
	"encoding/hex"
	"hash"
	"sort"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// hashEvery is how many documents are hashed between two checks of the
// operation's deadline.
const hashEvery = 1000

// dbHash answers {dbHash: 1, collections: [name, …]} with a hash of the
// documents of each collection: in the order of _id, or, in a capped one, as
// they were inserted. (Manual: database command dbHash.)
func (n *Node) dbHash() *command.Command {
	return &command.Command{
		Name: "dbHash", Aliases: []string{"dbhash"}, Flags: command.TakesReadConcern,
		Fields: command.NewFields("dbHash", command.Any("collections")).Lenient(),
		Help:   "returns a hash of the collections of a database",
		Run:    n.runDBHash,
	}
}

// hashedCollection is a collection under the name that dbHash gives it.
type hashedCollection struct {
	name string
	*catalog.Collection
}

func (n *Node) runDBHash(ctx context.Context, op *command.Op) error {
	start := time.Now()
	wanted := map[string]bool{}
	if v := op.Args.Value("collections"); v.Type == bson.TypeArray {
		for e := range v.Doc().Values() {
			if e.Type != bson.TypeString {
				return mongoerr.New(mongoerr.BadValue, "collections entries have to be strings")
			}
			wanted[e.Str()] = true
		}
	}
	list := n.collectionsToHash(op.DB, wanted)
	snapshot := n.Catalog.Engine().NewSnapshot()
	defer snapshot.Close()
	b := op.Reply
	all := md5.New()
	b.String("host", op.Dispatcher.Host).OpenDoc("collections")
	for _, c := range list {
		sum, err := hashCollection(ctx, snapshot, c.Collection)
		if err != nil {
			return err
		}
		b.String(c.name, sum)
		all.Write([]byte(sum))
	}
	b.Close().OpenArray("capped")
	capped := 0
	for _, c := range list {
		if c.Capped {
			b.String(bson.Index(capped), c.name)
			capped++
		}
	}
	b.Close().OpenDoc("uuids")
	for _, c := range list {
		b.Binary(c.name, 4, c.UUID[:])
	}
	b.Close().String("md5", digest(all)).Int64("timeMillis", time.Since(start).Milliseconds())
	return nil
}

// collectionsToHash returns the collections of a database that have documents,
// in order of their names. A time-series collection has the name of its
// buckets.
func (n *Node) collectionsToHash(db string, wanted map[string]bool) []hashedCollection {
	var list []hashedCollection
	for _, c := range n.Catalog.Collections(db) {
		name := c.Namespace.Coll
		if c.IsTimeseries() {
			name = "system.buckets." + name
		}
		if c.IsView() || name == schema.ProfileCollection || len(wanted) > 0 && !wanted[name] {
			continue
		}
		list = append(list, hashedCollection{name, c})
	}
	sort.Slice(list, func(i, j int) bool { return list[i].name < list[j].name })
	return list
}

// hashCollection returns the MD5 of the documents of a collection.
func hashCollection(ctx context.Context, s *storage.Snapshot, c *catalog.Collection) (string, error) {
	h := md5.New()
	if c.Ident == 0 {
		return digest(h), nil
	}
	it, err := s.NewIter(c.Ident, nil, nil)
	if err != nil {
		return "", err
	}
	defer it.Close()
	for ok, i := it.First(), 0; ok; ok, i = it.Next(), i+1 {
		if i%hashEvery == 0 && ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		doc, err := it.Value()
		if err != nil {
			return "", err
		}
		h.Write(doc)
	}
	return digest(h), it.Err()
}

func digest(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)) }
