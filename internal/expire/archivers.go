package expire

import (
	"context"
	"math"
	"slices"
	"sync"

	"github.com/mayflydb/mayfly/internal/catalog"
)

// A store may be slow, or away. So a pass visits no rule that archives: it hands them over to
// archivers, which each visit those of one of the operator's places, and goes on. Whatever a store
// does, only the rules that archive to it wait.

const (
	// maxArchivers bounds the archivers of a place: some requests are under way at once.
	maxArchivers = 2
	// maxArchiving is how many batches are under way at once: each has its documents in memory.
	// Places that are away have some of them, for as long as a request may take.
	maxArchiving = 8
)

// archivers are the rules that are handed over. Each is there once, so no more wait than there are.
type archivers struct {
	mu     sync.Mutex
	places map[string]*archivePlace
	due    map[rule]chan struct{}  // closed when the rule's visits have ended
	busy   map[archiveVisited]bool // what is visited
	// turns has room for the batches that are under way.
	turns chan struct{}
}

// archiveVisited is a collection that is visited by an archiver of a place.
type archiveVisited struct {
	collection catalog.UUID
	place      string
}

// archivePlace is what waits for a place, in the order of the visits, and how many archivers it has.
type archivePlace struct {
	waiting   []rule
	archivers int
}

func newArchivers() *archivers {
	return &archivers{places: map[string]*archivePlace{}, due: map[rule]chan struct{}{}, busy: map[archiveVisited]bool{}, turns: make(chan struct{}, maxArchiving)}
}

// archivePlace returns the operator's place to which a rule archives, "" where he has none; nil for a rule that
// does not archive.
func (m *Monitor) archivePlace(r rule) *string {
	c := m.o.Catalog.LookupUUID(r.collection)
	if c == nil || len(c.Archiving()) == 0 {
		return nil
	}
	in := ruleOf(c, r)
	if in == nil || in.Settings.Archive == nil {
		return nil
	}
	place := m.o.Archives.Within(in.Settings.Archive.To)
	return &place
}

// archiveRound are the rules that archivers visit when it is made.
type archiveRound struct{ due []chan struct{} }

// wait waits until those visits have ended, or ctx. Of nil it returns at once.
func (r *archiveRound) wait(ctx context.Context) {
	if r == nil {
		return
	}
	for _, d := range r.due {
		select {
		case <-d:
		case <-ctx.Done():
			return
		}
	}
}

// handOver hands the rules that archive over to archivers, those that are not there from before.
func (m *Monitor) handOver(ctx context.Context) *archiveRound {
	s, round := m.archivers, &archiveRound{}
	for _, r := range m.rules() {
		place := m.archivePlace(r)
		if place == nil {
			continue
		}
		k := m.states.of(r)
		s.mu.Lock()
		if s.due[r] == nil {
			k.forgetPlace()
			s.due[r] = make(chan struct{})
			p := s.places[*place]
			if p == nil {
				p = &archivePlace{}
				s.places[*place] = p
			}
			p.waiting = append(p.waiting, r)
			if p.archivers < maxArchivers {
				p.archivers++
				m.done.Go(func() { m.archiveTo(ctx, *place) })
			}
		}
		round.due = append(round.due, s.due[r])
		s.mu.Unlock()
	}
	return round
}

// archiveTo is an archiver: it visits the rules that wait for a place, until none does.
func (m *Monitor) archiveTo(ctx context.Context, place string) {
	for r, ok := m.archivers.next(place); ok; r, ok = m.archivers.next(place) {
		more, err := false, ctx.Err()
		if err == nil {
			more, err = m.visitAfter(ctx, r, true, func(*ruleState) int64 { return math.MinInt64 })
		}
		if err != nil && ctx.Err() == nil {
			m.interrupted(ctx, err)
		}
		m.archivers.visited(place, r, more && err == nil)
	}
}

// next returns the rule that an archiver of a place visits next: the first whose collection no
// other of them visits. It returns false if there is none, which ends the archiver: those that visit go on.
func (s *archivers) next(place string) (rule, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.places[place]
	for i, r := range p.waiting {
		if at := (archiveVisited{r.collection, place}); !s.busy[at] {
			p.waiting = slices.Delete(p.waiting, i, i+1)
			s.busy[at] = true
			return r, true
		}
	}
	if p.archivers--; p.archivers == 0 && len(p.waiting) == 0 {
		delete(s.places, place)
	}
	return rule{}, false
}

// visited notes that a rule was visited. One of which more is due waits behind the others.
func (s *archivers) visited(place string, r rule, more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.busy, archiveVisited{r.collection, place})
	if more {
		s.places[place].waiting = append(s.places[place].waiting, r)
		return
	}
	close(s.due[r])
	delete(s.due, r)
}

// enter waits until a batch may begin, outside of the gate. leave must follow, but after an error.
func (s *archivers) enter(ctx context.Context, pass *gatePass) error {
	select {
	case s.turns <- struct{}{}:
		return nil
	default:
	}
	pass.leave()
	select {
	case s.turns <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	err := pass.enter(ctx)
	if err != nil {
		s.leave()
	}
	return err
}

func (s *archivers) leave() { <-s.turns }
