package importer

import (
	"fmt"
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
)

// TestReached: a transaction of which a batch has the first part was not read.
func TestReached(t *testing.T) {
	token := func(at uint64) bson.Doc {
		return new(bson.Builder).String("_data", fmt.Sprintf("82%016X2B", at)).Finish()
	}
	part := []bson.Doc{bson.Empty}
	for _, x := range []struct {
		at      uint64
		events  []bson.Doc
		pending []bson.Doc
		reached bool
	}{
		{6, nil, nil, false},
		{7, part, nil, false},
		{7, nil, part, false},
		{7, nil, nil, true},
		{8, part, nil, true},
	} {
		s := &stream{token: token(x.at), pending: x.pending}
		if got := s.reached(x.events, 7); got != x.reached {
			t.Errorf("at %d, with %d events and %d fragments: %t", x.at, len(x.events), len(x.pending), got)
		}
	}
}
