package configsvr

import (
	"context"
	"slices"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/cluster/step"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/node"
)

// What holds for the whole cluster is a document of config.*, here and on each shard, where it
// is in effect as on a set that is no shard (step.KindSettings).

// setUserWriteBlockMode blocks the writes of clients to their databases in the whole cluster,
// or ends that. (Manual: database command setUserWriteBlockMode.)
func (s *Server) setUserWriteBlockMode() *command.Command {
	return newCommand("SetUserWriteBlockMode", command.Any(""), s.runSetUserWriteBlockMode,
		command.Bool("global").Required(), command.Enum("reason", command.BlockReasons...))
}

func (s *Server) runSetUserWriteBlockMode(ctx context.Context, op *command.Op) error {
	block, reason := op.Args.Bool("global"), op.Args.Value("reason")
	return s.settle(ctx, func() (bson.Doc, []write, error) {
		stored, err := s.stored(node.BlockNamespace.Coll, node.BlockID)
		if err != nil {
			return nil, nil, err
		}
		if stored != nil {
			if err := node.SameBlockReason(stored, reason, block); err != nil {
				return nil, nil, err
			}
		}
		if !block {
			return setting(node.BlockNamespace.Coll, node.BlockID, nil), nil, nil
		}
		doc := node.BlockDoc(reason, true)
		if stored.Lookup("blockUserWrites").Truthy() {
			return setting(node.BlockNamespace.Coll, node.BlockID, doc), nil, nil
		}
		// From now on no definition is changed.
		return setting(node.BlockNamespace.Coll, node.BlockID, doc), []write{put(node.BlockNamespace.Coll, node.BlockDoc(reason, false))}, nil
	})
}

// setClusterParameter sets a parameter of the cluster. (Manual: database command
// setClusterParameter.)
func (s *Server) setClusterParameter() *command.Command {
	return newCommand("SetClusterParameter", command.Object(""), s.runSetClusterParameter)
}

func (s *Server) runSetClusterParameter(ctx context.Context, op *command.Op) error {
	name, fields, err := node.ParseClusterParameter(op.Args.Doc(clientsName(op.Command)))
	if err != nil {
		return err
	}
	return s.settle(ctx, func() (bson.Doc, []write, error) {
		return setting(node.ParametersNamespace.Coll, bson.String(name), node.ClusterParameter(name, fields, s.ClusterTime())), nil, nil
	})
}

// Retain has all shards keep their logs for a time, also those that are added later: when it
// returns they do.
func (s *Server) Retain(ctx context.Context, d time.Duration) error {
	minutes := int64(d / time.Minute)
	is, err := s.stored(node.ParametersNamespace.Coll, bson.String(node.FeedRetention))
	if err != nil || bson.ClampToInt64(is.Lookup("minutes")) == minutes {
		return err
	}
	return s.settle(ctx, func() (bson.Doc, []write, error) {
		doc := new(bson.Builder).String("_id", node.FeedRetention).Int64("minutes", minutes).Finish()
		return setting(node.ParametersNamespace.Coll, bson.String(node.FeedRetention), doc), nil, nil
	})
}

// setting is a setting as step.KindSettings has it. is is nil for none.
func setting(of string, id bson.Value, is bson.Doc) bson.Doc {
	b := new(bson.Builder).String("of", of).Value("id", id)
	if is != nil {
		b.Doc("is", is)
	}
	return b.Finish()
}

