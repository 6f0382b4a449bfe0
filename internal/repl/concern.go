package repl

import (
	"slices"

	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// Concern is how many members must have a write.
type Concern struct {
	N      int       // data-bearing members; 0 if another field is set
	Mode   string    // "majority", or one of the set's own
	Tags   []ModeTag // as of a mode without a name
	Voting Voting    // members that vote
}

// Voting is a number of members that vote, each of which holds the entry itself: that a
// majority has it on disk is less.
type Voting uint8

const (
	MostVoting Voting = iota + 1 // a majority of them
	AllVoting
)

// Majority is the mode that every set has.
const Majority = "majority"

// Wait is a pending wait on the group. It ends exactly once, by Cancel at the latest.
type Wait struct {
	met     func() bool
	done    func(error)
	primary bool // ends with the primary's term
}

// WaitConcern calls done when the members that the concern asks for hold an entry that
// this member has applied, or that the set has committed (Shown). Errors: 100 and 79, immediately, where the set
// cannot meet it; the error of a step-down.
func (g *Group) WaitConcern(at Position, c Concern, done func(error)) *Wait {
	met, err := g.concern(at, c)
	if err == nil && !g.primary {
		err = ErrSteppedDown
	}
	if err != nil {
		done(err)
		return nil
	}
	w := g.wait(&Wait{met: met, done: done, primary: true})
	g.asks = g.asks || w != nil
	return w
}

// WaitTime calls done when this member holds everything up to a cluster time. It asks
// the primary to advance to that time. Errors: 205 for a time too far ahead.
func (g *Group) WaitTime(t Timestamp, done func(error)) *Wait {
	if err := g.want(t); err != nil {
		done(err)
		return nil
	}
	return g.wait(&Wait{met: func() bool { return g.applied.Time >= t }, done: done})
}

// want asks the primary, which may be this member, to advance to a time. Errors: as WaitTime.
func (g *Group) want(t Timestamp) error {
	if g.applied.Time >= t {
		return nil
	}
	if err := g.Clock.Observe(t); err != nil {
		return err
	}
	if g.wanted < t {
		g.wanted, g.tells = t, true
	}
	return nil
}

// pass appends a noop at once where a time that somebody waits for lies beyond all that is
// applied, and nothing is under way that may pass it. So there is one such noop at a time.
func (g *Group) pass() {
	if g.primary && g.wanted > g.applied.Time && len(g.queue) == 0 && len(g.inflight) == 0 && g.Clock.reached(g.wanted) {
		g.Noop(nil, func(Position, error) {})
	}
}

func (g *Group) wait(w *Wait) *Wait {
	switch {
	case w.met():
		w.done(nil)
		return nil
	case len(g.waits) >= maxWaits:
		w.done(errBusy)
		return nil
	}
	g.waits = append(g.waits, w)
	return w
}

// Cancel ends a wait with an error, unless it has ended already.
func (g *Group) Cancel(w *Wait, err error) {
	if i := slices.Index(g.waits, w); i >= 0 {
		g.waits = slices.Delete(g.waits, i, i+1)
		w.done(err)
	}
}

// checkWaits releases the satisfied waits.
func (g *Group) checkWaits() {
	var met []*Wait
	g.waits = slices.DeleteFunc(g.waits, func(w *Wait) bool {
		ok := w.met()
		if ok {
			met = append(met, w)
		}
		return ok
	})
	for _, w := range met {
		w.done(nil)
	}
}

// failWaits ends the waits that only a primary can answer.
func (g *Group) failWaits(err error) {
	var ended []*Wait
	g.waits = slices.DeleteFunc(g.waits, func(w *Wait) bool {
		if w.primary {
			ended = append(ended, w)
		}
		return w.primary
	})
	for _, w := range ended {
		w.done(err)
	}
}

// has reports whether a member's machine holds an entry, as far as this member knows.
func (g *Group) has(m MemberConfig, index uint64) bool {
	if m.Raft == g.ID {
		return g.applied.Index >= index
	}
	p := g.peers[m.Raft]
	return p != nil && p.applied.Index >= index
}

var errUnsatisfiable = mongoerr.New(mongoerr.UnsatisfiableWriteConcern, "Not enough data-bearing nodes")

// concern tests whether a concern is met, by the configuration at the time of the
// test.
func (g *Group) concern(at Position, c Concern) (met func() bool, err error) {
	config := g.state.config
	if config == nil {
		return nil, mongoerr.New(mongoerr.NotYetInitialized, "no replset config has been received")
	}
	if err := config.satisfies(c); err != nil {
		return nil, err
	}
	switch {
	case c.Voting != 0:
		return func() bool { return g.votingMet(c.Voting, at.Index) }, nil
	case c.Mode == Majority:
		// What is applied is on the disks of a majority already.
		return func() bool { return g.applied.Index >= at.Index }, nil
	case c.Mode != "":
		return func() bool { return g.modeMet(c.Mode, at.Index) }, nil
	case c.Tags != nil:
		return func() bool { return g.tagsMet(c.Tags, at.Index) }, nil
	}
	return func() bool {
		n := 0
		for _, m := range g.state.config.Members {
			if g.has(m, at.Index) {
				n++
			}
		}
		return n >= c.N
	}, nil
}

// satisfies returns error 100 or 79 if a set of that configuration cannot meet a
// concern, whatever its members hold.
func (c *Config) satisfies(q Concern) error {
	switch {
	case q.Voting != 0 || q.Mode == Majority:
		return nil
	case q.Mode != "":
		return c.CheckMode(q.Mode)
	case q.Mode == "" && q.Tags != nil && !c.tagged(q.Tags), q.N > len(c.Members):
		return errUnsatisfiable
	}
	return nil
}

// CheckMode returns error 79 if the configuration has no write concern mode of that name.
func (c *Config) CheckMode(name string) error {
	if name != Majority && c.mode(name) == nil {
		return mongoerr.New(mongoerr.UnknownReplWriteConcern, "No write concern mode named '%s' found in replica set configuration", name)
	}
	return nil
}

// votingMet reports whether the members that vote hold an entry.
func (g *Group) votingMet(v Voting, index uint64) bool {
	all, have := 0, 0
	for _, m := range g.state.config.Members {
		if m.Votes > 0 {
			all++
			if g.has(m, index) {
				have++
			}
		}
	}
	if v == MostVoting {
		return have > all/2
	}
	return have == all
}

func (c *Config) mode(name string) *Mode {
	for i := range c.Modes {
		if c.Modes[i].Name == name {
			return &c.Modes[i]
		}
	}
	return nil
}

// modeMet reports whether members with as many different values of each tag as the mode
// asks for hold an entry. A mode that was removed is met when all members have the
// entry.
func (g *Group) modeMet(name string, index uint64) bool {
	mode := g.state.config.mode(name)
	if mode == nil {
		return !slices.ContainsFunc(g.state.config.Members, func(m MemberConfig) bool { return !g.has(m, index) })
	}
	return g.tagsMet(mode.Tags, index)
}

// tagged reports whether members with enough different values of each tag exist.
func (c *Config) tagged(tags []ModeTag) bool {
	return !slices.ContainsFunc(tags, func(t ModeTag) bool { return c.values(t.Key) < t.Count })
}

func (g *Group) tagsMet(tags []ModeTag, index uint64) bool {
	for _, t := range tags {
		var values []string
		for _, m := range g.state.config.Members {
			if v, ok := m.tag(t.Key); ok && g.has(m, index) && !slices.Contains(values, v) {
				values = append(values, v)
			}
		}
		if len(values) < t.Count {
			return false
		}
	}
	return true
}
