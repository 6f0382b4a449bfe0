package storage

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"
)

func TestIdentVarintKeepsOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		gen := rapid.OneOf(rapid.Uint64Range(0, 600), rapid.Uint64Max(1<<63))
		a, b := Ident(gen.Draw(t, "a")), Ident(gen.Draw(t, "b"))
		x, y := AppendIdent(nil, a), AppendIdent(nil, b)
		want := 0
		if a < b {
			want = -1
		} else if a > b {
			want = 1
		}
		if got := bytes.Compare(x, y); got != want {
			t.Fatalf("%d → %x, %d → %x: order %d", a, x, b, y, got)
		}
		if a != b && (bytes.HasPrefix(x, y) || bytes.HasPrefix(y, x)) {
			t.Fatalf("%x and %x: one is a prefix of the other", x, y)
		}
		if len(x) != identLen(a) {
			t.Fatalf("length of %x is not %d", x, identLen(a))
		}
		if back, err := ParseIdent(x); err != nil || back != a {
			t.Fatalf("%x → %d, %v", x, back, err)
		}
	})
}
