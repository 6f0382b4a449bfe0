package readahead

import (
	"bytes"
	"context"
	"fmt"
	"testing"
)

// numbers is a scan of n entries with long keys.
type numbers struct {
	at, n int
	pad   []byte
}

func (s *numbers) Read(_ context.Context, b *Batch, n, size int) error {
	for !b.Has(n, size) {
		if s.at == s.n {
			b.Tail = 1
			return nil
		}
		b.Add(s.pad, fmt.Appendf(nil, "%08d", s.at), nil, 1)
		s.at++
	}
	return nil
}

// TestBackgroundBytes holds that entries with long keys are read a few at a time, all
// of them and each once.
func TestBackgroundBytes(t *testing.T) {
	const n, size = 4 * LeastRows, 1 << 10
	var b Batch
	s, err := StartBackground(t.Context(), &numbers{n: n, pad: bytes.Repeat([]byte("k"), size)}, &b, -1)
	if err != nil || s == nil {
		t.Fatalf("%v, %v", s, err)
	}
	defer s.Close(&b)
	at := 0
	for more := true; more; {
		if m := len(b.entries); m > maxBackgroundBytes+2*size {
			t.Fatalf("%d bytes at once", m)
		}
		for i := range b.Len() {
			if got, want := string(b.Record(i)), fmt.Sprintf("%08d", at); got != want {
				t.Fatalf("%s, want %s", got, want)
			}
			at++
		}
		if more, err = s.Take(t.Context(), &b); err != nil {
			t.Fatal(err)
		}
	}
	if at != n {
		t.Errorf("%d entries, want %d", at, n)
	}
}
