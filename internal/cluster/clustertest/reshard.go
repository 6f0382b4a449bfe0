package clustertest

import (
	"maps"
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/shard"
)

// Receiving is a collection that gets another shard key, on a recipient.
type Receiving struct {
	Operation int64
	Source    string // the donors' collection
	Donors    []string
	Ranges    []shard.Range
	Copied    map[string]uint64 // positions of the donors that were copied
	Done      bool              // nothing more is read of the donors
}

func init() {
	maps.Copy(commands, map[string]func(*request) error{
		"_shardsvrReshard": (*request).reshard, "_shardsvrReshardSample": (*request).reshardSample, "_shardsvrReshardReceive": (*request).reshardReceive,
		"_shardsvrReshardReceived": (*request).reshardReceived, "_shardsvrReshardOwn": (*request).reshardOwn, "_shardsvrReshardAbort": (*request).reshardAbort,
	})
}

func (r *request) reshard() error {
	c, err := r.collection()
	if err != nil {
		return err
	}
	ready := len(c.Hidden) == 0 && (c.Blocked == nil || c.Blocked.Operation == r.operation)
	r.reply.Bool("ready", ready).Int64("documents", int64(len(c.Docs))).Int64("bytes", int64(len(c.Docs))*c.Bytes).OpenDoc("options").Close().OpenArray("indexes").Close()
	return nil
}

func (r *request) reshardSample() error {
	c, err := r.collection()
	if err != nil {
		return err
	}
	key, err := shard.ParseKey(r.body.Lookup("key").Doc())
	if err != nil {
		return err
	}
	r.reply.OpenArray("keys")
	for i, d := range c.Docs {
		b, err := key.BoundOf(d)
		if err != nil {
			return err
		}
		r.reply.Doc(bson.Index(i), key.Doc(b))
	}
	r.reply.Close()
	return nil
}

func (r *request) reshardReceive() error {
	v, err := r.shardVersion()
	if err != nil {
		return err
	}
	key, err := shard.ParseKey(r.body.Lookup("key").Doc())
	if err != nil {
		return err
	}
	ranges, err := key.ParseRanges(r.body.Lookup("ranges"))
	if err != nil {
		return err
	}
	to := r.text("to")
	if c := r.s.Collections[to]; c != nil && c.UUID == r.text("uuid") && c.Receiving.Operation == r.operation {
		return nil
	}
	in := &Receiving{Operation: r.operation, Source: r.ns, Ranges: ranges}
	for d := range r.body.Lookup("donors").Doc().Values() {
		in.Donors = append(in.Donors, text(d.Doc().Lookup("shard")))
	}
	r.s.Collections[to] = &Collection{UUID: r.text("uuid"), Sharded: true, Key: key, Version: v, Bytes: 1, Receiving: in, Hidden: []Hidden{{Range: key.Whole(), Operation: r.operation}}}
	return nil
}

func (r *request) reshardReceived() error {
	to := r.text("to")
	c := r.s.Collections[to]
	if c == nil || c.Receiving == nil {
		return mongoerr.New(mongoerr.IllegalOperation, "the collection is not received")
	}
	until := r.body.Lookup("until")
	if r.s.Copies && !c.Receiving.Done {
		r.s.change(to, func(c *Collection) {
			c.receive(r.s.Peer)
			c.Receiving.Done = until.Type == bson.TypeDocument
		})
		c = r.s.Collections[to]
	}
	r.reply.Int64("behind", 0).Int64("documents", int64(len(c.Docs)))
	return nil
}

// receive copies what the donors have.
func (c *Collection) receive(peer func(string) *Shard) {
	in := *c.Receiving
	in.Copied, c.Docs = map[string]uint64{}, nil
	for _, id := range in.Donors {
		donor := peer(id)
		from := donor.Collections[in.Source]
		if from == nil {
			continue
		}
		for _, d := range from.Docs {
			if slices.ContainsFunc(in.Ranges, func(r shard.Range) bool { return c.in(r, d) }) && !from.hidden(d) {
				c.Docs = append(c.Docs, d)
			}
		}
		in.Copied[id] = donor.Position(in.Source)
	}
	c.Receiving = &in
}

func (r *request) reshardOwn() error {
	to := r.text("to")
	c := r.s.Collections[to]
	if c == nil {
		return nil // executed before
	}
	v, err := r.shardVersion()
	if err != nil {
		return err
	}
	shown := *c
	shown.Version, shown.Hidden, shown.Receiving = v, nil, nil
	delete(r.s.Collections, to)
	r.s.Collections[r.ns] = &shown
	return nil
}

func (r *request) reshardAbort() error {
	delete(r.s.Collections, r.text("to"))
	return r.abort()
}
