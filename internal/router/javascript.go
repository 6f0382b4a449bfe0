package router

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/javascript"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

const (
	// storedFunctions is the collection of a database's stored functions.
	storedFunctions = "system.js"
	// maxStored is how many bytes of them an operation loads, as on a server.
	maxStored = 16 << 20
)

// javascript is what the JavaScript of the router's part of a pipeline shares; nil if the
// router runs none.
func (a *aggregation) javascript() *javascript.Session {
	if a.r.JavaScript == nil {
		return nil
	}
	s := &javascript.Session{Engine: a.r.JavaScript, Library: library{a}}
	if a.mapReduce != nil {
		s.MapReduce, s.Globals = true, a.mapReduce.globals
	}
	return s
}

// library is the stored functions of the database of a pipeline.
type library struct{ a *aggregation }

// Stored implements javascript.Library: it reads them from the primary shard.
func (l library) Stored(ctx context.Context) (docs []bson.Doc, err error) {
	a := l.a
	err = a.r.byRoute(ctx, a.op, a.db+"."+storedFunctions, func(rt *route) error {
		docs = nil
		if rt.primary == "" {
			return nil
		}
		other := &aggregation{r: a.r, op: a.op, db: a.db, coll: storedFunctions, mapReduce: new(mapReduction)}
		in, err := other.openShards(ctx, rt, rt.owners(), parts{})
		if err != nil {
			return err
		}
		defer in.Close()
		for bytes := 0; ; {
			d, err := in.Next(ctx)
			if d == nil || err != nil {
				return err
			}
			if bytes += len(d); bytes > maxStored {
				return mongoerr.New(mongoerr.ExceededMemoryLimit, "the stored functions of %s take more than %d bytes", a.db, maxStored)
			}
			docs = append(docs, d.Clone())
		}
	})
	return docs, err
}
