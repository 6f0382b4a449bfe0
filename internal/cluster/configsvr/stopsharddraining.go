package configsvr

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
)

// stopShardDraining ends what removeShard has started, as long as the shard has not been
// removed: it gets chunks again. What has left it stays where it is. (Manual, from 8.3 on:
// stopShardDraining.)
func (s *Server) stopShardDraining() *command.Command {
	return newCommand("StopShardDraining", command.String(""), s.runStopShardDraining)
}

func (s *Server) runStopShardDraining(ctx context.Context, op *command.Op) error {
	id := value(op)
	return s.change(ctx, func() ([]write, error) {
		sh, err := s.shard(id)
		if err != nil || !sh.Draining {
			return nil, err
		}
		return []write{put(shards, with(sh.doc, field{"draining", bson.Value{}})),
			s.logged("stopShardDraining", "", new(bson.Builder).String("shard", id).Finish())}, nil
	})
}
