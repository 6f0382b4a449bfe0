package server_test

import (
	"os"
	"strings"
	"testing"

	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/server/servertest"
)

// With redactClientLogData the log of a server that logs every operation as slow has no value
// and no name of a field that a client has given: in commands, plans, errors, and lines about
// rules. Without it, it has some: else the test would see nothing.
func TestLogIsRedacted(t *testing.T) {
	for _, redact := range []bool{true, false} {
		args := []string{"--slowms", "-1"}
		if redact {
			args = append(args, "--redactClientLogData")
		}
		s := servertest.Start(t, args...)
		c, err := client.Connect(t.Context(), client.Options{Address: s.Address})
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{
			`{"createIndexes": "c", "indexes": [{"key": {"zebraName": 1}, "name": "i", "unique": true}]}`,
			`{"insert": "c", "documents": [{"_id": 1, "zebraName": "zebraValue"}, {"_id": 2, "zebraName": "zebraValue"}]}`,
			`{"find": "c", "filter": {"zebraName": "zebraValue"}, "sort": {"zebraName": 1}, "projection": {"zebraName": 1}, "comment": "zebraValue"}`,
			`{"find": "c", "filter": {"zebraName": {"$zebraName": 1}}}`, `{"find": "c", "zebraName": "zebraValue"}`, `{"zebraName": "zebraValue"}`,
			`{"update": "c", "updates": [{"q": {"zebraName": "zebraValue"}, "u": {"$set": {"zebraName": "zebraValue"}}}]}`,
			`{"aggregate": "c", "pipeline": [{"$match": {"zebraName": "zebraValue"}}, {"$group": {"_id": "$zebraName"}}], "cursor": {}}`,
			`{"aggregate": "c", "pipeline": [{"$project": {"x": {"$toInt": "zebraValue"}}}], "cursor": {}}`,
			`{"delete": "c", "deletes": [{"q": {"zebraName": "zebraValue"}, "limit": 1}]}`, `{"distinct": "c", "key": "zebraName", "query": {"zebraName": "zebraValue"}}`,
			`{"findAndModify": "c", "query": {"zebraName": "zebraValue"}, "update": {"zebraName": "zebraValue"}}`, `{"count": "c", "query": {"zebraName": "zebraValue"}}`,
			`{"explain": {"find": "c", "filter": {"zebraName": "zebraValue"}}}`,
			`{"bulkWrite": 1, "ops": [{"insert": 0, "document": {"zebraName": "zebraValue"}}], "nsInfo": [{"ns": "admin.c"}]}`,
		} {
			body, err := parse(text)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = c.Run(t.Context(), "admin", body) // some fail, which is logged as well
		}
		_ = c.Close()
		s.Stop()
		log, err := os.ReadFile(s.Log)
		if err != nil {
			t.Fatal(err)
		}
		if found := strings.Contains(string(log), "zebra"); found == redact {
			for line := range strings.Lines(string(log)) {
				if strings.Contains(line, "zebra") || !redact {
					t.Errorf("redacted %v: %.400s", redact, line)
				}
			}
		}
		if !strings.Contains(string(log), "Slow query") {
			t.Error("no operation was logged")
		}
	}
}
