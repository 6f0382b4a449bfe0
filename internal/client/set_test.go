package client_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/server/servertest"
)

// startMember runs a member of a replica set in this process.
func startMember(t *testing.T) *servertest.Server {
	t.Helper()
	return servertest.Start(t, "--port", fmt.Sprint(servertest.FreePort(t)), "--replSet", "rs0")
}

// openSet watches over a set, and closes it before its members stop.
func openSet(t *testing.T, times client.Times, hosts ...string) *client.Set {
	s := client.OpenSet(client.SetString{Name: "rs0", Hosts: hosts}, client.Options{AppName: "test"}, times)
	t.Cleanup(s.Close)
	return s
}

// run sends a command to the primary and wants it to succeed.
func run(t *testing.T, s *client.Set, c client.Call, text string) client.Answer {
	t.Helper()
	c.Body = doc(t, text)
	if c.DB == "" {
		c.DB = "d"
	}
	a, err := s.Run(t.Context(), c)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return a
}

// until waits until is holds.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("waited in vain until " + what)
		}
	}
}

// TestSet: a set is found from one of its members, learns of those that are added,
// answers by read preference, and goes on when its primary stops.
func TestSet(t *testing.T) {
	members := []*servertest.Server{startMember(t), startMember(t), startMember(t)}
	first := connect(t, client.Options{Address: members[0].Address})
	if _, err := first.Run(t.Context(), "admin", doc(t, fmt.Sprintf(`{"replSetInitiate":{"_id":"rs0","members":[{"_id":0,"host":"%s"}]}}`, members[0].Address))); err != nil {
		t.Fatal(err)
	}
	var clock client.Clock
	s := openSet(t, &clock, members[0].Address)
	a := run(t, s, client.Call{}, `{"insert":"c","documents":[{"_id":1}],"writeConcern":{"w":"majority"}}`)
	if at := a.Reply.Lookup("operationTime").Timestamp(); a.Member != members[0].Address || clock.Now() < at || at == 0 {
		t.Errorf("%s says %s, the clock %d", a.Member, a.Reply, clock.Now())
	}
	for i, m := range members[1:] {
		got := run(t, s, client.Call{DB: "admin"}, `{"replSetGetConfig":1}`).Reply.Lookup("config").Doc()
		var b bson.Builder
		b.OpenDoc("replSetReconfig")
		for name, v := range got.All() {
			switch name {
			case "version":
				b.Int32(name, int32(bson.ClampToInt64(v))+1)
			case "members":
				b.OpenArray(name)
				n := 0
				for o := range v.Doc().Values() {
					b.Value(bson.Index(n), o)
					n++
				}
				b.OpenDoc(bson.Index(n)).Int32("_id", int32(n)).String("host", m.Address).OpenDoc("tags").String("n", fmt.Sprint(i+1)).Close().Close().Close()
			default:
				b.Value(name, v)
			}
		}
		if _, err := s.Run(t.Context(), client.Call{DB: "admin", Body: b.Close().Finish()}); err != nil {
			t.Fatal(err)
		}
		until(t, "it is a secondary", func() bool {
			c, err := client.Connect(t.Context(), client.Options{Address: m.Address})
			if err != nil {
				return false
			}
			defer c.Close()
			return c.Hello().Lookup("secondary").Truthy()
		})
	}
	until(t, "all vote", func() bool {
		a := run(t, s, client.Call{DB: "admin", Idempotent: true}, `{"replSetGetConfig":1}`)
		return !strings.Contains(a.Reply.String(), "newlyAdded")
	})
	want := []string{members[0].Address, members[1].Address, members[2].Address}
	slices.Sort(want)
	s = openSet(t, &clock, members[2].Address)
	run(t, s, client.Call{}, `{"ping":1}`)
	if at := s.At(); !slices.Equal(at.Hosts, want) || at.String() != "rs0/"+strings.Join(want, ",") {
		t.Errorf("the set is %s", at)
	}
	for _, l := range []struct {
		pref string
		may  []int
	}{
		{`{"mode":"primary"}`, []int{0}}, {`{"mode":"primaryPreferred"}`, []int{0}}, {`{"mode":"secondary"}`, []int{1, 2}},
		{`{"mode":"secondaryPreferred"}`, []int{1, 2}}, {`{"mode":"nearest"}`, []int{0, 1, 2}},
		{`{"mode":"secondary","tags":[{"n":"none"},{"n":"2"}]}`, []int{2}}, {`{"mode":"secondaryPreferred","tags":[{"n":"none"}]}`, []int{0}},
		{`{"mode":"secondary","maxStalenessSeconds":90}`, []int{1, 2}},
	} {
		rp, err := client.ParseReadPreference(doc(t, l.pref))
		if err != nil {
			t.Fatal(err)
		}
		for range 5 {
			a := run(t, s, client.Call{Read: rp, Idempotent: true}, `{"find":"c","batchSize":0}`)
			i := slices.IndexFunc(members, func(m *servertest.Server) bool { return m.Address == a.Member })
			if !slices.Contains(l.may, i) {
				t.Errorf("%s: member %d answers", l.pref, i)
			}
			// The cursor is there and nowhere else.
			more := fmt.Sprintf(`{"getMore":{"$numberLong":"%d"},"collection":"c"}`, a.Reply.Lookup("cursor").Doc().Lookup("id").Int64())
			if b := run(t, s, client.Call{Member: a.Member}, more); b.Member != a.Member {
				t.Errorf("a cursor of %s is asked for at %s", a.Member, b.Member)
			}
		}
	}
	testSetErrors(t, s)
	go members[0].Stop()
	for i := range 20 {
		run(t, s, client.Call{Idempotent: true}, fmt.Sprintf(`{"update":"c","updates":[{"q":{"_id":%d},"u":{"$set":{"a":1}},"upsert":true}]}`, i))
		time.Sleep(10 * time.Millisecond)
	}
	members[0].Stop()
	if n := run(t, s, client.Call{Idempotent: true}, `{"count":"c"}`).Reply.Lookup("n").Int32(); n != 20 {
		t.Errorf("%d documents after the primary has stopped", n)
	}
}

