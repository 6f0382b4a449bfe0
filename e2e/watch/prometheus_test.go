package watch

import (
	"context"
	"crypto/x509/pkix"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.yaml.in/yaml/v3"

	"github.com/mayflydb/mayfly/internal/testkit"
)

// files are the alerts and the dashboard.
const files = "../../docs/operate/watch/"

// program is one of Prometheus': in the path, or where e2e/install has put it.
func program(t *testing.T, name string) string {
	t.Helper()
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	path, err := filepath.Abs("../prometheus/usr/bin/" + name)
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		t.Fatalf("Prometheus is not there: run e2e/install (%v)", err)
	}
	return path
}

// rule is an alert.
type rule struct {
	Alert, Expr string
	Annotations map[string]string
}

func alerts(t *testing.T) (all []rule) {
	t.Helper()
	b, err := os.ReadFile(files + "alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var f struct{ Groups []struct{ Rules []rule } }
	if err := yaml.Unmarshal(b, &f); err != nil || len(f.Groups) != 1 || len(f.Groups[0].Rules) == 0 {
		t.Fatalf("%v %+v", err, f)
	}
	return f.Groups[0].Rules
}

// panels are the queries of the dashboard, by the titles of their panels.
func panels(t *testing.T) map[string]string {
	t.Helper()
	b, err := os.ReadFile(files + "dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Panels []struct {
			Title   string
			Targets []struct{ RefID, Expr string }
		}
	}
	if err := json.Unmarshal(b, &d); err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, p := range d.Panels {
		for _, q := range p.Targets {
			all[p.Title+" "+q.RefID] = strings.ReplaceAll(q.Expr, "$instance", ".*")
		}
	}
	if len(all) < 20 {
		t.Fatalf("the dashboard has %d queries", len(all))
	}
	return all
}

// Each alert fires, and rests, on made-up series; and has a runbook.
func TestAlertsFire(t *testing.T) {
	if out, err := exec.Command(program(t, "promtool"), "test", "rules", files+"alerts_test.yaml").CombinedOutput(); err != nil {
		t.Errorf("promtool: %v\n%s", err, out)
	}
	cases, err := os.ReadFile(files + "alerts_test.yaml")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/operate/watch.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range alerts(t) {
		for _, what := range []string{"fires", "rests"} {
			if !strings.Contains(string(cases), "name: "+r.Alert+" "+what+"\n") {
				t.Errorf("no case in which %s %s", r.Alert, what)
			}
		}
		if !strings.Contains(string(page), "\n### "+r.Alert+"\n") || !strings.HasSuffix(r.Annotations["runbook_url"], "/docs/operate/watch.md#"+strings.ToLower(r.Alert)) {
			t.Errorf("%s has no runbook", r.Alert)
		}
	}
}

var metricName = regexp.MustCompile(`\bmayfly_[a-z_]+`)

