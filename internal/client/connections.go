package client

import "time"

// MemberConnections is what a Set knows of one member, and its connections to it.
type MemberConnections struct {
	Address            string
	Reachable          bool
	Primary, Secondary bool
	// Ping is the moving average of the time that hello takes.
	Ping             time.Duration
	InUse, Available int
	// Created is how many were made.
	Created int64
}

// Connections returns the set's members with its connections to them.
func (s *Set) Connections() []MemberConnections {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []MemberConnections
	for _, m := range s.mu.members {
		c := MemberConnections{Address: m.address, Reachable: m.role != roleUnknown, Primary: m.role == rolePrimary, Secondary: m.role == roleSecondary, Ping: m.took, InUse: len(m.slots)}
		m.pool.Lock()
		c.Available, c.Created = len(m.pool.idle)+len(m.pool.streams), m.pool.created
		m.pool.Unlock()
		all = append(all, c)
	}
	return all
}

// Drop closes the connections to a member, those in use once they are given back. It does
// nothing for an address that is none of the members'.
func (s *Set) Drop(address string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.mu.members {
		if m.address == address {
			m.drop()
		}
	}
}
