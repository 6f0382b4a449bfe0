package repl

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"go.etcd.io/raft/v3/raftpb"
)

// Limits of a set, MongoDB's.
const (
	maxMembers      = 50
	maxVoters       = 7
	maxMemberID     = 255
	maxPriority     = 1000
	maxDelaySecs    = 366 * 24 * 3600
	defaultElection = time.Second // mongod's is ten
	minElection     = 200 * time.Millisecond
	maxElection     = time.Hour
)

// Config is the configuration of a replica set. It is a part of the replicated state
// and changes only by applying an entry. Immutable once it is shared.
type Config struct {
	Set      string   // _id
	ID       [12]byte // settings.replicaSetId, which never changes
	Version  int64
	Term     int64
	Members  []MemberConfig
	Modes    []Mode        // settings.getLastErrorModes
	Election time.Duration // settings.electionTimeoutMillis
	// Removed are the raft ids of former members (tombstones). They may never be used
	// again, since what those members promised may be lost.
	Removed []uint64
}

// MemberConfig is one member of a set in its configuration.
type MemberConfig struct {
	ID       int32
	Host     string // host:port, as clients and members reach it
	Raft     uint64 // the raft id of its data directory
	Priority float64
	Votes    int
	Hidden   bool
	Tags     []Tag
	Horizons []Horizon
	Delay    time.Duration // secondaryDelaySecs
	// Joining says that the member is a learner until it has caught up, and a voter
	// then (MongoDB's newlyAdded).
	Joining bool
}

// Tag is one of a member's tags.
type Tag struct{ Key, Value string }

// Mode is a custom write concern: for each tag, how many different values of it must
// have the write.
type Mode struct {
	Name string
	Tags []ModeTag
}

// ModeTag is a part of a Mode.
type ModeTag struct {
	Key   string
	Count int
}

// Voter reports whether the member counts for elections and majorities now.
func (m MemberConfig) Voter() bool { return m.Votes > 0 && !m.Joining }

// Electable reports whether the member may become primary.
func (m MemberConfig) Electable() bool { return m.Voter() && m.Priority > 0 }

// Member returns the member with a raft id, or nil.
func (c *Config) Member(raft uint64) *MemberConfig {
	if c == nil {
		return nil
	}
	for i := range c.Members {
		if c.Members[i].Raft == raft {
			return &c.Members[i]
		}
	}
	return nil
}

func (c *Config) clone() *Config {
	d := *c
	d.Members, d.Removed, d.Modes = slices.Clone(c.Members), slices.Clone(c.Removed), slices.Clone(c.Modes)
	return &d
}

// invalidConfig is the error of an invalid configuration.
func invalidConfig(format string, args ...any) error {
	return mongoerr.New(mongoerr.InvalidReplicaSetConfig, format, args...)
}

// Validate checks the rules that every configuration must meet. Errors: 93 with
// the reason.
func (c *Config) Validate() error {
	switch {
	case c.Set == "":
		return invalidConfig("Replica set configuration must have non-empty _id field")
	case c.Version < 1 || c.Version > 1<<31-1:
		return invalidConfig("version field value of %d is out of range", c.Version)
	case c.Election < minElection || c.Election > maxElection:
		return invalidConfig("settings.electionTimeoutMillis of %d is out of range", c.Election.Milliseconds())
	case len(c.Members) == 0 || len(c.Members) > maxMembers:
		return invalidConfig("Replica set configuration contains %d members, but must have at least 1 and no more than %d", len(c.Members), maxMembers)
	}
	voters, electable := 0, 0
	ids, hosts, rafts := map[int32]bool{}, map[string]bool{}, map[uint64]bool{}
	for _, m := range c.Members {
		if err := m.validate(); err != nil {
			return err
		}
		if ids[m.ID] || hosts[m.Host] {
			return invalidConfig("Found two member configurations with same _id or host: %d, %s", m.ID, m.Host)
		}
		// A raft id that is voter and learner at once makes raft panic (rule 14).
		if rafts[m.Raft] || slices.Contains(c.Removed, m.Raft) {
			return invalidConfig("Member %s has the data of another member, or of a former one: start it with an empty data directory", m.Host)
		}
		ids[m.ID], hosts[m.Host], rafts[m.Raft] = true, true, true
		if m.Votes > 0 {
			voters++
		}
		if m.Electable() {
			electable++
		}
	}
	switch {
	case voters == 0 || voters > maxVoters:
		return invalidConfig("Replica set configuration contains %d voting members, but must be at least 1 and no more than %d", voters, maxVoters)
	case electable == 0:
		return invalidConfig("Replica set configuration must contain at least one non-arbiter member with priority > 0")
	}
	if err := c.validateHorizons(); err != nil {
		return err
	}
	return c.validateModes()
}

