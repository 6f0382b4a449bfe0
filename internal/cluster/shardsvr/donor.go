package shardsvr

import (
	"context"
	"errors"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
)

// donor is another shard from which documents of a collection are read.
type donor struct {
	s   *Shard
	ns  schema.Namespace // the collection there
	set other
	// buckets says that it is a time series, whose buckets are read.
	buckets bool
	read    int64 // the donor's time of the last read of session records
}

// other is another shard, a client.Set.
type other interface {
	Run(context.Context, client.Call) (client.Answer, error)
	Primary() string
}

// ask sends the donor a read-only request.
func (d *donor) ask(ctx context.Context, db string, body bson.Doc) (client.Answer, error) {
	return askOther(ctx, d.set, client.Call{DB: db, Body: body, Idempotent: true})
}

// primaryEvery is how often who waits for another shard's answer looks whether its primary is the
// same.
const primaryEvery = 10 * time.Second

// askOther sends the primary of another shard, or the member of the call, which is or was the
// primary, a request that changes nothing. It may take long, but it fails, with a transient error,
// once the shard has had another primary or none for a while: a member that is stopped, or cut off
// with its connections open, never answers. If no primary was known, it is not known who was
// asked, and it fails as soon.
func askOther(ctx context.Context, set other, c client.Call) (client.Answer, error) {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	asked := c.Member
	if asked == "" {
		asked = set.Primary()
	}
	go func() {
		ticker := time.NewTicker(primaryEvery)
		defer ticker.Stop()
		for gone := 0; gone < 2; {
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return
			}
			if set.Primary() == asked {
				gone = 0
			} else {
				gone++
			}
		}
		end(mongoerr.New(mongoerr.HostUnreachable, "the shard has not answered, and its primary is another one (was %q)", asked))
	}()
	return set.Run(ctx, c)
}

// now returns a cluster time of the donor. Later reads, of its log too, include all writes up to
// that time. (The operationTime of a reply is another one: it may be that of an entry that is
// still being applied.)
func (d *donor) now(ctx context.Context) (uint64, error) {
	a, err := d.ask(ctx, "admin", new(bson.Builder).Int32("hello", 1).Finish())
	if err != nil {
		return 0, err
	}
	t := a.Reply.Lookup("lastWrite").Doc().Lookup("opTime").Doc().Lookup("ts")
	if t.Type != bson.TypeTimestamp {
		return 0, mongoerr.New(mongoerr.InternalError, "the donor does not say up to which time it has applied its log")
	}
	return t.Timestamp(), nil
}

// seal has the donor of a time series put its open measurements into buckets.
func (d *donor) seal(ctx context.Context) error {
	if !d.buckets {
		return nil
	}
	_, err := d.ask(ctx, "admin", new(bson.Builder).String("_shardsvrClone", d.ns.String()).Bool("seal", true).Finish())
	return err
}

// fetchBytes bounds the documents that are fetched at once by their _ids. A single one may be
// larger.
const fetchBytes = 16 << 20

// errTooMany says that documents have more than fetchBytes together.
var errTooMany = errors.New("too many documents at once")

// fetch asks the donor for the current versions of documents, by their _ids, and calls f with
// those that there are. request begins the request. Errors: errTooMany.
func (d *donor) fetch(ctx context.Context, request func() *bson.Builder, ids []bson.Value, f func(doc bson.Doc)) error {
	if len(ids) == 0 {
		return nil
	}
	after, size := all, 0
	for {
		b := request().OpenArray("ids")
		for i, id := range ids {
			b.Value(bson.Index(i), id)
		}
		if b.Close(); !after.IsMissing() {
			b.Value("after", after)
		}
		a, err := d.ask(ctx, "admin", b.Finish())
		if err != nil {
			return err
		}
		for v := range a.Reply.Lookup("documents").Doc().Values() {
			f(v.Doc())
			size += len(v.Data)
		}
		if size > fetchBytes && len(ids) > 1 {
			return errTooMany
		}
		if after = a.Reply.Lookup("next"); after.IsMissing() { // else a reply had no room for all
			return nil
		}
	}
}

// logBatch is how many entries of the log are read at once.
const logBatch = 2000

