package node

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/repl"
)

// maxQuorum is the largest number of members that commitQuorum takes.
const maxQuorum = 50

// commitQuorum returns the members that must have built new indexes before createIndexes
// replies; the zero Concern for none. A primary decides to build before the others do, so here
// the quorum holds back the reply, and mongod's the index. Errors: 2 on a standalone, 9, 278 if
// the set cannot meet it. (Manual: createIndexes, commitQuorum.)
func (n *Node) commitQuorum(ctx context.Context, op *command.Op) (repl.Concern, error) {
	var q repl.Concern
	v, m := op.Args.Value("commitQuorum"), n.Dispatcher.Member
	switch {
	case v.IsMissing():
		return q, nil
	case m == nil:
		return q, mongoerr.New(mongoerr.BadValue, "Standalones can't specify commitQuorum")
	case v.IsNumber():
		if count := bson.ClampToInt64(v); count < 0 || count > maxQuorum {
			return q, mongoerr.New(mongoerr.FailedToParse, "commitQuorum has to be a non-negative number and not greater than %d; found: %d", maxQuorum, count)
		}
		q.N = int(bson.ClampToInt64(v))
	case v.Str() == "votingMembers":
		if c := m.State().Config; c != nil {
			for i := range c.Members {
				if c.Members[i].Voter() {
					q.N++
				}
			}
		}
	default:
		q.Mode = v.Str()
	}
	return q, unsatisfiable(m.WaitConcern(ctx, repl.Position{}, q)) // of everybody now: met, or never
}

// awaitQuorum waits until the members of a quorum have what this one has applied.
func (n *Node) awaitQuorum(ctx context.Context, q repl.Concern) error {
	if q.N == 0 && q.Mode == "" {
		return nil
	}
	return unsatisfiable(n.Dispatcher.Member.WaitConcern(ctx, n.Dispatcher.Member.Applied(), q))
}

func unsatisfiable(err error) error {
	if mongoerr.Is(err, mongoerr.UnsatisfiableWriteConcern) || mongoerr.Is(err, mongoerr.UnknownReplWriteConcern) {
		return mongoerr.New(mongoerr.UnsatisfiableCommitQuorum, "%s", mongoerr.From(err).Message)
	}
	return err
}
