package node

import (
	"fmt"
	"sync"
	"testing"
)

// TestDefaultsAtOneTime: two clients that set different defaults at one time both have done so.
func TestDefaultsAtOneTime(t *testing.T) {
	s := newTestSet(t, "a")
	s.run("a", "admin", `{"replSetInitiate":{"_id":"rs0","members":[{"_id":0,"host":"a:1"}]}}`)
	s.wait([]string{"a", "PRIMARY"})
	for n := range 50 {
		level, timeout := []string{"majority", "local"}[n%2], 1000+n
		var both sync.WaitGroup
		both.Go(func() {
			s.run("a", "admin", fmt.Sprintf(`{"setDefaultRWConcern":1,"defaultReadConcern":{"level":"%s"}}`, level))
		})
		both.Go(func() {
			s.run("a", "admin", fmt.Sprintf(`{"setDefaultRWConcern":1,"defaultWriteConcern":{"w":1,"wtimeout":%d}}`, timeout))
		})
		both.Wait()
		now := s.must("a", "admin", `{"getDefaultRWConcern":1}`)
		if got := now.Lookup("defaultReadConcern").Doc().Lookup("level").Str(); got != level {
			t.Fatalf("the read concern is lost: %s", now)
		}
		if got := now.Lookup("defaultWriteConcern").Doc().Lookup("wtimeout").String(); got != fmt.Sprint(timeout) {
			t.Fatalf("the write concern is lost: %s", now)
		}
	}
}
