package node

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/query/exec"
	"github.com/mayflydb/mayfly/internal/query/match"
	"github.com/mayflydb/mayfly/internal/query/pipeline"
	"github.com/mayflydb/mayfly/internal/schema"
)

// sampledNamespace is where the config servers of a cluster keep samples of queries.
var sampledNamespace = schema.Namespace{DB: "config", Coll: "sampledQueries"}

// sampledQueries lists the sampled queries, all or those on one namespace. A server that is no
// config server has none. (Manual: $listSampledQueries.)
func (w *world) sampledQueries(ctx context.Context, arg bson.Doc) (pipeline.Iterator, error) {
	c := w.n.Catalog.Lookup(sampledNamespace)
	if c == nil {
		return &pipeline.List{}, nil
	}
	q := &exec.Query{}
	var err error
	if q.Filter, err = match.Parse(new(bson.Builder).Value("ns", arg.Lookup("namespace")).Finish(), nil); err != nil {
		return nil, err
	}
	cur, err := w.n.Exec.Find(ctx, c, q)
	if err != nil {
		return nil, err
	}
	return cur, nil
}
