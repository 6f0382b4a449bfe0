package cosmos

import (
	"context"
	"net/http"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/query/nosql"
)

// maxBatch is the service's bound on the operations of one batch.
const maxBatch = 100

// operationKinds are the operations of a batch, in lower case.
var operationKinds = map[string]operationKind{
	"create": opCreate, "upsert": opUpsert, "read": opRead, "replace": opReplace, "delete": opDelete, "patch": opPatch,
}

// isBatch reports whether a POST of items is a batch.
func (r *request) isBatch() bool { return r.flag("X-Ms-Cosmos-Is-Batch-Request") }

// postBatch runs a batch: all or nothing if it is atomic, else each operation by
// itself. (Cosmos DB: "Transactional batch operations".)
func (r *request) postBatch(c *container) error {
	ops, err := r.operations()
	if err != nil {
		return err
	}
	if !r.flag("X-Ms-Cosmos-Batch-Atomic") {
		return r.bulk(c, ops)
	}
	key, err := r.keyHeader(c.key)
	if err != nil {
		return err
	}
	return r.atomicBatch(c, ops, key)
}

// operations reads the operations of a batch. Errors: 400, 413.
func (r *request) operations() ([]bson.Value, error) {
	body, err := r.body()
	if err != nil {
		return nil, err
	}
	v, err := nosql.ParseJSON(body)
	if err != nil || v.Type != bson.TypeArray {
		return nil, badRequest("The batch is not a JSON array.")
	}
	ops := v.Doc().Slice()
	if len(ops) == 0 || len(ops) > maxBatch {
		return nil, badRequest("Batch request has more operations than what is supported: the maximum is %d.", maxBatch)
	}
	return ops, nil
}

// result is one operation's part of the response.
type result struct {
	out *outcome
	err *Error
}

func (r *request) atomicBatch(c *container, ops []bson.Value, key []bson.Value) error {
	if key == nil {
		return keyMismatch("PartitionKey value must be supplied for this operation.")
	}
	results := make([]result, len(ops))
	parsed := make([]*operation, 0, len(ops))
	reads := false
	fail := func(at int, err error) error {
		for i := range results {
			results[i] = result{err: newError(http.StatusFailedDependency, "Another operation of the batch failed.")}
		}
		results[at].err = asError(err)
		return r.sendResults(http.StatusMultiStatus, results, false)
	}
	for i, v := range ops {
		op, err := c.parseOperation(v, key)
		if err != nil {
			return fail(i, err)
		}
		reads = reads || op.kind == opRead
		parsed = append(parsed, op)
	}
	outs, failed, err := r.write(c, parsed)
	if err != nil {
		if r.ctx.Err() != nil || ofServers(err) || asError(err).Status == http.StatusInternalServerError {
			return err
		}
		return fail(failed, err)
	}
	for i, out := range outs {
		results[i].out = out
	}
	return r.sendResults(http.StatusOK, results, reads || !r.minimal())
}

// bulk runs each operation by itself; each names its own partition key. On a shard that finds
// the range gone the response has only the operations that were run before.
func (r *request) bulk(c *container, ops []bson.Value) error {
	results := make([]result, len(ops))
	status := http.StatusOK
	goOn := !strings.EqualFold(r.header("X-Ms-Cosmos-Batch-Continue-On-Error"), "false")
	for i, v := range ops {
		out, err := r.bulkOne(c, v)
		if results[i].out = out; err == nil {
			continue
		}
		if r.ctx.Err() != nil { // killed, or timed out
			return context.Cause(r.ctx)
		}
		if r.s.shard != nil && ofServers(err) {
			if i == 0 {
				return err
			}
			results = results[:i]
			break
		}
		results[i] = result{err: asError(err)}
		status = http.StatusMultiStatus
		if !goOn {
			for j := i + 1; j < len(ops); j++ {
				results[j].err = newError(http.StatusFailedDependency, "An operation before it failed.")
			}
			break
		}
	}
	return r.sendResults(status, results, !r.minimal())
}

