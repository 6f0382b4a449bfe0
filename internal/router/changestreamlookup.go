package router

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/changestream"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/match"
	"github.com/mayflydb/mayfly/internal/query/pipeline"
)

// filtersBefore counts the first stages that are filters which do not read fullDocument: they
// run on the shards, before it is looked up.
func filtersBefore(stages []pipeline.Stage) (n int) {
	for _, s := range stages {
		m, ok := s.(*pipeline.Match)
		if !ok {
			break
		}
		d := match.DependsOn(m.Filter.Root())
		if d.Whole || d.Random || slices.ContainsFunc(d.Paths, func(p string) bool {
			first, _, _ := strings.Cut(p, ".")
			return first == "fullDocument"
		}) {
			break
		}
		n++
	}
	return n
}

// openLookup puts the lookup and what is behind it over the stream: the stages from a number on.
func (c *streamCursor) openLookup(a *aggregation, parsed parsedPipeline, o *changestream.Options, from int) (err error) {
	c.account.Open(a.r.Memory)
	parsed.scope.env.Memory = &c.account
	rest := *parsed.Pipeline
	rest.Stages = parsed.Stages[from:]
	if c.splits = parsed.SplitsEvents(); c.splits && o.Resume() != nil {
		c.skip = o.Resume().Fragment + 1
	}
	run := &pipeline.Run{Env: parsed.scope.env, World: &world{a, parsed.scope}, Inside: new(pipeline.Examined)}
	out, err := rest.Optimize().Open(&lookup{stream: c.s}, run)
	if err == nil {
		c.out = watching{out, run.Env}
	}
	return err
}

// lookup gives the updates of a stream the documents as they are now.
type lookup struct{ *stream }

// Next implements pipeline.Iterator.
func (l *lookup) Next(ctx context.Context) (bson.Doc, error) {
	d, err := l.stream.Next(ctx)
	if d == nil || err != nil {
		return nil, err
	}
	if v := d.Lookup("operationType"); v.Type != bson.TypeString || v.Str() != "update" {
		return d, nil
	}
	doc, err := l.current(ctx, d)
	if err != nil {
		return nil, err
	}
	b := new(bson.Builder)
	for name, v := range d.All() {
		if name == "ns" {
			if doc == nil {
				b.Null("fullDocument")
			} else {
				b.Doc("fullDocument", doc)
			}
		}
		b.Value(name, v)
	}
	return b.Finish(), nil
}

// current returns the document of an update, from whoever owns it now, in a state not before
// the event; nil if there is none, or the collection was dropped.
func (l *lookup) current(ctx context.Context, d bson.Doc) (bson.Doc, error) {
	t, err := changestream.ParseToken(l.last)
	if err != nil {
		return nil, err
	}
	ns := document(d.Lookup("ns"))
	db, coll := ns.Lookup("db").Str(), ns.Lookup("coll").Str()
	for range maxRenames {
		doc, err := l.find(ctx, db, coll, t, document(d.Lookup("documentKey")))
		if !mongoerr.Is(err, mongoerr.CollectionUUIDMismatch) {
			return doc, err
		}
		var e *mongoerr.Error
		if coll = ""; errors.As(err, &e) && e.Extra != nil {
			if v := bson.Doc(e.Extra).Lookup("actualCollection"); v.Type == bson.TypeString {
				coll = v.Str()
			}
		}
		if coll == "" {
			return nil, nil
		}
	}
	return nil, nil
}

// maxRenames bounds how often a lookup follows a collection that is renamed.
const maxRenames = 5

// find looks the document of an event up by its key.
func (l *lookup) find(ctx context.Context, db, coll string, t *changestream.Token, key bson.Doc) (found bson.Doc, err error) {
	b := new(bson.Builder)
	for name, v := range key.All() {
		b.OpenDoc(name).Value("$eq", v).Close()
	}
	filter := b.Finish()
	op := &command.Op{Dispatcher: l.r.Dispatcher}
	err = l.r.byRoute(ctx, nil, db+"."+coll, func(rt *route) error {
		found = nil
		shards, err := rt.targets(op, filter, nil, nil)
		if err != nil {
			return err
		}
		all, err := each(shards, func(name string) (bson.Doc, error) {
			b := new(bson.Builder).String("find", coll).Doc("filter", filter).Int32("limit", 1).Bool("singleBatch", true).Binary("collectionUUID", 4, t.UUID[:])
			b.OpenDoc("readConcern").String("level", "majority").Timestamp("afterClusterTime", t.Time).Close()
			rt.appendVersions(b, name)
			a, err := l.r.ask(ctx, op, question{shard: name, db: db, body: b.Finish(), reads: true})
			if err != nil {
				return nil, err
			}
			if docs := documents(document(a.Reply.Lookup("cursor")).Lookup("firstBatch")); len(docs) > 0 {
				return docs[0], nil
			}
			return nil, nil
		})
		for _, d := range all {
			if d != nil {
				found = d
			}
		}
		return err
	})
	return found, err
}