func (c *Config) validateModes() error {
	for _, mode := range c.Modes {
		for _, t := range mode.Tags {
			if n := c.values(t.Key); t.Count < 1 || n < t.Count {
				return invalidConfig("Tag pattern for write concern mode %s requires %d nodes with different values for the tag %s, but only %d exist", mode.Name, t.Count, t.Key, n)
			}
		}
	}
	return nil
}

// values returns how many different values of a tag the members have.
func (c *Config) values(key string) int {
	values := map[string]bool{}
	for _, m := range c.Members {
		if v, ok := m.tag(key); ok {
			values[v] = true
		}
	}
	return len(values)
}

func (m MemberConfig) validate() error {
	switch {
	case m.ID < 0 || m.ID > maxMemberID:
		return invalidConfig("_id field value of %d is out of range", m.ID)
	case m.Host == "":
		return invalidConfig("Member %d has no host", m.ID)
	case m.Raft == 0:
		return invalidConfig("The data directory of member %s is not known", m.Host)
	case !(m.Priority >= 0 && m.Priority <= maxPriority):
		return invalidConfig("priority field value of %v is out of range", m.Priority)
	case m.Votes != 0 && m.Votes != 1:
		return invalidConfig("votes field value is %d but must be 0 or 1", m.Votes)
	case m.Votes == 0 && m.Priority > 0:
		return invalidConfig("priority must be 0 when non-voting (votes:0)")
	case m.Hidden && m.Priority > 0:
		return invalidConfig("priority must be 0 when hidden=true")
	case m.Delay < 0 || m.Delay > maxDelaySecs*time.Second:
		return invalidConfig("secondaryDelaySecs field value of %d seconds is out of range", int64(m.Delay/time.Second))
	case m.Delay > 0 && m.Priority > 0:
		return invalidConfig("priority must be 0 when secondaryDelaySecs is used")
	}
	return nil
}

func (m MemberConfig) tag(key string) (string, bool) {
	for _, t := range m.Tags {
		if t.Key == key {
			return t.Value, true
		}
	}
	return "", false
}

// Next checks that d may follow c, and completes d: new voting members join as
// learners, removed ones become tombstones. Errors: 93 and 103 with the reason; d may
// not be proposed then.
func (c *Config) Next(d *Config) error {
	switch {
	case d.Set != c.Set || d.ID != c.ID:
		return mongoerr.New(mongoerr.NewReplicaSetConfigurationIncompatible,
			"New and old configurations differ in replica set name or replicaSetId; old was %s, and new is %s", c.Set, d.Set)
	case d.Version <= c.Version:
		return mongoerr.New(mongoerr.NewReplicaSetConfigurationIncompatible,
			"New replica set configuration version must be greater than old, but %d is not greater than %d for replica set %s", d.Version, c.Version, c.Set)
	}
	d.Removed = slices.Clone(c.Removed)
	changed := 0 // by how many voters they differ
	for i := range d.Members {
		m := &d.Members[i]
		old := c.Member(m.Raft)
		switch {
		case old == nil:
			m.Joining = m.Votes > 0
		case old.ID != m.ID:
			return mongoerr.New(mongoerr.NewReplicaSetConfigurationIncompatible,
				"New and old configurations both have members with host of %s but in the new configuration the _id field is %d and in the old configuration it is %d", m.Host, m.ID, old.ID)
		case old.Votes == 0 && m.Votes > 0:
			m.Joining = true
		default:
			m.Joining = old.Joining && m.Votes > 0
		}
		if old == nil && c.replaced(d, m) {
			continue // counted below
		}
		if m.Votes > 0 && (old == nil || old.Votes == 0) || old != nil && old.Votes > 0 && m.Votes == 0 {
			changed++
		}
	}
	for _, old := range c.Members {
		if d.Member(old.Raft) == nil {
			d.Removed = append(d.Removed, old.Raft)
			if old.Votes > 0 {
				changed++
			}
		}
	}
	slices.Sort(d.Removed)
	if changed > 1 {
		return mongoerr.New(mongoerr.NewReplicaSetConfigurationIncompatible,
			"Non force replica set reconfig can only add or remove at most 1 voting member")
	}
	return d.Validate()
}

