package router

import (
	"container/heap"
	"context"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/keystring"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/sortkey"
)

const (
	// moreBatch is the size, in documents, of a shard's second batch, and of the first one of a
	// pipeline; the first one of a find has the client's size. Later ones have moreBytes, by the
	// size of the one before, and mostBatch documents at most.
	moreBatch = 1000
	moreBytes = 1 << 20
	mostBatch = 1 << 14
	// killTime bounds the time for closing cursors on shards.
	killTime = 5 * time.Second
	// answerTime is how long before the client's deadline a shard must reply to an awaited
	// getMore.
	answerTime = 20 * time.Millisecond
)

// remote is a cursor on one shard.
type remote struct {
	router   *Router
	shard    string
	member   string // of the shard's set, on which the cursor is
	id       int64  // 0 if the cursor is exhausted
	db, coll string
	lsid     bson.Doc     // the session that opened it; nil for none
	tx       *transaction // that opened it; nil for none
	tailable bool
	await    bool
	asked    bool                                    // has been asked for more than its first batch
	batch    []bson.Doc                              // documents not yet returned
	label    func(shard string, d bson.Doc) bson.Doc // adds the shard's name to a document; nil for none
	key      []byte                                  // sort key of the next document, in a sorted merge
	doc      bson.Doc
	size     int32        // of the next batch, in documents
	ahead    chan fetched // has the batch that is being fetched ahead; nil if none is
	stop     func()       // ends that
}

// fetched is the answer to a getMore.
type fetched struct {
	reply bson.Doc
	err   error
}

// newRemote returns the cursor in a shard's reply. It does not retain op's memory.
func (r *Router) newRemote(op *command.Op, shard string, a client.Answer) (*remote, error) {
	cursor := document(a.Reply.Lookup("cursor"))
	ns, batch := cursor.Lookup("ns"), cursor.Lookup("firstBatch")
	if ns.Type != bson.TypeString || batch.Type != bson.TypeArray {
		return nil, mongoerr.New(mongoerr.InternalError, "shard %s answered without a cursor: %s", shard, a.Reply)
	}
	m := &remote{router: r, shard: shard, member: a.Member, id: bson.ClampToInt64(cursor.Lookup("id")), batch: documents(batch), size: moreBatch}
	m.db, m.coll = splitNamespace(ns.Str())
	m.tx = r.transactions.of(op)
	if op.Generic.LSID != nil {
		m.lsid = op.Generic.LSID.Clone()
	}
	return m, nil
}

// documents returns the documents of an array.
func documents(v bson.Value) []bson.Doc {
	if v.Type != bson.TypeArray {
		return nil
	}
	var out []bson.Doc
	for d := range v.Doc().Values() {
		if d.Type == bson.TypeDocument {
			out = append(out, d.Doc())
		}
	}
	return out
}

// buffered returns the next document of the batch, nil if there is none.
func (m *remote) buffered() bson.Doc {
	if len(m.batch) == 0 {
		return nil
	}
	d := m.batch[0]
	m.batch = m.batch[1:]
	return d
}

// more fetches another batch, or takes the one that was fetched ahead. wait, if not negative, is
// how long the shard waits for documents.
func (m *remote) more(ctx context.Context, wait time.Duration) error {
	if m.ahead != nil {
		got := <-m.ahead
		m.stop()
		m.ahead, m.stop = nil, nil
		return m.take(got)
	}
	return m.take(m.fetch(ctx, wait))
}

// fetch asks for another batch.
func (m *remote) fetch(ctx context.Context, wait time.Duration) fetched {
	b := new(bson.Builder).Int64("getMore", m.id).String("collection", m.coll).Int32("batchSize", m.size)
	if m.lsid != nil {
		b.Doc("lsid", m.lsid)
	}
	if m.await && wait >= 0 {
		b.Int64("maxTimeMS", max(wait.Milliseconds(), 1))
	}
	set, err := m.router.shards.shard(ctx, m.shard)
	if err != nil {
		return fetched{err: err}
	}
	call := client.Call{DB: m.db, Body: b.Finish(), Member: m.member}
	run := set.Run
	if m.tx != nil {
		run = func(ctx context.Context, c client.Call) (client.Answer, error) { return m.tx.ask(ctx, set, m.shard, c) }
	}
	a, err := run(ctx, call)
	return fetched{a.Reply, err}
}

