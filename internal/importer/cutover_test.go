package importer

import (
	"bytes"
	"errors"
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// enters returns what reports whether a request stores that a phase begins.
func enters(phase string) func(message []byte) bool {
	return func(message []byte) bool {
		return bytes.Contains(message, []byte("phase\x00")) && bytes.Contains(message, []byte(phase+"\x00"))
	}
}

// TestCutOverAgain: what is written to a source whose block somebody has ended, as the importer
// died in its cut-over, is there when its successor is done, and the source is blocked again. If
// the importer died behind its verification, the successor does not say that the target is equal.
func TestCutOverAgain(t *testing.T) {
	t.Parallel()
	from, to := startSet(t, "from"), startSet(t, "to")
	from.run("d", `{"create":"capped","capped":true,"size":1048576}`)
	from.run("d", `{"insert":"capped","documents":[{"_id":2},{"_id":1}]}`)
	from.run("d", `{"insert":"c","documents":[{"_id":1},{"_id":2}]}`)
	both := newEnds(t, from, to)
	dies := func(o Options, phase string, how int) {
		t.Helper()
		o.Parallel = 1
		g := &gate{when: enters(phase), how: how}
		if err := both.run(t.Context(), o, g); err == nil || errors.Is(err, ErrDiffers) || !g.dead.Load() {
			t.Fatalf("it did not die: %v", err)
		}
	}
	dies(Options{CutOver: true, Block: true}, phaseCutOver, dieBehind)
	from.run("admin", `{"setUserWriteBlockMode":1,"global":false}`)
	from.run("d", `{"delete":"c","deletes":[{"q":{"_id":1},"limit":1}]}`)
	from.run("d", `{"insert":"c","documents":[{"_id":3}]}`)
	from.run("d", `{"insert":"capped","documents":[{"_id":0}]}`)
	from.run("d", `{"insert":"made","documents":[{"_id":1}]}`)
	dies(Options{}, phaseDone, dieBefore) // the cut-over was asked for before
	reply, err := from.c.Run(t.Context(), "d", bson.MustParse(`{"insert":"c","documents":[{"_id":4}]}`))
	if errs := writeErrors(reply); err != nil || len(errs) != 1 || errs[0].Code != mongoerr.UserWritesBlocked {
		t.Errorf("a write behind the cut-over: %v, %v", reply, err)
	}
	equal(t, from, to)
	dies(Options{}, phaseDone, dieBefore) // behind the verification, and nothing was written
	from.run("admin", `{"setUserWriteBlockMode":1,"global":false}`)
	from.run("d", `{"insert":"c","documents":[{"_id":4}]}`)
	if err := both.run(t.Context(), Options{Parallel: 1}, &gate{}); !errors.Is(err, ErrDiffers) {
		t.Errorf("a document was written behind the verification: %v", err)
	}
}