// replaced reports whether a new member of d takes the place of one of c that has lost its
// data: the same _id and host, and another raft id.
func (c *Config) replaced(d *Config, m *MemberConfig) bool {
	old := c.at(m.Host)
	return old != nil && old.ID == m.ID && old.Votes == m.Votes && old.Raft != m.Raft && d.Member(old.Raft) == nil
}

// promoted returns the configuration in which a member that has caught up
// votes.
func (c *Config) promoted(raft uint64) *Config {
	d := c.clone()
	d.Member(raft).Joining = false
	return d
}

// confState returns raft's part of the configuration: voters and learners.
func (c *Config) confState() *raftpb.ConfState {
	s := &raftpb.ConfState{AutoLeave: new(bool)}
	for _, m := range c.Members {
		if m.Voter() {
			s.Voters = append(s.Voters, m.Raft)
		} else {
			s.Learners = append(s.Learners, m.Raft)
		}
	}
	slices.Sort(s.Voters)
	slices.Sort(s.Learners)
	return s
}

// changes returns the steps from raft's state to the configuration; none if they
// agree. They are ordered by id, so that all members compute the same.
func (c *Config) changes(from *raftpb.ConfState) (out []*raftpb.ConfChangeSingle) {
	to := c.confState()
	add := func(t raftpb.ConfChangeType, id uint64) {
		out = append(out, &raftpb.ConfChangeSingle{Type: t.Enum(), NodeId: &id})
	}
	for _, id := range to.Voters {
		if !slices.Contains(from.Voters, id) {
			add(raftpb.ConfChangeAddNode, id)
		}
	}
	for _, id := range to.Learners {
		if !slices.Contains(from.Learners, id) {
			add(raftpb.ConfChangeAddLearnerNode, id)
		}
	}
	for _, id := range append(slices.Clone(from.Voters), from.Learners...) {
		if c.Member(id) == nil {
			add(raftpb.ConfChangeRemoveNode, id)
		}
	}
	slices.SortFunc(out, func(a, b *raftpb.ConfChangeSingle) int { return cmp.Compare(a.GetNodeId(), b.GetNodeId()) })
	return out
}

var errDamagedState = errors.New("the stored state of the replica set is damaged")

// Doc returns the configuration as it is stored: MongoDB's document with raft ids and
// tombstones added.
func (c *Config) Doc() bson.Doc {
	b := new(bson.Builder).String("_id", c.Set).Int("version", c.Version).Int64("term", c.Term)
	members := new(bson.Builder)
	for i, m := range c.Members {
		tags := new(bson.Builder)
		for _, t := range m.Tags {
			tags.String(t.Key, t.Value)
		}
		doc := new(bson.Builder).Int32("_id", m.ID).String("host", m.Host).
			Bool("arbiterOnly", false).Bool("buildIndexes", true).Bool("hidden", m.Hidden).Double("priority", m.Priority).
			Doc("tags", tags.Finish()).Int64("secondaryDelaySecs", int64(m.Delay/time.Second)).Int32("votes", int32(m.Votes)).
			Bool("newlyAdded", m.Joining).Int64("raft", int64(m.Raft))
		if len(m.Horizons) > 0 {
			doc.OpenDoc("horizons")
			for _, h := range m.Horizons {
				doc.String(h.Name, h.Host)
			}
			doc.Close()
		}
		members.Doc(bson.Index(i), doc.Finish())
	}
	removed := new(bson.Builder)
	for i, id := range c.Removed {
		removed.Int64(bson.Index(i), int64(id))
	}
	modes := new(bson.Builder)
	for _, mode := range c.Modes {
		tags := new(bson.Builder)
		for _, t := range mode.Tags {
			tags.Int32(t.Key, int32(t.Count))
		}
		modes.Doc(mode.Name, tags.Finish())
	}
	return b.Array("members", members.Finish()).Int64("protocolVersion", 1).Bool("writeConcernMajorityJournalDefault", true).
		Doc("settings", new(bson.Builder).Bool("chainingAllowed", false).Int64("electionTimeoutMillis", c.Election.Milliseconds()).
			Doc("getLastErrorModes", modes.Finish()).ObjectID("replicaSetId", c.ID).Finish()).
		Array("removed", removed.Finish()).Finish()
}

