package shardsvr

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// A collection gets another shard key: each shard that will own a part of it, a recipient,
// reads from all donors the documents whose new key lies in its ranges, into a hidden
// collection with a name of its own, and then follows the donors' logs.
//
// _id is not unique over shards, and a document may go from donor to donor while both are
// read. So whatever log names an _id, all donors are asked for it, and what they have is
// stored. One goroutine does that for one document after the other, so an older answer is
// never stored over a newer one, and the last change of a document, on whichever donor, is
// followed by an answer that has it. Two documents with one _id are an error only if they are
// there when nobody writes any more.
// (docs/rfcs/0023-cluster.md, "Another shard key")

// The bounds of the _ids that are remembered because several donors have them.
const (
	maxTwice      = 1000
	maxTwiceBytes = 1 << 20
)

// resharding is the progress of receiving a collection: a document of config.receiving,
// written in the unit of each batch, so that the next primary continues from there.
type resharding struct {
	to        string     // the collection's name while it is received
	ns        string     // its name before and after
	uuid      bson.Value // of the donors' collection
	operation int64
	donors    []donation
	ranges    bson.Value // [{min, max}], in order
	since     int64      // when it began, in milliseconds of the clock
	// approxDocuments and approxBytes are how much is expected.
	approxDocuments, approxBytes int64
	twice                        []bson.Value // _ids that several donors have, as last seen
	done                         bool         // the donors' positions are the last ones
	documents, bytes             int64
}

// donation is how far the reading of one donor is.
type donation struct {
	shard, host string
	// position is the donor's cluster time up to which all writes have been applied once
	// copied is set; 0 before anything was read. after is the place {_id} of the copy.
	position uint64
	copied   bool
	after    bson.Value
}

func (p *resharding) doc() bson.Doc {
	b := new(bson.Builder).String("_id", p.to).String("ns", p.ns).Value("uuid", p.uuid).Int64("operation", p.operation).OpenArray("donors")
	for i, d := range p.donors {
		b.OpenDoc(bson.Index(i)).String("shard", d.shard).String("host", d.host).Timestamp("position", d.position).Bool("copied", d.copied)
		if !d.after.IsMissing() {
			b.Value("after", d.after)
		}
		b.Close()
	}
	b.Close().Value("ranges", p.ranges).Date("since", p.since).Int64("approxDocuments", p.approxDocuments).Int64("approxBytes", p.approxBytes).OpenArray("twice")
	for i, id := range p.twice {
		b.Value(bson.Index(i), id)
	}
	return b.Close().Bool("done", p.done).Int64("documents", p.documents).Int64("bytes", p.bytes).Finish()
}

// resharding returns the progress of receiving a collection, or nil.
func (s *Shard) resharding(to schema.Namespace) (*resharding, error) {
	d, err := s.node.Stored(receiving, to.String())
	if err != nil || d == nil {
		return nil, err
	}
	p := &resharding{
		to: to.String(), ns: d.Lookup("ns").Str(), uuid: d.Lookup("uuid"), operation: d.Lookup("operation").Int64(), ranges: d.Lookup("ranges"), since: d.Lookup("since").Date(),
		approxDocuments: d.Lookup("approxDocuments").Int64(), approxBytes: d.Lookup("approxBytes").Int64(), twice: d.Lookup("twice").Doc().Slice(),
		done: d.Lookup("done").Bool(), documents: d.Lookup("documents").Int64(), bytes: d.Lookup("bytes").Int64(),
	}
	for v := range d.Lookup("donors").Doc().Values() {
		e := v.Doc()
		p.donors = append(p.donors, donation{shard: e.Lookup("shard").Str(), host: e.Lookup("host").Str(), position: e.Lookup("position").Timestamp(), copied: e.Lookup("copied").Bool(), after: e.Lookup("after")})
	}
	return p, nil
}

// clone copies what a batch changes.
func (p *resharding) clone() resharding {
	n := *p
	n.donors, n.twice = slices.Clone(p.donors), slices.Clone(p.twice)
	return n
}

// seen notes whether several donors have an _id. Errors: 11000 if there are too many of them.
func (p *resharding) seen(id bson.Value, twice bool) error {
	p.twice = slices.DeleteFunc(p.twice, func(v bson.Value) bool { return catalog.IDName(v) == catalog.IDName(id) })
	if !twice {
		return nil
	}
	p.twice = append(p.twice, id.Clone())
	held := 0
	for _, v := range p.twice {
		held += len(v.Data)
	}
	if len(p.twice) > maxTwice || held > maxTwiceBytes {
		return p.duplicates()
	}
	return nil
}

func (p *resharding) duplicates() error {
	return mongoerr.New(mongoerr.DuplicateKey, "E11000 duplicate key error collection: %s: documents on different shards have one _id, for example %s", p.ns, p.twice[0])
}

