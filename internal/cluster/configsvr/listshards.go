package configsvr

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/query/expr"
	"github.com/mayflydb/mayfly/internal/query/match"
)

// listShards lists the shards. (Manual: listShards.)
func (s *Server) listShards() *command.Command {
	return newCommand("ListShards", command.Any(""), s.runListShards, command.Object("filter"))
}

func (s *Server) runListShards(_ context.Context, op *command.Op) error {
	all, err := s.shards()
	if err != nil {
		return err
	}
	of := op.Args.Doc("filter")
	if of == nil {
		of = bson.Empty
	}
	filter, err := match.Parse(of, &match.Options{
		Expr: &expr.Options{NoClock: true}, Forbid: match.FeatureText | match.FeatureNear | match.FeatureJavaScript,
	})
	if err != nil {
		return err
	}
	b, n := op.Reply.OpenArray("shards"), 0
	for _, sh := range all {
		ok, err := filter.Match(sh.doc)
		if err != nil {
			return err
		}
		if ok {
			b.Doc(bson.Index(n), sh.doc)
			n++
		}
	}
	b.Close()
	return nil
}
