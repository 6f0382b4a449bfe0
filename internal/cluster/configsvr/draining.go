package configsvr

import (
	"context"
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/shard"
)

// drainState is how far a shard is on its way out of the cluster.
type drainState string

// The states, as mongod names them.
const (
	drainingStarted  drainState = "started"
	ongoing          drainState = "ongoing"
	drainingComplete drainState = "drainingComplete"
	removed          drainState = "completed"
)

var drainMessages = map[drainState]string{
	drainingStarted: "draining started successfully", ongoing: "draining ongoing",
	drainingComplete: "draining completed successfully", removed: "removeshard completed successfully",
}

const drainingNote = "you need to call moveCollection for collectionsToMove and afterwards movePrimary for the dbsToMove"

// left is what a draining shard still has.
type left struct {
	chunks, jumbo int64
	databases     []string
	collections   []string // not sharded, and on a shard of their own choice
}

func (l *left) nothing() bool {
	return l.chunks == 0 && len(l.databases) == 0 && len(l.collections) == 0
}

// report writes the state of a shard, and what it still has if that matters in this state.
func (l *left) report(r *bson.Builder, state drainState, id string) {
	r.String("msg", drainMessages[state]).String("state", string(state))
	switch state {
	case drainingComplete, removed:
		r.String("shard", id)
		return
	case drainingStarted:
		r.String("shard", id)
	case ongoing:
		r.OpenDoc("remaining").Int64("chunks", l.chunks).Int64("collectionsToMove", int64(len(l.collections))).
			Int64("dbs", int64(len(l.databases))).Int64("jumboChunks", l.jumbo).Close().String("shard", id)
	}
	r.String("note", drainingNote).Strings("dbsToMove", l.databases...).Strings("collectionsToMove", l.collections...)
}

// startShardDraining starts to drain a shard: the balancer moves its chunks to others. It
// changes nothing for one that drains. (Manual, from 8.3 on: startShardDraining.)
func (s *Server) startShardDraining() *command.Command {
	return newCommand("StartShardDraining", command.String(""), func(ctx context.Context, op *command.Op) error {
		id, err := notConfig(op, "startTransitionToDedicatedConfigServer")
		if err == nil {
			_, _, err = s.startDraining(ctx, id)
		}
		return err
	})
}

// startDraining makes a shard drain. started is false if it does already. has is what it has.
// Errors: 20, 70, 117, 163.
func (s *Server) startDraining(ctx context.Context, id string) (started bool, has left, err error) {
	err = s.change(ctx, func() (writes []write, err error) {
		sh, err := s.shard(id)
		if err != nil {
			return nil, err
		}
		if started = !sh.Draining; started {
			if err := s.checkDrain(sh); err != nil {
				return nil, err
			}
			writes = []write{put(shards, with(sh.doc, field{"draining", bson.Bool(true)})),
				s.logged("removeShard.start", "", new(bson.Builder).String("shard", id).Finish())}
		}
		has, err = s.leftOn(id)
		return writes, err
	})
	return started, has, err
}

// checkDrain checks whether a shard may be drained. Errors: 20, 117, 163.
func (s *Server) checkDrain(sh shardDoc) error {
	all, err := s.shards()
	if err != nil {
		return err
	}
	if i := slices.IndexFunc(all, func(o shardDoc) bool { return o.Draining }); i >= 0 {
		return mongoerr.New(mongoerr.ConflictingOperationInProgress, "Can't have more than one draining shard at a time: %s drains", all[i].ID)
	}
	if len(all) == 1 {
		return mongoerr.New(mongoerr.IllegalOperation, "Operation not allowed because it would remove the last shard")
	}
	for _, zone := range sh.Zones {
		ranges, err := s.zoneHasRanges(zone)
		if err != nil {
			return err
		}
		if err := shard.CanLeaveZone(sh.ID, zone, inZone(all, zone), ranges); err != nil {
			return err
		}
	}
	return nil
}

