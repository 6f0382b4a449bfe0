package configsvr

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/cluster/step"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// removeShard starts to drain a shard, reports progress, and finally removes the shard.
// (Manual: removeShard.)
func (s *Server) removeShard() *command.Command {
	return newCommand("RemoveShard", command.String(""), s.runRemoveShard)
}

func (s *Server) runRemoveShard(ctx context.Context, op *command.Op) error {
	id, err := notConfig(op, "transitionToDedicatedConfigServer")
	if err != nil {
		return err
	}
	return s.stepRemoval(ctx, op, id)
}

// stepRemoval makes the next step of a removal: the first call starts to drain, further ones
// report what is left, and the one that finds nothing left removes the shard.
func (s *Server) stepRemoval(ctx context.Context, op *command.Op, id string) error {
	started, has, err := s.startDraining(ctx, id)
	if err != nil {
		return err
	}
	state := ongoing
	switch {
	case started:
		state = drainingStarted
	case has.nothing():
		if err := s.finishRemove(ctx, id); err != nil {
			return err
		}
		state = removed
	}
	has.report(op.Reply, state, id)
	return nil
}

// commitShardRemoval removes a shard that has been drained. (Manual, from 8.3 on:
// commitShardRemoval.)
func (s *Server) commitShardRemoval() *command.Command {
	return newCommand("CommitShardRemoval", command.String(""), s.runCommitShardRemoval)
}

func (s *Server) runCommitShardRemoval(ctx context.Context, op *command.Op) error {
	id, err := notConfig(op, "commitTransitionToDedicatedConfigServer")
	if err != nil {
		return err
	}
	return s.commitRemoval(ctx, id, "shardDrainingStatus")
}

// commitRemoval removes a shard that has been drained. status is the command that says how
// far it is. Errors: 20, 70, 117.
func (s *Server) commitRemoval(ctx context.Context, id, status string) error {
	err := s.read(func() error {
		has, err := s.leftWhileDraining(id)
		if err == nil && !has.nothing() {
			err = mongoerr.New(mongoerr.IllegalOperation, "The shard %s isn't completely drained. Please use the %s command to check the draining status", id, status)
		}
		return err
	})
	if err != nil {
		return err
	}
	return s.finishRemove(ctx, id)
}

// finishRemove removes a drained shard from the cluster.
func (s *Server) finishRemove(ctx context.Context, id string) error {
	t, err := s.term()
	if err != nil {
		return err
	}
	_, err = s.operate(ctx, plan{kind: step.KindRemoveShard, ns: id, claim: shardListClaim(id, nil), decide: func() (decision, error) {
		sh, err := s.shard(id)
		if err != nil {
			return decision{}, err
		}
		has, err := s.leftWhileDraining(id)
		if err == nil && (!has.nothing() || t.uses(id)) {
			err = mongoerr.New(mongoerr.ConflictingOperationInProgress, "shard %s takes part in an operation", id)
		}
		if err != nil {
			return decision{}, err
		}
		args, err := s.shardIdentity(id, sh.Host)
		return decision{args: args}, err
	}})
	return err
}

func (s *Server) commitRemoveShard(o *step.Operation, _ step.Answers) (commitment, error) {
	id := text(o.Args, "shard")
	has, err := s.leftWhileDraining(id)
	if err == nil && !has.nothing() {
		err = mongoerr.New(mongoerr.ConflictingOperationInProgress, "shard %s has received data meanwhile", id)
	}
	return commitment{writes: []write{remove(shards, bson.String(id)), s.logged("removeShard", "", new(bson.Builder).String("shard", id).Finish())}}, err
}
