package nemesis

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mayflydb/mayfly/e2e/hosts"
)

// disturbance is a kind of thing that happens to a member.
type disturbance struct {
	name string
	// only says to which members it can happen; nil: to all.
	only func(m *member) bool
	// begin makes it happen, and lift ends it; nil where it cannot happen now.
	begin func(s *set, m *member, st step) (lift func())
}

var disturbances = []disturbance{
	{name: "killed", begin: func(_ *set, m *member, _ step) func() {
		m.end(syscall.SIGKILL)
		return m.start
	}},
	{name: "stopped", begin: func(_ *set, m *member, _ step) func() {
		m.signal(syscall.SIGSTOP)
		return func() { m.signal(syscall.SIGCONT) }
	}},
	{name: "stopped, then killed", begin: func(_ *set, m *member, _ step) func() {
		m.signal(syscall.SIGSTOP)
		return func() { m.end(syscall.SIGKILL); m.start() }
	}},
	{name: "shut down", begin: func(_ *set, m *member, _ step) func() {
		m.end(syscall.SIGTERM)
		return m.start
	}},
	{name: "all killed", begin: func(s *set, _ *member, _ step) func() {
		for _, m := range s.members {
			m.end(syscall.SIGKILL)
		}
		return func() {
			for _, m := range s.members {
				m.start()
			}
		}
	}},
	{name: "cut off from the members", begin: between(true, true, peers, hosts.Condition{Cut: true})},
	{name: "cut off from all", begin: between(true, true, everybody, hosts.Condition{Cut: true})},
	{name: "deaf to the members", begin: between(false, true, peers, hosts.Condition{Cut: true})},
	{name: "not heard by the members", begin: between(true, false, peers, hosts.Condition{Cut: true})},
	{name: "cut off from one member", begin: between(true, true, onePeer, hosts.Condition{Cut: true})},
	{name: "not heard by one member", begin: between(true, false, onePeer, hosts.Condition{Cut: true})},
	{name: "not heard by the clients", begin: between(true, false, theClients, hosts.Condition{Cut: true})},
	{name: "slow", begin: between(true, true, everybody, hosts.Condition{Delay: 150 * time.Millisecond})},
	{name: "lossy", begin: between(true, true, everybody, hosts.Condition{Loss: 0.3})},
	{name: "its disk is full", only: func(m *member) bool { return m.disk != nil }, begin: func(s *set, m *member, _ step) func() {
		m.setFrail(true)
		if err := m.disk.Fill(); err != nil {
			s.t.Error(err)
		}
		return func() {
			if err := m.disk.Empty(); err != nil {
				s.t.Error(err)
			}
			m.start()
			m.setFrail(false)
		}
	}},
	{name: "its disk is lost", begin: loseDisk},
	{name: "its clock jumps", only: func(*member) bool { return clocksJump }, begin: func(s *set, m *member, st step) func() {
		off := time.Duration((2*st.strength - 1) * float64(maxJump))
		jump := func(off time.Duration) {
			if err := m.setClock(off); err != nil {
				s.t.Error(err)
			}
		}
		jump(off)
		return func() { jump(0) }
	}},
	{name: "preferred as primary", begin: prefer},
	{name: "asked to step down", begin: func(s *set, m *member, _ step) func() {
		_ = m.admin(s.t.Context(), nil, bson.E{Key: "replSetStepDown", Value: 2}, bson.E{Key: "secondaryCatchUpPeriodSecs", Value: 1})
		return func() {}
	}},
}

// maxJump is how far a clock jumps, there or back.
const maxJump = time.Hour

// loseDisk kills a member and empties its directory. A set of three keeps its word with
// one lost disk: so all members are there before, and before the next one.
func loseDisk(s *set, m *member, _ step) func() {
	if !s.losing.CompareAndSwap(false, true) {
		return nil
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), askTimeout)
	defer cancel()
	if s.whole(ctx) != nil {
		s.losing.Store(false)
		return nil
	}
	m.end(syscall.SIGKILL)
	names, err := os.ReadDir(m.dir)
	for _, n := range names {
		err = errors.Join(err, os.RemoveAll(filepath.Join(m.dir, n.Name())))
	}
	if err != nil {
		s.t.Error(err)
	}
	return func() {
		m.start()
		s.healing.Go(func() {
			defer s.losing.Store(false)
			end := time.Now().Add(patience)
			for s.t.Context().Err() == nil && time.Now().Before(end) && s.whole(s.t.Context()) != nil {
				time.Sleep(time.Second)
			}
		})
	}
}

// prefer gives a member a higher priority than others: one that is primary hands over to
// it once it has all.
func prefer(s *set, m *member, _ step) func() {
	var c struct{ Config bson.D }
	p := s.primary()
	if p == nil || p.admin(s.t.Context(), &c, bson.E{Key: "replSetGetConfig", Value: 1}) != nil {
		return nil
	}
	for i, e := range c.Config {
		switch e.Key {
		case "version":
			version, _ := e.Value.(int32)
			c.Config[i].Value = version + 1
		case "members":
			for _, one := range e.Value.(bson.A) {
				setPriorities(one.(bson.D), m)
			}
		}
	}
	if p.admin(s.t.Context(), nil, bson.E{Key: "replSetReconfig", Value: c.Config}) != nil {
		return nil
	}
	return func() {}
}

// setPriorities sets the priority in a member's configuration, by whether it is m.
func setPriorities(one bson.D, m *member) {
	priority := 1
	for _, field := range one {
		if field.Key == "_id" && field.Value == int32(m.number) {
			priority = 2
		}
	}
	for i, field := range one {
		if field.Key == "priority" {
			one[i].Value = priority
		}
	}
}

var hello = bson.E{Key: "hello", Value: 1}

// others are the hosts to and from whom a way is disturbed.
type others func(m *member, st step) []int

func peers(m *member, _ step) []int {
	return []int{(m.number + 1) % members, (m.number + 2) % members}
}

func onePeer(m *member, st step) []int   { return peers(m, st)[st.luck>>8&1:][:1] }
func theClients(*member, step) []int     { return []int{members} }
func everybody(m *member, st step) []int { return append(peers(m, st), members) }

// between disturbs the ways from a member to others, from others to it, or both. Loss and
// delay are the most that they are.
func between(from, to bool, whom others, most hosts.Condition) func(*set, *member, step) func() {
	return func(s *set, m *member, st step) func() {
		c := most
		c.Loss *= st.strength
		c.Delay = time.Duration(float64(c.Delay) * st.strength)
		var lifts []func()
		for _, o := range whom(m, st) {
			if from {
				lifts = append(lifts, s.network.Impose(m.number, o, c))
			}
			if to {
				lifts = append(lifts, s.network.Impose(o, m.number, c))
			}
		}
		return func() {
			for _, lift := range lifts {
				lift()
			}
		}
	}
}
