package shardsvr

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
)

// logs are the members of a donor, each with the entries of its log from one on up to entries:
// entry n has the time n, and inserts the document with _id n. The next one is being applied.
// before is called before each call.
type logs struct {
	from    map[string]int
	primary string
	entries int
	calls   int
	before  func(call int)
}

// Primary implements other.
func (l *logs) Primary() string { return l.primary }

// Run implements other.
func (l *logs) Run(_ context.Context, c client.Call) (client.Answer, error) {
	l.calls++
	l.before(l.calls)
	a := client.Answer{Member: l.primary}
	if c.Member != "" {
		a.Member = c.Member
	}
	if !c.Body.Has("find") {
		a.Reply = applied(l.entries)
		return a, nil
	}
	after := uint64(0)
	if v := c.Body.Lookup("filter"); v.Type == bson.TypeDocument {
		after = v.Doc().Lookup("ts").Doc().Lookup("$gt").Timestamp()
	}
	b := new(bson.Builder).OpenDoc("cursor").Int64("id", 0).OpenArray("firstBatch")
	for n, limit := 0, int(c.Body.Lookup("limit").Int32()); n < limit; n++ {
		entry := max(l.from[a.Member], int(after)+1) + n
		if entry > l.entries {
			break
		}
		b.OpenDoc(bson.Index(n)).Timestamp("ts", uint64(entry)).String("op", "i").OpenDoc("o").Int32("_id", int32(entry)).Close().Close()
	}
	a.Reply = b.Close().Close().Finish()
	return a, nil
}

// applied is a reply of a member that has applied the entries of its log up to one, and is applying
// the next, of which readers may have seen something.
func applied(entries int) bson.Doc {
	return new(bson.Builder).OpenDoc("lastWrite").OpenDoc("opTime").Timestamp("ts", uint64(entries)).Close().Close().
		Timestamp("operationTime", uint64(entries+1)).Finish()
}

// TestDonorAppliesAnEntry: what readers may have seen is not in the log yet, and is asked for again.
func TestDonorAppliesAnEntry(t *testing.T) {
	l := &logs{from: map[string]int{"a": 1}, primary: "a", entries: 2, before: func(int) {}}
	d := donor{ns: schema.Namespace{DB: "d", Coll: "c"}, set: l}
	last := uint64(1)
	for want := 2; want <= 3; want++ {
		ids, at, more, err := d.changes(t.Context(), last)
		if got := fmt.Sprint(ids, at, more); err != nil || got != fmt.Sprintf("[%d] %d false", want, want) {
			t.Fatal(got, err)
		}
		last = at
		l.entries++
	}
}

// TestDonorLogIsTruncated: whenever the donor's log is truncated past the position, or another
// member with a shorter log becomes the primary, who reads it gets all that it wants or fails.
func TestDonorLogIsTruncated(t *testing.T) {
	for _, fault := range []string{"truncation", "failover"} {
		failed := 0
		for at := 1; at <= 4; at++ {
			l := &logs{from: map[string]int{"a": 1, "b": 7}, primary: "a", entries: 9}
			l.before = func(call int) {
				switch {
				case call != at:
				case fault == "truncation":
					l.from["a"] = 7
				default:
					l.primary = "b"
				}
			}
			d := donor{ns: schema.Namespace{DB: "d", Coll: "c"}, set: l}
			ids, last, more, err := d.changes(t.Context(), 3)
			if err != nil {
				failed++
				if !mongoerr.Is(err, mongoerr.OperationFailed) {
					t.Error(err)
				}
				continue
			}
			if got := fmt.Sprint(ids, last, more); got != "[4 5 6 7 8 9] 9 false" {
				t.Errorf("%s before call %d: %s", fault, at, got)
			}
		}
		if failed == 0 || failed == 4 {
			t.Errorf("%s: %d of 4 fail, which says nothing", fault, failed)
		}
	}
}

// stopped is a shard whose primary "a" does not answer a command; when a time has passed the others
// have another one. It is known from some time on.
type stopped struct {
	began        time.Time
	known, after time.Duration
	command      string // "" for all of them
}

// Primary implements other.
func (s stopped) Primary() string {
	switch passed := time.Since(s.began); {
	case passed < s.known:
		return ""
	case passed <= s.after:
		return "a"
	}
	return "b"
}

// Run implements other.
func (s stopped) Run(ctx context.Context, c client.Call) (client.Answer, error) {
	if name, _ := c.Body.First(); s.command != "" && s.command != name {
		reply := bson.MustParse(`{cursor: {id: NumberLong(7), firstBatch: []}}`)
		if name == "hello" {
			reply = applied(9)
		}
		return client.Answer{Member: "a", Reply: reply}, nil
	}
	<-ctx.Done()
	return client.Answer{}, context.Cause(ctx)
}

// TestAskedPrimaryIsStopped: who waits for a primary that never answers fails with a transient
// error once the shard has another one, and not before; also in the middle of what has several
// requests, and where no primary was known in time to see who is asked.
func TestAskedPrimaryIsStopped(t *testing.T) {
	const after = time.Hour
	ns := schema.Namespace{DB: "d", Coll: "c"}
	request := func(ctx context.Context, s stopped) error {
		_, err := askOther(ctx, s, client.Call{DB: "admin", Body: bson.Empty})
		return err
	}
	for _, x := range []struct {
		name        string
		set         stopped
		least, most time.Duration
		ask         func(context.Context, stopped) error
	}{
		{"a request", stopped{after: after}, after, after + time.Minute, request},
		{"no primary is known at first", stopped{known: time.Second, after: 2 * time.Second}, 0, time.Minute, request},
		{"a find of a member", stopped{after: after}, after, after + time.Minute, func(ctx context.Context, s stopped) error {
			return (&donor{ns: ns, set: s}).reachesBack(ctx, "a", 1)
		}},
		{"killCursors", stopped{after: after, command: "killCursors"}, after, after + time.Minute, func(ctx context.Context, s stopped) error {
			_, _, _, err := (&donor{ns: ns, set: s}).changes(ctx, 1)
			return err
		}},
		{"getMore", stopped{after: after, command: "getMore"}, after, after + time.Minute, func(ctx context.Context, s stopped) error {
			_, err := (&cloner{}).copy(ctx, s, ns)
			return err
		}},
	} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				ctx, end := context.WithTimeout(t.Context(), 2*after)
				defer end()
				x.set.began = began
				if err := x.ask(ctx, x.set); !transient(err) {
					t.Errorf("it fails with %v", err)
				}
				if took := time.Since(began); took < x.least || took > x.most {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}
