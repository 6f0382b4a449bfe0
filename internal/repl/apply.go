package repl

import (
	"cmp"
	"fmt"
	"slices"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// applyCommitted applies what the set has committed, or leaves it for later on a
// member with a delay, and while an entry is applied beside the group.
func (g *Group) applyCommitted(entries []*raftpb.Entry) error {
	if len(entries) == 0 {
		return nil
	}
	if g.backlog > 0 || g.beside != nil || g.delay() > 0 {
		g.postpone(entries)
		return nil
	}
	return g.applyAll(entries)
}

// postpone leaves entries to the backlog.
func (g *Group) postpone(entries []*raftpb.Entry) {
	for _, e := range entries {
		if g.backlog = max(g.backlog, e.GetIndex()); e.GetType() != raftpb.EntryNormal {
			g.voters = max(g.voters, e.GetIndex())
		}
	}
}

// delay returns by how many seconds this member stays behind.
func (g *Group) delay() uint32 {
	if m := g.state.config.Member(g.ID); m != nil {
		return uint32(m.Delay.Seconds())
	}
	return 0
}

// applyBacklog applies what has waited long enough. Who is to lead as the last resort does not
// wait with what says who votes.
func (g *Group) applyBacklog() error {
	for g.backlog > 0 && g.beside == nil {
		entries, err := g.Log.Entries(g.applied.Index+1, g.backlog+1, maxApplyBytes)
		if err != nil {
			return fmt.Errorf("read committed entries: %w", err)
		}
		delay := g.delay()
		n := slices.IndexFunc(entries, func(e *raftpb.Entry) bool {
			t, ok := entryTime(e)
			if g.resorting() && e.GetIndex() <= g.voters {
				return false
			}
			return ok && delay > 0 && int64(t.Seconds())+int64(delay) > g.Clock.wall().Unix()
		})
		if n < 0 {
			n = len(entries)
		}
		if err := g.applyAll(entries[:n]); err != nil || n < len(entries) {
			return err
		}
		g.worked()
	}
	return nil
}

// worked forgets the backlog once it is applied.
func (g *Group) worked() {
	if g.applied.Index >= g.backlog {
		g.backlog = 0
	}
}

// entryData returns what this package put into an entry: nil for one of raft's
// own.
func entryData(e *raftpb.Entry) ([]byte, error) {
	if e.GetType() == raftpb.EntryNormal {
		return e.GetData(), nil
	}
	c, err := confChange(e)
	if err != nil {
		return nil, err
	}
	return c.GetContext(), nil
}

func confChange(e *raftpb.Entry) (*raftpb.ConfChangeV2, error) {
	if e.GetType() == raftpb.EntryConfChange {
		c := &raftpb.ConfChange{}
		err := proto.Unmarshal(e.GetData(), c)
		return c.AsV2(), err
	}
	c := &raftpb.ConfChangeV2{}
	return c, proto.Unmarshal(e.GetData(), c)
}

// applyAll applies entries, in the same way on all members, and informs those who wait
// for them.
func (g *Group) applyAll(entries []*raftpb.Entry) error {
	for len(entries) > 0 {
		n, err := g.applyRun(entries)
		if err != nil {
			return fmt.Errorf("apply entry %d: %w", entries[0].GetIndex(), err)
		}
		if entries = entries[n:]; g.beside != nil {
			g.postpone(entries)
			return nil
		}
	}
	return nil
}

// applyRun applies the first entries, and returns how many: a change of the configuration
// and an entry of a chain alone, the last one of a chain beside; others together, within
// maxRunBytes.
func (g *Group) applyRun(entries []*raftpb.Entry) (n int, err error) {
	r := &g.run
	defer r.reset()
	at, bytes := g.applied, 0
	for _, e := range entries {
		d, err := readEntry(e)
		if err != nil {
			return 0, err
		}
		at.Index, at.Term = e.GetIndex(), e.GetTerm()
		if d.kind != 0 {
			at.Time = d.time
		}
		stale := d.kind != 0 && g.seams.stale(d.term, at.Term) // all members drop it, and store that they did
		alone := !stale && (d.kind >= kindConfig || e.GetType() != raftpb.EntryNormal)
		bytes += len(e.GetData())
		if len(r.changes) > 0 && (alone || bytes > maxRunBytes) {
			break
		}
		c := Change{At: at}
		if d.kind == kindEffect && !stale {
			c.Payload, c.Own = d.payload, g.own(at)
		}
		r.changes, r.void = append(r.changes, c), append(r.void, d.kind == 0 || stale)
		if alone && d.kind == kindLast && g.Beside != nil {
			g.applyBeside(c, d)
			return 1, nil
		}
		if alone {
			if err := g.applyAlone(at, e, d); err != nil {
				return 0, err
			}
			g.advance(r)
			return 1, nil
		}
	}
	if err := g.Machine.Apply(r.changes); err != nil {
		return 0, err
	}
	g.advance(r)
	return len(r.changes), nil
}

// run is entries that are applied together.
type run struct {
	changes []Change
	void    []bool // of each: it has no effect
}

func (r *run) reset() {
	clear(r.changes)
	r.changes, r.void = r.changes[:0], r.void[:0]
}

// advance notes that a run is applied, and informs those who wait for it.
func (g *Group) advance(r *run) {
	g.tellAdvanced(r.changes[len(r.changes)-1].At)
	for i := range r.changes {
		g.applied = r.changes[i].At
		g.serve()
		g.finish(g.applied, r.void[i])
	}
}

func (g *Group) tellAdvanced(upTo Position) {
	if g.Advanced != nil {
		g.Advanced(upTo)
	}
}

// readEntry decodes what this package put into an entry; its kind is 0 for one of raft's
// own.
func readEntry(e *raftpb.Entry) (d entry, err error) {
	data, err := entryData(e)
	if err != nil || len(data) == 0 {
		return d, err
	}
	return decodeEntry(data)
}

// applyAlone applies a change of the configuration, or an entry of a chain.
func (g *Group) applyAlone(at Position, e *raftpb.Entry, d entry) error {
	switch {
	case e.GetType() != raftpb.EntryNormal:
		return g.applyConfChange(at, e, d)
	case d.kind == kindPart:
		return g.Machine.Apply([]Change{{At: at, Part: d.payload}})
	case d.kind == kindLast:
		return g.Machine.Apply([]Change{{At: at, Chain: d.payload, Own: g.own(at)}})
	}
	return g.applyConfig(at, d, g.state.conf)
}

// beside is an entry that is being applied beside the group.
type beside struct {
	at Position
	// p is this member's proposal of it, which nobody ends before it is applied: what it has
	// passed is in use. nil for none.
	p *proposal
}

// applyBeside begins to apply the last entry of a chain beside the group, as that may be a
// gigabyte: the member answers others meanwhile, and takes what they send.
func (g *Group) applyBeside(c Change, d entry) {
	g.beside = &beside{at: c.At}
	c.Chain = d.payload
	if p := g.mine(c.At); p != nil {
		c.Own, g.beside.p = p.own, p
		g.inflight = g.inflight[1:] // those before it were applied
	}
	g.Beside(func() error { return g.Machine.Apply([]Change{c}) })
}

// Applied ends what was given to Beside. Its error, and that of the work, is fatal.
func (g *Group) Applied(err error) error {
	b := g.beside
	if g.beside = nil; err != nil {
		return fmt.Errorf("apply entry %d: %w", b.at.Index, err)
	}
	g.tellAdvanced(b.at)
	g.applied = b.at
	g.worked()
	g.serve()
	if b.p != nil {
		b.p.done(b.at, nil)
	}
	g.finish(b.at, false)
	return nil
}

// applyConfChange applies a change that raft takes part in. One with no context is
// raft's own: it leaves a joint configuration.
func (g *Group) applyConfChange(at Position, e *raftpb.Entry, d entry) error {
	c, err := confChange(e)
	if err != nil {
		return err
	}
	if err := mayChange(g.state.conf, c); err != nil {
		return err // raft would end the process
	}
	conf := g.rn.ApplyConfChange(c)
	if d.kind == kindConfig {
		return g.applyConfig(at, d, conf)
	}
	return g.store(at, groupState{g.state.config, conf})
}

func (g *Group) applyConfig(at Position, d entry, conf *raftpb.ConfState) error {
	config, err := ParseConfig(slices.Clone(d.payload))
	if err != nil {
		return err
	}
	g.Logger.Info("replication: configuration", "config", config.String())
	return g.store(at, groupState{config, conf})
}

// store puts the group's state into the machine.
func (g *Group) store(at Position, s groupState) error {
	b, err := s.encode()
	if err != nil {
		return err
	}
	if err := g.Machine.Apply([]Change{{At: at, State: b}}); err != nil {
		return err
	}
	g.state = s
	if g.role == Leader && !g.isElectable() {
		// An earlier primary has proposed it. This one remains leader until the others
		// have the entry, and hands over then (tend): if it left at once, they might
		// lack its vote.
		g.setPrimary(false)
		g.failAll(ErrSteppedDown)
		g.epoch++ // it may serve again in the same term, and what failed is a hole in its queue
	}
	return nil
}

// own returns what was passed with this member's proposal of the entry, if it
// is one.
func (g *Group) own(at Position) any {
	if p := g.mine(at); p != nil {
		return p.own
	}
	return nil
}

// mine returns this member's proposal of the entry, nil if it is none.
func (g *Group) mine(at Position) *proposal {
	i, ok := slices.BinarySearchFunc(g.inflight, at.Index, func(p *proposal, index uint64) int { return cmp.Compare(p.index, index) })
	if ok && g.inflight[i].term == at.Term {
		return g.inflight[i]
	}
	return nil
}

// finish informs those whose entry was applied. void says that the entry had no
// effect: raft has refused a change of the configuration (rule 18), or it was
// evaluated in another term.
func (g *Group) finish(at Position, void bool) {
	if g.config != nil && g.config.index != 0 && g.config.index <= at.Index {
		g.config = nil
	}
	for len(g.inflight) > 0 && g.inflight[0].index <= at.Index {
		p := g.inflight[0]
		g.inflight = g.inflight[1:]
		switch {
		case p.index < at.Index || p.term != at.Term:
			p.done(Position{}, ErrSteppedDown)
		case void && p.entry.kind == kindConfig:
			p.done(Position{}, errConfigPending)
		case void:
			p.done(Position{}, ErrDropped)
		default:
			p.done(at, nil)
		}
	}
}
