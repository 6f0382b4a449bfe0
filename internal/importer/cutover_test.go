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
// died in its cut-over, is there when its successor is done; and the source is blocked again.
func TestCutOverAgain(t *testing.T) {
	t.Parallel()
	from, to := startSet(t, "from"), startSet(t, "to")
	from.run("d", `{"create":"capped","capped":true,"size":1048576}`)
	from.run("d", `{"insert":"capped","documents":[{"_id":2},{"_id":1}]}`)
	from.run("d", `{"insert":"c","documents":[{"_id":1},{"_id":2}]}`)
	both := newEnds(t, from, to)
	dies := &gate{when: enters(phaseCutOver), how: dieBehind}
	if err := both.run(t.Context(), Options{Parallel: 1, CutOver: true, Block: true}, dies); err == nil || !dies.dead.Load() {
		t.Fatal(err)
	}
	from.run("admin", `{"setUserWriteBlockMode":1,"global":false}`)
	from.run("d", `{"delete":"c","deletes":[{"q":{"_id":1},"limit":1}]}`)
	from.run("d", `{"insert":"c","documents":[{"_id":3}]}`)
	from.run("d", `{"insert":"capped","documents":[{"_id":0}]}`)
	from.run("d", `{"insert":"made","documents":[{"_id":1}]}`)
	if err := both.run(t.Context(), Options{Parallel: 1}, &gate{}); err != nil { // it was asked for before
		t.Fatal(err)
	}
	reply, err := from.c.Run(t.Context(), "d", bson.MustParse(`{"insert":"c","documents":[{"_id":4}]}`))
	if errs := writeErrors(reply); err != nil || len(errs) != 1 || errs[0].Code != mongoerr.UserWritesBlocked {
		t.Errorf("a write behind the cut-over: %v, %v", reply, err)
	}
	equal(t, from, to)
}

// TestWrittenBehindVerification: who goes on behind the verification of an importer that died does
// not say that the target is equal, if the source was written to since.
func TestWrittenBehindVerification(t *testing.T) {
	t.Parallel()
	from, to := startSet(t, "from"), startSet(t, "to")
	from.run("d", `{"insert":"c","documents":[{"_id":1}]}`)
	both := newEnds(t, from, to)
	o := Options{Parallel: 1, CutOver: true, Block: true}
	if err := both.run(t.Context(), o, &gate{when: enters(phaseFinish), how: dieBehind}); err == nil {
		t.Fatal("it did not die")
	}
	if err := both.run(t.Context(), o, &gate{when: enters(phaseDone), how: dieBefore}); err == nil || errors.Is(err, ErrDiffers) {
		t.Fatalf("nothing was written: %v", err)
	}
	from.run("admin", `{"setUserWriteBlockMode":1,"global":false}`)
	from.run("d", `{"insert":"c","documents":[{"_id":2}]}`)
	if err := both.run(t.Context(), o, &gate{}); !errors.Is(err, ErrDiffers) {
		t.Errorf("a document was written: %v", err)
	}
}
