package configsvr

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/cluster/step"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
)

// drop drops a collection, sharded or not. (Manual: drop.)
func (s *Server) drop() *command.Command {
	return newCommand("Drop", command.String(""), s.runDrop, command.UUID("collectionUUID"))
}

func (s *Server) runDrop(ctx context.Context, op *command.Op) error {
	ns, err := namespaceOf(op)
	if err != nil {
		return err
	}
	again := true
	for again && err == nil {
		again, err = s.dropOnce(ctx, op, ns)
	}
	if err == nil {
		op.Reply.String("ns", ns)
	}
	return err
}

// dropOnce is drop. It has to be done again where the collection is no longer tracked: then the
// primary shard of its database knows it.
func (s *Server) dropOnce(ctx context.Context, op *command.Op, ns string) (again bool, err error) {
	asked, err := s.database(databaseOf(ns))
	if err != nil {
		return false, err
	}
	tracked, err := s.collection(ns)
	if err != nil {
		return false, err
	}
	var alone collectionDoc
	if tracked.Namespace == "" && asked.Name != "" {
		if alone, err = s.unsharded(ctx, asked, ns); err == nil {
			err = alone.checkUUID(op)
		}
	}
	if err != nil {
		return false, err
	}
	_, err = s.operate(ctx, plan{op: op, kind: step.KindDrop, ns: ns, claim: claim{alone: []string{ns}}, decide: func() (decision, error) {
		db, err := s.database(databaseOf(ns))
		if err != nil || db.Name == "" {
			return decision{nothing: true}, err
		}
		c, err := s.collection(ns)
		if err != nil {
			return decision{}, err
		}
		if err := c.checkUUID(op); err != nil {
			return decision{}, err
		}
		b := new(bson.Builder)
		switch {
		case c.Namespace != "":
			all, err := s.shards()
			if err != nil {
				return decision{}, err
			}
			b.Binary("uuid", 4, c.UUID[:]).Strings("shards", ids(all)...).String("primary", db.Primary)
		case tracked.Namespace != "":
			again = true
			return decision{nothing: true}, nil
		case !bson.Equal(bson.Document(db.Version), bson.Document(asked.Version)): // it is on another shard, or is another one
			return decision{}, mongoerr.New(mongoerr.ConflictingOperationInProgress, "the primary shard of %s has changed", db.Name)
		case alone.UUID != bson.UUID{}:
			b.Binary("uuid", 4, alone.UUID[:]).Strings("shards", db.Primary).String("primary", db.Primary)
		case alone.Namespace != "": // a view
			b.Bool("view", true).Strings("shards", db.Primary).String("primary", db.Primary)
		}
		d := decision{args: b.Finish()}
		if d.writes, err = s.forgetting(ns); err != nil {
			return d, err
		}
		samples, err := s.stopsAnalyzing(func(other string) bool { return other == ns })
		d.writes = append(append(d.writes, samples...), s.logged("dropCollection", ns, bson.Empty))
		return d, err
	}})
	return again, err
}

// alone returns what is not sharded under a name, as the primary shard of its database reports
// it, or a collection with an empty name.
func (s *Server) alone(ctx context.Context, ns string) (c collectionDoc, err error) {
	db, err := s.database(databaseOf(ns))
	if err != nil || db.Name == "" {
		return c, err
	}
	if c, err := s.collection(ns); err != nil || c.Namespace != "" {
		return collectionDoc{}, err
	}
	return s.unsharded(ctx, db, ns)
}

// exists checks that there is a collection, sharded or not. Error 26.
func (s *Server) exists(ctx context.Context, ns string) error {
	c, err := s.collection(ns)
	if err != nil || c.Namespace != "" {
		return err
	}
	db, err := s.database(databaseOf(ns))
	if err == nil && db.Name != "" {
		c, err = s.unsharded(ctx, db, ns)
	}
	if err == nil && c.Namespace == "" {
		err = mongoerr.New(mongoerr.NamespaceNotFound, "Collection %s doesn't exist", ns)
	}
	return err
}

