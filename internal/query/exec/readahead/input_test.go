package readahead

import (
	"context"
	"errors"
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
)

// numbered delivers n documents {_id: i, pad, k: i}, and then fails or panics.
type numbered struct {
	n, at  int
	err    error
	panics bool
	buf    []byte
	closed bool
}

func (s *numbered) Next(ctx context.Context) (bson.Doc, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if s.at == s.n {
		if s.panics {
			panic("at the end")
		}
		return nil, s.err
	}
	s.buf = new(bson.Builder).Reset(s.buf[:0]).Int64("_id", int64(s.at)).String("pad", "one document").Int64("k", int64(s.at)).Finish()
	s.at++
	return s.buf, nil
}

func (s *numbered) Close() { s.closed = true }

func TestInput(t *testing.T) {
	ctx := context.Background()
	failed := errors.New("failed")
	for _, n := range []int{0, inputAfter, inputAfter + 1, 20_000} {
		for _, keep := range [][]string{nil, {"k"}} {
			in := &numbered{n: n, err: failed}
			a := NewInput(in, keep)
			for i := range n {
				d, err := a.Next(ctx)
				if err != nil || d.Lookup("k").Int64() != int64(i) {
					t.Fatalf("document %d of %d: %v, %v", i, n, d, err)
				}
			}
			for range 2 {
				if d, err := a.Next(ctx); d != nil || !errors.Is(err, failed) {
					t.Fatalf("after %d: %v, %v", n, d, err)
				}
			}
			if a.Close(); !in.closed {
				t.Error("left open")
			}
		}
	}
	// One that is not read to its end.
	in := &numbered{n: 1_000_000}
	a := NewInput(in, nil)
	for range inputAfter + 1 {
		if _, err := a.Next(ctx); err != nil {
			t.Fatal(err)
		}
	}
	a.Stop()
	if d, err := a.Next(ctx); d != nil || !errors.Is(err, errStopped) {
		t.Errorf("stopped: %v, %v", d, err)
	}
	if a.Close(); in.at == in.n {
		t.Error("it was read to its end")
	}
	a = NewInput(&numbered{n: 2 * inputAfter, panics: true}, nil)
	defer a.Close()
	defer func() {
		if p := recover(); p != "at the end" {
			t.Errorf("panicked with %v", p)
		}
	}()
	for range 2*inputAfter + 1 {
		if _, err := a.Next(ctx); err != nil {
			t.Fatal(err)
		}
	}
	t.Error("no panic")
}
