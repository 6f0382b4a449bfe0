package repl

import (
	"context"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// Initiate founds a set on this member's data, which become the data of all members. The
// others vote from the beginning or, where there are data to send first, once they have
// caught up, as until then this member must be able to continue alone. c is as
// ParseConfig returns it, or nil for a set of this member alone. Errors: 23, 74, 93, 104
// where this member may not be primary, 110 if another one has data.
func (m *Member) Initiate(ctx context.Context, c *Config) error {
	m.changing.Lock()
	defer m.changing.Unlock()
	s := m.replica.State()
	if s.Config != nil {
		return mongoerr.New(mongoerr.AlreadyInitialized, "already initialized")
	}
	if c == nil {
		c = &Config{Set: m.o.Set, Version: 1, Election: defaultElection, Members: []MemberConfig{{Host: m.Host(), Priority: 1, Votes: 1}}}
	}
	c = c.clone()
	if c.Set != m.o.Set {
		return invalidConfig("Attempting to initiate a replica set with name %s, but command line reports %s; rejecting", c.Set, m.o.Set)
	}
	if c.Version != 1 {
		return invalidConfig("Configuration used to initiate a replica set must have version %d, but found %d", 1, c.Version)
	}
	if left := m.catalog.OwnAmongCommon(); left != "" {
		return mongoerr.New(mongoerr.IllegalOperation, "The collection %s belongs to this member alone, but an earlier version created it among the replicated ones: copy it to another name in its database, drop it, and rename the copy", left)
	}
	c.Term, c.Removed = int64(founded.Term), nil
	if c.ID == [12]byte{} {
		c.ID = bson.NewObjectID()
	}
	if err := m.identify(ctx, c, nil, true); err != nil {
		return err
	}
	me := c.Member(s.ID)
	if me == nil {
		return invalidConfig("No host described in new configuration with {version: %d, term: 0} for replica set %s maps to this node", c.Version, c.Set)
	}
	hasData := m.catalog.HasData()
	for i := range c.Members {
		c.Members[i].Joining = hasData && c.Members[i].Votes > 0 && c.Members[i].Raft != s.ID
	}
	if !me.Electable() {
		return mongoerr.New(mongoerr.NodeNotElectable, "This node, %s, with _id %d is not electable under the new configuration with {version: %d, term: 0} for replica set %s", me.Host, me.ID, c.Version, c.Set)
	}
	if err := m.replica.Found(ctx, c); err != nil {
		return err
	}
	if err := m.until(ctx, func(s *State) bool { return s.Writable }); err != nil {
		return err
	}
	if err := m.keepFeatureVersion(ctx); err != nil {
		m.o.Log.Warn("replication: the feature compatibility version was not stored", "error", err)
	}
	return nil
}

// keepFeatureVersion stores the feature compatibility version of a new set, where its
// data have none yet.
func (m *Member) keepFeatureVersion(ctx context.Context) error {
	ctx, leave, err := m.door.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	version, stored, err := m.catalog.FeatureVersion()
	if err != nil || stored {
		return err
	}
	return m.catalog.SetFeatureVersion(ctx, version)
}

// Reconfigure changes the configuration of the set, and returns when it is committed.
// Errors: 10107, 74, 93, 103, 109, 110 if a new member has data.
func (m *Member) Reconfigure(ctx context.Context, c *Config) error {
	m.changing.Lock()
	defer m.changing.Unlock()
	s := m.State()
	if !s.Writable {
		return ErrNotPrimary
	}
	c = c.clone()
	if c.ID == [12]byte{} {
		c.ID = s.Config.ID
	}
	if err := m.identify(ctx, c, s.Config, false); err != nil {
		return err
	}
	at, err := m.replica.Reconfigure(ctx, c)
	if err == nil {
		noteOpTime(ctx, at)
	}
	return err
}

// identifyTimeout is how long a new member may take to identify itself.
const identifyTimeout = 5 * time.Second

// identify fills in the raft ids of a configuration's members: those of old members
// are known, new ones are asked. Errors: 74, 93, 110.
func (m *Member) identify(ctx context.Context, c, old *Config, found bool) error {
	for i := range c.Members {
		d := &c.Members[i]
		if d.Host == m.Host() {
			d.Raft = m.replica.State().ID
			continue
		}
		if known := old.at(d.Host); known != nil {
			d.Raft = known.Raft
			continue
		}
		limited, cancel := context.WithTimeout(ctx, identifyTimeout)
		who, err := m.net.Identify(limited, d.Host, m.store.opts.Group, c.ID)
		cancel()
		if err != nil {
			return err
		}
		d.Raft = who.Raft
		if who.Raft == m.replica.State().ID || old.Member(who.Raft) != nil {
			continue // under another name
		}
		if err := who.mayJoin(d.Host, c, found); err != nil {
			return err
		}
	}
	return nil
}

// mayJoin checks whether the member at a host may join a configuration; found says
// that it is that of a new set. Errors: 103, 110.
func (who Identity) mayJoin(host string, c *Config, found bool) error {
	switch {
	case who.Set != "" && (found || who.ID != c.ID):
		return mongoerr.New(mongoerr.NewReplicaSetConfigurationIncompatible, "Rejecting a configuration with the member %s, which already belongs to a replica set named %s", host, who.Set)
	case who.Name != "" && who.Name != c.Set:
		return mongoerr.New(mongoerr.NewReplicaSetConfigurationIncompatible, "The member %s was started for a replica set named %s, not %s", host, who.Name, c.Set)
	case who.HasData:
		return mongoerr.New(mongoerr.CannotInitializeNodeWithData, "'%s' has data already, cannot initiate set. All members except initiator must be empty.", host)
	}
	return nil
}

// until waits until something is true of the member. Errors: the cause of ctx's
// end.
func (m *Member) until(ctx context.Context, is func(*State) bool) error {
	for {
		changed := m.Changed()
		if is(m.State()) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
