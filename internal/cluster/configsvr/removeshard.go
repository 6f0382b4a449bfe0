package configsvr

import (
	"context"
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/cluster/step"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/shard"
)

// removeShard starts to drain a shard, reports progress, and finally removes the shard.
// (Manual: removeShard.)
func (s *Server) removeShard() *command.Command {
	return newCommand("RemoveShard", command.String(""), s.runRemoveShard)
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

func (s *Server) runRemoveShard(ctx context.Context, op *command.Op) error {
	id := value(op)
	var started bool
	var has left
	err := s.change(ctx, func() (writes []write, err error) {
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
	if err != nil {
		return err
	}
	if !started && has.nothing() {
		if err := s.finishRemove(ctx, id); err != nil {
			return err
		}
		op.Reply.String("msg", "removeshard completed successfully").String("state", "completed").String("shard", id)
		return nil
	}
	r := op.Reply
	if started {
		r.String("msg", "draining started successfully").String("state", "started").String("shard", id)
	} else {
		r.String("msg", "draining ongoing").String("state", "ongoing").OpenDoc("remaining").Int64("chunks", has.chunks).Int64("collectionsToMove", int64(len(has.collections))).
			Int64("dbs", int64(len(has.databases))).Int64("jumboChunks", has.jumbo).Close()
	}
	r.String("note", drainingNote).Strings("dbsToMove", has.databases...).Strings("collectionsToMove", has.collections...)
	return nil
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

// finishRemove removes a drained shard from the cluster.
func (s *Server) finishRemove(ctx context.Context, id string) error {
	t, err := s.term()
	if err != nil {
		return err
	}
	_, err = s.operate(ctx, plan{kind: step.KindRemoveShard, ns: id, claim: claim{alone: []string{"shard " + id, "shard list"}}, decide: func() (decision, error) {
		sh, err := s.shard(id)
		if err != nil {
			return decision{}, err
		}
		has, err := s.leftOn(id)
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
	has, err := s.leftOn(id)
	if err == nil && !has.nothing() {
		err = mongoerr.New(mongoerr.ConflictingOperationInProgress, "shard %s has received data meanwhile", id)
	}
	return commitment{writes: []write{remove(shards, bson.String(id)), s.logged("removeShard", "", new(bson.Builder).String("shard", id).Finish())}}, err
}