// take makes an answer the batch.
func (m *remote) take(got fetched) error {
	m.asked = true
	if got.err != nil {
		m.id = 0
		return got.err
	}
	cursor := document(got.reply.Lookup("cursor"))
	m.id, m.batch = bson.ClampToInt64(cursor.Lookup("id")), documents(cursor.Lookup("nextBatch"))
	if n := len(m.batch); n > 0 {
		m.size = int32(min(max(moreBytes*n/len(got.reply), 1), mostBatch))
	}
	return nil
}

// readAhead begins to fetch the batch behind the present one, if there may be one. The operation
// of ctx has to take it, or to close the cursor.
func (m *remote) readAhead(ctx context.Context) {
	if m.id == 0 || m.ahead != nil || m.tx != nil || m.tailable {
		return
	}
	ctx, m.stop = context.WithCancel(ctx)
	ahead := make(chan fetched, 1)
	m.ahead = ahead
	go func() { ahead <- m.fetch(ctx, -1) }()
}

// next returns the next document, nil at the end. A tailable cursor without new documents
// returns nil, too.
func (m *remote) next(ctx context.Context) (bson.Doc, error) {
	for {
		if d := m.buffered(); d != nil {
			return d, nil
		}
		if m.id == 0 {
			return nil, nil
		}
		if err := m.more(ctx, 0); err != nil {
			return nil, err
		}
		if m.tailable {
			return m.buffered(), nil
		}
	}
}

// closeAll closes the cursors on shards.
func closeAll(all []*remote) {
	for _, m := range all {
		if m != nil && m.ahead != nil {
			m.stop()
			<-m.ahead
			m.ahead, m.stop = nil, nil
		}
		if m == nil || m.id == 0 || m.tx != nil { // its shard closes it when the transaction ends
			continue
		}
		id := m.id
		m.id = 0
		ctx, cancel := context.WithTimeout(context.Background(), killTime)
		if set, err := m.router.shards.shard(ctx, m.shard); err == nil {
			b := new(bson.Builder).String("killCursors", m.coll).OpenArray("cursors").Int64("0", id).Close()
			if m.lsid != nil {
				b.Doc("lsid", m.lsid)
			}
			_, _ = set.Run(ctx, client.Call{DB: m.db, Body: b.Finish(), Member: m.member}) // otherwise the cursor times out
		}
		cancel()
	}
}

// single is the client's cursor over the cursor of one shard.
type single struct{ *remote }

// Next implements command.Cursor.
func (c single) Next(ctx context.Context) (bson.Doc, error) { return c.next(ctx) }

// Close implements command.Cursor.
func (c single) Close() { closeAll([]*remote{c.remote}) }

// Exhausted implements command.Finite. The first batch has the size that the client asked for, so
// that the shard has judged. Of later ones, which are larger, nothing is said: as from a server,
// and from mongos, the client learns the end from a batch that is not full.
func (c single) Exhausted() bool {
	return c.id == 0 && len(c.batch) == 0 && !c.asked
}

// Await implements command.Awaiter by an awaited getMore on the shard.
func (c single) Await(ctx context.Context) {
	deadline, ok := ctx.Deadline()
	if !ok || c.id == 0 {
		return
	}
	// Next returns the error.
	_ = c.more(ctx, time.Until(deadline)-answerTime)
}

// concatenation reads the cursors of several shards in no particular order. Shards with
// buffered documents come first.
type concatenation struct {
	all []*remote
	// ahead says that one operation reads all of it: then each shard makes its next batch while
	// the present one is read. It holds one batch more of each.
	ahead bool
}

// Next implements command.Cursor and pipeline.Iterator.
func (c *concatenation) Next(ctx context.Context) (bson.Doc, error) {
	for _, m := range c.all {
		if d := m.buffered(); d != nil {
			return d, nil
		}
	}
	for len(c.all) > 0 {
		if c.ahead {
			if err := c.fetch(ctx); err != nil {
				return nil, err
			}
		}
		d, err := c.all[0].next(ctx)
		if d != nil || err != nil {
			return d, err
		}
		c.all = c.all[1:]
	}
	return nil, nil
}

// fetch has all shards make their next batches, and brings one that is there to the front: that
// of the first shard if none is.
func (c *concatenation) fetch(ctx context.Context) error {
	for i, m := range c.all {
		m.readAhead(ctx)
		if len(m.ahead) > 0 {
			c.all[0], c.all[i] = m, c.all[0]
		}
	}
	m := c.all[0]
	if m.ahead == nil {
		return nil
	}
	err := m.more(ctx, -1)
	m.readAhead(ctx)
	return err
}

