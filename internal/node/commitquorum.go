package node

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/repl"
)

// A commit quorum is how many members of a replica set must hold all entries of an index
// that is being built before it becomes ready. The entries are in the log as all data
// are, so without a quorum a majority has them on disk; a secondary builds nothing
// itself. (Manual: createIndexes, commitQuorum; setIndexCommitQuorum.)

// maxCommitQuorum is the largest number of a quorum: that of a set's members.
const maxCommitQuorum = 50

// votingMembers is the quorum of all members that vote.
const votingMembers = "votingMembers"

// errQuorumChanged ends a wait for a quorum that another one replaces.
var errQuorumChanged = errors.New("node: the commit quorum was changed")

// parseCommitQuorum returns a quorum as a concern. Errors: 9.
func parseCommitQuorum(v bson.Value) (repl.Concern, error) {
	if v.Type == bson.TypeString {
		switch mode := v.Str(); mode {
		case "":
			return repl.Concern{}, mongoerr.New(mongoerr.FailedToParse, "commitQuorum can't be an empty string")
		case votingMembers:
			return repl.Concern{Voting: repl.AllVoting}, nil
		case repl.Majority:
			return repl.Concern{Voting: repl.MostVoting}, nil
		default:
			return repl.Concern{Mode: mode}, nil
		}
	}
	n := bson.ClampToInt64(v)
	if n < 0 || n > maxCommitQuorum {
		return repl.Concern{}, mongoerr.New(mongoerr.FailedToParse, "commitQuorum has to be a non-negative number and not greater than %d", maxCommitQuorum)
	}
	return repl.Concern{N: max(1, int(n))}, nil // 0 means 1
}

// checkQuorum returns error 278 or 79 if the set cannot meet a quorum.
func (n *Node) checkQuorum(q repl.Concern) error {
	return quorumError(n.Dispatcher.Member.Satisfiable(q))
}

// quorumError is the error of a concern as that of a quorum.
func quorumError(err error) error {
	if mongoerr.Is(err, mongoerr.UnsatisfiableWriteConcern) {
		return mongoerr.New(mongoerr.UnsatisfiableCommitQuorum, "Commit quorum cannot be satisfied with the current replica set configuration")
	}
	return err
}

// quorums are the quorums of running index builds that have one.
type quorums struct {
	mu sync.Mutex
	of map[catalog.UUID]*quorum
}

// quorum is that of one build.
type quorum struct {
	concern repl.Concern
	changed context.CancelCauseFunc // ends the wait; nil if nobody waits
}

// set replaces the quorum of a build. running are the builds that there are: others are
// forgotten.
func (q *quorums) set(id catalog.UUID, c repl.Concern, running []catalog.BuildProgress) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for old := range q.of {
		if !slices.ContainsFunc(running, func(b catalog.BuildProgress) bool { return b.ID == old }) {
			delete(q.of, old)
		}
	}
	if q.of == nil {
		q.of = map[catalog.UUID]*quorum{}
	}
	if was := q.of[id]; was != nil && was.changed != nil {
		was.changed(errQuorumChanged)
	}
	q.of[id] = &quorum{concern: c}
}

// begin begins a wait for the quorum of a build, which first is unless it was set; nil
// if it has none. changed ends the wait when it is set again.
func (q *quorums) begin(id catalog.UUID, first *repl.Concern, changed context.CancelCauseFunc) *repl.Concern {
	q.mu.Lock()
	defer q.mu.Unlock()
	of := q.of[id]
	if of == nil {
		if first == nil {
			return nil
		}
		if q.of == nil {
			q.of = map[catalog.UUID]*quorum{}
		}
		of = &quorum{concern: *first}
		q.of[id] = of
	}
	of.changed = changed
	return &of.concern
}

func (q *quorums) drop(id catalog.UUID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.of, id)
}

// awaitQuorum waits until the quorum of a build holds all that this member has applied.
// first is the quorum unless it was set since; nil for none. Errors: those of a step-down
// and of ctx's end, and 79.
func (n *Node) awaitQuorum(ctx context.Context, id catalog.UUID, first *repl.Concern) error {
	m := n.Dispatcher.Member
	at := m.Applied()
	defer n.quorums.drop(id)
	for {
		wait, end := context.WithCancelCause(ctx)
		c := n.quorums.begin(id, first, end)
		if c == nil {
			end(nil)
			return nil
		}
		err := m.WaitConcern(wait, at, *c)
		changed := errors.Is(context.Cause(wait), errQuorumChanged)
		end(nil)
		if err == nil || !changed {
			return quorumError(err)
		}
	}
}
