package router

import (
	"context"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/changestream"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/command"
)

// containerFeed is what has happened in a collection until it was opened: the change stream of
// a collection, read to a time that all shards have passed.
type containerFeed struct {
	s     *stream
	until uint64
}

// Feed implements cosmos.Cluster.
func (r *Router) Feed(ctx context.Context, ns string, after bson.Doc, match bson.Doc) (changestream.Feed, error) {
	db, coll, _ := strings.Cut(ns, ".")
	op := &command.Op{DB: db, Body: new(bson.Builder).String("aggregate", coll).Finish()}
	if after != nil { // else newStream asks all shards for their time
		if err := r.askTimes(ctx, op); err != nil {
			return nil, err
		}
	}
	f := &containerFeed{until: r.clock.Now()}
	b := new(bson.Builder).String("fullDocument", "whenAvailable").String("fullDocumentBeforeChange", "whenAvailable")
	if after != nil {
		b.Doc("startAfter", after)
	}
	arg := b.Finish()
	o, err := changestream.ParseOptions(arg)
	if err != nil {
		return nil, err
	}
	var stages []bson.Value
	if match != nil {
		stages = append(stages, bson.Document(new(bson.Builder).Doc("$match", match).Finish()))
	}
	f.s, err = r.newStream(ctx, &aggregation{r: r, op: op, db: db, coll: coll, shown: ns}, arg, o, stages)
	if err != nil {
		return nil, err
	}
	if after == nil {
		f.until = timeOf(f.s.last)
	}
	if err := f.s.wait(f.until); err != nil {
		f.s.Close()
		return nil, err
	}
	return f, nil
}

// askTimes has the router hear the time of each server of the cluster.
func (r *Router) askTimes(ctx context.Context, op *command.Op) error {
	names, err := r.servers(ctx)
	if err != nil {
		return err
	}
	_, err = each(names, func(name string) (client.Answer, error) {
		return r.ask(ctx, op, question{shard: name, db: "admin", body: pingCall, reads: true})
	})
	return err
}

// Next implements changestream.Feed.
func (f *containerFeed) Next(ctx context.Context) (bson.Doc, error) {
	for {
		d, err := f.s.Next(ctx)
		if d != nil || err != nil || timeOf(f.s.mark()) >= f.until {
			return d, err
		}
		f.s.Await(ctx)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
}

// Token implements changestream.Feed.
func (f *containerFeed) Token() bson.Doc { return f.s.mark() }

// Close implements changestream.Feed.
func (f *containerFeed) Close() { f.s.Close() }