// stopShardDraining ends what startShardDraining or removeShard has started, as long as the
// shard has not been removed: it gets chunks again. What has left it stays where it is.
// (Manual, from 8.3 on: stopShardDraining.)
func (s *Server) stopShardDraining() *command.Command {
	return newCommand("StopShardDraining", command.String(""), func(ctx context.Context, op *command.Op) error {
		id, err := notConfig(op, "stopTransitionToDedicatedConfigServer")
		if err != nil {
			return err
		}
		return s.stopDraining(ctx, id)
	})
}

func (s *Server) stopDraining(ctx context.Context, id string) error {
	return s.change(ctx, func() ([]write, error) {
		sh, err := s.shard(id)
		if err != nil || !sh.Draining {
			return nil, err
		}
		return []write{put(shards, with(sh.doc, field{"draining", bson.Value{}})),
			s.logged("stopShardDraining", "", new(bson.Builder).String("shard", id).Finish())}, nil
	})
}

// shardDrainingStatus reports what a draining shard still has. (Manual, from 8.3 on:
// shardDrainingStatus.)
func (s *Server) shardDrainingStatus() *command.Command {
	return newCommand("ShardDrainingStatus", command.Any(""), s.runShardDrainingStatus)
}

// runShardDrainingStatus takes the id of a shard, or 1 for the one that drains: without any,
// the reply has nothing. (mongosh: sh.shardDrainingStatus without an id.)
func (s *Server) runShardDrainingStatus(_ context.Context, op *command.Op) error {
	_, v := op.Body.First()
	n, any := bson.ExactInt64(v)
	if v.Type != bson.TypeString && (!any || n != 1) {
		return mongoerr.New(mongoerr.TypeMismatch, "shardDrainingStatus takes the id of a shard, or 1, found %s", v)
	}
	id := ""
	if v.Type == bson.TypeString {
		var err error
		if id, err = notConfig(op, "getTransitionToDedicatedConfigServerStatus"); err != nil {
			return err
		}
	}
	return s.read(func() error {
		if v.Type != bson.TypeString {
			all, err := s.shards()
			i := slices.IndexFunc(all, func(o shardDoc) bool { return o.Draining })
			if err != nil || i < 0 {
				return err
			}
			id = all[i].ID
		}
		return s.reportDraining(op.Reply, id)
	})
}

// reportDraining writes how far a draining shard is. The caller holds s.mu.
// Errors: 70, 117.
func (s *Server) reportDraining(r *bson.Builder, id string) error {
	has, err := s.leftWhileDraining(id)
	if err != nil {
		return err
	}
	state := ongoing
	if has.nothing() {
		state = drainingComplete
	}
	has.report(r, state, id)
	return nil
}

// leftWhileDraining returns what a draining shard has. The caller holds s.mu.
// Errors: 70, 117 if it does not drain.
func (s *Server) leftWhileDraining(id string) (left, error) {
	sh, err := s.shard(id)
	if err == nil && !sh.Draining {
		err = mongoerr.New(mongoerr.ConflictingOperationInProgress, "Shard %s is not draining", id)
	}
	if err != nil {
		return left{}, err
	}
	return s.leftOn(id)
}

// leftOn returns what a shard has. The caller holds s.mu.
func (s *Server) leftOn(id string) (out left, err error) {
	all, err := s.allTracked()
	if err != nil {
		return out, err
	}
	for i := range all {
		m, err := s.chunkMap(&all[i])
		if err != nil {
			return out, err
		}
		if all[i].Unsplittable {
			if m.ChunksOn(id) > 0 {
				out.collections = append(out.collections, all[i].Namespace)
			}
			continue
		}
		out.chunks += int64(m.ChunksOn(id))
		for c := range m.Chunks() {
			if c.Shard == id && c.Jumbo {
				out.jumbo++
			}
		}
	}
	err = s.each(databases, func(d bson.Doc) error {
		if text(d, "primary") == id {
			out.databases = append(out.databases, parseDatabase(d.Clone()).Name)
		}
		return nil
	})
	return out, err
}
