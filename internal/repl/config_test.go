package repl

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

func threeMembers() *Config {
	c := &Config{Set: "rs0", ID: [12]byte{1}, Version: 1, Term: 1, Election: defaultElection}
	for i := range 3 {
		c.Members = append(c.Members, MemberConfig{ID: int32(i), Host: "h" + bson.Index(i) + ":1", Raft: uint64(10 + i), Priority: 1, Votes: 1})
	}
	return c
}

func TestConfigIsItsDocument(t *testing.T) {
	c := threeMembers()
	c.Members[0].Tags = []Tag{{"dc", "east"}, {"rack", "1"}}
	c.Members[1].Tags = []Tag{{"dc", "west"}}
	c.Members[1].Priority, c.Members[1].Hidden, c.Members[1].Delay = 0, true, time.Hour
	c.Members[2].Joining = true
	c.Modes = []Mode{{"far", []ModeTag{{"dc", 2}}}}
	c.Removed = []uint64{5, 1 << 63}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	d, err := ParseConfig(c.Doc())
	if err != nil {
		t.Fatal(err)
	}
	if d.Doc().String() != c.Doc().String() || d.Removed[1] != 1<<63 || d.Members[1].Delay != time.Hour {
		t.Errorf("%s\nis not\n%s", d.Doc(), c.Doc())
	}
}

func TestConfigRefused(t *testing.T) {
	for _, c := range []struct {
		why    string
		change func(*Config)
	}{
		{"non-empty _id", func(c *Config) { c.Set = "" }},
		{"version field", func(c *Config) { c.Version = 0 }},
		{"0 members", func(c *Config) { c.Members = nil }},
		{"same _id or host", func(c *Config) { c.Members[1].ID = 0 }},
		{"same _id or host", func(c *Config) { c.Members[1].Host = c.Members[0].Host }},
		{"has the data of another member, or of a former one", func(c *Config) { c.Members[1].Raft = c.Members[0].Raft }},
		{"has the data of another member, or of a former one", func(c *Config) { c.Removed = []uint64{11} }},
		{"data directory of member h1:1 is not known", func(c *Config) { c.Members[1].Raft = 0 }},
		{"priority field", func(c *Config) { c.Members[1].Priority = 1001 }},
		{"votes field", func(c *Config) { c.Members[1].Votes = 2 }},
		{"non-voting", func(c *Config) { c.Members[1].Votes = 0 }},
		{"hidden=true", func(c *Config) { c.Members[1].Hidden = true }},
		{"secondaryDelaySecs", func(c *Config) { c.Members[1].Delay = time.Second }},
		{"at least one non-arbiter member with priority > 0", func(c *Config) {
			for i := range c.Members {
				c.Members[i].Priority = 0
			}
		}},
		{"must be at least 1 and no more than 7", func(c *Config) {
			for i := range 5 {
				c.Members = append(c.Members, MemberConfig{ID: int32(20 + i), Host: bson.Index(i), Raft: uint64(i + 1), Votes: 1})
			}
		}},
		{"electionTimeoutMillis", func(c *Config) { c.Election = time.Millisecond }},
		{"write concern mode far", func(c *Config) { c.Modes = []Mode{{"far", []ModeTag{{"dc", 1}}}} }},
	} {
		config := threeMembers()
		c.change(config)
		err := config.Validate()
		if !mongoerr.Is(err, mongoerr.InvalidReplicaSetConfig) || !strings.Contains(err.Error(), c.why) {
			t.Errorf("%s: %v", c.why, err)
		}
	}
	for _, text := range []string{
		`{_id: "rs0", version: 1, members: [{_id: 0, host: "a:1", arbiterOnly: true}]}`,
		`{_id: "rs0", version: 1, members: [{_id: 0, host: "a:1", buildIndexes: false}]}`,
		`{_id: "rs0", version: 1, members: [{_id: 0, host: "a:1", slaveDelay: 1}]}`,
		`{_id: "rs0", version: 1, members: [], settings: {chainingAllowed: true}}`,
		`{_id: "rs0", version: 1, members: [], writeConcernMajorityJournalDefault: false}`,
		`{_id: "rs0", version: 1, members: [], protocolVersion: 0}`,
		`{_id: 1}`, `{members: 1}`, `{members: [1]}`, `{version: "1"}`, `{settings: 3}`, `{nonsense: 1}`,
	} {
		if _, err := ParseConfig(bson.MustParse(text)); !mongoerr.Is(err, mongoerr.InvalidReplicaSetConfig) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestNextConfig(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Config)
		code   mongoerr.Code
		check  func(*Config) bool
	}{
		{"same version", func(c *Config) { c.Version = 1 }, mongoerr.NewReplicaSetConfigurationIncompatible, nil},
		{"other set", func(c *Config) { c.ID[0]++ }, mongoerr.NewReplicaSetConfigurationIncompatible, nil},
		{"two voters less", func(c *Config) { c.Members = c.Members[:1] }, mongoerr.NewReplicaSetConfigurationIncompatible, nil},
		{"one exchanged for another", func(c *Config) { c.Members[2].Raft, c.Members[2].ID = 99, 9 }, mongoerr.NewReplicaSetConfigurationIncompatible, nil},
		{"another _id", func(c *Config) { c.Members[2].ID = 9 }, mongoerr.NewReplicaSetConfigurationIncompatible, nil},
		{"one less is a tombstone", func(c *Config) { c.Members = c.Members[:2] }, 0, func(c *Config) bool { return slices.Equal(c.Removed, []uint64{12}) }},
		{"one more is a learner first", func(c *Config) {
			c.Members = append(c.Members, MemberConfig{ID: 4, Host: "d:1", Raft: 13, Priority: 1, Votes: 1})
		}, 0, func(c *Config) bool { return c.Members[3].Joining && len(c.confState().Learners) == 1 }},
		{"one that has lost its data is a learner first", func(c *Config) { c.Members[2].Raft = 99 }, 0,
			func(c *Config) bool { return c.Members[2].Joining && slices.Equal(c.Removed, []uint64{12}) }},
		{"two that have lost their data", func(c *Config) { c.Members[1].Raft, c.Members[2].Raft = 98, 99 }, mongoerr.NewReplicaSetConfigurationIncompatible, nil},
		{"a vote that comes back is a learner first", func(c *Config) {
			c.Members[2].Votes, c.Members[2].Priority = 0, 0
		}, 0, func(c *Config) bool {
			d := c.clone()
			d.Version++
			d.Members[2].Votes = 1
			return c.Next(d) == nil && d.Members[2].Joining && !d.promoted(12).Members[2].Joining && d.Members[2].Joining
		}},
	} {
		from, to := threeMembers(), threeMembers()
		to.Version = 2
		c.change(to)
		err := from.Next(to)
		if c.code != 0 {
			if !mongoerr.Is(err, c.code) {
				t.Errorf("%s: %v", c.name, err)
			}
		} else if err != nil || !c.check(to) {
			t.Errorf("%s: %v, %+v", c.name, err, to)
		}
	}
}

