package server_test

import (
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/server/servertest"
)

// TestReadiness: a member without a set is ready, as is one that serves reads; one that does not, is not,
// so that an orchestrator stops no other one meanwhile.
func TestReadiness(t *testing.T) {
	var members [2]*servertest.Server
	var admin [2]int
	for i := range members {
		admin[i] = servertest.FreePort(t)
		members[i] = servertest.Start(t, "--replSet", "rs0", "--adminPort", fmt.Sprint(admin[i]))
	}
	says := func(i int, path string, code int, state string) {
		t.Helper()
		want := fmt.Sprintf("%d {\"status\":%q}\n", code, state)
		for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			r, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d%s", admin[i], path))
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(r.Body)
			_ = r.Body.Close()
			got := fmt.Sprintf("%d %s", r.StatusCode, body)
			if err == nil && got == want {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("%s of member %d: %q, %v; want %q", path, i, got, err, want)
			}
		}
	}
	says(0, "/readyz", http.StatusOK, "serving")
	says(1, "/readyz", http.StatusOK, "serving")
	first, err := client.Connect(t.Context(), client.Options{Address: members[0].Address})
	if err != nil {
		t.Fatal(err)
	}
	run(t, first, fmt.Sprintf(`{"replSetInitiate": {"_id": "rs0", "members": [{"_id": 0, "host": %q}, {"_id": 1, "host": %q, "priority": 0}]}}`, members[0].Address, members[1].Address))
	_ = first.Close()
	primary(t, members[0]).Close()
	second, err := client.Connect(t.Context(), client.Options{Address: members[1].Address})
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if run(t, second, `{"hello": 1}`).Lookup("secondary").Truthy() {
			break
		}
		if time.Now().After(end) {
			t.Fatal("no secondary")
		}
	}
	says(0, "/readyz", http.StatusOK, "serving")
	says(1, "/readyz", http.StatusOK, "serving")
	run(t, second, `{"replSetMaintenance": true}`)
	says(1, "/readyz", http.StatusServiceUnavailable, "RECOVERING")
	says(1, "/healthz", http.StatusOK, "serving")
	run(t, second, `{"replSetMaintenance": false}`)
	says(1, "/readyz", http.StatusOK, "serving")
}