// changes reads a batch of the donor's log behind a position: the _ids of the documents that
// it names, each once, and the position up to which these are all. more says that the log
// has more. Errors: 96 if the log does not tell what has changed.
func (d *donor) changes(ctx context.Context, position uint64) (ids []bson.Value, last uint64, more bool, err error) {
	to, err := d.now(ctx)
	if err != nil || to <= position {
		return nil, position, false, err
	}
	b := new(bson.Builder).String("find", "oplog.rs").OpenDoc("filter").
		OpenDoc("ts").Timestamp("$gt", position).Timestamp("$lte", to).Close()
	b.OpenArray("$or").OpenDoc("0").String("ns", d.stored().String()).Close()
	b.OpenDoc("1").String("op", "c").String("ns", "admin.$cmd").String("o.applyOps.ns", d.stored().String()).Close()
	if d.buckets { // and not the measurements, which are in no bucket yet
		b.OpenDoc("2").String("ns", d.ns.String()).OpenDoc("op").String("$ne", "i").Close().Close()
	}
	b.Close().Close()
	b.OpenDoc("projection").Int32("ts", 1).Int32("op", 1).Int32("o._id", 1).Int32("o.applyOps", 1).Int32("o2", 1).Close()
	b.OpenDoc("sort").Int32("$natural", 1).Close().Int32("limit", logBatch).Int32("batchSize", logBatch)
	a, err := d.ask(ctx, "local", b.Finish())
	if err != nil {
		return nil, 0, false, err
	}
	cursor := a.Reply.Lookup("cursor").Doc()
	seen, n := map[string]bool{}, 0
	last = position
	for v := range cursor.Lookup("firstBatch").Doc().Values() {
		e := v.Doc()
		n, last = n+1, e.Lookup("ts").Timestamp()
		for _, operation := range d.operations(e) {
			id, err := changedID(operation)
			if err != nil {
				return nil, 0, false, err
			}
			if name := catalog.IDName(id); !seen[name] {
				seen[name] = true
				ids = append(ids, id)
			}
		}
	}
	left := cursor.Lookup("id").Int64()
	if more = n == logBatch || left != 0; !more {
		last = to
	}
	if left != 0 {
		kill := new(bson.Builder).String("killCursors", "oplog.rs").OpenArray("cursors").Int64("0", left).Close().Finish()
		if _, err := askOther(ctx, d.set, client.Call{DB: "local", Body: kill, Member: a.Member}); err != nil {
			return nil, 0, false, err
		}
	}
	// Only now: the log may be truncated at any time, and what is left of it is read without a
	// word. It is truncated in its order, so if it still reaches back, all was there.
	return ids, last, more, d.reachesBack(ctx, a.Member, position)
}

// stored is the collection on the donor that has the documents.
func (d *donor) stored() schema.Namespace {
	if d.buckets {
		return d.ns.Buckets()
	}
	return d.ns
}

// operations returns the operations of an entry of the log that are about the collection: the
// entry itself, or those of a transaction.
func (d *donor) operations(entry bson.Doc) []bson.Doc {
	list := entry.Lookup("o").Doc().Lookup("applyOps")
	if entry.Lookup("op").Str() != "c" || list.Type != bson.TypeArray {
		return []bson.Doc{entry}
	}
	var out []bson.Doc
	for v := range list.Doc().Values() {
		if v.Doc().Lookup("ns").Str() == d.stored().String() {
			out = append(out, v.Doc())
		}
	}
	return out
}

// changedID returns the _id of the document that an operation has changed. Errors: 96 for one
// that is not about one document.
func changedID(operation bson.Doc) (bson.Value, error) {
	switch operation.Lookup("op").Str() {
	case "i", "d":
		return operation.Lookup("o").Doc().Lookup("_id"), nil
	case "u":
		return operation.Lookup("o2").Doc().Lookup("_id"), nil
	case "n":
		return bson.Value{}, mongoerr.New(mongoerr.OperationFailed, "the donor's log does not list the documents that expired as a range (oplogListsExpired)")
	}
	return bson.Value{}, mongoerr.New(mongoerr.OperationFailed, "the collection was changed during the move")
}

// reachesBack fails if the log of a member of the donor has been truncated past the position:
// that of another one may be longer.
func (d *donor) reachesBack(ctx context.Context, member string, position uint64) error {
	b := new(bson.Builder).String("find", "oplog.rs").OpenDoc("sort").Int32("$natural", 1).Close().
		OpenDoc("projection").Int32("ts", 1).Close().Int32("limit", 1).Bool("singleBatch", true)
	a, err := askOther(ctx, d.set, client.Call{DB: "local", Body: b.Finish(), Member: member})
	if err != nil {
		return err
	}
	for v := range a.Reply.Lookup("cursor").Doc().Lookup("firstBatch").Doc().Values() {
		if v.Doc().Lookup("ts").Timestamp() <= position {
			return nil
		}
	}
	return mongoerr.New(mongoerr.OperationFailed, "the donor's log does not reach back far enough")
}
