package step

import "slices"

// TwoPhase is the commit of a transaction with writes on several shards, as the primary of
// the shard that coordinates it knows it. It is no operation of the config servers: it has a
// machine of its own, which is pure as theirs. It is a value.
// (docs/rfcs/0029-transactions-over-shards.md)
//
//	preparing ── all yes ──▶ deciding ── stored ──▶ telling ── all ok ──▶ forgetting ──▶ over
//	    └── a no, or out of time ──▶ telling (abort) ── all ok ──▶ over
//
// The unit that stores the decision commits the coordinator's own participant, too. That is not
// prepared before where it can be committed as it stands (Last).
//
// Invariants, which exploring it holds (twophase_test.go):
//
//   - one-decision: no two participants end differently, and none differently from what the
//     client was told.
//   - yes-binds: who has said yes can do both until it is told.
//   - decided-first: nobody is told commit before the decision is stored, and the coordinator's
//     own participant commits with it.
//   - explicit-ok: a decision is forgotten only when each participant has said ok to it.
//   - no-again: what was aborted is never prepared.
//   - ends: everything prepared is decided at last.
type TwoPhase struct {
	Participants []string
	// Own is the coordinator's own participant, which is committed when the decision is stored;
	// "" for none, as in builds that tell it as the others.
	Own string
	// Last says that the own participant is not asked to prepare. It is in progress until the
	// others have said yes, and then commits, as it stands, with the decision, at the time of
	// that: a no of its own is NotStored.
	Last  bool
	Stage Stage
	// Aborts says that the decision is to abort.
	Aborts bool
	// Time is the highest prepare time so far; the commit time once all have said yes, or, with
	// Last, once it is stored.
	Time uint64

	left  []string // who has not answered yet in this stage
	bound []string // who is to be told: all but those who had nothing to commit
}

// Stage is how far a two-phase commit is.
type Stage uint8

// The stages.
const (
	Asked      Stage = iota
	Preparing        // participants are asked to prepare
	Deciding         // all have said yes, and the decision is being stored
	Telling          // participants are told the decision
	Forgetting       // all have said ok, and the decision is being removed
	Over
)

var stageNames = [...]string{"asked", "preparing", "deciding", "telling", "forgetting", "over"}

func (s Stage) String() string { return stageNames[s] }

// TwoPhaseEvent is one event. A participant is named by its shard.
type TwoPhaseEvent struct {
	Kind  TwoPhaseEventKind
	Shard string
	// Time is the prepare time of a yes, or the commit time of a decision that was found, or
	// stored with Last.
	Time uint64
	// ReadOnly says that the participant had nothing to commit, and has ended.
	ReadOnly bool
}

// TwoPhaseEventKind is a kind of event.
type TwoPhaseEventKind uint8

// The events.
const (
	// Started: the router has asked for the commit.
	Started TwoPhaseEventKind = iota
	// Found: a new primary has found the stored decision to commit.
	Found
	// Yes: a participant has prepared.
	Yes
	// No: a participant will never prepare.
	No
	// Unanswered: a participant has not answered, or with an error that says nothing.
	Unanswered
	// TimeOver: the transaction has taken too long.
	TimeOver
	// Stored: the decision is on a majority, and the own participant is committed.
	Stored
	// NotStored: the decision is not stored, and never will be: the coordinator's own
	// participant is not prepared any more, or, with Last, cannot commit.
	NotStored
	// Told: a participant has said ok to the decision.
	Told
	// Removed: the decision is removed.
	Removed
)

// TwoPhaseAction is what the driver does next. An error with an unknown outcome of a write
// ends the machine: what is stored says how it goes on.
type TwoPhaseAction struct {
	// Prepare are the participants to ask, Tell those to tell the decision.
	Prepare, Tell []string
	// Again says that they were asked before: the driver pauses first.
	Again bool
	// Store: the decision is to be stored. Remove: it is to be removed.
	Store, Remove bool
}

// Decided reports whether the outcome is known for good: then the client may be told an abort,
// and a commit once Stage is beyond Telling.
func (t TwoPhase) Decided() bool { return t.Stage >= Telling }

// Asks reports whether a participant has yet to answer in this stage.
func (t TwoPhase) Asks(shard string) bool { return slices.Contains(t.left, shard) }

