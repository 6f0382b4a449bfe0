package clustertest

import (
	"slices"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/cluster/step"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/shard"
)

// request is a request that is being executed.
type request struct {
	s         *Shard
	ns        string
	body      bson.Doc
	operation int64
	reply     *bson.Builder
}

var commands map[string]func(*request) error

func init() {
	commands = map[string]func(*request) error{
		"_shardsvrIdentify": (*request).identify, "_shardsvrSettings": (*request).settings, "_shardsvrLeave": (*request).leave,
		"_shardsvrSetDatabase": (*request).setDatabase, "_shardsvrCloneDatabase": (*request).cloneDatabase,
		"_shardsvrDropUnsharded": (*request).dropUnsharded, "_shardsvrDropDatabase": (*request).dropDatabase,
		"_shardsvrCreateSharded": (*request).createSharded, "_shardsvrShard": (*request).shard, "_shardsvrUnshard": (*request).unshard,
		"_shardsvrVersion": (*request).version, "_shardsvrReceive": (*request).receive, "_shardsvrReceived": (*request).received,
		"_shardsvrBlock": (*request).block, "_shardsvrOwn": (*request).own, "_shardsvrGiven": (*request).given, "_shardsvrAbort": (*request).abort,
		"_shardsvrDrop": (*request).drop, "_shardsvrRename": (*request).rename, "_shardsvrRefine": (*request).refine,
		"_shardsvrIndexes": (*request).indexes, "_shardsvrOwned": (*request).owned, "_shardsvrSplitPoints": (*request).splitPoints,
	}
}

func (r *request) text(name string) string { return text(r.body.Lookup(name)) }

func text(v bson.Value) string { return strings.Trim(v.String(), `"`) }

func (r *request) shardVersion() (shard.Version, error) {
	return shard.ParseVersion(r.body.Lookup("version").Doc())
}

func (r *request) collection() (*Collection, error) {
	if c := r.s.Collections[r.ns]; c != nil {
		return c, nil
	}
	return nil, mongoerr.New(mongoerr.NamespaceNotFound, "ns does not exist: %s", r.ns)
}

// span returns the range of the request, in the shard key of its collection.
func (r *request) span(key *shard.Key) (shard.Range, error) {
	lo, ok := key.ParseBound(r.body.Lookup("min").Doc())
	hi, ok2 := key.ParseBound(r.body.Lookup("max").Doc())
	if !ok || !ok2 {
		return shard.Range{}, mongoerr.New(mongoerr.BadValue, "not a range: %s", r.body)
	}
	return shard.Range{Min: lo, Max: hi}, nil
}

func (r *request) identify() error {
	if id := r.text("clusterId"); r.s.Identity == "" || r.s.Identity == id {
		r.s.Identity = id
		return nil
	}
	return mongoerr.New(mongoerr.AlreadyInitialized, "the shard belongs to another cluster")
}

func (r *request) settings() error {
	for v := range r.body.Lookup("settings").Doc().Values() {
		name := text(v.Doc().Lookup("of")) + " " + text(v.Doc().Lookup("id"))
		if is := v.Doc().Lookup("is"); !is.IsMissing() {
			r.s.Settings[name] = is.String()
		} else {
			delete(r.s.Settings, name)
		}
	}
	return nil
}

func (r *request) leave() error {
	if r.s.Identity != r.text("clusterId") {
		return nil
	}
	for ns, c := range r.s.Collections {
		if c.Sharded && c.Version.Major > 0 {
			return mongoerr.New(mongoerr.IllegalOperation, "the shard owns chunks of %s", ns)
		}
	}
	r.s.Identity = ""
	return nil
}

func (r *request) setDatabase() error {
	for ns, c := range r.s.Collections {
		if r.of(ns) && c.Cloned && step.Phase(number(r.body.Lookup("operation").Doc(), "phase")) == step.Committed {
			r.s.change(ns, func(c *Collection) { c.Cloned = false })
		}
	}
	r.s.Databases[r.ns] = Database{Version: r.text("version"), Primary: r.body.Lookup("primary").Truthy(), Blocked: r.body.Lookup("blocked").Truthy()}
	return nil
}

