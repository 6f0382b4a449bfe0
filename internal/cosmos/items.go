package cosmos

import (
	"net/http"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/memory"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/nosql"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// Fields of a stored item that no client sees.
const (
	fieldNumber = "_n"
	fieldLSN    = "_lsn"
)

// systemOfItem has the fields of an item that the server sets.
var systemOfItem = map[string]bool{
	"_rid": true, "_self": true, "_etag": true, "_attachments": true, "_ts": true,
}

// operation is one write of one item.
type operation struct {
	kind    operationKind
	id      string // of the path; "" for create and upsert
	key     []bson.Value
	body    bson.Doc // new item, or nil
	patch   *patch
	ifMatch string
	ifNone  string
	expired bool // also of an item that has expired
}

type operationKind int

const (
	opCreate operationKind = iota
	opUpsert
	opReplace
	opPatch
	opDelete
	opRead
)

// outcome is the result of an operation.
type outcome struct {
	status int
	item   bson.Doc // as stored; nil after a delete
	charge float64
}

// stamp makes the time of what the unit writes, and by which items are expired, now. It is
// called where nothing is waited for any more: so times of an item never go back, and none
// expires before it is there.
func (r *request) stamp(u *catalog.Unit) {
	r.expiryTime, r.written = r.s.clock.ExpiryTime()/1000, r.s.clock.Stamped()
	u.SetTime(r.written)
}

// apply runs an operation in a unit. number is its position in the change feed. Errors are *Error except those of storage.
func (r *request) apply(c *container, u *catalog.Unit, op *operation, number int64) (*outcome, error) {
	ctx, id := r.Context(), op.id
	if op.kind == opCreate || op.kind == opUpsert {
		id = op.body.Lookup("id").Str()
	}
	if op.kind == opCreate {
		// Usually the id is not in use, and one lookup is enough.
		if err := u.Enter(ctx, c.collection); err != nil {
			return nil, err
		}
		r.stamp(u)
		item := c.store(op.body, op.key, id, nil, r.written, number)
		if err := u.Insert(ctx, c.collection, item); !mongoerr.Is(err, mongoerr.DuplicateKey) {
			return &outcome{http.StatusCreated, item, chargeWrite}, err
		}
	}
	record, old, err := u.LockID(ctx, c.collection, itemID(op.key, id))
	if err != nil {
		return nil, err
	}
	r.stamp(u)
	alive := old
	if old != nil && !op.expired && c.ttl.expires(old) <= r.expiryTime {
		alive = nil
	}
	if err := op.check(alive); err != nil {
		return nil, err
	}
	switch op.kind {
	case opRead:
		return &outcome{http.StatusOK, alive, chargeRead}, nil
	case opDelete:
		return &outcome{status: http.StatusNoContent, charge: chargeWrite}, u.Delete(ctx, c.collection, record, old)
	}
	body := op.body
	if op.kind == opPatch {
		if body, err = op.patch.apply(alive, r.written, r.bound); err != nil {
			return nil, err
		}
		if bson.ExceedsDepth(body, nosql.MaxJSONDepth) {
			return nil, badRequest("The item nests too deeply.")
		}
		if err := c.checkBody(body, op.key, op.id); err != nil {
			return nil, err
		}
	}
	out := &outcome{status: http.StatusOK, charge: chargeReplace}
	if alive == nil {
		out.status, out.charge = http.StatusCreated, chargeWrite
	}
	out.item = c.store(body, op.key, id, alive, r.written, number)
	if alive == nil {
		// What has expired and is still there makes room, and is told of as expired.
		if err := u.Insert(ctx, c.collection, out.item); old == nil || !mongoerr.Is(err, mongoerr.DuplicateKey) {
			return out, err
		}
	}
	u.SetReplacement(true)
	return out, u.Update(ctx, c.collection, record, old, out.item)
}

// check checks an operation's conditions against the current item, nil if there is none.
func (op *operation) check(item bson.Doc) error {
	switch {
	case op.kind == opCreate && item != nil:
		return errConflict
	case op.kind != opCreate && op.kind != opUpsert && item == nil:
		return errNotFound
	case item == nil:
		return nil
	}
	etag := item.Lookup("_etag").Str()
	if op.ifMatch != "" && op.ifMatch != "*" && op.ifMatch != etag {
		return errMatch
	}
	if op.kind != opRead && op.ifNone != "" && (op.ifNone == "*" || op.ifNone == etag) {
		return errMatch
	}
	return nil
}

// itemOverhead is the space for the server's fields of an item, in bytes.
const itemOverhead = 512

// store makes the document of an item. A replacement of a live item keeps its resource id.
func (c *container) store(body bson.Doc, key []bson.Value, id string, alive bson.Doc, seconds, number int64) bson.Doc {
	n := int64(0)
	if alive != nil {
		n, _ = bson.ExactInt64(alive.Lookup(fieldNumber))
	} else {
		n = c.items.Take(1)
		c.items.Done(n)
	}
	rid := itemRID(c.ridBytes, n)
	var b bson.Builder
	b.Reset(make([]byte, 0, len(body)+itemOverhead))
	// The fields that are read from every item come first.
	b.Value("_id", itemID(key, id)).Int64(fieldNumber, n).Int64(fieldLSN, number)
	for it := body.Iter(); it.Next(); {
		if it.Key == "" || it.Key[0] != '_' || !systemOfItem[it.Key] {
			b.Value(storedName(it.Key), it.Value)
		}
	}
	b.String("_rid", rid).String("_self", c.selfLink+"docs/"+rid+"/").String("_etag", newETag(seconds)).String("_attachments", "attachments/")
	return b.Int64("_ts", seconds).Finish()
}

// present returns a stored item for clients.
func present(item bson.Doc) bson.Doc {
	var b bson.Builder
	return presentInto(&b, item)
}

// presentInto is present by a builder that has been reset.
func presentInto(b *bson.Builder, item bson.Doc) bson.Doc {
	for it := item.Iter(); it.Next(); {
		if name := shownName(it.Key); name != "" {
			b.Value(name, it.Value)
		}
	}
	return b.Finish()
}

// view is presentInto, and returns the number of the item and when it expires.
func (c *container) view(b *bson.Builder, item bson.Doc) (shown bson.Doc, number, expires int64) {
	var own, written bson.Value
	for it := item.Iter(); it.Next(); {
		switch it.Key {
		case fieldNumber:
			number, _ = bson.ExactInt64(it.Value)
		case schema.TTLField:
			own = it.Value
		case schema.LastWriteField:
			written = it.Value
		}
		if name := shownName(it.Key); name != "" {
			b.Value(name, it.Value)
		}
	}
	return b.Finish(), number, c.ttl.due(own, written)
}

// appendItem appends the JSON of a stored item for clients.
func appendItem(dst []byte, item bson.Doc) []byte {
	from := len(dst)
	for it := item.Iter(); it.Next(); {
		if name := shownName(it.Key); name != "" {
			dst = nosql.AppendJSON(append(nosql.AppendJSONText(append(dst, ','), name), ':'), it.Value)
		}
	}
	if len(dst) == from {
		return append(dst, "{}"...)
	}
	dst[from] = '{'
	return append(dst, '}')
}

// storedName is under which name a property is stored: with a '%' before it where the name is that
// of a field of the store, or such a name with '%'s before it.
func storedName(name string) string {
	if nosql.IsRenamed(name) {
		return "%" + name
	}
	return name
}

// shownName returns the client's name of a stored item's field, "" for a hidden one.
func shownName(name string) string {
	switch {
	case !nosql.IsRenamed(name):
		return name
	case name[0] == '%':
		return name[1:]
	}
	return ""
}

// jsonGrowth is how many times longer a document can be as JSON: "\u0001" for one byte.
const jsonGrowth = 6

// textSize is the size of an item as the service bounds it: that of its JSON, without the
// fields that the server sets.
func textSize(body bson.Doc) int {
	room := pageRoom.Get().(*[]byte)
	defer pageRoom.Put(room)
	text := (*room)[:0]
	n := len("{}")
	for it := body.Iter(); it.Next(); {
		if !systemOfItem[it.Key] {
			text = nosql.AppendJSON(append(nosql.AppendJSONText(append(text[:0], ','), it.Key), ':'), it.Value)
			n += len(text)
		}
	}
	if cap(text) <= maxPageRoom {
		*room = text
	}
	return n - 1 // the first field has no comma
}

// checkBody checks that a body is a valid item with the partition key and, unless id is
// "", with that id. Errors: 400, 413.
func (c *container) checkBody(body bson.Doc, key []bson.Value, id string) error {
	own := body.Lookup("id")
	switch {
	case own.Type != bson.TypeString || own.Str() == "":
		return badRequest("The input content is invalid because the required properties - 'id; ' - are missing")
	case len(own.Str()) > 4*maxID:
		return badRequest("The id of an item is longer than %d characters.", maxID)
	case id != "" && own.Str() != id:
		return badRequest("The id of an item cannot be changed: the path says '%s', the body '%s'.", id, own.Str())
	case len(body) > maxBody/jsonGrowth && textSize(body) > maxBody:
		return errTooLarge
	}
	if err := c.ttl.checkItem(body); err != nil {
		return err
	}
	mine, err := c.key.of(body)
	if err != nil {
		return err
	}
	if !sameKey(mine, key) {
		return keyMismatch("PartitionKey extracted from document doesn't match the one specified in the header. Learn more: https://aka.ms/CosmosDB/sql/errors/wrong-pk-value")
	}
	return nil
}

// write runs operations in one unit, all or none. failed is the operation that failed.
func (r *request) write(c *container, ops []*operation) (outs []*outcome, failed int, err error) {
	ctx := r.Context()
	if err := r.ensureNumbers(c); err != nil {
		return nil, 0, err
	}
	first := c.writes.Take(len(ops))
	defer c.writes.Done(first)
	var account memory.Account
	account.Open(r.s.memory())
	defer account.Close()
	waiter := memory.Waiter(r)
	if r.held.Taken() > 0 {
		waiter = nil // a unit that holds locks never waits
	}
	before := r.keptBytes
	err = r.s.o.Catalog.Run(ctx, storage.Buffered, func(u *catalog.Unit) error {
		u.Memory = account.Hold(waiter)
		u.Guard = r.guard()
		u.Numbered(c.collection, first, len(ops))
		outs, r.keptBytes = outs[:0], before
		for i, op := range ops {
			failed = i
			out, err := r.apply(c, u, op, first+int64(i))
			if err == nil {
				err = r.keep(out)
			}
			if err != nil {
				return err
			}
			outs = append(outs, out)
		}
		return nil
	})
	r.lsn = c.writes.Latest()
	r.count(ops, outs, err == nil)
	return outs, failed, err
}

// keep reserves memory for an item in the response. Errors: 429 if there is none.
func (r *request) keep(out *outcome) error {
	r.keptBytes += len(out.item)
	return r.kept.Set((1 + pageCopies) * r.keptBytes)
}

// count counts operations and, if they were executed, their results.
func (r *request) count(ops []*operation, outs []*outcome, done bool) {
	s := &r.op.Stats
	s.IsWrite = true
	for i, op := range ops {
		switch op.kind {
		case opCreate:
			r.op.CountInserts(1)
		case opDelete:
			r.op.CountDeletes(1)
		case opRead:
			r.op.CountQueries(1)
		default:
			r.op.CountUpdates(1)
		}
		switch {
		case !done:
		case op.kind == opDelete:
			s.NDeleted++
		case op.kind == opRead:
			s.NReturned++
		case op.kind == opCreate:
			s.NInserted++
		case outs[i].status == http.StatusCreated:
			s.NUpserted++
		default:
			s.NMatched++
			s.NModified++
		}
	}
}

// one runs one operation and sends its item.
func (r *request) one(c *container, op *operation) error {
	outs, _, err := r.write(c, []*operation{op})
	if err != nil {
		return err
	}
	out := outs[0]
	r.charge = out.charge
	if out.item == nil {
		return r.send(out.status, nil)
	}
	r.w.Header().Set("Etag", out.item.Lookup("_etag").Str())
	if r.minimal() {
		return r.send(out.status, nil)
	}
	return r.sendItem(out.status, out.item)
}

// sendItem sends a stored item.
func (r *request) sendItem(status int, item bson.Doc) error {
	room := pageRoom.Get().(*[]byte)
	text := appendItem((*room)[:0], item)
	err := r.send(status, text)
	if cap(text) <= maxPageRoom {
		*room = text
	}
	pageRoom.Put(room)
	return err
}

// minimal reports whether the client wants no body after a write.
func (r *request) minimal() bool { return r.header("Prefer") == "return=minimal" }

// itemKey returns the partition key of the item that the path names. Errors: 400.
func (r *request) itemKey(c *container) ([]bson.Value, error) {
	key, err := r.keyHeader(c.key)
	switch {
	case err != nil:
		return nil, err
	case key == nil:
		return nil, keyMismatch("PartitionKey value must be supplied for this operation.")
	case len(key) != len(c.key.paths):
		return nil, keyMismatch("Partition key provided either doesn't correspond to definition in the collection or doesn't match partition key field values specified in the document.")
	}
	return key, nil
}

// operation makes an operation on the item that the path names.
func (r *request) operation(kind operationKind) (*container, *operation, error) {
	c, err := r.container()
	if err != nil {
		return nil, nil, err
	}
	key, err := r.itemKey(c)
	return c, &operation{kind: kind, id: r.item, key: key, ifMatch: r.header("If-Match"), ifNone: r.header("If-None-Match")}, err
}

// getItem reads one item: one lookup, or two if the items are clustered by their expiry.
func (r *request) getItem() error {
	c, op, err := r.operation(opRead)
	if err != nil {
		return err
	}
	now := c.collection.Latest()
	if now == nil {
		return errNotFound
	}
	_, item, closer, err := now.FindID(nil, r.s.o.Catalog.Engine(), itemID(op.key, op.id))
	if err != nil {
		return err
	}
	if item != nil {
		defer closer.Close()
	}
	if held := r.holding(now); held != nil {
		if err := held(); err != nil {
			return err
		}
	}
	s := &r.op.Stats
	if s.IsQuery = true; item == nil {
		return errNotFound
	}
	s.DocsExamined = 1
	if c.ttl.expires(item) <= r.expiryTime {
		return errNotFound
	}
	s.NReturned = 1
	etag := item.Lookup("_etag").Str()
	r.w.Header().Set("Etag", etag)
	if r.header("If-None-Match") == etag {
		return r.send(http.StatusNotModified, nil)
	}
	if err := r.keep(&outcome{item: item}); err != nil {
		return err
	}
	return r.sendItem(http.StatusOK, item)
}

func (r *request) putItem() error {
	c, op, err := r.operation(opReplace)
	if err != nil {
		return err
	}
	if op.body, err = r.object(); err != nil {
		return err
	}
	if err := c.checkBody(op.body, op.key, ""); err != nil {
		return err
	}
	if own := op.body.Lookup("id").Str(); own != op.id {
		return badRequest("The id of an item cannot be changed: the path says '%s', the body '%s'.", op.id, own)
	}
	return r.one(c, op)
}

func (r *request) deleteItem() error {
	c, op, err := r.operation(opDelete)
	if err != nil {
		return err
	}
	return r.one(c, op)
}

func (r *request) patchItem() error {
	c, op, err := r.operation(opPatch)
	if err != nil {
		return err
	}
	body, err := r.body()
	if err != nil {
		return err
	}
	v, err := nosql.ParseJSON(body)
	if err != nil {
		return badRequest("The input content is invalid because it is not JSON.")
	}
	if op.patch, err = parsePatch(v); err != nil {
		return err
	}
	return r.one(c, op)
}

// postItems creates or upserts an item, runs a batch, or queries.
func (r *request) postItems() error {
	c, err := r.container()
	if err != nil {
		return err
	}
	switch {
	case r.isBatch():
		return r.postBatch(c)
	case r.isQuery():
		return r.query(c)
	}
	body, err := r.object()
	if err != nil {
		return err
	}
	key, err := r.itemKey(c)
	if err != nil {
		return err
	}
	if err := c.checkBody(body, key, ""); err != nil {
		return err
	}
	op := &operation{kind: opCreate, key: key, body: body, ifMatch: r.header("If-Match"), ifNone: r.header("If-None-Match")}
	if r.flag("X-Ms-Documentdb-Is-Upsert") {
		op.kind = opUpsert
	}
	return r.one(c, op)
}

// deletePartition removes all items of a partition, also those that have expired and are still
// there: a longer time to live would bring them back.
func (r *request) deletePartition() error {
	c, err := r.container()
	if err != nil {
		return err
	}
	key, err := r.itemKey(c)
	if err != nil {
		return err
	}
	var ids []bson.Value
	remove := func() error {
		for _, id := range ids {
			op := &operation{kind: opDelete, key: key, id: id.Doc().Lookup("i").Str(), expired: true}
			if _, _, err := r.write(c, []*operation{op}); err != nil && err != errNotFound {
				return err
			}
		}
		ids = ids[:0]
		return nil
	}
	q := newQuery()
	q.All = true
	_, err = findBy(r.ctx, r, r.s.o.Exec, c.collection, q, c.key.partition(key), nil, func(d bson.Doc) (bool, error) {
		ids = append(ids, d.Lookup("_id").Clone())
		if len(ids) < maxBatch {
			return true, nil
		}
		return true, remove()
	})
	if err == nil {
		err = remove()
	}
	if err != nil {
		return err
	}
	r.charge = chargeWrite
	return r.send(http.StatusOK, nil)
}
