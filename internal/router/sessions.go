package router

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/node"
	"github.com/mayflydb/mayfly/internal/query/pipeline"
)

// sessions joins the sessions that all servers list with those of the router: each once, with its
// latest use. (Manual: $listSessions.)
func (a *aggregation) sessions(ctx context.Context, all []*remote) (*pipeline.List, error) {
	defer closeAll(all)
	_, arg := a.list[0].Doc().First()
	out, err := node.ListSessions(a.op, "$listSessions", document(arg))
	if err != nil {
		return nil, err
	}
	at := map[string]int{}
	for i, d := range out.Docs {
		at[string(d.Lookup("_id").Data)] = i
	}
	for _, m := range all {
		for {
			d, err := m.next(ctx)
			if err != nil {
				return nil, err
			}
			if d == nil {
				break
			}
			id := string(d.Lookup("_id").Data)
			i, known := at[id]
			switch {
			case !known:
				at[id] = len(out.Docs)
				out.Docs = append(out.Docs, d.Clone())
			case bson.Compare(d.Lookup("lastUse"), out.Docs[i].Lookup("lastUse")) > 0:
				out.Docs[i] = d.Clone()
			}
		}
	}
	return out, nil
}
