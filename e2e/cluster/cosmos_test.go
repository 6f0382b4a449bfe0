package cluster

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mayflydb/mayfly/internal/testkit"
)

// accountKey is the key of the vendor's emulator.
const accountKey = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw=="

// withCosmos adds a router with the endpoint, and returns the endpoint's URL.
func (c *cluster) withCosmos(t *testing.T, args ...string) string {
	port := testkit.FreePort(t)
	c.addCosmosRouter(t, append([]string{"--cosmosPort", strconv.Itoa(port), "--cosmosTls", "off"}, args...)...)
	return fmt.Sprintf("http://localhost:%d", port)
}

func (c *cluster) addCosmosRouter(t *testing.T, args ...string) {
	args = append([]string{"--cosmos", "--cosmosConsistency", "Strong"}, args...)
	c.routers = append(c.routers, testkit.StartRouter(t, host("cfg", c.config), args...))
}

// TestCosmosSDK: what e2e/cosmos tests through the SDKs for JavaScript and Go holds through a router,
// while chunks of all containers move and split.
func TestCosmosSDK(t *testing.T) {
	dir, err := filepath.Abs("../cosmos")
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv("COSMOS_SDK") == "" {
		t.Skip("e2e/cosmos/run runs this, once the SDKs are installed")
	}
	c := start(t, 2, 1)
	c.admin(t, bson.D{{Key: "balancerStop", Value: 1}})
	certificate := t.TempDir()
	env := append(os.Environ(), "COSMOS_ENDPOINT="+c.withCosmos(t), "COSMOS_KEY="+accountKey, "COSMOS_CLUSTER=1",
		"EMULATOR=true", "SSL_CERT_FILE="+filepath.Join(certificate, "cert.pem"))
	// The Go SDK's own tests know these ports, this region and these addresses by heart.
	c.addCosmosRouter(t, "--cosmosPort", "8081", "--cosmosComputePort", "8903", "--cosmosEndpoint", "https://127.0.0.1:8081/", "--cosmosTlsDirectory", certificate)
	ended, moves := make(chan error), 0
	go func() {
		for _, tests := range [][]string{
			{dir, "node", "--test"}, {filepath.Join(dir, "sdk"), "go", "test", "-count=1", "."},
			// Both want all items in the order of their creation, whatever their partitions.
			{filepath.Join(dir, "sdk"), "go", "test", "-count=1", "-skip", "^(TestCrossPartitionQuery|TestHierarchicalPartitionQueryNoPartition)$", "github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"},
		} {
			sdk := exec.CommandContext(t.Context(), tests[1], tests[2:]...)
			sdk.Dir, sdk.Env = tests[0], env
			if out, err := sdk.CombinedOutput(); err != nil {
				t.Errorf("%v: %v\n%s", tests, err, out)
			}
		}
		close(ended)
	}()
	for running := true; running; {
		if c.moveOfAny(t) {
			moves++
		}
		select {
		case <-ended:
			running = false
		default:
		}
	}
	if moves == 0 {
		t.Error("no chunk was moved")
	}
	t.Logf("%d moves", moves)
}

// moveOfAny moves or splits a chunk of a container chosen at random, and reports whether it did.
func (c *cluster) moveOfAny(t *testing.T) bool {
	client := c.routers[0].Client()
	cur, err := client.Database("config").Collection("collections").Find(t.Context(), bson.D{{Key: "key", Value: bson.D{{Key: "_id.p", Value: "hashed"}}}})
	if err != nil {
		return false
	}
	var all []struct {
		ID string `bson:"_id"`
	}
	if err := cur.All(t.Context(), &all); err != nil || len(all) == 0 {
		return false
	}
	ns := all[rand.IntN(len(all))].ID
	var chunks []chunk
	var of struct{ UUID bson.Binary }
	config := client.Database("config")
	if err := config.Collection("collections").FindOne(t.Context(), bson.D{{Key: "_id", Value: ns}}).Decode(&of); err != nil {
		return false // it was dropped meanwhile
	}
	if cur, err = config.Collection("chunks").Find(t.Context(), bson.D{{Key: "uuid", Value: of.UUID}}); err != nil || cur.All(t.Context(), &chunks) != nil || len(chunks) == 0 {
		return false
	}
	k := chunks[rand.IntN(len(chunks))]
	if rand.IntN(8) == 0 {
		return client.Database("admin").RunCommand(t.Context(), bson.D{{Key: "split", Value: ns}, {Key: "bounds", Value: bson.A{k.Min, k.Max}}}).Err() == nil
	}
	return c.move(t, client, ns, k)
}