func TestClock(t *testing.T) {
	now := time.Unix(1000, 0)
	c := NewClock(func() time.Time { return now }, time.Minute)
	a := c.next()
	now = now.Add(-time.Hour) // back: the counter rises
	b := c.next()
	if a.Seconds() != 1000 || b != a+1 {
		t.Errorf("%v, then %v", a, b)
	}
	if err := c.Observe(Timestamp(5000) << 32); !mongoerr.Is(err, mongoerr.ClusterTimeFailsRateLimiter) || c.Now() != b {
		t.Errorf("a time far ahead: %v, the clock is at %v", err, c.Now())
	}
	now = time.Unix(1000, 0)
	if err := c.Observe(Timestamp(1050) << 32); err != nil || c.next() != Timestamp(1050)<<32+1 {
		t.Errorf("a time a little ahead: %v, %v", err, c.Now())
	}
	c.raise(Timestamp(9000) << 32) // by the log: no bound
	if c.next() <= Timestamp(9000)<<32 {
		t.Error("not above the log")
	}
}

func FuzzDecodeFrame(f *testing.F) {
	b, err := (&Frame{From: 1, To: 2, Group: 3, Report: Report{Applied: Position{4, 5, 6}, Wanted: 7, Frozen: true, Asks: true}}).encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		frame, err := decodeFrame(b)
		if err != nil {
			return
		}
		again, err := frame.encode()
		if err != nil {
			t.Fatal(err)
		}
		back, err := decodeFrame(again)
		if err != nil || back.Report != frame.Report || back.Set != frame.Set || back.From != frame.From {
			t.Errorf("%+v became %+v: %v", frame, back, err)
		}
	})
}

func FuzzDecodeEntry(f *testing.F) {
	f.Add(entry{kind: kindEffect, term: 3, time: 4, payload: []byte("payload")}.encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		if e, err := decodeEntry(b); err == nil && string(e.encode()) != string(b) {
			t.Errorf("%x became %x", b, e.encode())
		}
	})
}
