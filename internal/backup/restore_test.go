package backup

import (
	"errors"
	"strings"
	"testing"

	"github.com/mayflydb/mayfly/internal/objectstore"
)

// TestUnproven holds that the time which an object of the log has in its name proves nothing: the
// log has been applied, and no entry was of a later time than the one that is restored.
func TestUnproven(t *testing.T) {
	p := &restoredPart{m: &Manifest{name: "backups/" + string(make([]byte, 2*sumBytes))}, part: &Part{Index: 4, Time: 10 << 32}, at: 20 << 32, log: []logObject{
		{name: "log/renamed", first: 5, last: 8, time: 30 << 32}, {name: "log/honest", first: 9, last: 9, time: 15 << 32},
	}}
	var damage *DamageError
	if err := p.unproven(); !errors.As(err, &damage) || damage.Object != "log/renamed" {
		t.Errorf("the error is %v", err)
	}
	p.log = p.log[1:]
	if err := p.unproven(); err == nil || errors.As(err, &damage) && damage.Object == "" {
		t.Errorf("a log that ends before is no error: %v", err)
	}
}

// TestLatestOfCluster holds that a cluster is restored to no time before that of its backup, of
// which the files of the parts are not.
func TestLatestOfCluster(t *testing.T) {
	r, err := Open(t.Context(), objectstore.NewDirectory(t.TempDir()), nil, true)
	if err != nil {
		t.Fatal(err)
	}
	m := &Manifest{name: "backups/" + string(make([]byte, 2*sumBytes)), Part: Part{Time: 20 << 32}, Parts: []*Part{{SetID: "a", Time: 10 << 32}, {SetID: "b", Time: 20 << 32}}}
	if at, err := r.timeOfCluster(t.Context(), m, Latest); err == nil {
		t.Errorf("it would be restored to %s", at)
	}
}

// TestSetsOfOneName holds that no cluster is restored of which two parts are sets of one name, or
// would be.
func TestSetsOfOneName(t *testing.T) {
	for _, c := range []struct {
		config, host string
		refused      bool
	}{{"cfg", "new", false}, {"rs0", "new", true}, {"cfg", "rs1", true}} {
		m := &Manifest{name: "backups/" + string(make([]byte, 2*sumBytes)), Parts: []*Part{{Shard: "s0", Set: "rs0"}, {Shard: configPart, Set: c.config}}}
		if err := m.checkHosts(map[string]string{"s0": "rs1/h:1", configPart: c.host + "/h:2"}); (err != nil) != c.refused {
			t.Errorf("%s, which will be %s: %v", c.config, c.host, err)
		}
	}
}

// TestPartsOfOneTime holds that parts are restored by themselves only to a time that is the same
// at the next run, and that the error has one.
func TestPartsOfOneTime(t *testing.T) {
	r, err := Open(t.Context(), objectstore.NewDirectory(t.TempDir()), nil, true)
	if err != nil {
		t.Fatal(err)
	}
	m := &Manifest{name: "backups/" + string(make([]byte, 2*sumBytes)), Part: Part{Time: 20 << 32}, Parts: []*Part{{Shard: "s0", Set: "s0", SetID: "a", Time: 20 << 32}}}
	for _, c := range []struct {
		at     Time
		backup string
		fixed  bool
	}{{0, "", false}, {0, "2026", true}, {20 << 32, "", true}, {Latest, "", false}, {Latest, "2026", false}} {
		o := RestoreOptions{At: c.at, Backup: c.backup, Hosts: map[string]string{"s0": "s0/h:1"}, Parts: []string{"s0"}}
		if o.fixesTime() != c.fixed {
			t.Errorf("%s of %q: %v", c.at, c.backup, !c.fixed)
		}
		if c.at == Latest {
			continue // which needs a log
		}
		if _, err := r.restoreCluster(t.Context(), m, o); err == nil || strings.Contains(err.Error(), "say --at 20.0 ") == c.fixed {
			t.Errorf("%s of %q: %v", c.at, c.backup, err)
		}
	}
}