// account is a client of the REST protocol.
type account struct {
	t    *testing.T
	base string
	// mayFail says that servers are killed: requests may remain unanswered (status 503).
	mayFail bool
}

// do sends a signed request, and returns the status, the headers and the body.
func (a *account) do(method, path, body string, headers map[string]string) (int, http.Header, []byte) {
	a.t.Helper()
	names := strings.Split(strings.Trim(path, "/"), "/")
	kind, link := names[len(names)-1], strings.Join(names[:len(names)-1], "/")
	if len(names)%2 == 0 {
		kind, link = names[len(names)-2], strings.Join(names, "/")
	}
	date := time.Now().UTC().Format(http.TimeFormat)
	key, _ := base64.StdEncoding.DecodeString(accountKey)
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(strings.ToLower(method) + "\n" + kind + "\n" + link + "\n" + strings.ToLower(date) + "\n\n"))
	r, err := http.NewRequest(method, a.base+path, strings.NewReader(body))
	if err != nil {
		a.t.Error(err)
		return 0, nil, nil
	}
	for name, v := range headers {
		r.Header.Set(name, v)
	}
	r.Header.Set("x-ms-date", date)
	r.Header.Set("authorization", url.QueryEscape("type=master&ver=1.0&sig="+base64.StdEncoding.EncodeToString(mac.Sum(nil))))
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		a.t.Error(err)
		return 0, nil, nil
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		a.t.Error(err)
	}
	if res.StatusCode == http.StatusServiceUnavailable && !a.mayFail {
		a.t.Errorf("%s %s: %s", method, path, text)
	}
	return res.StatusCode, res.Header, text
}

// must is do with a wanted status.
func (a *account) must(status int, method, path, body string, headers map[string]string) []byte {
	a.t.Helper()
	got, _, text := a.do(method, path, body, headers)
	if got != status {
		a.t.Fatalf("%s %s: status %d, want %d: %s", method, path, got, status, text)
	}
	return text
}

const (
	countersOf   = "/dbs/app/colls/counters"
	cosmosItems  = 200
	cosmosWrites = 4 // writers
)

func partitionOf(i int) map[string]string {
	return map[string]string{"x-ms-documentdb-partitionkey": fmt.Sprintf(`["p%d"]`, i%50)}
}

// counter is an item of the test.
type counter struct {
	ID  string `json:"id"`
	N   int64  `json:"n"`
	RID string `json:"_rid"`
}

// TestCosmosMovesUnderLoad: clients of two routers count in items, create others and delete
// some, while chunks move and split. Each write that was answered is there once, a reader of
// pages sees each item once, and a reader of the change feeds of all ranges has seen each item
// as it is in the end. No two items have one resource id.
func TestCosmosMovesUnderLoad(t *testing.T) { cosmosUnderLoad(t, false) }

// TestCosmosKilledUnderLoad is TestCosmosMovesUnderLoad while shards and config servers are
// killed, one after the other.
func TestCosmosKilledUnderLoad(t *testing.T) { cosmosUnderLoad(t, true) }

