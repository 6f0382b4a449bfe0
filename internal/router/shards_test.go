package router

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
)

// TestShardsReadInTurn: a read of config.shards that takes long is not kept over one that began
// later, and those who wait at one time share a read that began after they came.
func TestShardsReadInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &Router{Options: Options{Client: client.Options{Dial: func(ctx context.Context, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}}}
		r.shards = newShards(r)
		s := &r.shards
		defer s.close()
		stored, reads := `[{_id: "a", host: "a/a:1"}]`, 0
		s.read = func(context.Context) ([]bson.Doc, error) {
			reads++
			took := time.Second / time.Duration(reads) // a later one is faster
			at := stored
			time.Sleep(took)
			return documents(bson.MustParse(`{all: ` + at + `}`).Lookup("all")), nil
		}
		var all sync.WaitGroup
		list := func(want string) {
			all.Go(func() {
				names, err := s.names(t.Context())
				if got := strings.Join(names, " "); err != nil || got != want {
					t.Errorf("%q instead of %q, %v", got, want, err)
				}
			})
			synctest.Wait()
		}
		list("a")
		stored = `[{_id: "a", host: "a/a:1"}, {_id: "b", host: "b/b:1"}]`
		list("a b")
		list("a b")
		list("a b")
		all.Wait()
		if s.all["b"] == nil || len(s.all) != 2 {
			t.Errorf("kept: %v", s.all)
		}
		if reads != 2 {
			t.Errorf("%d reads", reads)
		}
		s.close()
		if names, err := s.names(t.Context()); err == nil {
			t.Errorf("after the end: %v", names)
		}
	})
}
