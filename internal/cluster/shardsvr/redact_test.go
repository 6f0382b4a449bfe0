package shardsvr

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/schema"
)

// The lines about a move have no values of its shard key.
func TestMovesAreLoggedWithoutValues(t *testing.T) {
	var log bytes.Buffer
	r := &request{
		s: &Shard{log: slog.New(slog.NewTextHandler(&log, nil))}, ns: schema.Namespace{DB: "d", Coll: "c"},
		body: bson.MustParse(`{"_shardsvrGiven": "d.c", "min": {"email": "ann@example.com"}, "max": {"email": "bob@example.com"}}`),
	}
	r.tellLog(t.Context(), "A range was given away")
	if text := log.String(); !strings.Contains(text, "9000043") || strings.Contains(text, "example") {
		t.Error(text)
	}
}