func (r *request) of(ns string) bool { return strings.HasPrefix(ns, r.ns+".") }

func (r *request) cloneDatabase() error {
	donor := r.s.Peer(r.body.Lookup("from").Str())
	for ns, c := range donor.Collections {
		if r.of(ns) && (!c.Sharded || r.s.Collections[ns] == nil) {
			clone := *c
			clone.Version.Major, clone.Version.Minor, clone.Cloned = 0, 0, !c.Sharded
			if c.Sharded {
				clone.Docs = nil
			}
			r.s.Collections[ns] = &clone
		}
	}
	r.reply.Bool("done", true)
	return nil
}

func (r *request) dropUnsharded() error {
	donor := step.Phase(number(r.body.Lookup("operation").Doc(), "phase")) == step.Committed
	for ns, c := range r.s.Collections {
		if r.of(ns) && !c.Sharded && (c.Cloned || donor) {
			delete(r.s.Collections, ns)
		}
	}
	return nil
}

func (r *request) dropDatabase() error {
	delete(r.s.Databases, r.ns)
	for ns := range r.s.Collections {
		if r.of(ns) {
			delete(r.s.Collections, ns)
		}
	}
	return nil
}

func (r *request) createSharded() error {
	v, err := r.shardVersion()
	if err != nil {
		return err
	}
	if c := r.s.Collections[r.ns]; c != nil && c.UUID == r.text("uuid") && c.Version.ShardGeneration == v.ShardGeneration {
		return nil
	}
	key, err := shard.ParseKey(r.body.Lookup("key").Doc())
	if err != nil {
		return err
	}
	r.s.Collections[r.ns] = &Collection{UUID: r.text("uuid"), Sharded: true, Key: key, Version: v}
	return nil
}

func (r *request) shard() error {
	key, err := shard.ParseKey(r.body.Lookup("key").Doc())
	if err != nil {
		return err
	}
	v, err := r.shardVersion()
	if err != nil {
		return err
	}
	id := bson.Binary(4, UUID(r.ns))
	c := r.s.Collections[r.ns]
	if c == nil {
		c = &Collection{Bytes: 1}
	}
	sharded := *c
	sharded.UUID, sharded.Sharded, sharded.Key, sharded.Version = text(id), true, key, v
	r.s.Collections[r.ns] = &sharded
	r.reply.Value("uuid", id).Bool("empty", len(c.Docs) == 0).OpenDoc("options").Close().OpenArray("indexes").Close()
	return nil
}

// UUID returns the UUID that the model gives to a new collection.
func UUID(ns string) []byte { return append([]byte(ns), make([]byte, 16)...)[:16] }

func (r *request) unshard() error {
	c := r.s.Collections[r.ns]
	switch {
	case c == nil:
	case len(c.Docs) == 0 && !r.body.Lookup("unsplittable").Truthy() && !r.body.Lookup("keep").Truthy():
		delete(r.s.Collections, r.ns)
	default:
		r.s.change(r.ns, func(c *Collection) { c.Sharded, c.Key, c.Version = false, nil, shard.Version{} })
	}
	return nil
}

func (r *request) version() error {
	c, err := r.collection()
	if err != nil {
		return err
	}
	if c.UUID != r.text("uuid") {
		return mongoerr.New(mongoerr.CollectionUUIDMismatch, "%s is %s", r.ns, c.UUID)
	}
	v, err := r.shardVersion()
	if err == nil {
		r.s.change(r.ns, func(c *Collection) { c.Version = v })
	}
	return err
}

func (r *request) receive() error {
	key, err := shard.ParseKey(r.body.Lookup("key").Doc())
	if err != nil {
		return err
	}
	span, err := r.span(key)
	if err != nil {
		return err
	}
	if c := r.s.Collections[r.ns]; c == nil || c.UUID != r.text("uuid") {
		g := r.body.Lookup("generation").Doc()
		r.s.Collections[r.ns] = &Collection{UUID: r.text("uuid"), Sharded: true, Key: key, Bytes: 1,
			Version: shard.Version{ShardGeneration: shard.Generation{Epoch: g.Lookup("epoch").ObjectID(), Timestamp: g.Lookup("timestamp").Timestamp()}}}
	}
	r.s.Sweep(r.ns)
	r.s.change(r.ns, func(c *Collection) {
		if !slices.ContainsFunc(c.Hidden, func(h Hidden) bool { return h.Operation == r.operation }) {
			c.Hidden = append(c.Hidden, Hidden{Range: span, Operation: r.operation, From: r.body.Lookup("from").Str()})
		}
	})
	return nil
}