func cosmosUnderLoad(t *testing.T, kills bool) {
	c := start(t, 3, 1)
	c.admin(t, bson.D{{Key: "balancerStop", Value: 1}})
	accounts := []*account{{t: t, base: c.withCosmos(t)}, {t: t, base: c.withCosmos(t)}}
	a := accounts[0]
	a.must(http.StatusCreated, "POST", "/dbs", `{"id":"app"}`, nil)
	a.must(http.StatusCreated, "POST", "/dbs/app/colls", `{"id":"counters","partitionKey":{"paths":["/pk"]},"defaultTtl":-1}`, nil)
	for i := range cosmosItems {
		accounts[i%2].must(http.StatusCreated, "POST", countersOf+"/docs", fmt.Sprintf(`{"id":"%d","pk":"p%d","n":0}`, i, i%50), partitionOf(i))
	}
	for _, a := range accounts {
		a.mayFail = kills
	}
	ctx, stop := context.WithTimeout(t.Context(), moveTime)
	if kills {
		ctx, stop = context.WithTimeout(t.Context(), killTime)
	}
	defer stop()
	var counted [cosmosItems]atomic.Int64
	var unknown [cosmosItems]atomic.Int64
	var running sync.WaitGroup
	for w := range cosmosWrites {
		running.Go(func() {
			for ctx.Err() == nil && !t.Failed() {
				i := rand.IntN(cosmosItems)
				status, _, text := accounts[w%2].do("PATCH", fmt.Sprintf("%s/docs/%d", countersOf, i), `[{"op":"incr","path":"/n","value":1}]`, partitionOf(i))
				switch status {
				case http.StatusOK:
					counted[i].Add(1)
				case http.StatusServiceUnavailable:
					unknown[i].Add(1)
				default:
					t.Errorf("patch: %d: %s", status, text)
				}
			}
		})
	}
	running.Go(func() {
		for ctx.Err() == nil && !t.Failed() {
			accounts[1].readAll()
		}
	})
	extra := map[string]bool{} // whether it is there; those of which that is not known are not in it
	running.Go(func() {
		for n := 0; ctx.Err() == nil && !t.Failed(); n++ {
			id := fmt.Sprintf("x%d", n)
			status, _, text := a.do("POST", countersOf+"/docs", fmt.Sprintf(`{"id":"%s","pk":"p%d"}`, id, n%50), partitionOf(n))
			if extra[id] = status == http.StatusCreated; status == http.StatusServiceUnavailable {
				delete(extra, id)
				continue
			} else if status != http.StatusCreated {
				t.Errorf("create: %d: %s", status, text)
			}
			if n%2 == 0 {
				continue
			}
			status, _, text = a.do("DELETE", countersOf+"/docs/"+id, "", partitionOf(n))
			if extra[id] = false; status == http.StatusServiceUnavailable {
				delete(extra, id)
			} else if status != http.StatusNoContent {
				t.Errorf("delete: %d: %s", status, text)
			}
		}
	})
	if kills {
		running.Go(func() {
			victims := append([]*testkit.Server{c.config}, c.shards...)
			for n := 0; ctx.Err() == nil; n++ {
				time.Sleep(killPause)
				restart(victims[n%len(victims)])
			}
		})
	}
	feed := &feedReader{account: a, last: map[string]int64{}, at: map[string]string{}}
	running.Go(func() {
		for ctx.Err() == nil && !t.Failed() {
			feed.drain()
		}
	})
	moves := 0
	for ctx.Err() == nil && !t.Failed() {
		if c.moveOfAny(t) {
			moves++
		}
	}
	running.Wait()
	for _, a := range accounts {
		a.mayFail = false
	}
	if kills {
		c.settles(t)
	}
	feed.drain()
	there := a.readAll()
	for id, want := range extra {
		if there[id] != want {
			t.Errorf("item %s is there: %v, want %v", id, there[id], want)
		}
	}
	for i := range cosmosItems {
		var item counter
		if err := json.Unmarshal(a.must(http.StatusOK, "GET", fmt.Sprintf("%s/docs/%d", countersOf, i), "", partitionOf(i)), &item); err != nil {
			t.Fatal(err)
		}
		if n := counted[i].Load(); item.N < n || item.N > n+unknown[i].Load() {
			t.Errorf("item %d has %d, counted were %d, and %d perhaps", i, item.N, n, unknown[i].Load())
		}
		if got := feed.last[item.ID]; got != item.N {
			t.Errorf("the change feed ended with %d of item %d, which has %d", got, i, item.N)
		}
	}
	if moves < 2 {
		t.Errorf("only %d moves", moves)
	}
	t.Logf("%d moves, %d pages of the feed, %d items created", moves, feed.pages, len(extra))
}

