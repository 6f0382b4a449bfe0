package shardsvr

import (
	"context"
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// indexes answers {_shardsvrIndexes: ns, command} with the reply of the command;
// {…, drop: [name, …]}, which undoes a createIndexes, drops those of the indexes that are
// there.
func (r *request) indexes(ctx context.Context) error {
	if drop := r.body.Lookup("drop"); drop.Type == bson.TypeArray {
		return r.dropIndexes(ctx, drop)
	}
	v := r.body.Lookup("command")
	if v.Type != bson.TypeDocument {
		return mongoerr.New(mongoerr.BadValue, "the request needs a command: %s", r.body)
	}
	switch name, _ := v.Doc().First(); name {
	case "createIndexes", "dropIndexes", "collMod":
	default:
		return mongoerr.New(mongoerr.BadValue, "the request cannot run %s", name)
	}
	reply, err := r.s.run(ctx, r.ns.DB, v.Doc())
	if err != nil {
		return err
	}
	for name, v := range reply.All() {
		if name != "ok" && name != "$clusterTime" && name != "operationTime" {
			r.reply.Value(name, v)
		}
	}
	return nil
}

func (r *request) dropIndexes(ctx context.Context, names bson.Value) error {
	_, err := r.s.cat.DropIndexes(ctx, r.ns, func(c *catalog.Collection) (picked []*catalog.Index, err error) {
		for name := range names.Doc().Values() {
			if ix := c.Index(name.Str()); ix != nil && !slices.Contains(picked, ix) {
				picked = append(picked, ix)
			}
		}
		return picked, nil
	})
	if mongoerr.Is(err, mongoerr.NamespaceNotFound) {
		return nil
	}
	return err
}