func testSetErrors(t *testing.T, s *client.Set) {
	if _, err := s.Run(t.Context(), client.Call{DB: "d", Body: doc(t, `{"nosuch":1}`)}); !mongoerr.Is(err, mongoerr.CommandNotFound) {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	nobody := client.Call{DB: "d", Body: doc(t, `{"ping":1}`), Read: client.ReadPreference{Mode: client.Secondary, Tags: []bson.Doc{doc(t, `{"n":"none"}`)}}}
	if _, err := s.Run(ctx, nobody); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	if _, err := s.Run(t.Context(), client.Call{DB: "d", Body: doc(t, `{"ping":1}`), Member: "127.0.0.1:1"}); !mongoerr.Is(err, mongoerr.HostUnreachable) {
		t.Error(err)
	}
}

// ownTimes are those of a process that has a clock of its own, which takes times up to a bound.
type ownTimes struct {
	client.Clock
	atMost uint64
}

func (o *ownTimes) Hear(t uint64) error {
	if t > o.atMost {
		return mongoerr.New(mongoerr.ClusterTimeFailsRateLimiter, "too far ahead")
	}
	return o.Clock.Hear(t)
}

// TestSetTimes: what a set is told carries the time of who asks, so that what is done because of it
// is later; and a reply whose time must not be noted is not used.
func TestSetTimes(t *testing.T) {
	m := startMember(t)
	first := connect(t, client.Options{Address: m.Address})
	if _, err := first.Run(t.Context(), "admin", doc(t, fmt.Sprintf(`{"replSetInitiate":{"_id":"rs0","members":[{"_id":0,"host":"%s"}]}}`, m.Address))); err != nil {
		t.Fatal(err)
	}
	o := &ownTimes{atMost: 1<<64 - 1}
	s := openSet(t, o, m.Address)
	run(t, s, client.Call{}, `{"ping":1}`)
	ahead := o.Now() + 1000<<32
	o.Observe(ahead)
	a := run(t, s, client.Call{}, `{"insert":"c","documents":[{"_id":1}]}`)
	if at := a.Reply.Lookup("operationTime").Timestamp(); at <= ahead || o.Now() < at {
		t.Errorf("the insert was at %d, not behind %d; heard was %d", at, ahead, o.Now())
	}
	bounded := &ownTimes{atMost: ahead}
	if _, err := openSet(t, bounded, m.Address).Run(t.Context(), client.Call{DB: "d", Body: doc(t, `{"ping":1}`)}); !mongoerr.Is(err, mongoerr.ClusterTimeFailsRateLimiter) {
		t.Errorf("a time that is not taken: %v", err)
	}
}

// TestSetClosed: a call that waits for a member ends when the set is closed.
func TestSetClosed(t *testing.T) {
	s := openSet(t, new(client.Clock), "127.0.0.1:1")
	time.AfterFunc(20*time.Millisecond, s.Close)
	if _, err := s.Run(t.Context(), client.Call{DB: "d", Body: doc(t, `{"ping":1}`)}); !mongoerr.Is(err, mongoerr.ShutdownInProgress) {
		t.Error(err)
	}
}

// TestParseSetString: what names a set, and what does not.
func TestParseSetString(t *testing.T) {
	for in, want := range map[string]string{
		"a/h:1": "a/h:1", "a/h:1, i:2": "a/h:1,i:2", "a/h": "a/h:27017", "a/[::1]": "a/[::1]:27017", "a/[::1]:5": "a/[::1]:5",
		"h:1": "", "/h": "", "a/": "", "a/h,,i": "", "a/b/c": "",
	} {
		s, err := client.ParseSetString(in)
		if want == "" && !mongoerr.Is(err, mongoerr.FailedToParse) || want != "" && (err != nil || s.String() != want) {
			t.Errorf("%q is %v, %v", in, s, err)
		}
	}
}
