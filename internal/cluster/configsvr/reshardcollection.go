package configsvr

import (
	"context"
	"slices"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/cluster/step"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/shard"
)

// The errors of resharding. (src/mongo/base/error_codes.yml)
const (
	reshardInProgress = mongoerr.Code(338)
	noSuchReshard     = mongoerr.Code(339)
	reshardCommitted  = mongoerr.Code(340)
	reshardAborted    = mongoerr.Code(341)
	reshardTooSlow    = mongoerr.Code(342)
	notEnoughKeys     = mongoerr.Code(4952606)
)

// reshardCollection gives a sharded collection another shard key. (Manual:
// reshardCollection.)
func (s *Server) reshardCollection() *command.Command {
	return newCommand("ReshardCollection", command.String(""), s.runReshard,
		command.Object("key").Required(), command.Bool("unique"), command.SafeInt64("numInitialChunks").Min(1), command.SafeInt64("numSamplesPerChunk").Min(1),
		command.Object("collation"), command.Array("zones"), command.Bool("forceRedistribution"), command.Array("shardDistribution"))
}

func (s *Server) runReshard(ctx context.Context, op *command.Op) error {
	ns, err := namespaceOf(op)
	if err != nil {
		return err
	}
	key, err := reshardKey(ns, op)
	if err != nil {
		return err
	}
	if _, err := s.existing(databaseOf(ns)); err != nil {
		return err
	}
	c, err := s.sharded(ns)
	if err == nil && c.Timeseries != nil {
		key, err = bucketKey(c.Timeseries, &op.Args)
	}
	if err != nil {
		return err
	}
	t, err := s.term()
	if err != nil {
		return err
	}
	if r := t.reshards(ns); r != nil {
		if bson.CompareDocs(r.op.Args.Lookup("key").Doc(), key.Pattern(), nil) != 0 {
			return mongoerr.New(reshardInProgress, "Only one resharding operation is allowed to be active on %s at a time", ns)
		}
		return r.answer(ctx, op) // who asks again waits with who asked first
	}
	if s.unshards.has(ns) {
		return mongoerr.New(reshardInProgress, "%s is being unsharded", ns)
	}
	force := op.Args.Bool("forceRedistribution")
	switch same := c.Key.Same(key); {
	case same && !force:
		return nil
	case !same && force:
		return mongoerr.New(mongoerr.InvalidOptions, "forceRedistribution is for the shard key that the collection has: %s", c.Key)
	}
	var began *running
	_, err = s.operateWith(ctx, plan{kind: step.KindReshard, ns: ns, claim: claim{alone: []string{ns}}, decide: func() (decision, error) {
		return s.decideReshard(ns, key, op)
	}}, func(r *running) { began = r })
	if err == nil && began != nil {
		began.progress.report(op.Reply)
	}
	return err
}

