package node

import (
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
)

// Settings that the primary stores are in effect on a secondary once it looks, and after a
// change of the primary both change the same list.
func TestQuerySettingsOfASet(t *testing.T) {
	s := newTestSet(t, "a", "b")
	s.run("a", "admin", `{"replSetInitiate":{"_id":"rs0","members":[{"_id":0,"host":"a:1"},{"_id":1,"host":"b:1","priority":0,"votes":0}]}}`)
	s.wait([]string{"b", "SECONDARY"})
	set := func(field string) {
		r := s.run("a", "admin", `{"setQuerySettings":{"find":"c","filter":{"`+field+`":1},"$db":"d"},"settings":{"reject":true}}`)
		if r.Lookup("ok").Double() != 1 {
			t.Fatal(r)
		}
	}
	set("a")
	set("b")
	b := s.members["b"]
	s.until("rejection", func() bool {
		b.refresh(t.Context())
		r := s.run("b", "d", `{"find":"c","filter":{"b":7},"$readPreference":{"mode":"secondary"}}`)
		return bson.ClampToInt64(r.Lookup("code")) == 411
	})
	if x := b.settings.Load(); x == nil || len(x.all) != 2 {
		t.Errorf("the secondary has %v", x)
	}
	if r := s.run("b", "admin", `{"removeQuerySettings":{"find":"c","filter":{"b":1},"$db":"d"}}`); bson.ClampToInt64(r.Lookup("code")) != 10107 {
		t.Error(r)
	}
}