// readAll reads the items in pages, and wants each once, with a resource id of its own, and
// all those that stay. It returns the ids.
func (a *account) readAll() map[string]bool {
	seen, rids := map[string]bool{}, map[string]bool{}
	headers := map[string]string{"x-ms-max-item-count": "17"}
	for {
		status, h, text := a.do("GET", countersOf+"/docs", "", headers)
		var page struct{ Documents []counter }
		if status == http.StatusServiceUnavailable {
			return nil
		}
		if err := json.Unmarshal(text, &page); status != http.StatusOK || err != nil {
			a.t.Errorf("read feed: %d, %v: %s", status, err, text)
			return nil
		}
		for _, d := range page.Documents {
			if seen[d.ID] || rids[d.RID] {
				a.t.Errorf("item %s was read twice, or has the resource id of another: %s", d.ID, d.RID)
			}
			seen[d.ID], rids[d.RID] = true, true
		}
		if headers["x-ms-continuation"] = h.Get("x-ms-continuation"); headers["x-ms-continuation"] == "" {
			break
		}
	}
	for i := range cosmosItems {
		if !seen[strconv.Itoa(i)] {
			a.t.Errorf("item %d was not read", i)
		}
	}
	return seen
}

// feedReader reads the change feeds of all ranges, as an SDK does.
type feedReader struct {
	*account
	at    map[string]string // the continuation of each range, by its bounds "min max"
	last  map[string]int64  // n of each item as it was seen last
	pages int
}

type pkrange struct{ ID, MinInclusive, MaxExclusive string }

// ranges returns the ranges, none if the config servers do not answer.
func (f *feedReader) ranges() []pkrange {
	status, _, text := f.do("GET", countersOf+"/pkranges", "", nil)
	if status == http.StatusServiceUnavailable {
		return nil
	}
	var page struct{ PartitionKeyRanges []pkrange }
	if err := json.Unmarshal(text, &page); err != nil || status != http.StatusOK {
		f.t.Errorf("ranges: %d, %v: %s", status, err, text)
	}
	return page.PartitionKeyRanges
}

// drain reads all feeds until each has nothing new. A range that was split goes on with the
// continuation of what it was split from.
func (f *feedReader) drain() {
	at, all := map[string]string{}, f.ranges()
	if all == nil {
		return
	}
	for _, k := range all {
		for bounds, from := range f.at {
			low, high, _ := strings.Cut(bounds, " ")
			if low <= k.MinInclusive && k.MaxExclusive <= high {
				at[k.MinInclusive+" "+k.MaxExclusive] = from
			}
		}
		if len(f.at) == 0 {
			at[k.MinInclusive+" "+k.MaxExclusive] = ""
		}
		if _, ok := at[k.MinInclusive+" "+k.MaxExclusive]; !ok {
			f.t.Errorf("no range before covers %v", k)
		}
	}
	f.at = at
	for _, k := range all {
		bounds := k.MinInclusive + " " + k.MaxExclusive
		from := f.at[bounds]
		for !f.t.Failed() {
			headers := map[string]string{"A-IM": "Incremental Feed", "x-ms-documentdb-partitionkeyrangeid": k.ID, "x-ms-max-item-count": "40"}
			if from != "" {
				headers["If-None-Match"] = from
			}
			status, h, text := f.do("GET", countersOf+"/docs", "", headers)
			if status == http.StatusGone || status == http.StatusServiceUnavailable {
				break
			}
			if status != http.StatusOK && status != http.StatusNotModified {
				f.t.Errorf("change feed: %d: %s", status, text)
				return
			}
			from, f.at[bounds] = h.Get("etag"), h.Get("etag")
			f.pages++
			if status == http.StatusNotModified {
				break
			}
			var page struct{ Documents []counter }
			if err := json.Unmarshal(text, &page); err != nil {
				f.t.Error(err)
			}
			for _, d := range page.Documents {
				if was, seen := f.last[d.ID]; seen && d.N < was {
					f.t.Errorf("item %s came with %d after %d", d.ID, d.N, was)
				}
				f.last[d.ID] = d.N
			}
		}
	}
}

