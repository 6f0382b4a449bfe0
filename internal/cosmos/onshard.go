package cosmos

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
)

// The commands by which a router has a shard run a request on one partition: one for those
// that write, one for those that read.
const (
	writeOnShard = "_shardsvrCosmosWrite"
	readOnShard  = "_shardsvrCosmosRead"
)

// Shard is what a shard gives its part of the endpoint.
type Shard struct {
	// Guard returns the view of the ownership that op's units check; Held a check for a read
	// of a collection that holds its state.
	Guard func(op *command.Op) *catalog.Guard
	Held  func(op *command.Op, c *catalog.Collection) func() error
	// AskConfig runs a command on the primary of the config servers.
	AskConfig func(ctx context.Context, db string, body bson.Doc) (bson.Doc, error)
}

// NewShard makes the Server of a shard, which runs what routers send, and registers its
// commands. Of o it uses Catalog, Exec, Dispatcher and Log.
func NewShard(o Options, shard Shard) (*Server, error) {
	s, err := newServer(o, nil)
	if err != nil {
		return nil, err
	}
	s.shard = &shard
	o.Catalog.OnStepUp(func(context.Context) error { s.held.clear(); return nil })
	for _, c := range []*command.Command{
		{Name: writeOnShard, Flags: command.ChecksOwner | command.Writes | command.TakesWriteConcern | command.Uncounted},
		{Name: readOnShard, Flags: command.ChecksOwner | command.TakesReadConcern | command.Uncounted},
	} {
		c.Help, c.Run = "a request on items that a router sends", s.runOnShard
		c.Fields = command.NewFields(c.Name, append([]*command.Field{command.Collection(), command.Object("container").Required(), command.Int64("low"), command.Int64("high")}, requestFields()...)...)
		o.Dispatcher.Registry.Register(c)
	}
	return s, nil
}

func (s *Server) runOnShard(ctx context.Context, op *command.Op) error {
	return s.serveForwarded(ctx, op, func(r *request) (err error) {
		switch r.path.kind {
		case kindItem, kindItems, kindPartitionDelete:
		default:
			return errURL
		}
		var k keyRange
		for name, into := range map[string]**int64{"low": &k.low, "high": &k.high} {
			if op.Args.Has(name) {
				n := op.Args.Int64(name)
				*into = &n
			}
		}
		r.cluster.within = k.filter()
		r.cluster.container, err = s.held.container(s, op, op.Args.Doc("container"))
		return err
	})
}

// guard returns what the request's units check; nil where nothing is sharded.
func (r *request) guard() *catalog.Guard {
	if r.s.shard == nil {
		return nil
	}
	return r.s.shard.Guard(r.op)
}

// holding returns a check for a read that holds its state of a collection: 13388 if this shard
// does not own what the router takes it to own. Nil where nothing is sharded.
func (r *request) holding(c *catalog.Collection) func() error {
	if r.s.shard == nil {
		return nil
	}
	return r.s.shard.Held(r.op, c)
}

// maxHeld bounds the containers that a shard keeps. One more empties the map.
const maxHeld = 10000

// shardContainers are the containers of which a shard runs requests, as their definitions
// came with requests.
type shardContainers struct {
	mu  sync.Mutex
	all map[schema.Namespace]*shardContainer
}

// shardContainer is a container as of a definition and of a state of its collection.
type shardContainer struct {
	raw  bson.Doc
	coll *catalog.Collection
	c    *container
}

// clear forgets all, and with them the numbers that they may hand out: another member may
// have written meanwhile.
func (h *shardContainers) clear() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = nil
}

// container returns the container with the definition that came with op. Its time to live is
// that of the collection's rule, which is this shard's own and never older than an answer to
// who changed it. Errors: 13388 if the collection is gone.
func (h *shardContainers) container(s *Server, op *command.Op, raw bson.Doc) (*container, error) {
	ns := schema.Namespace{DB: op.DB, Coll: op.Collection}
	coll := s.o.Catalog.Lookup(ns)
	if coll == nil || coll.Sharding() == nil {
		var received schema.ShardVersion
		if v := op.Generic.Versions; v != nil {
			received = v.Shard
		}
		return nil, schema.StaleConfig(ns.String(), "", "the collection was dropped: version not known", received, nil)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	e := h.all[ns]
	if e != nil && e.coll == coll && string(e.raw) == string(raw) {
		return e.c, nil
	}
	var c *container
	if e != nil && string(e.raw) == string(raw) {
		n := *e.c
		c = &n
	} else {
		raw = raw.Clone()
		var err error
		if c, err = loadContainer(raw); err != nil {
			return nil, err
		}
	}
	if e != nil && e.c.rid == c.rid && e.c.writes == coll.Numbering() {
		c.numbers, c.blocks = e.c.numbers, e.c.blocks
	} else {
		c.numbers, c.blocks = &numbers{}, &blocks{}
	}
	c.collect(coll)
	c.ttl = ttlOf(coll)
	if h.all == nil || len(h.all) >= maxHeld {
		h.all = map[schema.Namespace]*shardContainer{}
	}
	h.all[ns] = &shardContainer{raw, coll, c}
	return c, nil
}

// ttlOf is the policy that a collection's rule has.
func ttlOf(c *catalog.Collection) ttlPolicy {
	ix := c.Index(ruleName)
	switch {
	case ix == nil || ix.Expiry.Paused:
		return ttlPolicy{}
	case ix.ExpireAfterSeconds < 0:
		return ttlPolicy{on: true}
	}
	return ttlPolicy{on: true, seconds: ix.ExpireAfterSeconds}
}

// block is numbers up to a ceiling that a shard may hand out, and the shard's version of the
// collection when it got them.
type block struct {
	version schema.ShardVersion
	top     int64
}

// blocks are the blocks of a shard for one container.
type blocks struct {
	now atomic.Pointer[block]
	mu  sync.Mutex // held while another one is asked for
}

// ensureNumbers makes sure that numbers can be handed out. On a shard they come in blocks from
// the config servers, each of which is above all before it: so numbers are unique in a
// container. A version that is new may have come with a range, in which the donor has handed
// out any number of its own blocks, so then there is a new block: within a range numbers rise,
// wherever it lies.
func (r *request) ensureNumbers(c *container) error {
	if r.s.shard == nil {
		return c.ensure(r.Context(), r.s.registry)
	}
	b, v := c.blocks, c.collection.Sharding().Version
	enough := func() bool {
		now := b.now.Load()
		if now == nil {
			return false
		}
		order, comparable := now.version.Order(v)
		return comparable && order >= 0 && max(c.writes.Latest(), c.items.Latest())+numbersMargin < now.top
	}
	if enough() {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if enough() {
		return nil
	}
	ask := new(bson.Builder).String(numbersOnConfig, c.rid).Doc("writeConcern", majority).Finish()
	reply, err := r.s.shard.AskConfig(r.Context(), adminDB, ask)
	if err != nil {
		return mongoerr.Prefix(err, "asking the config servers for numbers")
	}
	if unmet := reply.Lookup("writeConcernError"); !unmet.IsMissing() {
		return mongoerr.New(mongoerr.WriteConcernFailed, "the config servers gave no numbers: %s", unmet)
	}
	top := bson.ClampToInt64(reply.Lookup("top"))
	c.writes.Skip(top - numbersBlock)
	c.items.Skip(top - numbersBlock)
	b.now.Store(&block{v, top})
	return nil
}
