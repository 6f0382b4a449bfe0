package repl_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/repl"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// TestOperationTimeOfWhatIsBeingApplied: once an entry's effect can be read, an operation's time is
// not before the entry, though the group's goroutine, which may wait for a disk, does not know yet
// that it is applied; and who waits for that time waits until it is.
func TestOperationTimeOfWhatIsBeingApplied(t *testing.T) {
	fs := storage.NewMemFS()
	m, err := repl.OpenMember(repl.MemberOptions{Set: "rs0", FS: fs, Dir: "db", Open: func(dir string) (*storage.Engine, error) {
		return storage.Open(storage.Options{Dir: dir, FS: fs, CacheBytes: 1 << 20, MemtableBytes: 1 << 20})
	}, Network: repl.NetworkOptions{Host: "a:1"}, Fatal: func(err error) { t.Error(err) }})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := m.Stop(); err != nil {
			t.Error(err)
		}
	}()
	if err := m.Initiate(t.Context(), &repl.Config{Set: "rs0", Version: 1, Election: 500 * time.Millisecond, Members: []repl.MemberConfig{{Host: "a:1", Priority: 1, Votes: 1}}}); err != nil {
		t.Fatal(err)
	}
	for m.Writable() != nil {
		time.Sleep(time.Millisecond)
	}
	coll, err := m.Catalog().Create(t.Context(), schema.Namespace{DB: "d", Coll: "c"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	m.SetChains(4000, 1000)
	resume, err := m.HoldApplied(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	wrote := new(repl.OpTime)
	written := make(chan error)
	go func() {
		ctx := repl.WithOpTime(context.Background(), wrote)
		written <- m.Catalog().Run(ctx, storage.Journaled, func(u *catalog.Unit) error {
			for id := range int32(100) {
				if err := u.Insert(ctx, coll, new(bson.Builder).Int32("_id", id).String("pad", strings.Repeat("x", 80)).Finish()); err != nil {
					return err
				}
			}
			return nil
		})
	}()
	for coll.Count() < 100 {
		time.Sleep(time.Millisecond)
	}
	d := command.NewDispatcher(slog.New(slog.DiscardHandler))
	d.Member = m
	d.Registry.Register(&command.Command{Name: "ping", Flags: command.NoAuth, Run: func(context.Context, *command.Op) error { return nil }})
	reply := d.Dispatch(t.Context(), &command.Request{Client: &command.Client{ConnectionID: 1}, DB: "d", Body: new(bson.Builder).Int32("ping", 1).Finish()}).Body
	told, applied := repl.Timestamp(reply.Lookup("operationTime").Timestamp()), m.Applied().Time
	soon, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := m.WaitTime(soon, told); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("that time is reached before the entry is applied: %v", err)
	}
	resume()
	if err := <-written; err != nil {
		t.Fatal(err)
	}
	if err := m.WaitTime(t.Context(), told); err != nil {
		t.Error(err)
	}
	if last := wrote.Last(); told < last.Time || applied >= last.Time {
		t.Errorf("when the entry at %s could be read, %s was applied and operationTime was %s", last.Time, applied, told)
	}
}
