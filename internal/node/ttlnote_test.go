package node

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

// TestNoteOfIndexIsLogged holds that the log has what createIndexes notes of a
// TTL index whose documents cannot expire, as a shell does not show it.
func TestNoteOfIndexIsLogged(t *testing.T) {
	n, client := withData(t)
	var log bytes.Buffer
	n.Log = slog.New(slog.NewTextHandler(&log, nil))
	dispatch(t, n, client, "d", `{"insert": "c", "documents": [{"at": "2026-11-21"}]}`, false)
	reply := dispatch(t, n, client, "d", `{"createIndexes": "c", "indexes": [{"key": {"at": 1}, "name": "at_1", "expireAfterSeconds": 10}]}`, false).Body
	note := reply.Lookup("note").Str()
	if !strings.Contains(note, "have no Date in 'at'") || !strings.Contains(log.String(), note) || !strings.Contains(log.String(), "namespace=d.c") {
		t.Errorf("the reply is %s, the log\n%s", reply, log.String())
	}
}
