package node

import (
	"encoding/binary"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog/retryable"
	"github.com/mayflydb/mayfly/internal/command"
)

// user is a client with a session of its own.
type user struct {
	s       *testSet
	session retryable.Session
	clients map[string]*command.Client // one for each member
}

func (s *testSet) user(id byte) *user {
	u := &user{s: s, session: retryable.Session{ID: [16]byte{id}}, clients: map[string]*command.Client{}}
	for name, m := range s.members {
		u.clients[name] = &command.Client{ConnectionID: int64(id) + 10, Remote: "127.0.0.1:40001"}
		m.Dispatcher.Clients.Connect(u.clients[name])
	}
	return u
}

// send sends a command as the operation txn to a member.
func (u *user) send(name, text string, txn int64) bson.Doc {
	b := new(bson.Builder).Fields(bson.MustParse(text))
	b.OpenDoc("lsid").Binary("id", 4, u.session.ID[:]).Close().Int64("txnNumber", txn)
	return u.s.members[name].Dispatcher.Dispatch(u.s.t.Context(), &command.Request{Client: u.clients[name], DB: "test", Body: b.Finish()}).Body
}

// insist sends a command again and again, to whoever may be the primary, until it is
// answered without an error.
func (u *user) insist(names []string, text string, txn int64) bson.Doc {
	var d bson.Doc
	u.s.until("answer", func() bool {
		for _, name := range names {
			if d = u.send(name, text, txn); bson.ToDouble(d.Lookup("ok")) == 1 {
				return true
			}
			if code := d.Lookup("code").Int32(); code != 10107 && code != 11602 && code != 189 {
				u.s.t.Errorf("%s", d)
				return true
			}
		}
		return false
	})
	if d.Has("writeErrors") {
		u.s.t.Errorf("%s", d)
	}
	return d
}

// open3 makes a set of three members.
func open3(t *testing.T) (*testSet, []string) {
	names := []string{"a", "b", "c"}
	s := newTestSet(t, names...)
	if d := s.run("a", "admin", `{"replSetInitiate": {"_id": "rs0", "members": [{"_id": 0, "host": "a:1"}, {"_id": 1, "host": "b:1"}, {"_id": 2, "host": "c:1"}]}}`); bson.ToDouble(d.Lookup("ok")) != 1 {
		t.Fatal(d)
	}
	for _, name := range names {
		s.wait([]string{name, "sees", "3"})
	}
	return s, names
}

// TestRetriedOnce has clients count while the primary steps down: whatever they send
// again, to whom, counts once.
func TestRetriedOnce(t *testing.T) {
	const clients, stepDowns = 4, 3
	s, names := open3(t)
	over := make(chan struct{})
	counted := make([]int64, clients)
	var work sync.WaitGroup
	for i := range clients {
		u := s.user(byte(i + 1))
		id := string(rune('0' + i))
		work.Go(func() {
			for {
				txn := counted[i] + 1
				u.insist(names, `{"update": "c", "updates": [{"q": {"_id": `+id+`}, "u": {"$inc": {"n": 1}}, "upsert": true}, {"q": {"_id": "`+id+`"}, "u": {"$inc": {"n": 1}}, "upsert": true}]}`, txn)
				counted[i] = txn
				select {
				case <-over:
					return
				default:
				}
			}
		})
	}
	for range stepDowns {
		s.until("step down", func() bool {
			for _, name := range names {
				d := s.run(name, "admin", `{"replSetStepDown": 2, "secondaryCatchUpPeriodSecs": 1}`)
				if bson.ToDouble(d.Lookup("ok")) == 1 {
					return true
				}
			}
			return false
		})
	}
	close(over)
	work.Wait()
	for i, want := range counted {
		id := string(rune('0' + i))
		d := s.user(100+byte(i)).insist(names, `{"findAndModify": "c", "query": {"_id": `+id+`}, "remove": true}`, 1)
		got, _ := bson.ExactInt64(d.Lookup("value").Doc().Lookup("n"))
		e := s.user(200+byte(i)).insist(names, `{"findAndModify": "c", "query": {"_id": "`+id+`"}, "remove": true}`, 1)
		also, _ := bson.ExactInt64(e.Lookup("value").Doc().Lookup("n"))
		if got != want || also != want {
			t.Errorf("client %d counted to %d, and the documents to %d and %d", i, want, got, also)
		}
	}
}

// TestOneTurn: of two attempts at a time one executes the statement, and the other one
// waits and is answered from its record.
func TestOneTurn(t *testing.T) {
	s := newTestSet(t, "a")
	s.run("a", "admin", `{"replSetInitiate": {}}`)
	s.wait([]string{"a", "PRIMARY"})
	const attempts, txns = 4, 50
	u := make([]*user, attempts)
	for i := range u {
		u[i] = s.user(1)
	}
	for txn := range int64(txns) {
		var work sync.WaitGroup
		var mu sync.Mutex
		retried := 0
		for i := range attempts {
			work.Go(func() {
				d := u[i].send("a", `{"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$inc": {"n": 1}}, "upsert": true}]}`, txn)
				mu.Lock()
				defer mu.Unlock()
				if d.Has("retriedStmtIds") {
					retried++
				}
			})
		}
		work.Wait()
		if retried != attempts-1 {
			t.Fatalf("%d of %d attempts were answered from the record", retried, attempts)
		}
	}
	d := s.run("a", "test", `{"find": "c"}`).String()
	if !strings.Contains(d, "n: 50 }") {
		t.Errorf("the document is %s", d)
	}
}

// TestForgottenSessions: what a session has executed is forgotten once nobody has used
// it for so long, and no session that is in use.
func TestForgottenSessions(t *testing.T) {
	s := newTestSet(t, "a")
	s.run("a", "admin", `{"replSetInitiate": {}}`)
	s.wait([]string{"a", "PRIMARY"})
	const sessions = 600
	u := s.user(1)
	for i := range sessions {
		binary.BigEndian.PutUint32(u.session.ID[1:], uint32(i))
		u.send("a", `{"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$inc": {"n": 1}}, "upsert": true}, {"q": {"n": {"$gt": 0}}, "u": {"$inc": {"n": 1}}}]}`, 1)
	}
	c := s.members["a"].Catalog
	busy := 0
	reserved, released := 0, 0
	forget := func(before time.Time) int {
		n, err := c.ForgetSessions(t.Context(), before.UnixMilli(), func(s retryable.Session) func() {
			if busy > 0 {
				busy--
				return nil
			}
			reserved++
			return func() { released++ }
		})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := forget(time.Now().Add(-time.Hour)); n != 0 || reserved != 0 {
		t.Errorf("%d young sessions were forgotten, %d were asked for", n, reserved)
	}
	busy = 3
	if n := forget(time.Now().Add(time.Hour)); n != sessions-3 || reserved != n || released != n {
		t.Errorf("%d sessions were forgotten, %d reserved and %d released", n, reserved, released)
	}
	if n := forget(time.Now().Add(time.Hour)); n != 3 {
		t.Errorf("%d sessions were left", n)
	}
}
