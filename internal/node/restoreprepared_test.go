package node

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/repl"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// commitWithDecision commits transaction 1 of session 1 as the shard does that coordinates it.
func commitWithDecision(t *testing.T, m *testMember, commit uint64) {
	t.Helper()
	id := [16]byte{1}
	session, err := command.ParseSessionID(new(bson.Builder).Binary("id", 4, id[:]).Finish(), m.client.Owner())
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Dispatcher.CommitPart(t.Context(), session, 1, commit, func(u *catalog.Unit) error {
		return u.Insert(t.Context(), m.Catalog.Lookup(DecisionsNamespace), bson.MustParse(`{"_id":1}`))
	}); err != nil {
		t.Fatal(err)
	}
}

// restoredDocuments opens what was restored, and returns how many documents are in test.c, and
// the first of them. Where the transaction was decided here, its decision is there with it.
func restoredDocuments(t *testing.T, open func(dir string) (*storage.Engine, error), dir string, own bool) (docs int64, one string) {
	t.Helper()
	e, err := open(dir)
	if err != nil {
		t.Fatal(err)
	}
	c, err := catalog.Open(e, catalog.Options{Committer: repl.Local{}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := errors.Join(c.Close(), e.Close()); err != nil {
			t.Error(err)
		}
	}()
	keys, err := c.PreparedIn(e)
	if err != nil || len(keys) > 0 {
		t.Errorf("%v is prepared: %v", keys, err)
	}
	coll := c.Lookup(schema.Namespace{DB: "test", Coll: "c"})
	_, doc, closer, err := coll.FindID(nil, e, bson.Int32(1))
	if err != nil {
		t.Fatal(err)
	}
	defer closer.Close()
	docs, one = coll.Count(), doc.String()
	if decisions := c.Lookup(DecisionsNamespace); own && decisions != nil {
		if n := decisions.Count(); (n == 1) != (docs > 2) {
			t.Errorf("with %d documents there are %d decisions", docs, n)
		}
	} else if own && docs > 2 {
		t.Error("there are no decisions")
	}
	return docs, one
}

// TestRestorePrepared restores to times at which a transaction over shards was prepared, by the
// log behind them: it is there from its commit time on, which is before that of the commit's
// entry, and never in part, with the decision, where that is by the same entry; without its decision
// nothing is restored.
func TestRestorePrepared(t *testing.T) {
	for name, large := range map[string]int{"small": 10, "chain": 3 << 20, "decided here": 10} {
		t.Run(name, func(t *testing.T) {
			s := newTestSet(t, "a")
			s.run("a", "admin", `{"replSetInitiate":{}}`)
			s.wait([]string{"a", "PRIMARY"})
			ok := func(line string) bson.Doc {
				t.Helper()
				r := s.statement(line)
				if bson.ToDouble(r.Lookup("ok")) != 1 || r.Has("writeErrors") {
					t.Fatalf("%.200s: %s", line, r)
				}
				return r
			}
			pad := strings.Repeat("x", large)
			ok(`- {"insert":"c","documents":[{"_id":1,"n":1},{"_id":2,"n":1}]}`)
			m := s.members["a"].member
			copies := 0
			copied := func() string {
				t.Helper()
				dir := fmt.Sprintf("copy%d", copies)
				copies++
				if _, err := m.Copy(t.Context(), dir); err != nil {
					t.Fatal(err)
				}
				return dir
			}
			before := []string{copied(), copied(), copied(), copied(), copied()}
			ok(`1 1 start {"update":"c","updates":[{"q":{"_id":1},"u":{"$inc":{"n":10}}}]}`)
			for i := range 9 {
				ok(fmt.Sprintf(`1 1 {"insert":"c","documents":[{"_id":%d,"pad":"%s"}]}`, 10+i, pad))
			}
			own := name == "decided here"
			if own {
				ok(`- config {"create":"transaction_coordinators"}`)
			}
			at := ok(fmt.Sprintf(`1 1 {"prepareTransaction":1,"coordinator":"s0","own":%t}`, own)).Lookup("prepareTimestamp").Timestamp()
			within := []string{copied(), copied(), copied()}
			ok(`- {"update":"c","updates":[{"q":{"_id":2},"u":{"$inc":{"n":10}}}]}`) // behind the prepare
			commit := at + 100
			if own {
				commitWithDecision(t, s.members["a"], commit)
			} else {
				ok(`1 1 {"commitTransaction":1,"commitTimestamp":` + timestamp(commit) + `}`)
			}
			ok(`- {"insert":"c","documents":[{"_id":3}]}`)

			files := s.files["a"]
			open := func(dir string) (*storage.Engine, error) {
				return storage.Open(storage.Options{Dir: dir, FS: files, CacheBytes: 1 << 20, MemtableBytes: 1 << 20})
			}
			restore := func(dir string, until uint64, decided bool) (docs int64, text string, err error) {
				t.Helper()
				r, err := repl.OpenRestoration(files, dir, open, slog.New(slog.DiscardHandler))
				if err != nil {
					t.Fatal(err)
				}
				p, err := m.ReadLog(r.Applied().Index, m.State().Term, 1<<30)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := r.Apply(p.Bytes, repl.Timestamp(until)); err != nil {
					t.Fatal(err)
				}
				if _, since, err := r.Undecided(); err != nil || since != 0 && uint64(since) != at {
					t.Errorf("prepared at %d, and said to be at %d: %v", at, since, err)
				}
				if decided {
					if more, err := r.Decide(p.Bytes, repl.Timestamp(until)); err != nil || more {
						t.Fatalf("more %t: %v", more, err)
					}
				}
				if err := r.Finish(t.Context(), nil); err != nil {
					return 0, "", err
				}
				docs, text = restoredDocuments(t, open, dir, own)
				return docs, text, nil
			}
			const committed, not = "{ _id: 1, n: 11 }", "{ _id: 1, n: 1 }"
			for _, test := range []struct {
				dir   string
				until uint64
				docs  int64
				one   string
			}{
				{before[0], at - 1, 2, not}, {before[1], at, 2, not}, {before[2], commit - 1, 2, not}, {before[3], commit, 11, committed},
				{within[0], commit - 1, 2, not}, {within[1], commit, 11, committed},
			} {
				docs, one, err := restore(test.dir, test.until, true)
				if err != nil || docs != test.docs || one != test.one {
					t.Errorf("%s at %d behind the prepare: %d documents, %s: %v", test.dir, int64(test.until-at), docs, one, err)
				}
			}
			if docs, one, err := restore(before[4], 1<<64-1, true); err != nil || docs != 12 || one != committed {
				t.Errorf("at the end: %d documents, %s: %v", docs, one, err)
			}
			if _, _, err := restore(within[2], at, false); !errors.Is(err, repl.ErrPrepared) {
				t.Errorf("without its decision: %v", err)
			}
		})
	}
}