// resharder receives a collection from its donors, in one goroutine.
type resharder struct {
	s      *Shard
	to     schema.Namespace
	key    *schema.ShardKey
	ranges schema.ShardRanges
	donors []*donor // as in at.donors

	destination
	follower
	at    resharding
	until map[string]uint64 // the ends that a caller waits for, by donor; nil for none
}

func newResharder(s *Shard, to schema.Namespace) *resharder {
	return &resharder{s: s, to: to, destination: destination{cat: s.cat}, follower: follower{changed: make(chan struct{})}}
}

func (r *resharder) run(ctx context.Context) error { return r.receive(ctx, r.attempt) }

func (r *resharder) attempt(ctx context.Context) error {
	p, err := r.s.resharding(r.to)
	if err != nil {
		return err
	}
	c := r.s.cat.Lookup(r.to)
	if c == nil || c.Sharding() == nil || p == nil {
		return mongoerr.New(mongoerr.NamespaceNotFound, "%s is not being received", r.to)
	}
	r.coll = c.Stored()
	r.note(func() { r.at, r.key, r.donors = *p, r.coll.Sharding().Key, nil })
	if r.ranges, err = r.key.ParseRanges(p.ranges); err != nil {
		return err
	}
	for _, d := range p.donors {
		set, err := r.s.set(d.host)
		if err != nil {
			return err
		}
		r.donors = append(r.donors, &donor{s: r.s, ns: schema.ParseNamespace(p.ns), set: set, buckets: r.coll.HoldsBuckets()})
	}
	if err := r.begin(ctx); err != nil {
		return err
	}
	for i := range r.donors {
		if err := r.copy(ctx, i); err != nil {
			return err
		}
	}
	if err := r.seal(ctx); err != nil { // so the donors have less to seal while they are blocked
		return err
	}
	return r.follow(ctx)
}

// step writes documents, and the progress as updated by write, in one unit.
func (r *resharder) step(ctx context.Context, write func(*catalog.Unit, *resharding) error) error {
	var next resharding
	err := r.s.cat.Run(ctx, storage.Journaled, func(u *catalog.Unit) error {
		u.Moving = true
		next = r.at.clone()
		if err := write(u, &next); err != nil {
			return err
		}
		if err := r.stillReceives(); err != nil {
			return err
		}
		return r.s.put(ctx, u, receiving, next.doc())
	})
	if err == nil {
		r.note(func() { r.at = next })
	}
	return err
}

// stillReceives is what recipient.stillReceives is. Errors: 117.
func (r *resharder) stillReceives() error {
	if c := r.s.cat.Lookup(r.to); c != nil {
		if h := receivingOf(c); h != nil && h.Operation == r.at.operation {
			return nil
		}
	}
	return mongoerr.New(mongoerr.ConflictingOperationInProgress, "%s is no longer being received", r.to)
}

// seal has all donors of a time series put their open measurements into buckets.
func (r *resharder) seal(ctx context.Context) error {
	for _, d := range r.donors {
		if err := d.seal(ctx); err != nil {
			return err
		}
	}
	return nil
}

// begin notes a position in the log of each donor before anything is read: what is written
// from then on is in the logs behind it.
func (r *resharder) begin(ctx context.Context) error {
	if len(r.ranges) == 0 || !slices.ContainsFunc(r.at.donors, func(d donation) bool { return d.position == 0 }) {
		return nil
	}
	if err := r.seal(ctx); err != nil {
		return err
	}
	positions := make([]uint64, len(r.donors))
	for i, d := range r.donors {
		var err error
		if positions[i], err = d.now(ctx); err != nil {
			return err
		}
	}
	return r.step(ctx, func(_ *catalog.Unit, p *resharding) error {
		for i, at := range positions {
			p.donors[i].position = at
		}
		return nil
	})
}

func (r *resharder) request() *bson.Builder {
	return new(bson.Builder).String("_shardsvrDonate", r.at.ns).Value("uuid", r.at.uuid).Doc("key", r.key.Pattern()).Value("ranges", r.at.ranges)
}

const (
	// logPause is how often the logs are read while documents are copied, so that these need
	// not reach back to the beginning.
	logPause = time.Second
	// maxAgain bounds the documents of a batch that are here already.
	maxAgain = maxTwice / 2
)

