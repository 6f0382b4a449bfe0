package configsvr

import (
	"context"
	"sync"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
)

// Sets is the Shards of a config server at work: each replica set that was asked
// stays connected until Close. Safe for use by many goroutines.
type Sets struct {
	// Options are those of the connections.
	Options client.Options
	// Clock is the cluster time that all sets have told of.
	Clock client.Clock

	mu     sync.Mutex
	sets   map[string]*client.Set
	closed bool
}

// Ask implements Shards. What a config server asks may be asked again: it is a
// question, or has a fence.
func (s *Sets) Ask(ctx context.Context, host, db string, body bson.Doc) (bson.Doc, error) {
	at, err := client.ParseSetString(host)
	if err != nil {
		return nil, err
	}
	set := s.set(at)
	if set == nil {
		return nil, errDeposed
	}
	answer, err := set.Run(ctx, client.Call{DB: db, Body: body, Idempotent: true})
	return answer.Reply, err
}

// set is the set with a name, nil after Close.
func (s *Sets) set(at client.SetString) *client.Set {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	if s.sets == nil {
		s.sets = map[string]*client.Set{}
	}
	if s.sets[at.String()] == nil {
		s.sets[at.String()] = client.OpenSet(at, s.Options, &s.Clock)
	}
	return s.sets[at.String()]
}

// Close ends all connections.
func (s *Sets) Close() {
	s.mu.Lock()
	sets := s.sets
	s.sets, s.closed = nil, true
	s.mu.Unlock()
	for _, set := range sets {
		set.Close()
	}
}
