package cluster

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mayflydb/mayfly/internal/testkit"
)

// TestDoctorOfSecuredCluster: what a user may not ask is told as that, with what to do; done, all
// of the cluster is looked at.
func TestDoctorOfSecuredCluster(t *testing.T) {
	c, root := secured(t, keyFile(t, "b3VycyBhbG9uZQ=="))
	admin := root.Database("admin")
	run(t, admin, bson.D{{Key: "shardCollection", Value: "app.c"}, {Key: "key", Value: bson.D{{Key: "_id", Value: "hashed"}}}})
	watch := func(roles ...string) bson.D {
		return bson.D{{Key: "createUser", Value: "watch"}, {Key: "pwd", Value: "pw"}, {Key: "roles", Value: roles}}
	}
	run(t, admin, watch("clusterMonitor"))
	// examine returns the findings of checks about who is asked.
	examine := func() (all []string) {
		_, out := testkit.Exec(t, nil, "doctor", "--json", "--uri", fmt.Sprintf("mongodb://watch:pw@127.0.0.1:%d/", c.routers[0].Port))
		var r struct {
			Servers  []string
			Findings []struct{ Check, Where, Text, Do string }
		}
		if err := json.Unmarshal([]byte(out), &r); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if len(r.Servers) != 4 {
			t.Errorf("looked at %v", r.Servers)
		}
		for _, f := range r.Findings {
			if slices.Contains([]string{"unreachable", "member-down", "no-primary", "not-examined"}, f.Check) {
				all = append(all, f.Check+" "+f.Text+" "+f.Do)
			}
		}
		return all
	}
	all := examine()
	if n := strings.Count(strings.Join(all, "\n"), "unreachable It is up, and does not let the user in"); len(all) != 3 || n != 2 || !strings.HasSuffix(all[2], "clusterManager, readAnyDatabase.") {
		t.Errorf("without users of the shards, and with clusterMonitor alone:\n%s", strings.Join(all, "\n"))
	}
	run(t, admin, bson.D{{Key: "grantRolesToUser", Value: "watch"}, {Key: "roles", Value: bson.A{"clusterManager", "readAnyDatabase"}}})
	for _, s := range c.shards {
		first := s.Direct().Database("admin") // as the first user of the shard
		run(t, first, bson.D{{Key: "createUser", Value: "root"}, {Key: "pwd", Value: "pw"}, {Key: "roles", Value: bson.A{"root"}}})
		run(t, as(t, s, "root").Database("admin"), watch("clusterMonitor", "readAnyDatabase"))
	}
	until(t, "the router to know of the roles", func() error {
		if all := examine(); len(all) > 0 {
			return fmt.Errorf("%q", all)
		}
		return nil
	})
}