// copy copies what one donor has. An _id that is here already is left for later: the
// document may have come from another donor meanwhile, or by a log. A bucket never goes from
// one donor to another, so what a log has brought is no older.
func (r *resharder) copy(ctx context.Context, i int) error {
	for read := time.Now(); len(r.ranges) > 0 && !r.at.donors[i].copied; {
		if time.Since(read) > logPause {
			if err := r.readLogs(ctx); err != nil {
				return err
			}
			read = time.Now()
		}
		b := r.request()
		if after := r.at.donors[i].after; !after.IsMissing() {
			b.Value("after", after)
		}
		a, err := r.donors[i].ask(ctx, "admin", b.Finish())
		if err != nil {
			return err
		}
		var again []bson.Value
		docs, next := a.Reply.Lookup("documents").Doc(), a.Reply.Lookup("next")
		if err := r.findAll(ctx, docs); err != nil {
			return err
		}
		err = r.step(ctx, func(u *catalog.Unit, p *resharding) error {
			again = nil
			var last bson.Value
			p.donors[i].after, p.donors[i].copied = next, next.IsMissing()
			for v := range docs.Values() {
				doc := v.Doc()
				id := doc.Lookup("_id")
				if len(again) == maxAgain { // the rest is asked for again, behind these
					p.donors[i].after, p.donors[i].copied = last, false
					return nil
				}
				last = bson.Document(new(bson.Builder).Value("_id", id).Finish())
				_, old, err := r.lock(ctx, u, id)
				if err != nil {
					return err
				}
				if old != nil && r.coll.HoldsBuckets() {
					continue
				}
				if old != nil {
					again = append(again, id)
					if err := p.seen(id, true); err != nil {
						return err
					}
					continue
				}
				p.documents++
				p.bytes += int64(len(doc))
				if err := r.insert(ctx, u, doc); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		if err := r.refetchAll(ctx, again); err != nil {
			return err
		}
	}
	return nil
}

// findAll is find for some documents.
func (r *resharder) findAll(ctx context.Context, docs bson.Doc) error {
	if !r.coll.HoldsBuckets() {
		return nil
	}
	var ids []bson.Value
	for v := range docs.Values() {
		ids = append(ids, v.Doc().Lookup("_id"))
	}
	return r.find(ctx, ids)
}

// refetchAll is refetch for any number of documents.
func (r *resharder) refetchAll(ctx context.Context, ids []bson.Value) error {
	for some := range slices.Chunk(ids, r.batch()) {
		if err := r.refetch(ctx, some, func(*resharding) {}); err != nil {
			return err
		}
	}
	return nil
}

// refetch asks all donors for the current versions of documents and stores them, in one
// unit with the progress as changed by note.
func (r *resharder) refetch(ctx context.Context, ids []bson.Value, note func(*resharding)) error {
	found, times := map[string]bson.Doc{}, map[string]int{}
	for _, d := range r.donors {
		err := d.fetch(ctx, r.request, ids, func(doc bson.Doc) {
			name := catalog.IDName(doc.Lookup("_id"))
			found[name] = doc
			times[name]++
		})
		if errors.Is(err, errTooMany) {
			if err := r.refetch(ctx, ids[:len(ids)/2], func(*resharding) {}); err != nil {
				return err
			}
			return r.refetch(ctx, ids[len(ids)/2:], note)
		}
		if err != nil {
			return err
		}
	}
	if err := r.find(ctx, ids); err != nil {
		return err
	}
	return r.step(ctx, func(u *catalog.Unit, p *resharding) error {
		note(p)
		for _, id := range ids {
			doc := found[catalog.IDName(id)]
			if err := p.seen(id, times[catalog.IDName(id)] > 1); err != nil {
				return err
			}
			key, old, err := r.lock(ctx, u, id)
			switch {
			case err != nil:
				return err
			case old == nil && doc == nil:
				continue
			case old == nil:
				p.documents++
				p.bytes += int64(len(doc))
				err = r.insert(ctx, u, doc)
			case doc == nil:
				p.documents--
				p.bytes -= int64(len(old))
				err = remove(ctx, u, r.coll, key, old)
			default:
				p.bytes += int64(len(doc) - len(old))
				err = r.replace(ctx, u, key, old, doc)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// follow tails the donors' logs, until it is done.
func (r *resharder) follow(ctx context.Context) error {
	first := true
	for ctx.Err() == nil {
		begun := time.Now()
		r.mu.Lock()
		until := r.until
		r.mu.Unlock()
		if len(r.ranges) > 0 && (!r.at.done || !r.at.reached(until)) {
			more := false
			for i := range r.donors {
				m, err := r.readLog(ctx, i)
				if err != nil {
					return err
				}
				more = more || m
			}
			if more {
				continue
			}
		}
		if ends := until != nil && !r.at.done && r.at.reached(until); ends || first {
			if err := r.mergeSessions(ctx); err != nil {
				return err
			}
			first = false
			if ends {
				if err := r.finish(ctx); err != nil {
					return err
				}
			}
		}
		r.note(func() { r.caughtUp = begun })
		r.mu.Lock()
		again := until == nil && r.until != nil
		changed := r.changed
		r.mu.Unlock()
		if !again {
			rest(ctx, changed)
		}
	}
	return context.Cause(ctx)
}

// reached reports whether all writes of the donors up to some positions have been applied.
func (p *resharding) reached(until map[string]uint64) bool {
	return p.ranges.Doc().IsEmpty() || !slices.ContainsFunc(p.donors, func(d donation) bool { return d.position < until[d.shard] })
}

// readLogs reads all logs to their ends.
func (r *resharder) readLogs(ctx context.Context) error {
	for i := range r.donors {
		for more := true; more; {
			var err error
			if more, err = r.readLog(ctx, i); err != nil {
				return err
			}
		}
	}
	return nil
}

// readLog reads a batch of a donor's log, and fetches the documents that it names.
func (r *resharder) readLog(ctx context.Context, i int) (more bool, err error) {
	at := r.at.donors[i].position
	ids, last, more, err := r.donors[i].changes(ctx, at)
	if err != nil || last == at {
		return false, err
	}
	for most := r.batch(); len(ids) > most; ids = ids[most:] {
		if err := r.refetchAll(ctx, ids[:most]); err != nil {
			return false, err
		}
	}
	return more, r.refetch(ctx, ids, func(p *resharding) { p.donors[i].position = max(p.donors[i].position, last) })
}

// mergeSessions imports what the sessions of the other donors have executed.
func (r *resharder) mergeSessions(ctx context.Context) error {
	me := r.s.node.ShardName()
	for i, d := range r.donors {
		if r.at.donors[i].shard == me {
			continue
		}
		if err := d.mergeSessions(ctx); err != nil {
			return err
		}
	}
	return nil
}

// finish ends the reading: nobody writes on the donors any more. Errors: 11000.
func (r *resharder) finish(ctx context.Context) error {
	if err := r.refetchAll(ctx, slices.Clone(r.at.twice)); err != nil {
		return err
	}
	if len(r.at.twice) > 0 {
		return r.at.duplicates()
	}
	return r.step(ctx, func(_ *catalog.Unit, p *resharding) error {
		p.done = true
		return nil
	})
}

// await waits until all writes of the donors up to some positions are here durably. Errors:
// 96 or 11000, the cause of ctx's end.
func (r *resharder) await(ctx context.Context, until map[string]uint64) error {
	r.note(func() { r.until = until })
	for {
		r.mu.Lock()
		done, err, changed := r.at.done && r.at.reached(until), r.err, r.changed
		r.mu.Unlock()
		if done || err != nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Reshardings lists the collections that are being received, as currentOp shows them.
func (s *Shard) Reshardings() (out []bson.Doc) {
	s.work.Lock()
	var jobs []*resharder
	for _, j := range s.work.jobs {
		if j.reshard != nil {
			jobs = append(jobs, j.reshard)
		}
	}
	s.work.Unlock()
	for _, r := range jobs {
		out = append(out, r.doc(s.node.Dispatcher.Host))
	}
	return out
}

// secondsLeft estimates how long copying will take.
func (p *resharding) secondsLeft() int64 {
	if p.bytes <= 0 || p.approxBytes <= p.bytes || !slices.ContainsFunc(p.donors, func(d donation) bool { return !d.copied }) {
		return 0
	}
	took := max(time.Now().UnixMilli()-p.since, 0)
	return int64(float64(took) / 1000 * float64(p.approxBytes-p.bytes) / float64(p.bytes))
}

// doc is the operation as currentOp shows it. (Manual: reshardCollection, "Monitor")
func (r *resharder) doc(host string) bson.Doc {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := &r.at
	state := "cloning"
	switch {
	case r.err != nil:
		state = "error"
	case p.done:
		state = "strict-consistency"
	case !slices.ContainsFunc(p.donors, func(d donation) bool { return !d.copied }):
		state = "applying"
	}
	took := max(time.Now().UnixMilli()-p.since, 0) / 1000
	b := new(bson.Builder).String("type", "op").String("host", host).String("desc", "ReshardingRecipientService "+r.to.Coll[len(schema.ReshardingPrefix):]).String("op", "command").String("ns", p.ns)
	b.OpenDoc("originatingCommand").String("reshardCollection", p.ns)
	if r.key != nil {
		b.Doc("key", r.key.Pattern())
	}
	b.Bool("unique", false).OpenDoc("collation").String("locale", "simple").Close().Close()
	b.Bool("active", true).Int64("secs_running", took).Int64("totalOperationTimeElapsedSecs", took).Int64("remainingOperationTimeEstimatedSecs", p.secondsLeft())
	b.Int64("approxDocumentsToCopy", p.approxDocuments).Int64("documentsCopied", p.documents).Int64("approxBytesToCopy", p.approxBytes).Int64("bytesCopied", p.bytes)
	return b.String("recipientState", state).String("opStatus", "running").Finish()
}
