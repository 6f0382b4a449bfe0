package configsvr

import (
	"context"
	"sync"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
)

// Sets implements Shards over the network. Connections to a replica set stay open until
// Close. It is safe for concurrent use.
type Sets struct {
	// Options are those of the connections.
	Options client.Options
	// Times are the member's.
	Times client.Times

	mu     sync.Mutex
	sets   map[string]*client.Set
	closed bool
}

// Ask implements Shards. Every request may be retried: it only reads, or has a fence.
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

// set returns the set with a name, nil after Close.
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
		s.sets[at.String()] = client.OpenSet(at, s.Options, s.Times)
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