// StepTwoPhase advances a two-phase commit by one event.
func StepTwoPhase(t TwoPhase, e TwoPhaseEvent) (TwoPhase, TwoPhaseAction) {
	t.left, t.bound = slices.Clone(t.left), slices.Clone(t.bound)
	switch e.Kind {
	case Started:
		if t.Stage == Asked {
			t.Stage, t.left, t.bound = Preparing, slices.Clone(t.Participants), slices.Clone(t.Participants)
			if t.Last {
				t.left = without(t.left, t.Own)
			}
			if len(t.left) == 0 {
				return t.decide()
			}
			return t, TwoPhaseAction{Prepare: slices.Clone(t.left)}
		}
	case Found:
		if t.Stage == Asked {
			t.bound, t.Time = slices.Clone(t.Participants), e.Time
			return t.tell()
		}
	case Yes:
		return t.yes(e)
	case No, TimeOver:
		if t.Stage == Preparing && (e.Kind == TimeOver || t.Asks(e.Shard)) {
			return t.abort()
		}
	case Unanswered:
		return t.again(e.Shard)
	case Stored:
		if t.Stage == Deciding { // (invariant decided-first)
			t.bound, t.Time = without(t.bound, t.Own), max(t.Time, e.Time)
			return t.tell()
		}
	case NotStored:
		if t.Stage == Deciding {
			return t.abort()
		}
	case Told:
		return t.told(e.Shard)
	case Removed:
		if t.Stage == Forgetting {
			t.Stage = Over
		}
	}
	return t, TwoPhaseAction{}
}

func (t TwoPhase) yes(e TwoPhaseEvent) (TwoPhase, TwoPhaseAction) {
	if t.Stage != Preparing || !t.Asks(e.Shard) {
		return t, TwoPhaseAction{}
	}
	t.left = without(t.left, e.Shard)
	if e.ReadOnly {
		t.bound = without(t.bound, e.Shard)
	} else {
		t.Time = max(t.Time, e.Time)
	}
	if len(t.left) > 0 {
		return t, TwoPhaseAction{}
	}
	return t.decide()
}

// decide has the decision to commit stored, unless there is nothing to commit.
func (t TwoPhase) decide() (TwoPhase, TwoPhaseAction) {
	if len(t.bound) == 0 {
		t.Stage = Over
		return t, TwoPhaseAction{}
	}
	t.Stage = Deciding
	return t, TwoPhaseAction{Store: true}
}

// tell tells the decision to whoever is bound by it and does not have it yet.
func (t TwoPhase) tell() (TwoPhase, TwoPhaseAction) {
	t.Stage, t.left = Telling, slices.Clone(t.bound)
	if len(t.left) == 0 {
		return t.allTold()
	}
	return t, TwoPhaseAction{Tell: slices.Clone(t.left)}
}

// allTold ends the telling: no document means abort, a decision to commit is forgotten.
func (t TwoPhase) allTold() (TwoPhase, TwoPhaseAction) {
	if t.Aborts {
		t.Stage = Over
		return t, TwoPhaseAction{}
	}
	t.Stage = Forgetting
	return t, TwoPhaseAction{Remove: true}
}

func (t TwoPhase) abort() (TwoPhase, TwoPhaseAction) {
	t.Aborts = true
	return t.tell()
}

// again asks or tells a participant once more.
func (t TwoPhase) again(shard string) (TwoPhase, TwoPhaseAction) {
	switch {
	case !t.Asks(shard):
	case t.Stage == Preparing:
		return t, TwoPhaseAction{Prepare: []string{shard}, Again: true}
	case t.Stage == Telling: // (invariant explicit-ok)
		return t, TwoPhaseAction{Tell: []string{shard}, Again: true}
	}
	return t, TwoPhaseAction{}
}

func (t TwoPhase) told(shard string) (TwoPhase, TwoPhaseAction) {
	if t.Stage != Telling || !t.Asks(shard) {
		return t, TwoPhaseAction{}
	}
	if t.left = without(t.left, shard); len(t.left) > 0 {
		return t, TwoPhaseAction{}
	}
	return t.allTold()
}

func without(list []string, one string) []string {
	return slices.DeleteFunc(list, func(s string) bool { return s == one })
}
