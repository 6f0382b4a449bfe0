package node

import (
	"encoding/binary"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/process"
	"github.com/mayflydb/mayfly/internal/repl"
)

// appendRole writes hello's fields about a replica set: its members, and the role of
// this one. A member without a configuration, or that was removed, says so.
// (Specification of server discovery and monitoring.)
//
// name is the host name by which the client has asked for this member in TLS, "" for none: the
// addresses are those of the horizon in which the member has that name.
func appendRole(b *bson.Builder, m *repl.Member, hello bool, name string) {
	st := m.State()
	me := st.Config.Member(st.ID)
	if me == nil || st.Removed {
		b.Bool(process.PrimaryField(hello), false).Bool("secondary", false).
			String("info", "Does not have a valid replica set config").Bool("isreplicaset", true)
		return
	}
	c, horizon := st.Config, me.HorizonOf(name)
	appendHosts(b, "hosts", c, horizon, func(m *repl.MemberConfig) bool { return m.Priority > 0 })
	appendHosts(b, "passives", c, horizon, func(m *repl.MemberConfig) bool { return m.Priority == 0 })
	primary := st.Writable
	b.String("setName", c.Set).Int32("setVersion", int32(c.Version)).Bool(process.PrimaryField(hello), primary).
		Bool("secondary", st.Member == repl.StateSecondary)
	if p := c.Member(st.Leader); p != nil {
		b.String("primary", p.HostIn(horizon))
	}
	if me.Priority == 0 {
		b.Bool("passive", true)
	}
	if me.Hidden {
		b.Bool("hidden", true)
	}
	if me.Delay > 0 {
		name := "slaveDelay"
		if hello {
			name = "secondaryDelaySecs"
		}
		b.Int64(name, int64(me.Delay/time.Second))
	}
	if len(me.Tags) > 0 {
		b.OpenDoc("tags")
		for _, t := range me.Tags {
			b.String(t.Key, t.Value)
		}
		b.Close()
	}
	b.String("me", me.HostIn(horizon))
	if primary {
		b.ObjectID("electionId", electionID(st.Term))
	}
	at := m.Applied() // as of now: who receives a range waits for it
	b.OpenDoc("lastWrite")
	appendOpTime(b, "opTime", at)
	b.Date("lastWriteDate", wallOf(at))
	// What is applied is committed.
	appendOpTime(b, "majorityOpTime", at)
	b.Date("majorityWriteDate", wallOf(at)).Close()
}

// appendHosts lists the members that clients may use and that pass a test, where
// there are any.
func appendHosts(b *bson.Builder, name string, c *repl.Config, horizon string, pass func(*repl.MemberConfig) bool) {
	var hosts []string
	for i := range c.Members {
		if m := &c.Members[i]; !m.Hidden && m.Delay == 0 && pass(m) {
			hosts = append(hosts, m.HostIn(horizon))
		}
	}
	if len(hosts) > 0 {
		b.Strings(name, hosts...)
	}
}

// electionID returns the id of the election of a term; a later one compares as
// greater.
func electionID(term uint64) (id [12]byte) {
	binary.BigEndian.PutUint32(id[:], 0x7fffffff)
	binary.BigEndian.PutUint64(id[4:], term)
	return id
}

// appendOpTime writes a position in the log as clients see it.
func appendOpTime(b *bson.Builder, name string, at repl.Position) {
	b.OpenDoc(name).Timestamp("ts", uint64(at.Time)).Int64("t", int64(at.Term)).Close()
}

// wallOf returns the time of an entry in milliseconds since 1970.
func wallOf(at repl.Position) int64 { return int64(at.Time.Seconds()) * 1000 }
