package robust

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mayflydb/mayfly/internal/config"
	"github.com/mayflydb/mayfly/internal/testkit"
)

// TestCannotStart holds the exit code and the line of each reason.
func TestCannotStart(t *testing.T) {
	s := testkit.Start(t)
	file := filepath.Join(t.TempDir(), "mayfly.conf")
	if err := os.WriteFile(file, []byte("net:\n  prot: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	other := t.TempDir()
	unwritable := filepath.Join(other, "file")
	if err := os.WriteFile(unwritable, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	free := strconv.Itoa(testkit.FreePort(t))
	for _, c := range []struct {
		name string
		code int
		says []string
		args []string
	}{
		{"directory in use", config.ExitUncaught, []string{s.Dir, "already running"}, []string{"--dbpath", s.Dir, "--port", free}},
		{"port in use", config.ExitNetError, []string{strconv.Itoa(s.Port), "address already in use"}, []string{"--dbpath", other, "--port", strconv.Itoa(s.Port)}},
		{"unknown option", config.ExitBadOptions, []string{"--dbpth: unknown option; did you mean --dbpath?"}, []string{"--dbpth", other}},
		{"all at once", config.ExitBadOptions, []string{file + ":2: unknown option net.prot", "--port: 99999 is not between 0 and 65535",
			"MAYFLY_STORAGE_JOURNAL_COMMIT_INTERVAL_MS", "need tlsCertificateKeyFile when TLS is enabled", `Bad value for parameter "ttlMonitorSleepSecs"`},
			[]string{"--config", file, "--port", "99999", "--tlsMode", "requireTLS", "--setParameter", "ttlMonitorSleepSecs=0"}},
		{"no directory", config.ExitUncaught, []string{"no/such", "not found"}, []string{"--dbpath", filepath.Join(other, "no/such/dir"), "--port", free}},
		{"a file for a directory", config.ExitUncaught, []string{unwritable}, []string{"--dbpath", unwritable, "--port", free}},
		{"everybody's key for everybody", config.ExitBadOptions, []string{"cosmos.bindIp", "0.0.0.0", "well-known key"},
			[]string{"--dbpath", other, "--port", free, "--cosmos", "--cosmosPort", "0", "--cosmosBindIp", "localhost,0.0.0.0"}},
		{"admin port in use", config.ExitNetError, []string{"address already in use"}, []string{"--dbpath", other, "--port", free, "--adminPort", strconv.Itoa(s.Port)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var env []string
			if c.name == "all at once" {
				env = []string{"MAYFLY_STORAGE_JOURNAL_COMMIT_INTERVAL_MS=9000"}
			}
			code, said := testkit.Exec(t, env, append([]string{"serve", "--nounixsocket"}, c.args...)...)
			if code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			for _, text := range c.says {
				if !strings.Contains(said, text) {
					t.Errorf("does not say %q:\n%s", text, said)
				}
			}
		})
	}
	if _, err := s.Client().ListDatabaseNames(t.Context(), bson.D{}); err != nil {
		t.Errorf("the server that was in the way: %v", err)
	}
}

// TestGracefulStop stops a server under load: it exits with 0, says so, and
// all that it acknowledged is there afterwards.
func TestGracefulStop(t *testing.T) {
	s := testkit.Start(t)
	c := s.Client().Database("d").Collection("c")
	acked := make(chan int32, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		n := int32(0)
		defer func() { acked <- n }()
		for {
			if _, err := c.InsertOne(ctx, bson.D{{Key: "_id", Value: n}}); err != nil {
				return
			}
			if n++; n == 200 {
				acked <- n
			}
		}
	}()
	<-acked
	begun := time.Now()
	if code := s.Stop(); code != config.ExitClean {
		t.Errorf("exit code %d", code)
	}
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("stopping took %s", took)
	}
	cancel() // else the driver looks for a server for a minute
	n := int64(<-acked)
	if !strings.Contains(s.Output(), `"exitCode":0`) {
		t.Error("the log does not say that it ended")
	}
	s.Run()
	// The last insert may have been carried out without its client hearing of it.
	if got, err := s.Client().Database("d").Collection("c").CountDocuments(t.Context(), bson.D{}); err != nil || got < n || got > n+1 {
		t.Errorf("%d documents of %d: %v", got, n, err)
	}
}

// TestConnectionsAreBounded fills the server up: one more is turned away, and
// let in when another has gone.
func TestConnectionsAreBounded(t *testing.T) {
	const limit = 8
	s := testkit.Start(t, "--maxConns", strconv.Itoa(limit))
	taken := limit
	var held []io.Closer
	for range 2 * limit {
		nc := dial(t, s)
		held = append(held, nc)
		_ = nc.SetReadDeadline(time.Now().Add(answerTime))
		if _, err := nc.Read(make([]byte, 1)); err == io.EOF {
			taken-- // turned away
		}
	}
	if taken >= limit || !strings.Contains(s.Output(), `"id":22942`) {
		t.Errorf("nobody was turned away:\n%s", s.Output())
	}
	for _, nc := range held {
		_ = nc.Close()
	}
	if err := s.Client().Ping(t.Context(), nil); err != nil {
		t.Error(err)
	}
}

// TestAdminPort holds what the admin port answers, and that there is none
// unless asked for.
func TestAdminPort(t *testing.T) {
	port := testkit.FreePort(t)
	s := testkit.Start(t, "--adminPprof", "--adminPort", strconv.Itoa(port))
	if _, err := s.Client().Database("d").Collection("c").InsertOne(t.Context(), bson.D{}); err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{
		"/healthz": `{"status":"serving"}`, "/metrics": "mayfly_ttl_passes_total", "/debug/pprof/": "goroutine", "/debug/pprof/cmdline": "serve",
	} {
		r, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d%s", port, path))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(r.Body)
		_ = r.Body.Close()
		if err != nil || r.StatusCode != http.StatusOK || !strings.Contains(string(body), text) {
			t.Errorf("%s: %s, %v\n%.500s", path, r.Status, err, body)
		}
	}
	quiet := testkit.Start(t)
	if strings.Contains(quiet.Output(), "Admin HTTP server listens") {
		t.Error("the admin port is open unasked")
	}
}

// TestSecretsAreShownNowhere gives the server a secret in the open, and looks
// for it where a server shows how it was started; a key of one's own, from a
// file, or the emulator's when asked for, serves at all addresses.
func TestSecretsAreShownNowhere(t *testing.T) {
	const secret = "dG9wIHNlY3JldA=="
	port := testkit.FreePort(t)
	s := testkit.Start(t, "--adminPprof", "--adminPort", strconv.Itoa(port), "--cosmos", "--cosmosPort", "0", "--cosmosKey", secret)
	r, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/debug/pprof/cmdline", port))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	shown, err := io.ReadAll(r.Body)
	if err != nil || !strings.Contains(string(shown), "--cosmosKey\x00"+config.Masked) {
		t.Errorf("%q, %v", shown, err)
	}
	for _, command := range []bson.D{{{Key: "getCmdLineOpts", Value: 1}}, {{Key: "getLog", Value: "global"}}} {
		reply, err := s.Client().Database("admin").RunCommand(t.Context(), command).Raw()
		if err != nil {
			t.Fatal(err)
		}
		shown = append(shown, reply.String()...)
	}
	if strings.Contains(s.Output()+string(shown), secret) {
		t.Errorf("the secret is in\n%s\n%s", s.Output(), shown)
	}

	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const warning = "accepts the emulator's well-known key"
	if own := testkit.Start(t, "--cosmos", "--cosmosPort", "0", "--cosmosBindIp", "0.0.0.0", "--cosmosKeyFile", file); strings.Contains(own.Output(), warning) {
		t.Error("a key of one's own is warned of")
	}
	if asked := testkit.Start(t, "--cosmos", "--cosmosPort", "0", "--cosmosBindIp", "0.0.0.0", "--cosmosAllowWellKnownKey"); !strings.Contains(asked.Output(), warning) {
		t.Error("no warning")
	}
}

// TestFormerMember holds that a standalone with the data of a replica set's
// member removes nothing, and says so when it starts.
func TestFormerMember(t *testing.T) {
	s := testkit.Start(t, "--setParameter", "ttlMonitorSleepSecs=1")
	if _, err := s.Client().Database("local").Collection("system.replset").InsertOne(t.Context(), bson.D{{Key: "_id", Value: "rs0"}}); err != nil {
		t.Fatal(err)
	}
	if code := s.Stop(); code != config.ExitClean {
		t.Fatalf("exit code %d", code)
	}
	s.Run()
	c := s.Client().Database("d").Collection("c")
	_, err := c.Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: bson.D{{Key: "at", Value: 1}}, Options: options.Index().SetExpireAfterSeconds(0)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.InsertOne(t.Context(), bson.D{{Key: "at", Value: time.Unix(0, 0)}}); err != nil {
		t.Fatal(err)
	}
	var warnings struct{ Log []string }
	if err := s.Client().Database("admin").RunCommand(t.Context(), bson.D{{Key: "getLog", Value: "startupWarnings"}}).Decode(&warnings); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(strings.Join(warnings.Log, "\n"), "The TTL collection monitor will not start") {
		t.Errorf("no warning: %q", warnings.Log)
	}
	var rules []struct{ Skipped []string }
	if cur, err := c.Aggregate(t.Context(), bson.A{bson.D{{Key: "$expiryStats", Value: bson.D{}}}}); err != nil {
		t.Error(err)
	} else if err := cur.All(t.Context(), &rules); err != nil || len(rules) != 1 || !strings.Contains(strings.Join(rules[0].Skipped, "\n"), "local.system.replset") {
		t.Errorf("$expiryStats: %v, %v", rules, err)
	}
	time.Sleep(2500 * time.Millisecond) // two passes, were there any
	var status struct {
		Metrics struct {
			TTL struct{ Passes, DeletedDocuments int64 }
		}
	}
	if err := s.Client().Database("admin").RunCommand(t.Context(), bson.D{{Key: "serverStatus", Value: 1}}).Decode(&status); err != nil {
		t.Fatal(err)
	}
	if n, err := c.CountDocuments(t.Context(), bson.D{}); err != nil || n != 1 || status.Metrics.TTL.Passes != 0 {
		t.Errorf("%d documents, %+v: %v", n, status, err)
	}
}