// All queries of the alerts and of the dashboard run on a Prometheus that scrapes a server, and
// name metrics that it has; what the dashboard shows is there.
func TestQueriesOnPrometheus(t *testing.T) {
	a := testkit.NewAuthority(t, "Root")
	year := time.Now().AddDate(1, 0, 0)
	adminPort := testkit.FreePort(t)
	conf := a.Trusting(a.Sign("client.pem", pkix.Name{CommonName: "ann"}, year))
	s := testkit.StartTLS(t, conf, "", "--replSet", "rs0", "--initiate", "--adminPort", strconv.Itoa(adminPort), "--setParameter", "ttlMonitorSleepSecs=1",
		"--tlsMode", "requireTLS", "--tlsCAFile", a.CAFile, "--tlsCertificateKeyFile", a.Sign("server.pem", pkix.Name{CommonName: "db"}, year).File)
	db := s.Direct().Database("app")
	until(t, "the primary", func() bool {
		return db.Collection("log").FindOne(t.Context(), bson.D{}).Err() != nil && insertsInto(t, s)
	})
	run(t, db, bson.D{{Key: "createIndexes", Value: "log"}, {Key: "indexes", Value: bson.A{bson.D{{Key: "key", Value: bson.D{{Key: "at", Value: 1}}}, {Key: "name", Value: "at"}, {Key: "expireAfterSeconds", Value: 60}}}}})
	metrics := "http://127.0.0.1:" + strconv.Itoa(adminPort) + "/metrics"
	until(t, "the rule's metrics", func() bool { return strings.Contains(get(t, metrics), "mayfly_ttl_rule_lag_seconds{") })

	at := prometheus(t, adminPort)
	until(t, "three scrapes", func() bool { return value(query(t, at, `count_over_time(up{job="mayfly"}[1m])`)) >= 3 })
	text := get(t, metrics)
	known := func(expr string) {
		t.Helper()
		for _, name := range metricName.FindAllString(expr, -1) {
			if !regexp.MustCompile(`(?m)^` + name + `(\{| )`).MatchString(text) {
				t.Errorf("no metric is named %s, which %q asks for", name, expr)
			}
		}
	}
	for _, r := range alerts(t) {
		known(r.Expr)
		query(t, at, r.Expr)
	}
	for title, expr := range panels(t) {
		known(expr)
		if got := query(t, at, expr); len(got) == 0 && !strings.Contains(expr, "+Inf") { // a log that was never truncated has no end
			t.Errorf("%s: %s shows nothing", title, expr)
		}
	}
	var rules struct {
		Data struct {
			Groups []struct {
				Rules []struct{ Name, Health, LastError string }
			}
		}
	}
	until(t, "the rules to be evaluated", func() bool {
		if err := json.Unmarshal([]byte(get(t, at+"/api/v1/rules")), &rules); err != nil {
			t.Fatal(err)
		}
		return len(rules.Data.Groups) == 1 && rules.Data.Groups[0].Rules[0].Health != "unknown"
	})
	for _, r := range rules.Data.Groups[0].Rules {
		if r.Health != "ok" {
			t.Errorf("%s: %s: %s", r.Name, r.Health, r.LastError)
		}
	}
}

// insertsInto reports whether the server takes writes.
func insertsInto(t *testing.T, s *testkit.Server) bool {
	_, err := s.Direct().Database("app").Collection("log").InsertOne(t.Context(), bson.D{{Key: "at", Value: time.Now().Add(-time.Hour)}})
	return err == nil
}

// prometheus starts one that scrapes a server, until the test ends, and returns its address.
func prometheus(t *testing.T, adminPort int) string {
	t.Helper()
	dir, port := t.TempDir(), testkit.FreePort(t)
	rules, err := filepath.Abs(files + "alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	conf := fmt.Sprintf(`global: {scrape_interval: 300ms, scrape_timeout: 250ms, evaluation_interval: 1s}
rule_files: [%q]
scrape_configs:
  - job_name: mayfly
    static_configs: [{targets: ["127.0.0.1:%d"], labels: {set: rs0}}]
`, rules, adminPort)
	if err := os.WriteFile(dir+"/prometheus.yml", []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	address := "127.0.0.1:" + strconv.Itoa(port)
	cmd := exec.Command(program(t, "prometheus"), "--config.file", dir+"/prometheus.yml", "--storage.tsdb.path", dir+"/data", "--web.listen-address", address, "--log.level", "error")
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("Prometheus said:\n%s", out.String())
		}
	})
	until(t, "Prometheus", func() bool {
		reply, err := http.Get("http://" + address + "/-/ready")
		if err != nil {
			return false
		}
		defer reply.Body.Close()
		return reply.StatusCode == http.StatusOK
	})
	return "http://" + address
}

func get(t *testing.T, address string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	reply, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	b, err := io.ReadAll(reply.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// sample is one series of the answer to a query.
type sample struct {
	Metric map[string]string
	Value  [2]any
}

// query runs a query, which has to succeed.
func query(t *testing.T, at, expr string) []sample {
	t.Helper()
	text := get(t, at+"/api/v1/query?query="+url.QueryEscape(expr))
	var reply struct {
		Status, Error string
		Data          struct{ Result []sample }
	}
	if err := json.Unmarshal([]byte(text), &reply); err != nil || reply.Status != "success" {
		t.Errorf("%s: %v %s", expr, err, text)
	}
	return reply.Data.Result
}

// value is that of the only series; 0 for none.
func value(all []sample) float64 {
	if len(all) != 1 {
		return 0
	}
	s, _ := all[0].Value[1].(string)
	f, _ := strconv.ParseFloat(s, 64)
	return f
}