// answer waits for an operation to end, and replies as to who has begun it.
func (r *running) answer(ctx context.Context, op *command.Op) error {
	select {
	case <-r.done:
		if r.cause == nil {
			r.progress.report(op.Reply)
		}
		return r.cause
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// reshardKey checks those options that do not depend on the cluster, and returns the key.
// Errors: 2, 20, 72.
func reshardKey(ns string, op *command.Op) (*shard.Key, error) {
	if err := mayBeSharded(ns); err != nil {
		return nil, err
	}
	a := &op.Args
	if a.Doc("key").IsEmpty() {
		return nil, badValue("Shard key is empty")
	}
	key, err := shard.ParseKey(a.Doc("key"))
	if err != nil {
		return nil, err
	}
	if a.Bool("unique") {
		return nil, badValue("reshardCollection does not support a unique shard key: the value of 'unique' must be false")
	}
	if c := a.Doc("collation"); c != nil && text(c, "locale") != "simple" {
		return nil, badValue("The collation for reshardCollection must be {locale: 'simple'}, but found: %s", c)
	}
	if a.Has("shardDistribution") && (a.Has("zones") || a.Has("numInitialChunks")) {
		return nil, mongoerr.New(mongoerr.InvalidOptions, "shardDistribution goes with neither zones nor numInitialChunks")
	}
	return key, nil
}

func (s *Server) decideReshard(ns string, key *shard.Key, op *command.Op) (decision, error) {
	c, m, err := s.shardedMap(ns)
	if err != nil {
		return decision{}, err
	}
	db, err := s.existing(databaseOf(ns))
	if err != nil {
		return decision{}, err
	}
	had, err := s.tagDocs(ns)
	if err != nil {
		return decision{}, err
	}
	if len(had) > 0 && !op.Args.Has("zones") {
		return decision{}, badValue("Must specify value for zones field: %s has zones, whose ranges are of its shard key", ns)
	}
	all, err := s.shards()
	if err != nil {
		return decision{}, err
	}
	donors, id := m.Owners(), newUUID()
	b := new(bson.Builder).Binary("uuid", 4, c.UUID[:]).String("to", databaseOf(ns)+".system.resharding."+c.UUID.String()).Binary("next", 4, id[:]).
		Doc("key", key.Pattern()).Doc("oldKey", c.Key.Pattern()).Bool("unique", false).String("primary", db.Primary).Strings("shards", donors...).Strings("others", ids(all)...)
	shard.Version{ShardGeneration: s.generation()}.Append(b, "version")
	b.OpenDoc("hosts")
	for _, sh := range all {
		if slices.Contains(donors, sh.ID) {
			b.String(sh.ID, sh.Host)
		}
	}
	b.Close()
	if err := s.appendZones(b, c, key, all, op.Args.Array("zones")); err != nil {
		return decision{}, err
	}
	for _, name := range []string{"numInitialChunks", "numSamplesPerChunk", "shardDistribution"} {
		b.Value(name, op.Args.Value(name))
	}
	args := b.Finish()
	if _, _, err := s.distribution(key, args); err != nil {
		return decision{}, err
	}
	if n := op.Args.Int64("numInitialChunks"); n > int64(len(all)*8192) || n > 1_000_000 {
		return decision{}, mongoerr.New(mongoerr.InvalidOptions, "numInitialChunks cannot be more than either: %d, 8192 * number of shards; or 1000000", len(all)*8192)
	}
	details := new(bson.Builder).Doc("key", key.Pattern()).Binary("uuid", 4, id[:]).Finish()
	return decision{args: args, commitment: commitment{writes: []write{s.logged("reshardCollection.start", ns, details)}}}, nil
}

// appendZones writes the zones that the collection is to have. Errors: 2, 72, 177, 178.
func (s *Server) appendZones(b *bson.Builder, c *collectionDoc, key *shard.Key, all []shardDoc, asked []bson.Value) error {
	var list []shard.Zone
	for _, v := range asked {
		if v.Type != bson.TypeDocument {
			return badValue("a zone must be a document {zone, min, max}: %s", v)
		}
		name, lo, hi := v.Doc().Lookup("zone"), v.Doc().Lookup("min"), v.Doc().Lookup("max")
		if name.Type != bson.TypeString || lo.Type != bson.TypeDocument || hi.Type != bson.TypeDocument {
			return badValue("a zone must be a document {zone, min, max}: %s", v)
		}
		if len(inZone(all, name.Str())) == 0 {
			return mongoerr.New(mongoerr.ZoneNotFound, "zone %s does not exist", name.Str())
		}
		r, err := key.ZoneRange(c.Namespace, lo.Doc(), hi.Doc())
		if err == nil {
			err = checkTimeBound(c, key.Doc(r.Min), key.Doc(r.Max))
		}
		if err != nil {
			return err
		}
		list = append(list, shard.Zone{Range: r, Name: name.Str()})
	}
	zones, err := shard.NewZones(key, list...)
	if err != nil {
		return err
	}
	b.OpenArray("zones")
	for i, z := range zones.All() {
		b.Doc(bson.Index(i), key.ZoneDoc(s.newID(), c.id(), z))
	}
	b.Close()
	return nil
}

// distribution reads shardDistribution: shards alone, or each with a range. Errors: 70, 72.
func (s *Server) distribution(key *shard.Key, args bson.Doc) (ranges []shard.Range, on []string, err error) {
	v := args.Lookup("shardDistribution")
	if v.Type != bson.TypeArray {
		return nil, nil, nil
	}
	for e := range v.Doc().Values() {
		if e.Type != bson.TypeDocument || text(e.Doc(), "shard") == "" {
			return nil, nil, badValue("shardDistribution must have documents {shard, min, max}: %s", e)
		}
		if _, err := s.shard(text(e.Doc(), "shard")); err != nil {
			return nil, nil, err
		}
		on = append(on, text(e.Doc(), "shard"))
		lo, hi := e.Doc().Lookup("min"), e.Doc().Lookup("max")
		if lo.IsMissing() && hi.IsMissing() {
			continue
		}
		span, ok := key.ParseRange(e.Doc())
		if !ok {
			return nil, nil, badValue("not a range of %s: %s", key, e)
		}
		ranges = append(ranges, span)
	}
	if len(on) == 0 || len(ranges) > 0 && len(ranges) != len(on) {
		return nil, nil, mongoerr.New(mongoerr.InvalidOptions, "shardDistribution must name shards, and a range for each of them or for none")
	}
	if len(ranges) > 0 {
		_, err = (&shard.Initial{Key: key, NewID: s.newID}).Distributed(ranges, on)
	}
	return ranges, on, err
}

// resharded returns the collection as it will be. The caller holds s.mu. Errors: 117, 118.
func (s *Server) resharded(o *step.Operation) (collectionDoc, error) {
	c, err := s.sharded(o.Namespace)
	if err != nil {
		return c, err
	}
	if _, id := o.Args.Lookup("uuid").Binary(); string(id) != string(c.UUID[:]) {
		return c, mongoerr.New(mongoerr.ConflictingOperationInProgress, "%s was dropped and made again", o.Namespace)
	}
	v, err := shard.ParseVersion(o.Args.Lookup("version").Doc())
	if err != nil {
		return c, err
	}
	return parseCollection(with(c.doc, field{"uuid", o.Args.Lookup("next")}, field{"key", o.Args.Lookup("key")}, field{"unique", o.Args.Lookup("unique")},
		field{"lastmodEpoch", bson.ObjectID(v.Epoch)}, field{"timestamp", bson.Timestamp(v.Timestamp)}, field{"lastmod", bson.Date(time.Now().UnixMilli())}))
}

// layResharded writes the chunks that the collection will have, once its donors have said how
// much there is. Those of an earlier primary stay if they are whole: the recipients have them
// already. Nobody else reads them before the commit.
func (s *Server) layResharded(ctx context.Context, o *step.Operation, got step.Answers) (bson.Doc, error) {
	var c collectionDoc
	var m *shard.Map
	if err := s.read(func() (err error) {
		if c, err = s.resharded(o); err == nil {
			m, _ = s.chunkMap(&c) // an error says that they are not whole
		}
		return err
	}); err != nil {
		return nil, err
	}
	if m == nil {
		list, err := s.reshardedChunks(ctx, o, &c, got)
		if err != nil {
			return nil, err
		}
		if err := s.read(func() (err error) {
			m, err = s.layLocked(ctx, &c, list)
			return err
		}); err != nil {
			return nil, err
		}
	}
	b := new(bson.Builder).Strings("owners", m.Owners()...).OpenDoc("ranges")
	for _, id := range m.Owners() {
		b.OpenArray(id)
		n := 0
		for r := range m.RangesOf(id) {
			b.OpenDoc(bson.Index(n)).Doc("min", c.Key.Doc(r.Min)).Doc("max", c.Key.Doc(r.Max)).Close()
			n++
		}
		b.Close()
	}
	return b.Close().Finish(), nil
}

// The defaults of mongod: chunks that a collection is cut into, and documents of the sample
// for each of them. Where there are no more than sampleAll documents, all are the sample.
const (
	reshardChunks   = 90
	samplesPerChunk = 10
	sampleAll       = 10_000
)

// reshardedChunks are the chunks that the collection will have: as the client says, evenly by
// the hash, or by a sample of the documents. Errors: 405, 4952606.
func (s *Server) reshardedChunks(ctx context.Context, o *step.Operation, c *collectionDoc, got step.Answers) ([]shard.Chunk, error) {
	number, _ := bson.ExactInt64(o.Args.Lookup("numInitialChunks"))
	in := shard.Initial{Key: c.Key, Empty: true, Primary: text(o.Args, "primary"), InZone: map[string][]string{}, NumChunks: number, Generation: c.Generation, NewID: s.newID}
	ranges, on, err := s.distribution(c.Key, o.Args)
	if err != nil {
		return nil, err
	}
	all, err := s.shards()
	if err != nil {
		return nil, err
	}
	for _, sh := range all {
		// A shard that was added meanwhile has no part in the operation.
		if sh.Draining || len(on) > 0 && !slices.Contains(on, sh.ID) || !slices.Contains(textsOf(o.Args, "others"), sh.ID) {
			continue
		}
		in.Shards = append(in.Shards, sh.ID)
		for _, z := range sh.Zones {
			in.InZone[z] = append(in.InZone[z], sh.ID)
		}
	}
	if len(in.Shards) == 0 {
		return nil, mongoerr.New(mongoerr.ShardNotFound, "no shard may have chunks of %s", o.Namespace)
	}
	var list []shard.Zone
	for v := range o.Args.Lookup("zones").Doc().Values() {
		z, err := c.Key.ParseZone(v.Doc())
		if err != nil {
			return nil, err
		}
		list = append(list, z)
	}
	if in.Zones, err = shard.NewZones(c.Key, list...); err != nil {
		return nil, err
	}
	switch {
	case len(ranges) > 0:
		return in.Distributed(ranges, on)
	case c.Key.HashedFirst() && len(list) == 0:
		return in.Chunks()
	}
	want := int(number)
	if want == 0 {
		want = reshardChunks
	}
	sample, err := s.sample(ctx, o, c, got, want)
	if err != nil {
		return nil, err
	}
	points, err := shard.SamplePoints(c.Key, sample, in.Zones, want)
	for number == 0 && want > 1 && mongoerr.Is(err, notEnoughKeys) {
		want = want * 9 / 10 // there are fewer keys
		points, err = shard.SamplePoints(c.Key, sample, in.Zones, want)
	}
	if err != nil {
		return nil, err
	}
	return in.Sampled(points)
}

// sample asks the donors for the new keys of a sample of their documents.
func (s *Server) sample(ctx context.Context, o *step.Operation, c *collectionDoc, got step.Answers, chunks int) ([]shard.Bound, error) {
	donors := textsOf(o.Args, "shards")
	has, total := map[string]int64{}, int64(0)
	for _, id := range donors {
		n, _ := bson.ExactInt64(got.From(id, "_shardsvrReshard").Lookup("documents"))
		has[id] = n
		total += n
	}
	each, _ := bson.ExactInt64(o.Args.Lookup("numSamplesPerChunk"))
	if each == 0 {
		each = samplesPerChunk
	}
	size := min(total, max(int64(chunks)*each, sampleAll))
	var out []shard.Bound
	for _, id := range donors {
		if has[id] == 0 {
			continue
		}
		sh, err := s.shard(id)
		if err != nil {
			return nil, err
		}
		share := (has[id]*size + total - 1) / total
		body := new(bson.Builder).String("_shardsvrReshardSample", o.Namespace).Value("uuid", o.Args.Lookup("uuid")).Doc("key", c.Key.Pattern()).Int64("size", share)
		reply, err := s.Shards.Ask(ctx, sh.Host, "admin", body.Finish())
		if err != nil {
			return nil, err
		}
		for v := range reply.Lookup("keys").Doc().Values() {
			b, err := bound(c.Key, v)
			if err != nil {
				return nil, err
			}
			out = append(out, b)
		}
	}
	return out, nil
}

func (s *Server) commitReshard(o *step.Operation, got step.Answers) (commitment, error) {
	if err := o.AllReceived(got); err != nil {
		return commitment{}, err
	}
	c, err := s.resharded(o)
	if err != nil {
		return commitment{}, err
	}
	m, err := s.chunkMap(&c)
	if err != nil {
		return commitment{}, err
	}
	writes, err := s.forgetting(o.Namespace) // its zones; the collection is put again
	if err != nil {
		return commitment{}, err
	}
	writes = append(writes, put(collections, c.doc))
	for v := range o.Args.Lookup("zones").Doc().Values() {
		writes = append(writes, put(tags, v.Doc()))
	}
	of := m.Owners()
	if primary := text(o.Args, "primary"); m.ChunksOn(primary) == 0 {
		of = append(of[:len(of):len(of)], primary)
	}
	b := new(bson.Builder)
	versionsOf(b, m, of)
	details := new(bson.Builder).Doc("key", c.Key.Pattern()).Int32("numChunks", int32(m.Len())).Finish()
	return commitment{writes: append(writes, s.logged("reshardCollection.end", o.Namespace, details)), told: b.Finish()}, nil
}

// reshards returns the operation that reshards a collection, or nil.
func (t *term) reshards(ns string) *running {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range t.running {
		if r.op.Kind == step.KindReshard && r.op.Namespace == ns {
			return r
		}
	}
	return nil
}

// isResharded reports whether a collection is being resharded.
func (s *Server) isResharded(ns string) bool {
	t, err := s.term()
	return err == nil && t.reshards(ns) != nil
}

// reshardOf returns the operation that reshards the collection that a command names. Errors:
// 339.
func (s *Server) reshardOf(op *command.Op) (*term, *running, error) {
	ns, err := namespaceOf(op)
	if err != nil {
		return nil, nil, err
	}
	t, err := s.term()
	if err != nil {
		return nil, nil, err
	}
	r := t.reshards(ns)
	if r == nil {
		return nil, nil, mongoerr.New(noSuchReshard, "Could not find in-progress resharding operation for collection %s", ns)
	}
	return t, r, nil
}

// commitReshardCollection ends a reshardCollection as soon as all is copied, however far the
// recipients are behind the writes of clients. (Manual: commitReshardCollection.)
func (s *Server) commitReshardCollection() *command.Command {
	return newCommand("CommitReshardCollection", command.String(""), func(ctx context.Context, op *command.Op) error {
		_, r, err := s.reshardOf(op)
		if err != nil {
			return err
		}
		select {
		case r.hurry <- struct{}{}:
		default: // already requested
		}
		return r.answer(ctx, op)
	})
}

// abortReshardCollection undoes a reshardCollection that is not committed. (Manual:
// abortReshardCollection.)
func (s *Server) abortReshardCollection() *command.Command {
	return newCommand("AbortReshardCollection", command.String(""), func(ctx context.Context, op *command.Op) error {
		t, r, err := s.reshardOf(op)
		if err != nil {
			return err
		}
		t.cancel(r.op.Number, mongoerr.New(reshardAborted, "the resharding of %s was aborted", r.op.Namespace))
		select {
		case <-r.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if r.cause == nil {
			return mongoerr.New(reshardCommitted, "the resharding of %s has committed already", r.op.Namespace)
		}
		if t.ctx.Err() != nil { // another primary goes on with it
			return r.cause
		}
		return nil
	})
}
