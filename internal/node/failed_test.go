package node

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
)

// TestFailedCommandsAreLogged holds that a command that fails leaves a line at
// verbosity 1, without secrets, and none otherwise.
func TestFailedCommandsAreLogged(t *testing.T) {
	n, client := withData(t)
	for level, want := range map[slog.Level]int{slog.LevelInfo: 0, slog.LevelDebug: 2} {
		var log bytes.Buffer
		n.Dispatcher.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: level}))
		dispatch(t, n, client, "test", `{"find": "c", "filter": {"$bad": 1}}`, false)
		dispatch(t, n, client, "test", `{"createUser": "u", "pwd": "hidden", "roles": ["none"]}`, false)
		dispatch(t, n, client, "test", `{"ping": 1}`, false)
		if got := strings.Count(log.String(), "id=21962"); got != want || strings.Contains(log.String(), "hidden") {
			t.Errorf("%s: %s", level, log.String())
		}
	}
}

// TestDiagnosticData holds what exporters of metrics look for in it.
func TestDiagnosticData(t *testing.T) {
	n, client := withData(t)
	data := dispatch(t, n, client, "admin", `{"getDiagnosticData": 1}`, false).Body.Lookup("data").Doc()
	status := data.Lookup("serverStatus").Doc()
	if !status.Has("connections") || !status.Lookup("metrics").Doc().Has("query") || status.Lookup("start").Type != bson.TypeDate || !data.Has("end") {
		t.Errorf("%s", data)
	}
	if reply := dispatch(t, n, client, "test", `{"getDiagnosticData": 1}`, false).Body; bson.ClampToInt64(reply.Lookup("code")) != 13 {
		t.Errorf("%s", reply)
	}
}
