package extsort

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"testing"

	"pgregory.net/rapid"
)

// TestList compares a List that spills at a random point with a slice.
func TestList(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		limit := rapid.IntRange(0, 400).Draw(rt, "limit")
		l := NewList(dir)
		defer l.Close()
		released := 0
		var want [][]byte
		rt.Repeat(map[string]func(*rapid.T){
			"append": func(rt *rapid.T) {
				d := []byte(fmt.Sprint(len(want), " document"))
				want = append(want, d)
				if err := l.Append(d, limit); err != nil {
					rt.Fatal(err)
				}
			},
			"release": func(rt *rapid.T) {
				released = rapid.IntRange(released, len(want)).Draw(rt, "to")
				l.Release(released)
			},
			"": func(rt *rapid.T) {
				if l.Len() != len(want) {
					rt.Fatalf("%d documents, want %d", l.Len(), len(want))
				}
				for i := released; i < len(want); i++ {
					if d, err := l.At(i); err != nil || !bytes.Equal(d, want[i]) {
						rt.Fatalf("document %d: %q, %v; want %q", i, d, err, want[i])
					}
				}
			},
		})
	})
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("%d files are left", len(left))
	}
	if err := NewList("").Append([]byte("x"), 0); !errors.Is(err, ErrMemory) {
		t.Errorf("without a directory: %v", err)
	}
}
