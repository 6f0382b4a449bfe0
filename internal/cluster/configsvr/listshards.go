package configsvr

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
)

// listShards lists the shards. (Manual: listShards.)
func (s *Server) listShards() *command.Command {
	return newCommand("ListShards", command.Any(""), s.runListShards)
}

func (s *Server) runListShards(_ context.Context, op *command.Op) error {
	all, err := s.shards()
	if err != nil {
		return err
	}
	b := op.Reply.OpenArray("shards")
	for i, sh := range all {
		b.Doc(bson.Index(i), sh.doc)
	}
	b.Close()
	return nil
}