// TestCosmosWithKeyFile: the endpoint works where the parts of the cluster log in at each
// other, and nobody else gives its commands.
func TestCosmosWithKeyFile(t *testing.T) {
	key := keyFile(t, "b3VycyBhbG9uZQ==")
	c, root := secured(t, key)
	a := &account{t: t, base: c.withCosmos(t, "--keyFile", key, "--cosmosCrossPartition")}
	a.must(http.StatusCreated, "POST", "/dbs", `{"id":"app"}`, nil)
	a.must(http.StatusCreated, "POST", "/dbs/app/colls", `{"id":"counters","partitionKey":{"paths":["/pk"]},"defaultTtl":100}`, nil)
	for i := range 20 {
		a.must(http.StatusCreated, "POST", countersOf+"/docs", fmt.Sprintf(`{"id":"%d","pk":"p%d","n":%d}`, i, i, i), partitionOf(i))
	}
	query := map[string]string{"Content-Type": "application/query+json"}
	var page struct{ Documents []int }
	for text, want := range map[string]string{
		"SELECT VALUE COUNT(1) FROM c":                            "[20]",
		"SELECT VALUE SUM(c.n) FROM c WHERE c.n < 10":             "[45]",
		"SELECT TOP 3 VALUE c.n FROM c ORDER BY c.n DESC":         "[19 18 17]",
		"SELECT VALUE c.n FROM c ORDER BY c.n OFFSET 5 LIMIT 2":   "[5 6]",
		"SELECT DISTINCT VALUE c.n - c.n % 10 FROM c":             "[0 10]",
		"SELECT VALUE c.n FROM c WHERE c.pk = 'p3'":               "[3]",
		"SELECT VALUE MAX(x.n) FROM (SELECT c.n FROM c) AS x":     "[19]",
		"SELECT VALUE COUNT(1) FROM c GROUP BY c.n - c.n % 10":    "[10 10]",
		"SELECT VALUE c.n FROM c WHERE c.n > 4 AND c.id = 'five'": "[]",
	} {
		body, _ := json.Marshal(map[string]string{"query": text})
		page.Documents = nil
		status, _, out := a.do("POST", countersOf+"/docs", string(body), query)
		if err := json.Unmarshal(out, &page); status != http.StatusOK || err != nil || fmt.Sprint(page.Documents) != want {
			t.Errorf("%s: %d, %v, %v, want %s: %.300s", text, status, err, page.Documents, want, out)
		}
	}
	for _, command := range []bson.D{
		{{Key: "_configsvrCosmos", Value: 1}, {Key: "method", Value: "DELETE"}, {Key: "path", Value: "/dbs/app"}, {Key: "headers", Value: bson.D{}}},
		{{Key: "_configsvrCosmosNumbers", Value: "x"}},
		{{Key: "_configsvrCosmosIndex", Value: "path/x"}, {Key: "database", Value: "app"}, {Key: "container", Value: "counters"}},
	} {
		if err := as(t, c.config, "root").Database("admin").RunCommand(t.Context(), command).Err(); code(err) != 13 {
			t.Errorf("%v by an administrator: %v", command, err)
		}
	}
	// A client's index has nothing in it that only servers add.
	index := bson.D{{Key: "key", Value: bson.D{{Key: "x", Value: 1}}}, {Key: "name", Value: "x"}, {Key: "lenient", Value: true}}
	err := root.Database("app").RunCommand(t.Context(), bson.D{{Key: "createIndexes", Value: "counters"}, {Key: "indexes", Value: bson.A{index}}}).Err()
	if code(err) != 197 {
		t.Errorf("an index that leaves out what it cannot index: %v", err)
	}
}

// TestCosmosWithoutConfigServers: items are read and written while no config server answers.
func TestCosmosWithoutConfigServers(t *testing.T) {
	c := start(t, 2, 1)
	a := &account{t: t, base: c.withCosmos(t)}
	a.must(http.StatusCreated, "POST", "/dbs", `{"id":"app"}`, nil)
	a.must(http.StatusCreated, "POST", "/dbs/app/colls", `{"id":"counters","partitionKey":{"paths":["/pk"]}}`, nil)
	for i := range 20 {
		a.must(http.StatusCreated, "POST", countersOf+"/docs", fmt.Sprintf(`{"id":"%d","pk":"p%d","n":0}`, i, i), partitionOf(i))
	}
	c.config.Kill()
	time.Sleep(2 * time.Second) // what the router knows is older than it likes
	for i := range 20 {
		item := fmt.Sprintf("%s/docs/%d", countersOf, i)
		a.must(http.StatusOK, "PATCH", item, `[{"op":"incr","path":"/n","value":1}]`, partitionOf(i))
		a.must(http.StatusOK, "GET", item, "", partitionOf(i))
	}
	c.config.Run()
}