// rangeOf returns the collection and the range that the request names.
func (r *request) rangeOf() (*Collection, shard.Range, error) {
	c, err := r.collection()
	if err != nil {
		return nil, shard.Range{}, err
	}
	span, err := r.span(c.Key)
	return c, span, err
}

func (r *request) received() error {
	c, span, err := r.rangeOf()
	if err != nil {
		return err
	}
	find := func() int {
		c = r.s.Collections[r.ns]
		return slices.IndexFunc(c.Hidden, func(h Hidden) bool { return !h.Given && h.Same(span) })
	}
	i := find()
	if i < 0 {
		return mongoerr.New(mongoerr.IllegalOperation, "the range is not received")
	}
	if r.s.Copies {
		r.s.Copy(r.ns, r.s.Peer(c.Hidden[i].From))
		i = find()
	}
	until := r.body.Lookup("until")
	r.reply.Int64("behind", 0)
	if until.Type == bson.TypeTimestamp && uint64(c.Hidden[i].Copied) < until.Timestamp() {
		return mongoerr.New(mongoerr.ExceededTimeLimit, "the range is not completely received")
	}
	return nil
}

func (r *request) block() error {
	c, err := r.collection()
	if err != nil {
		return err
	}
	b := &Blocked{Reads: r.body.Lookup("reads").Truthy(), Operation: r.operation, Whole: !r.body.Has("min")}
	if !b.Whole {
		if b.Range, err = r.span(c.Key); err != nil {
			return err
		}
	}
	r.s.change(r.ns, func(c *Collection) { c.Blocked = b })
	r.reply.Timestamp("position", r.s.Position(r.ns))
	return nil
}

func (r *request) own() error {
	v, err := r.shardVersion()
	if err != nil {
		return err
	}
	if _, err := r.collection(); err != nil {
		return err
	}
	r.s.change(r.ns, func(c *Collection) {
		c.Version = v
		c.Hidden = slices.DeleteFunc(c.Hidden, func(h Hidden) bool { return h.Operation == r.operation })
	})
	return nil
}

func (r *request) given() error {
	c, err := r.collection()
	if err != nil {
		return err
	}
	v, err := r.shardVersion()
	if err != nil {
		return err
	}
	span, err := r.span(c.Key)
	if err != nil {
		return err
	}
	if c.Version == v {
		return nil // executed before
	}
	r.s.change(r.ns, func(c *Collection) {
		c.Version, c.Blocked = v, nil
		c.Hidden = append(c.Hidden, Hidden{Range: span, Operation: r.operation, Given: true})
	})
	return nil
}

func (r *request) abort() error {
	if r.s.Collections[r.ns] == nil {
		return nil
	}
	r.s.change(r.ns, func(c *Collection) {
		if c.Blocked != nil && c.Blocked.Operation == r.operation {
			c.Blocked = nil
		}
		for _, h := range c.Hidden {
			if h.Operation == r.operation {
				c.Docs = slices.DeleteFunc(c.Docs, func(d bson.Doc) bool { return c.in(h.Range, d) })
			}
		}
		c.Hidden = slices.DeleteFunc(c.Hidden, func(h Hidden) bool { return h.Operation == r.operation })
	})
	return nil
}

func (r *request) drop() error {
	if c := r.s.Collections[r.ns]; c != nil && (!r.body.Has("uuid") || c.UUID == r.text("uuid")) {
		delete(r.s.Collections, r.ns)
	}
	return nil
}

