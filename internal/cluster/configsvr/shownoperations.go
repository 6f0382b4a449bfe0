package configsvr

import (
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/cluster/step"
	"github.com/mayflydb/mayfly/internal/command"
)

// shownAs is how currentOp shows the operations of a kind: desc as mongod's coordinators are
// called, and the client's command with those of the operation's arguments that tell what it does.
type shownAs struct {
	desc, command string
	arguments     []string
}

var shownOperations = map[string]shownAs{
	step.KindMove:            {"MoveRangeCoordinator", "moveRange", []string{"min", "max", "from", "to"}},
	step.KindShardCollection: {"CreateCollectionCoordinator", "shardCollection", []string{"key", "unique"}},
	step.KindCreateDatabase:  {"CreateDatabaseCoordinator", "enableSharding", []string{"primary"}},
	step.KindMovePrimary:     {"MovePrimaryCoordinator", "movePrimary", []string{"from", "to"}},
	step.KindDrop:            {"DropCollectionCoordinator", "drop", nil},
	step.KindDropDatabase:    {"DropDatabaseCoordinator", "dropDatabase", nil},
	step.KindRename:          {"RenameCollectionCoordinator", "renameCollection", []string{"to", "dropTarget"}},
	step.KindRenameUnsharded: {"RenameCollectionCoordinator", "renameCollection", []string{"to", "dropTarget"}},
	step.KindRefine:          {"RefineCollectionShardKeyCoordinator", "refineCollectionShardKey", []string{"key"}},
	step.KindUnshard:         {"UnshardCollectionCoordinator", "unshardCollection", nil},
	step.KindUntrack:         {"UntrackUnsplittableCollectionCoordinator", "untrackUnshardedCollection", nil},
	step.KindIndexes:         {"IndexesCoordinator", "", []string{"command"}},
	step.KindChunks:          {"ChunksCoordinator", "", nil},
	step.KindAddShard:        {"AddShardCoordinator", "addShard", []string{"host"}},
	step.KindRemoveShard:     {"RemoveShardCommitCoordinator", "removeShard", nil},
}

// Operations lists the operations in progress, as currentOp shows them. Moves are not among
// them: currentOp shows what can be killed by itself (show).
func (s *Server) Operations() (out []bson.Doc) {
	t, err := s.term()
	if err != nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range t.running {
		switch r.op.Kind {
		case step.KindReshard:
			out = append(out, r.progress.doc(s.Host, &r.op))
		case step.KindMove:
		default:
			out = append(out, r.doc(s.Host))
		}
	}
	return out
}

// doc is the operation as currentOp shows a coordinator of mongod: it has no opid, and cannot
// be killed.
func (r *running) doc(host string) bson.Doc {
	as, took := shownOperations[r.op.Kind], time.Since(r.progress.began)
	b := new(bson.Builder).String("type", "op").String("host", host).String("desc", as.desc).String("op", "command").String("ns", r.op.Namespace)
	b.Doc("command", as.of(&r.op)).Bool("active", true).Int64("secs_running", int64(took/time.Second)).Int64("microsecs_running", took.Microseconds())
	return b.String("currentPhase", step.Phase(r.phase.Load()).String()).Finish()
}

// of is the command that an operation came from.
func (a *shownAs) of(o *step.Operation) bson.Doc {
	if v := o.Args.Lookup("command"); a.command == "" && v.Type == bson.TypeDocument {
		return v.Doc()
	}
	b := new(bson.Builder)
	if a.command != "" {
		b.String(a.command, o.Namespace)
	}
	for _, name := range a.arguments {
		b.Value(name, o.Args.Lookup(name))
	}
	return b.Finish()
}

// show shows a move in currentOp, until end. Whoever kills it there has it undone, unless it is
// committed, as with the command of a move on mongod.
func (s *Server) show(t *term, r *running) (end func()) {
	if r.op.Kind != step.KindMove || s.Dispatcher == nil {
		return func() {}
	}
	as := shownOperations[r.op.Kind]
	b := s.Dispatcher.BeginBackground(as.desc, command.KindCommand, r.op.Namespace, as.of(&r.op), func(err error) { t.cancel(r.op.Number, err) })
	b.Op().ReportProgress(func() (command.Progress, bool) {
		m := r.moved()
		return command.Progress{Message: "bytes copied", Done: m.copied, Total: max(m.size, m.copied)}, true
	})
	return b.End
}

// moved is how far a move is.
type moved struct {
	from, to     string
	size, copied int64 // bytes: about all, and those that the recipient has
	documents    int64 // that it has
	took         time.Duration
}

// moved returns how far the move is.
func (r *running) moved() moved {
	r.progress.mu.Lock()
	defer r.progress.mu.Unlock()
	m := moved{from: text(r.op.Args, "from"), to: text(r.op.Args, "to"), size: bson.ClampToInt64(r.op.Args.Lookup("bytes")), took: time.Since(r.progress.began)}
	if reply := r.progress.received[m.to]; reply != nil {
		m.copied, m.documents = bson.ClampToInt64(reply.Lookup("bytes")), bson.ClampToInt64(reply.Lookup("documents"))
	}
	return m
}

// movesOf returns the moves of a collection in progress.
func (t *term) movesOf(ns string) (out []moved) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range t.running {
		if r.op.Kind == step.KindMove && r.op.Namespace == ns {
			out = append(out, r.moved())
		}
	}
	return out
}
