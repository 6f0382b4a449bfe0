package node

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
)

// inside waits until somebody is inside the write gate of a.
func (s *testSet) inside() {
	s.t.Helper()
	s.until("write inside the gate", func() bool {
		short, stop := context.WithTimeout(s.t.Context(), time.Millisecond)
		defer stop()
		return s.members["a"].Dispatcher.Gate.Drain(short) != nil
	})
}

// TestFsyncLockLetsTransactionsEnd holds that fsyncLock, which waits for a writer that
// waits for a transaction, lets the transaction write on and end: they would wait for each
// other otherwise. What comes after waits for the unlock.
func TestFsyncLockLetsTransactionsEnd(t *testing.T) {
	for _, end := range []string{"commitTransaction", "abortTransaction"} {
		t.Run(end, func(t *testing.T) {
			s := newTestSet(t, "a")
			s.run("a", "admin", `{"replSetInitiate":{}}`)
			s.wait([]string{"a", "PRIMARY"})
			ok := func(line string) bson.Doc {
				t.Helper()
				r := s.statement(line)
				if r.Lookup("ok").Double() != 1 || r.Has("writeErrors") {
					t.Fatalf("%s: %s", line, r)
				}
				return r
			}
			ok(`- {"insert":"c","documents":[{"_id":1,"n":0},{"_id":2,"n":0}]}`)
			ok(`1 1 start {"update":"c","updates":[{"q":{"_id":1},"u":{"$inc":{"n":1}}}]}`)
			m := s.members["a"]
			other := func(db, text string) bson.Doc {
				return m.Dispatcher.Dispatch(t.Context(), &command.Request{Client: &command.Client{ConnectionID: 7}, DB: db, Body: bson.MustParse(text)}).Body
			}
			var work sync.WaitGroup
			defer work.Wait()
			work.Go(func() {
				if r := other("test", `{"update":"c","updates":[{"q":{"_id":1},"u":{"$inc":{"n":10}}}]}`); bson.ClampToInt64(r.Lookup("n")) != 1 {
					t.Errorf("the writer: %s", r)
				}
			})
			s.inside()
			work.Go(func() {
				if r := other("admin", `{"fsync":1,"lock":true}`); r.Lookup("ok").Double() != 1 {
					t.Errorf("fsync: %s", r)
				}
			})
			s.until("lock", func() bool { return m.Dispatcher.Gate.Locks() == 1 })
			ok(`1 1 {"update":"c","updates":[{"q":{"_id":2},"u":{"$inc":{"n":1}}}],"maxTimeMS":20000}`)
			ok(fmt.Sprintf(`1 1 {"%s":1,"maxTimeMS":20000}`, end))
			work.Wait()
			if r := other("test", `{"insert":"c","documents":[{}],"maxTimeMS":50}`); r.Lookup("code").Int32() != 50 {
				t.Errorf("a write under the lock: %s", r)
			}
			ok(`- admin {"fsyncUnlock":1}`)
			ok(`- {"insert":"c","documents":[{"_id":3}]}`)
		})
	}
}

// TestBlockBrakes holds that nothing is written once setUserWriteBlockMode has answered:
// not by who writes meanwhile, nor by a transaction.
func TestBlockBrakes(t *testing.T) {
	s := newTestSet(t, "a")
	s.run("a", "admin", `{"replSetInitiate":{}}`)
	s.wait([]string{"a", "PRIMARY"})
	m := s.members["a"]
	run := func(db, text string) bson.Doc {
		return m.Dispatcher.Dispatch(t.Context(), &command.Request{Client: &command.Client{ConnectionID: 7}, DB: db, Body: bson.MustParse(text)}).Body
	}
	run("test", `{"insert":"c","documents":[{"_id":-1,"n":0}]}`)
	count := func() int64 { return bson.ClampToInt64(run("test", `{"count":"c"}`).Lookup("n")) }
	for i := range 20 {
		if r := s.statement(fmt.Sprintf(`1 %d start {"insert":"c","documents":[{}]}`, i)); r.Lookup("ok").Double() != 1 {
			t.Fatal(r)
		}
		var writers sync.WaitGroup
		var written, refused atomic.Int64
		for range 4 {
			writers.Go(func() {
				for {
					r := run("test", `{"insert":"c","documents":[{}]}`)
					if bson.ClampToInt64(r.Lookup("n")) == 1 {
						written.Add(1)
						continue
					}
					if code := r.Lookup("writeErrors").Doc().Lookup("0").Doc().Lookup("code").Int32(); code != 371 {
						t.Errorf("refused by %s", r)
					}
					refused.Add(1)
					return
				}
			})
		}
		s.until("writers", func() bool { return written.Load() > 10 })
		if r := run("admin", `{"setUserWriteBlockMode":1,"global":true}`); r.Lookup("ok").Double() != 1 {
			t.Fatal(r)
		}
		before := count()
		if r := s.statement(fmt.Sprintf(`1 %d {"commitTransaction":1}`, i)); r.Lookup("code").Int32() != 371 {
			t.Errorf("a transaction from before: %s", r)
		}
		writers.Wait()
		if after := count(); after != before || refused.Load() != 4 {
			t.Fatalf("%d documents when it was blocked, and %d later; %d were refused", before, after, refused.Load())
		}
		if r := run("admin", `{"setUserWriteBlockMode":1,"global":false}`); r.Lookup("ok").Double() != 1 {
			t.Fatal(r)
		}
		if r := s.statement(fmt.Sprintf(`1 %d {"abortTransaction":1}`, i)); r.Lookup("code").Int32() != 251 {
			t.Errorf("it was aborted: %s", r)
		}
		run("test", `{"delete":"c","deletes":[{"q":{"_id":{"$ne":-1}},"limit":0}]}`)
	}
}

// TestBlockWaitsForWriters holds that a block waits for who writes already, here a writer
// that waits for a transaction: its write is there when the block is answered. The
// transaction, which has written before, can no longer commit.
func TestBlockWaitsForWriters(t *testing.T) {
	s := newTestSet(t, "a")
	s.run("a", "admin", `{"replSetInitiate":{}}`)
	s.wait([]string{"a", "PRIMARY"})
	m := s.members["a"]
	run := func(db, text string) bson.Doc {
		return m.Dispatcher.Dispatch(t.Context(), &command.Request{Client: &command.Client{ConnectionID: 7}, DB: db, Body: bson.MustParse(text)}).Body
	}
	run("test", `{"insert":"c","documents":[{"_id":1,"n":0}]}`)
	s.statement(`1 1 start {"update":"c","updates":[{"q":{"_id":1},"u":{"$inc":{"n":1}}}]}`)
	var work sync.WaitGroup
	work.Go(func() {
		if r := run("test", `{"update":"c","updates":[{"q":{"_id":1},"u":{"$inc":{"n":10}}}]}`); bson.ClampToInt64(r.Lookup("n")) != 1 {
			t.Errorf("the writer: %s", r)
		}
	})
	s.inside()
	work.Go(func() {
		if r := run("admin", `{"setUserWriteBlockMode":1,"global":true}`); r.Lookup("ok").Double() != 1 {
			t.Errorf("the block: %s", r)
		}
		if r := run("test", `{"find":"c"}`); !strings.Contains(r.String(), "n: 10 ") {
			t.Errorf("once it is answered: %s", r)
		}
	})
	s.until("refusal", func() bool { return m.Dispatcher.UserWrites.Blocked() != nil })
	if r := s.statement(`1 1 {"commitTransaction":1}`); r.Lookup("code").Int32() != 371 {
		t.Errorf("the transaction: %s", r)
	}
	work.Wait()
}