// Close implements command.Cursor and pipeline.Iterator.
func (c *concatenation) Close() { closeAll(c.all) }

// merge merges sorted cursors of several shards.
type merge struct {
	all  []*remote // for Close
	heap remotes
	key  func(dst []byte, d bson.Doc) ([]byte, error)
	// strip removes the sort key from a document; nil if there is nothing to remove.
	strip  func(bson.Doc) bson.Doc
	opened bool
	last   *remote // the source of the document that was returned last
}

// remotes is a heap ordered by the sort keys of the next documents.
type remotes []*remote

func (h remotes) Len() int           { return len(h) }
func (h remotes) Less(i, j int) bool { return string(h[i].key) < string(h[j].key) }
func (h remotes) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *remotes) Push(x any)        { *h = append(*h, x.(*remote)) }
func (h *remotes) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

// advance reads the next document of a shard.
func (c *merge) advance(ctx context.Context, m *remote) (ok bool, err error) {
	if m.doc, err = m.next(ctx); err != nil || m.doc == nil {
		return false, err
	}
	m.key, err = c.key(m.key[:0], m.doc)
	return err == nil, err
}

// Next implements command.Cursor and pipeline.Iterator.
func (c *merge) Next(ctx context.Context) (bson.Doc, error) {
	if !c.opened {
		for _, m := range c.all {
			ok, err := c.advance(ctx, m)
			if err != nil {
				return nil, err
			}
			if ok {
				c.heap = append(c.heap, m)
			}
		}
		heap.Init(&c.heap)
		c.opened = true
	} else if c.last != nil {
		ok, err := c.advance(ctx, c.last)
		if err != nil {
			return nil, err
		}
		if ok {
			heap.Fix(&c.heap, 0)
		} else {
			heap.Pop(&c.heap)
		}
		c.last = nil
	}
	if len(c.heap) == 0 {
		return nil, nil
	}
	c.last = c.heap[0]
	if c.strip != nil {
		return c.strip(c.last.doc), nil
	}
	return c.last.doc, nil
}

// Close implements command.Cursor and pipeline.Iterator.
func (c *merge) Close() { closeAll(c.all) }

// documentCursor is the input of a cut.
type documentCursor interface {
	Next(ctx context.Context) (bson.Doc, error)
	Close()
}

// cut applies skip and limit to a cursor.
type cut struct {
	documentCursor
	skip, limit int64 // limit 0 for none
	given       int64
}

// Next implements command.Cursor.
func (c *cut) Next(ctx context.Context) (bson.Doc, error) {
	for ; c.skip > 0; c.skip-- {
		d, err := c.documentCursor.Next(ctx)
		if d == nil || err != nil {
			return d, err
		}
	}
	if c.limit > 0 && c.given == c.limit {
		return nil, nil
	}
	c.given++
	return c.documentCursor.Next(ctx)
}

// Exhausted implements command.Finite.
func (c *cut) Exhausted() bool {
	if c.limit > 0 && c.given == c.limit {
		return true
	}
	f, ok := c.documentCursor.(command.Finite)
	return ok && f.Exhausted()
}

// sortKeyField is the field in which shards send the sort key of a document. No client's
// field has such a name.
const sortKeyField = "\x01sortKey"

// keyFromField orders documents by sortKeyField.
func keyFromField(p sortkey.Pattern, collator bson.Collator) func([]byte, bson.Doc) ([]byte, error) {
	return func(dst []byte, d bson.Doc) ([]byte, error) {
		v := d.Lookup(sortKeyField)
		if v.Type != bson.TypeArray { // a distance
			v = bson.Array(v)
		}
		i := 0
		for part := range v.Doc().Values() {
			if i == len(p.Parts) {
				break
			}
			dst = keystring.Append(dst, part, p.Parts[i].Descending, collator)
			i++
		}
		return dst, nil
	}
}

func sortKeyPart(i int) string { return "k" + bson.Index(i) }

// stripSortKey returns a document without its sortKeyField.
func stripSortKey(d bson.Doc) bson.Doc {
	b := new(bson.Builder).Reset(make([]byte, 0, len(d)))
	for name, v := range d.All() {
		if name != sortKeyField {
			b.Value(name, v)
		}
	}
	return b.Finish()
}