// unsharded returns an unsharded collection as its primary shard reports it, or one
// with an empty name.
func (s *Server) unsharded(ctx context.Context, db databaseDoc, ns string) (c collectionDoc, err error) {
	sh, err := s.shard(db.Primary)
	if err != nil {
		return c, err
	}
	// The UUID of a time series is told with its buckets.
	name, buckets := ns[len(db.Name)+1:], bucketsOf(ns)[len(db.Name)+1:]
	filter := new(bson.Builder).OpenDoc("name").OpenArray("$in").String("0", name).String("1", buckets).Close().Close().Finish()
	reply, err := s.Shards.Ask(ctx, sh.Host, db.Name, new(bson.Builder).Int32("listCollections", 1).Doc("filter", filter).Finish())
	if err != nil {
		return c, err
	}
	for v := range reply.Lookup("cursor").Doc().Lookup("firstBatch").Doc().Values() {
		c.Namespace = ns
		if text(v.Doc(), "type") == "timeseries" {
			c.Timeseries = schema.LoadTimeseries(v.Doc().Lookup("options").Doc().Lookup("timeseries").Doc())
		}
		if id := v.Doc().Lookup("info").Doc().Lookup("uuid"); id.Type == bson.TypeBinary {
			_, content := id.Binary()
			copy(c.UUID[:], content)
		}
	}
	return c, nil
}

// checkUUID checks the UUID of a collection against the command's. Errors: 361.
func (c *collectionDoc) checkUUID(op *command.Op) error {
	id, ok := op.Args.UUID("collectionUUID")
	if !ok || c.Namespace == "" || bson.UUID(id) == c.UUID {
		return nil
	}
	return errUUID
}

var errUUID = mongoerr.New(mongoerr.CollectionUUIDMismatch, "Collection UUID does not match that specified")

// forgetting returns the writes that remove a collection from config.collections. Its
// chunks are removed later: nothing has their UUID.
func (s *Server) forgetting(ns string) ([]write, error) {
	writes := []write{remove(collections, bson.String(ns)), remove(collections, bson.String(bucketsOf(ns)))}
	docs, err := s.tagDocs(ns)
	for _, d := range docs {
		writes = append(writes, remove(tags, d.Lookup("_id")))
	}
	return writes, err
}

// chunksAtATime is how many chunks are removed or written in one unit: a few MB of
// effect at most.
const chunksAtATime = 5000

// dropChunks removes the chunks of collections that are not in config.collections,
// except those that a running operation has written.
func (s *Server) dropChunks(ctx context.Context, o *step.Operation, _ step.Answers) (bson.Doc, error) {
	for {
		n, err := s.dropSomeChunks(ctx, o.Number)
		if n == 0 || err != nil {
			return bson.Empty, err
		}
	}
}

func (s *Server) dropSomeChunks(ctx context.Context, mine int64) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.laying(mine) {
		return 0, nil // the next drop removes them
	}
	all, err := s.allTracked()
	if err != nil {
		return 0, err
	}
	known := s.laidBy(mine)
	for i := range all {
		known[all[i].UUID] = true
	}
	var writes []write
	err = s.each(chunks, func(d bson.Doc) error {
		var id bson.UUID
		_, content := d.Lookup("uuid").Binary()
		copy(id[:], content)
		if !known[id] && len(writes) < chunksAtATime {
			writes = append(writes, remove(chunks, d.Lookup("_id").Clone()))
			s.forget(id)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return len(writes), s.commit(ctx, writes...)
}

// laidBy returns the UUIDs under which reshardings other than the operation mine have laid
// chunks.
func (s *Server) laidBy(mine int64) map[bson.UUID]bool {
	out := map[bson.UUID]bool{}
	t, err := s.term()
	if err != nil {
		return out // nothing is committed in this term any more
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for n, r := range t.running {
		if n != mine && r.op.Kind == step.KindReshard {
			var id bson.UUID
			_, content := r.op.Args.Lookup("next").Binary()
			copy(id[:], content)
			out[id] = true
		}
	}
	return out
}

// laying reports whether an operation other than mine is sharding a collection, whose
// chunks are not committed yet.
func (s *Server) laying(mine int64) bool {
	t, err := s.term()
	if err != nil {
		return true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for n, r := range t.running {
		if n != mine && r.op.Kind == step.KindShardCollection {
			return true
		}
	}
	return false
}

// commitInOrder commits many writes in units of a bounded size. Nobody reads them
// before the last one.
func (s *Server) commitInOrder(ctx context.Context, writes []write) error {
	for len(writes) > 0 {
		n := min(len(writes), chunksAtATime)
		some := writes[:n]
		writes = writes[n:]
		if err := s.commit(ctx, some...); err != nil {
			return err
		}
	}
	return nil
}
