package cluster

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// versionReader reads the feeds of all versions and deletes of all ranges, none of which is
// split.
type versionReader struct {
	*feedReader
	// told is what each item's events were, in their order: create, replace, delete, expire.
	told map[string][]string
}

// event is one of the feed.
type event struct {
	Current, Previous struct {
		ID string
		N  *int
	}
	Metadata struct {
		OperationType     string
		ID                string
		TimeToLiveExpired bool
	}
}

// drain reads all feeds until each has nothing new; the first time it begins them.
func (v *versionReader) drain() {
	v.t.Helper()
	for _, k := range v.ranges() {
		v.read(k.ID, map[string]string{"x-ms-documentdb-partitionkeyrangeid": k.ID})
	}
}

// read reads a feed, whose name is the reader's, until it has nothing new.
func (v *versionReader) read(name string, of map[string]string) {
	v.t.Helper()
	from := v.at[name]
	for first := from == ""; ; first = false {
		if first {
			from = "*"
		}
		headers := map[string]string{"A-IM": "Full-Fidelity Feed", "x-ms-max-item-count": "7", "If-None-Match": from}
		maps.Copy(headers, of)
		status, h, text := v.do("GET", countersOf+"/docs", "", headers)
		if status != http.StatusOK && status != http.StatusNotModified {
			v.t.Fatalf("feed of %s from %s: %d: %s", name, from, status, text)
		}
		from = h.Get("etag")
		v.at[name] = from
		v.pages++
		if status == http.StatusNotModified {
			break
		}
		var page struct{ Documents []event }
		if err := json.Unmarshal(text, &page); err != nil {
			v.t.Fatal(err, string(text))
		}
		for _, e := range page.Documents {
			id, what := e.Current.ID, e.Metadata.OperationType
			switch {
			case what == "delete" && e.Metadata.TimeToLiveExpired:
				id, what = e.Metadata.ID, "expire"
			case what == "delete":
				id = e.Metadata.ID
			case what == "replace":
				what = fmt.Sprintf("replace %d by %d", *e.Previous.N, *e.Current.N)
			}
			v.told[id] = append(v.told[id], what)
		}
	}
}

// TestCosmosAllVersions: the feed of all versions and deletes of a container on a cluster has
// each event once and in the order of its item, while chunks move between pages, also to a shard
// that was added later.
func TestCosmosAllVersions(t *testing.T) {
	c := start(t, 2, 1)
	c.admin(t, bson.D{{Key: "balancerStop", Value: 1}})
	a := &account{t: t, base: c.withCosmos(t)}
	a.must(http.StatusCreated, "POST", "/dbs", `{"id":"app"}`, nil)
	a.must(http.StatusCreated, "POST", "/dbs/app/colls", `{"id":"counters","partitionKey":{"paths":["/pk"]},"defaultTtl":-1,"changeFeedPolicy":{"retentionDuration":10}}`, nil)
	var sharded struct {
		ID string `bson:"_id"`
	}
	client := c.routers[0].Client()
	if err := client.Database("config").Collection("collections").FindOne(t.Context(), bson.D{{Key: "key", Value: bson.D{{Key: "_id.p", Value: "hashed"}}}}).Decode(&sharded); err != nil {
		t.Fatal(err)
	}
	v := &versionReader{&feedReader{account: a, at: map[string]string{}}, map[string][]string{}}
	v.drain()
	one := &versionReader{&feedReader{account: a, at: map[string]string{}}, map[string][]string{}}
	one.read("p2", partitionOf(2))
	want, moves := map[string][]string{}, 0
	const rounds, items = 4, 30
	for round := range rounds {
		for i := range items {
			id := fmt.Sprintf("%d-%d", round, i)
			a.must(http.StatusCreated, "POST", countersOf+"/docs", fmt.Sprintf(`{"id":"%s","pk":"p%d","n":0}`, id, i), partitionOf(i))
			want[id] = append(want[id], "create")
			for n := range i % 3 {
				a.must(http.StatusOK, "PATCH", countersOf+"/docs/"+id, `[{"op":"incr","path":"/n","value":1}]`, partitionOf(i))
				want[id] = append(want[id], fmt.Sprintf("replace %d by %d", n, n+1))
			}
			if round > 0 && i%2 == 0 {
				id := fmt.Sprintf("%d-%d", round-1, i)
				a.must(http.StatusNoContent, "DELETE", countersOf+"/docs/"+id, "", partitionOf(i))
				want[id] = append(want[id], "delete")
			}
		}
		if round == 1 {
			c.addShard(t, 2)
		}
		for _, k := range c.chunksOf(t, sharded.ID) {
			if c.move(t, client, sharded.ID, k) {
				moves++
			}
		}
		if round != 2 { // then a page reaches over two rounds of moves
			v.drain()
		}
	}
	a.must(http.StatusCreated, "POST", countersOf+"/docs", `{"id":"short","pk":"p1","n":0,"ttl":1}`, partitionOf(1))
	want["short"] = []string{"create", "expire"}
	until(t, "the expiry is told", func() error {
		if v.drain(); len(v.told["short"]) < 2 {
			return fmt.Errorf("%v", v.told["short"])
		}
		return nil
	})
	for _, id := range slices.Sorted(maps.Keys(want)) {
		if got := strings.Join(v.told[id], ", "); got != strings.Join(want[id], ", ") {
			t.Errorf("%s: told was %s; it was %s", id, got, strings.Join(want[id], ", "))
		}
	}
	if len(v.told) != len(want) {
		t.Errorf("%d items were told, and %d were written", len(v.told), len(want))
	}
	one.read("p2", partitionOf(2))
	for id, got := range one.told {
		if !strings.HasSuffix(id, "-2") || strings.Join(got, ", ") != strings.Join(want[id], ", ") {
			t.Errorf("%s: told in the partition was %v; it was %v", id, got, want[id])
		}
	}
	if len(one.told) != rounds {
		t.Errorf("%d items of a partition were told, and %d were written", len(one.told), rounds)
	}
	if moves == 0 {
		t.Error("no chunk was moved")
	}
	for i, s := range c.shards { // each keeps its log, also the one that came later
		var kept struct{ Minutes int64 }
		if err := s.Direct().Database("config").Collection("clusterParameters").FindOne(t.Context(), bson.D{{Key: "_id", Value: "changeFeedRetention"}}).Decode(&kept); err != nil || kept.Minutes != 10 {
			t.Errorf("shard %d keeps its log for %d minutes: %v", i, kept.Minutes, err)
		}
	}
	for from, status := range map[string]int{"": http.StatusBadRequest, "x": http.StatusBadRequest, "82.0.0": http.StatusBadRequest} {
		headers := map[string]string{"A-IM": "Full-Fidelity Feed", "x-ms-documentdb-partitionkeyrangeid": v.ranges()[0].ID}
		if from != "" {
			headers["If-None-Match"] = from
		}
		a.must(status, "GET", countersOf+"/docs", "", headers)
	}
	begun := time.Now()
	v.drain()
	t.Logf("%d pages, %d moves; pages of all ranges with nothing new took %s", v.pages, moves, time.Since(begun))
}