// bulkKey returns the partition key of an operation: its own, or that of the header. Errors:
// 400, 403.
func (r *request) bulkKey(c *container, v bson.Value) ([]bson.Value, error) {
	if v.Type == bson.TypeDocument {
		if k := v.Doc().Lookup("partitionKey"); k.Type == bson.TypeString {
			if err := r.checkPartition(k.Str()); err != nil {
				return nil, err
			}
			return c.key.parse(k.Str())
		}
	}
	key, err := r.keyHeader(c.key)
	if err == nil && key == nil {
		err = keyMismatch("PartitionKey value must be supplied for this operation.")
	}
	return key, err
}

func (r *request) bulkOne(c *container, v bson.Value) (*outcome, error) {
	key, err := r.bulkKey(c, v)
	if err != nil {
		return nil, err
	}
	op, err := c.parseOperation(v, key)
	if err != nil {
		return nil, err
	}
	outs, _, err := r.write(c, []*operation{op})
	if err != nil {
		return nil, err
	}
	return outs[0], nil
}

// parseOperation reads one operation of a batch. Errors: 400.
func (c *container) parseOperation(v bson.Value, key []bson.Value) (*operation, error) {
	if v.Type != bson.TypeDocument {
		return nil, badRequest("An operation of the batch is not an object.")
	}
	d := v.Doc()
	name := d.Lookup("operationType")
	if name.Type != bson.TypeString {
		return nil, badRequest("An operation of the batch has no operationType.")
	}
	kind, known := operationKinds[strings.ToLower(name.Str())]
	if !known {
		return nil, badRequest("The batch operation '%s' is not supported.", name.Str())
	}
	op := &operation{kind: kind, key: key}
	for _, f := range []struct {
		name string
		into *string
	}{{"id", &op.id}, {"ifMatch", &op.ifMatch}, {"ifNoneMatch", &op.ifNone}} {
		if t := d.Lookup(f.name); t.Type == bson.TypeString {
			*f.into = t.Str()
		}
	}
	body := d.Lookup("resourceBody")
	switch kind {
	case opRead, opDelete:
	case opPatch:
		var err error
		if op.patch, err = parsePatch(body); err != nil {
			return nil, err
		}
	default:
		if body.Type != bson.TypeDocument {
			return nil, badRequest("An operation of the batch has no resourceBody.")
		}
		op.body = body.Doc()
		id := op.id
		if kind != opReplace {
			id = ""
		}
		if err := c.checkBody(op.body, key, id); err != nil {
			return nil, err
		}
	}
	if kind != opCreate && kind != opUpsert && op.id == "" {
		return nil, badRequest("An operation of the batch has no id.")
	}
	return op, nil
}

func (r *request) sendResults(status int, results []result, bodies bool) error {
	out := []byte{'['}
	r.charge = 0
	for i, res := range results {
		if i > 0 {
			out = append(out, ',')
		}
		var b bson.Builder
		if res.err != nil {
			r.charge++
			b.Int("statusCode", int64(res.err.Status))
			if res.err.Substatus != 0 {
				b.Int("subStatusCode", int64(res.err.Substatus))
			}
			out = nosql.AppendJSONDocument(out, b.Double("requestCharge", 1).Finish())
			continue
		}
		r.charge += res.out.charge
		b.Int("statusCode", int64(res.out.status)).Double("requestCharge", res.out.charge)
		if res.out.item != nil {
			b.Value("eTag", res.out.item.Lookup("_etag"))
		}
		out = nosql.AppendJSONDocument(out, b.Finish())
		if res.out.item != nil && bodies {
			out = append(out[:len(out)-1], `,"resourceBody":`...)
			out = append(appendItem(out, res.out.item), '}')
		}
	}
	return r.send(status, append(out, ']'))
}