func (r *request) rename() error {
	c := r.s.Collections[r.ns]
	target := r.body.Lookup("to").Str()
	if r.body.Lookup("check").Truthy() {
		if c == nil {
			return mongoerr.New(mongoerr.NamespaceNotFound, "Source collection %s does not exist", r.ns)
		}
		if r.s.Collections[target] != nil && !r.body.Lookup("dropTarget").Truthy() {
			return mongoerr.New(mongoerr.NamespaceExists, "target namespace exists")
		}
		return nil
	}
	if c == nil {
		return nil // executed before
	}
	renamed := *c
	renamed.Blocked = nil
	if r.body.Has("version") {
		v, err := r.shardVersion()
		if err != nil {
			return err
		}
		renamed.Version = v
	}
	delete(r.s.Collections, r.ns)
	r.s.Collections[target] = &renamed
	return nil
}

func (r *request) refine() error {
	c, err := r.collection()
	if err != nil || r.body.Lookup("check").Truthy() {
		return err
	}
	key, err := shard.ParseKey(r.body.Lookup("key").Doc())
	if err != nil {
		return err
	}
	v, err := r.shardVersion()
	if err == nil && c.Version != v {
		r.s.change(r.ns, func(c *Collection) { c.Key, c.Version, c.Blocked = key, v, nil })
	}
	return err
}

// drop drops the indexes with these names that are there.
func (c *Collection) drop(names bson.Value) {
	for n := range names.Doc().Values() {
		c.Indexes = slices.DeleteFunc(c.Indexes, func(have string) bool { return have == n.Str() })
	}
}

func (r *request) indexes() error {
	c, err := r.collection()
	if err != nil {
		return err
	}
	if drop := r.body.Lookup("drop"); drop.Type == bson.TypeArray {
		r.s.change(r.ns, func(c *Collection) { c.drop(drop) })
		return nil
	}
	command := r.body.Lookup("command").Doc()
	name, _ := command.First()
	before := len(c.Indexes)
	r.s.change(r.ns, func(c *Collection) {
		switch name {
		case "createIndexes":
			for ix := range command.Lookup("indexes").Doc().Values() {
				if n := ix.Doc().Lookup("name").Str(); !slices.Contains(c.Indexes, n) {
					c.Indexes = append(c.Indexes, n)
				}
			}
		case "dropIndexes":
			c.drop(command.Lookup("index"))
		case "collMod":
			c.Modified = command.String()
		}
	})
	r.reply.Int32("numIndexesBefore", int32(before)).Int32("numIndexesAfter", int32(len(r.s.Collections[r.ns].Indexes)))
	return nil
}

func (r *request) owned() error {
	r.reply.OpenArray("owned")
	at := 0
	for v := range r.body.Lookup("namespaces").Doc().Values() {
		c := r.s.Collections[v.Str()]
		if c == nil {
			continue
		}
		n := int64(0)
		for _, d := range c.Docs {
			if !c.hidden(d) {
				n++
			}
		}
		r.reply.OpenDoc(bson.Index(at)).Value("ns", v).Int64("documents", n).Int64("bytes", n*c.Bytes).Bool("keyIndex", true).Close()
		at++
	}
	r.reply.Close()
	return nil
}

func (r *request) splitPoints() error {
	c, span, err := r.rangeOf()
	if err != nil {
		return err
	}
	var keys []shard.Bound
	for _, d := range c.Docs {
		if c.in(span, d) && !c.hidden(d) {
			b, err := c.Key.BoundOf(d)
			if err != nil {
				return err
			}
			keys = append(keys, b)
		}
	}
	slices.SortFunc(keys, shard.Bound.Compare)
	var points []shard.Bound
	if size := number(r.body, "bytes"); size == 0 {
		if len(keys) == 0 {
			return mongoerr.New(mongoerr.CannotSplit, "the chunk is empty")
		}
		p, err := shard.Median(keys)
		if err != nil {
			return err
		}
		points = []shard.Bound{p}
	} else {
		points = shard.CutBySize(func(yield func(shard.Bound, int64) bool) {
			for _, k := range keys {
				if !yield(k, c.Bytes) {
					return
				}
			}
		}, size, int(number(r.body, "limit")))
	}
	r.reply.OpenArray("points")
	for i, p := range points {
		r.reply.Doc(bson.Index(i), c.Key.Doc(p))
	}
	r.reply.Close().Int64("bytes", int64(len(keys))*c.Bytes).Int64("documents", int64(len(keys)))
	return nil
}
