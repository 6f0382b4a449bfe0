package moving

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mayflydb/mayfly/internal/cosmos"
	"github.com/mayflydb/mayfly/internal/testkit"
)

func set(t *testing.T, name string) *testkit.Server {
	return testkit.Start(t, "--replSet", name, "--initiate")
}

func fill(t *testing.T, c *mongo.Client, n int) {
	t.Helper()
	var docs []any
	for i := range n {
		docs = append(docs, bson.D{{Key: "_id", Value: i}, {Key: "u", Value: i}, {Key: "text", Value: strings.Repeat("x", i%300)}})
	}
	coll := c.Database("shop").Collection("carts")
	if _, err := coll.InsertMany(t.Context(), docs); err != nil {
		t.Fatal(err)
	}
	for _, command := range []bson.D{
		{{Key: "createIndexes", Value: "carts"}, {Key: "indexes", Value: bson.A{bson.D{{Key: "key", Value: bson.D{{Key: "u", Value: 1}}}, {Key: "name", Value: "u"}, {Key: "unique", Value: true}}}}},
		{{Key: "createIndexes", Value: "sessions"}, {Key: "indexes", Value: bson.A{bson.D{{Key: "key", Value: bson.D{{Key: "at", Value: 1}}}, {Key: "name", Value: "at"}, {Key: "expireAfterSeconds", Value: 3600}}}}},
		{{Key: "createUser", Value: "shop"}, {Key: "pwd", Value: "secret"}, {Key: "roles", Value: bson.A{"readWrite"}}},
	} {
		if err := c.Database("shop").RunCommand(t.Context(), command).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// hash is dbHash of the database that was imported.
func hash(t *testing.T, c *mongo.Client) string {
	t.Helper()
	var reply struct{ MD5 string }
	if err := c.Database("shop").RunCommand(t.Context(), bson.D{{Key: "dbHash", Value: 1}}).Decode(&reply); err != nil {
		t.Fatal(err)
	}
	return reply.MD5
}

// TestOperate runs each command of docs/operate/moving-in.md.
func TestOperate(t *testing.T) {
	page, err := os.ReadFile("../../docs/operate/moving-in.md")
	if err != nil {
		t.Fatal(err)
	}
	from, to, stopped, empty := set(t, "old"), set(t, "new"), testkit.Start(t), set(t, "empty")
	fill(t, from.Client(), 1000)
	fill(t, stopped.Client(), 1000)
	dir := t.TempDir()
	account := func() string { // the address of one
		port := strconv.Itoa(testkit.FreePort(t))
		testkit.Start(t, "--cosmos", "--cosmosTls", "off", "--cosmosPort", port)
		return "http://127.0.0.1:" + port + "/"
	}
	for _, name := range []string{"old.key", "new.key"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(cosmos.WellKnownKey+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	names := strings.NewReplacer("https://old.documents.azure.com/", account(), "https://new:8081/", account(), "mayfly ", "exec "+testkit.Binary(t)+" ", "mongodb://old/", from.URI(), "mongodb://new/", to.URI(), "mongodb://stopped/", stopped.URI(), "mongodb://empty/", empty.URI())
	var following *exec.Cmd
	ran := 0
	for line := range strings.Lines(string(page)) {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "mayfly ") {
			continue
		}
		ran++
		cmd := exec.Command("sh", "-c", names.Replace(line))
		cmd.Dir = dir
		switch {
		case strings.Contains(line, "import cutover"):
			// The state is there once the importer has claimed the target.
			deadline := time.Now().Add(time.Minute)
			for {
				out, err := exec.Command("sh", "-c", names.Replace(line)).CombinedOutput()
				if err == nil {
					break
				}
				if time.Now().After(deadline) {
					t.Fatalf("%s: %v\n%s", line, err, out)
				}
				time.Sleep(50 * time.Millisecond)
			}
			if err := following.Wait(); err != nil {
				t.Fatalf("the importer: %v\n%s", err, following.Stdout)
			}
		case strings.HasSuffix(line, "--to mongodb://new/"):
			following = cmd
			out := &strings.Builder{}
			cmd.Stdout, cmd.Stderr = out, out
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = cmd.Process.Kill() })
		default:
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%s: %v\n%s", line, err, out)
			}
		}
	}
	if ran != 6 {
		t.Errorf("the page has %d commands", ran)
	}
	for _, p := range [][2]*testkit.Server{{from, to}, {stopped, empty}} {
		if a, b := hash(t, p[0].Client()), hash(t, p[1].Client()); a != b {
			t.Errorf("%s, and %s at the target", a, b)
		}
		n, err := p[1].Client().Database("admin").Collection("system.users").CountDocuments(t.Context(), bson.D{})
		if n != 1 || err != nil {
			t.Errorf("%d users at the target, %v", n, err)
		}
	}
}

// TestKilled kills the importer with -9 again and again, while the source is written to.
func TestKilled(t *testing.T) {
	from, to := set(t, "old"), set(t, "new")
	c := from.Client()
	fill(t, c, 20_000)
	writing, stop := context.WithCancel(t.Context())
	wrote := make(chan int)
	go func() {
		n := 0
		coll := c.Database("shop").Collection("carts")
		for writing.Err() == nil {
			id := bson.D{{Key: "_id", Value: rand.IntN(40_000)}}
			var err error
			if n%3 == 0 {
				_, err = coll.DeleteOne(writing, id)
			} else {
				_, err = coll.UpdateOne(writing, id, bson.D{{Key: "$inc", Value: bson.D{{Key: "n", Value: 1}}}, {Key: "$setOnInsert", Value: bson.D{{Key: "u", Value: rand.Int64()}}}}, options.UpdateOne().SetUpsert(true))
			}
			var refused mongo.ServerError
			if errors.As(err, &refused) && refused.HasErrorCode(371) { // blocked
				break
			}
			n++
		}
		wrote <- n
	}()
	args := []string{"import", "--from", from.URI(), "--to", to.URI(), "--cutover", "--block"}
	var out []byte
	var err error
	killed := 0
	for i := range 8 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(100+rand.IntN(100+70*i))*time.Millisecond)
		if i == 7 {
			ctx = t.Context()
		}
		out, err = exec.CommandContext(ctx, testkit.Binary(t), args...).CombinedOutput() // which kills it with -9
		cancel()
		if err == nil {
			break
		}
		killed++
	}
	stop()
	if killed == 0 {
		t.Error("no importer was killed")
	}
	if n := <-wrote; err != nil || n == 0 {
		t.Fatalf("%d writes, %v\n%s", n, err, out)
	}
	if a, b := hash(t, c), hash(t, to.Client()); a != b {
		t.Errorf("%s, and %s at the target\n%s", a, b, out)
	}
}
