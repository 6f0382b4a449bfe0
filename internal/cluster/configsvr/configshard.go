package configsvr

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// configShard is the id of the config servers as a shard.
const configShard = "config"

// transitionFromDedicatedConfigServer makes the config servers a shard, too. It changes
// nothing where they are one. (Manual: transitionFromDedicatedConfigServer.)
func (s *Server) transitionFromDedicatedConfigServer() *command.Command {
	return newCommand("TransitionFromDedicatedConfigServer", command.Any(""), func(ctx context.Context, op *command.Op) error {
		at, err := client.ParseSetString(s.ConfigDB())
		if err != nil {
			return err
		}
		has, host, err := s.identify(ctx, at, configShard)
		if err != nil {
			return err
		}
		_, err = s.addAs(ctx, at, host, configShard, has)
		return err
	})
}

// transitionToDedicatedConfigServer makes the next step to config servers that are no shard:
// it starts to drain them, reports what is left, or ends it. (Manual:
// transitionToDedicatedConfigServer.)
func (s *Server) transitionToDedicatedConfigServer() *command.Command {
	return newCommand("TransitionToDedicatedConfigServer", command.Any(""), func(ctx context.Context, op *command.Op) error {
		if sharding, err := s.isConfigShard(); err != nil || !sharding {
			new(left).report(op.Reply, removed, configShard)
			return err
		}
		return s.stepRemoval(ctx, op, configShard)
	})
}

// isConfigShard reports whether the config servers are a shard.
func (s *Server) isConfigShard() (bool, error) {
	d, err := s.stored(shards, bson.String(configShard))
	return d != nil, err
}

// dedicatedSteps are the steps of transitionToDedicatedConfigServer, each as a command.
// (Manual, from 8.3 on: startTransitionToDedicatedConfigServer and the like.)
func (s *Server) dedicatedSteps() []*command.Command {
	return []*command.Command{
		newCommand("StartTransitionToDedicatedConfigServer", command.Any(""), func(ctx context.Context, _ *command.Op) error {
			_, _, err := s.startDraining(ctx, configShard)
			return err
		}),
		newCommand("StopTransitionToDedicatedConfigServer", command.Any(""), func(ctx context.Context, _ *command.Op) error {
			return s.stopDraining(ctx, configShard)
		}),
		newCommand("GetTransitionToDedicatedConfigServerStatus", command.Any(""), func(_ context.Context, op *command.Op) error {
			return s.read(func() error { return s.reportDraining(op.Reply, configShard) })
		}),
		newCommand("CommitTransitionToDedicatedConfigServer", command.Any(""), func(ctx context.Context, _ *command.Op) error {
			return s.commitRemoval(ctx, configShard, "getTransitionToDedicatedConfigServerStatus")
		}),
	}
}

// notConfig refuses the config servers where a command is about shards that are removed.
// instead is the command that is about them. Error 20.
func notConfig(op *command.Op, instead string) (id string, err error) {
	if id = value(op); id == configShard {
		err = mongoerr.New(mongoerr.IllegalOperation, "Cannot run %s on the config server; use %s", clientsName(op.Command), instead)
	}
	return id, err
}