// settle changes a setting on all shards, or on none. decide returns the setting, and what is
// written here when the operation begins: then it ends and awaits what changes definitions. An
// operation whose client goes away is undone, if it can be.
func (s *Server) settle(ctx context.Context, decide func() (bson.Doc, []write, error)) error {
	t, err := s.term()
	if err != nil {
		return err
	}
	var began *running
	_, err = s.operateWith(ctx, plan{kind: step.KindSettings, ns: "config", claim: claim{alone: []string{shardList}}, decide: func() (decision, error) {
		set, first, err := decide()
		if err != nil {
			return decision{}, err
		}
		all, err := s.shards()
		if err != nil {
			return decision{}, err
		}
		of, id := text(set, "of"), set.Lookup("id")
		before, err := s.stored(of, id)
		if err != nil {
			return decision{}, err
		}
		b := new(bson.Builder).Strings("shards", ids(all)...).OpenArray("settings").Doc("0", set).Close().OpenArray("before").Doc("0", setting(of, id, before)).Close()
		if len(first) > 0 {
			b.Bool("ddl", true)
		}
		return decision{args: b.Finish(), commitment: commitment{writes: first, after: s.settingsChanged}}, nil
	}}, func(r *running) { began = r })
	if err != nil && began != nil && ctx.Err() != nil {
		t.cancel(began.op.Number, context.Cause(ctx))
	}
	return err
}

// settingWrites are the writes of a list of settings.
func settingWrites(list bson.Value) (writes []write) {
	for v := range list.Doc().Values() {
		of, id, is := text(v.Doc(), "of"), v.Doc().Lookup("id"), v.Doc().Lookup("is")
		if is.Type == bson.TypeDocument {
			writes = append(writes, put(of, is.Doc()))
		} else {
			writes = append(writes, remove(of, id))
		}
	}
	return writes
}

func (s *Server) commitSettings(o *step.Operation, _ step.Answers) (commitment, error) {
	return commitment{writes: settingWrites(o.Args.Lookup("settings")), after: s.settingsChanged}, nil
}

// restoreSettings writes what was before an operation that is undone.
func (s *Server) restoreSettings(ctx context.Context, o *step.Operation, _ step.Answers) (bson.Doc, error) {
	err := s.change(ctx, func() ([]write, error) { return settingWrites(o.Args.Lookup("before")), nil })
	s.settingsChanged()
	return bson.Empty, err
}

// settingsChanged has this member go by the settings that are stored.
func (s *Server) settingsChanged() {
	if s.SettingsChanged != nil {
		s.SettingsChanged()
	}
}

// definesFor are the kinds of operations that do what clients say about what their collections
// are. They are not moves, nor reshardings and unshardings, which go on where user writes are blocked.
var definesFor = []string{
	step.KindShardCollection, step.KindDrop, step.KindDropDatabase, step.KindCreateDatabase, step.KindRename, step.KindRenameUnsharded, step.KindRefine, step.KindIndexes,
}

// awaitDDL waits until what changes definitions and began before has ended. Indexes that are
// being built are not made.
func (s *Server) awaitDDL(ctx context.Context, o *step.Operation, _ step.Answers) (bson.Doc, error) {
	t, err := s.term()
	if err != nil {
		return nil, err
	}
	for _, r := range t.before(o.Number) {
		if !slices.Contains(definesFor, r.op.Kind) {
			continue
		}
		if r.op.Kind == step.KindIndexes {
			t.cancel(r.op.Number, mongoerr.New(mongoerr.UserWritesBlocked, "User writes are being blocked"))
		}
		select {
		case <-r.done:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return bson.Empty, nil
}

// before are the operations in progress that began before one.
func (t *term) before(number int64) (all []*running) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for n, r := range t.running {
		if n < number {
			all = append(all, r)
		}
	}
	return all
}

// clusterSettings are all settings of the cluster, as a shard is told them: also those that are
// none, as it may have been part of another cluster, or of none.
func (s *Server) clusterSettings() (bson.Value, error) {
	b := new(bson.Builder).OpenArray("all")
	n := 0
	add := func(of string, id bson.Value) error {
		is, err := s.stored(of, id)
		if err == nil {
			b.Doc(bson.Index(n), setting(of, id, is))
			n++
		}
		return err
	}
	if err := add(node.BlockNamespace.Coll, node.BlockID); err != nil {
		return bson.Value{}, err
	}
	for _, name := range append(node.ClusterParameterNames(), node.FeedRetention) {
		if err := add(node.ParametersNamespace.Coll, bson.String(name)); err != nil {
			return bson.Value{}, err
		}
	}
	return b.Close().Finish().Lookup("all"), nil
}