// Shown returns the configuration as MongoDB shows it, without what this package adds.
func (c *Config) Shown() bson.Doc {
	b := new(bson.Builder)
	for name, v := range c.Doc().All() {
		switch name {
		case "removed":
		case "members":
			b.OpenArray(name)
			i := 0
			for m := range v.Doc().Values() {
				b.OpenDoc(bson.Index(i))
				for field, f := range m.Doc().All() {
					if field != "raft" && (field != "newlyAdded" || f.Truthy()) {
						b.Value(field, f)
					}
				}
				b.Close()
				i++
			}
			b.Close()
		default:
			b.Value(name, v)
		}
	}
	return b.Finish()
}

// at returns the member at a host, or nil.
func (c *Config) at(host string) *MemberConfig {
	if c == nil {
		return nil
	}
	for i := range c.Members {
		if c.Members[i].Host == host {
			return &c.Members[i]
		}
	}
	return nil
}

// ParseConfig reads what Doc has written, or what a client sends: that has no raft ids,
// and the proposer fills them in before Validate. Errors: 93.
func ParseConfig(d bson.Doc) (*Config, error) {
	c := &Config{Election: defaultElection}
	if err := bson.Validate(d, 8); err != nil {
		return nil, invalidConfig("not a document: %v", err)
	}
	for name, v := range d.All() {
		var err error
		switch name {
		case "_id":
			c.Set, err = text(name, v)
		case "version":
			c.Version, err = number(name, v)
		case "term":
			c.Term, err = number(name, v)
		case "members":
			if err = wantType(name, v, bson.TypeArray); err == nil {
				err = c.parseMembers(v.Doc())
			}
		case "settings":
			if err = wantType(name, v, bson.TypeDocument); err == nil {
				err = c.parseSettings(v.Doc())
			}
		case "removed":
			if err = wantType(name, v, bson.TypeArray); err == nil {
				for id := range v.Doc().Values() {
					n, e := number(name, id)
					c.Removed, err = append(c.Removed, uint64(n)), errors.Join(err, e)
				}
			}
		case "protocolVersion":
			if n, e := number(name, v); e != nil || n != 1 {
				err = invalidConfig("protocolVersion field value of %s is not 1", v)
			}
		case "writeConcernMajorityJournalDefault":
			if !v.Truthy() {
				err = invalidConfig("writeConcernMajorityJournalDefault: false is not supported: a write is acknowledged when a majority has it on disk")
			}
		case "configsvr":
			if v.Truthy() {
				err = invalidConfig("configsvr is not supported")
			}
		default:
			err = invalidConfig("Unexpected field %s in replica set configuration", name)
		}
		if err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (c *Config) parseMembers(d bson.Doc) error {
	for v := range d.Values() {
		if err := wantType("members", v, bson.TypeDocument); err != nil {
			return err
		}
		m := MemberConfig{ID: -1, Priority: 1, Votes: 1}
		for name, f := range v.Doc().All() {
			if err := m.parse(name, f); err != nil {
				return err
			}
		}
		c.Members = append(c.Members, m)
	}
	return nil
}

func (m *MemberConfig) parse(name string, v bson.Value) (err error) {
	var n int64
	switch name {
	case "_id":
		n, err = number(name, v)
		m.ID = int32(min(max(n, -1), maxMemberID+1))
	case "host":
		m.Host, err = text(name, v)
	case "priority":
		if !v.IsNumber() {
			return wantType(name, v, bson.TypeDouble)
		}
		m.Priority = bson.ToDouble(v)
	case "votes":
		n, err = number(name, v)
		m.Votes = int(min(max(n, -1), 2))
	case "hidden":
		m.Hidden = v.Truthy()
	case "tags":
		if err := wantType(name, v, bson.TypeDocument); err != nil {
			return err
		}
		for key, t := range v.Doc().All() {
			value, err := text("tags."+key, t)
			if err != nil {
				return err
			}
			m.Tags = append(m.Tags, Tag{key, value})
		}
	case "horizons":
		err = m.parseHorizons(v)
	case "secondaryDelaySecs":
		n, err = number(name, v)
		m.Delay = time.Duration(min(max(n, -1), maxDelaySecs+1)) * time.Second
	case "newlyAdded":
		m.Joining = v.Truthy()
	case "raft":
		n, err = number(name, v)
		m.Raft = uint64(n)
	case "arbiterOnly":
		if v.Truthy() {
			err = invalidConfig("arbiterOnly: true is not supported: give the member votes and priority 0 instead")
		}
	case "buildIndexes":
		if !v.Truthy() {
			err = invalidConfig("buildIndexes: false is not supported: all members hold the same files")
		}
	default:
		err = invalidConfig("Unexpected field %s in replica set member configuration", name)
	}
	return err
}

func (c *Config) parseSettings(d bson.Doc) error {
	for name, v := range d.All() {
		switch name {
		case "replicaSetId":
			if err := wantType(name, v, bson.TypeObjectID); err != nil {
				return err
			}
			c.ID = v.ObjectID()
		case "electionTimeoutMillis":
			n, err := number(name, v)
			if err != nil {
				return err
			}
			c.Election = time.Duration(n) * time.Millisecond
		case "getLastErrorModes":
			if err := c.parseModes(name, v); err != nil {
				return err
			}
		case "chainingAllowed":
			if v.Truthy() {
				return invalidConfig("chainingAllowed: true is not supported: members get the log from the primary")
			}
		case "heartbeatIntervalMillis", "heartbeatTimeoutSecs", "catchUpTimeoutMillis", "catchUpTakeoverDelayMillis", "getLastErrorDefaults":
			return invalidConfig("settings.%s is not supported", name)
		default:
			return invalidConfig("Unexpected field %s in replica set settings", name)
		}
	}
	return nil
}

func (c *Config) parseModes(name string, v bson.Value) error {
	if err := wantType(name, v, bson.TypeDocument); err != nil {
		return err
	}
	for mode, tags := range v.Doc().All() {
		if err := wantType(name+"."+mode, tags, bson.TypeDocument); err != nil {
			return err
		}
		m := Mode{Name: mode}
		for key, count := range tags.Doc().All() {
			n, err := number(mode+"."+key, count)
			if err != nil {
				return err
			}
			m.Tags = append(m.Tags, ModeTag{key, int(n)})
		}
		c.Modes = append(c.Modes, m)
	}
	return nil
}

func text(name string, v bson.Value) (string, error) {
	if err := wantType(name, v, bson.TypeString); err != nil {
		return "", err
	}
	return v.Str(), nil
}

func wantType(name string, v bson.Value, t bson.Type) error {
	if v.Type != t {
		return invalidConfig("Expected field %q to have another type than %s", name, v)
	}
	return nil
}

func number(name string, v bson.Value) (int64, error) {
	n, ok := bson.ExactInt64(v)
	if !ok {
		return 0, invalidConfig("Expected field %q to be a whole number, not %s", name, v)
	}
	return n, nil
}

// String returns the essentials of a configuration, for a log line.
func (c *Config) String() string {
	return fmt.Sprintf("%s version %d with %d members", c.Set, c.Version, len(c.Members))
}
