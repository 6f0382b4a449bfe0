package backup

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"testing"
)

// sealed seals content of so many bytes.
func sealed(t *testing.T, k Key, n int) (content, object []byte) {
	t.Helper()
	content = make([]byte, n)
	for i := range content {
		content[i] = byte(rand.Uint32())
	}
	var b bytes.Buffer
	w, err := k.seal(&b)
	if err != nil {
		t.Fatal(err)
	}
	for rest := content; len(rest) > 0; {
		n := min(len(rest), 1+rand.IntN(100_000))
		if _, err := w.Write(rest[:n]); err != nil {
			t.Fatal(err)
		}
		rest = rest[n:]
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return content, b.Bytes()
}

func opened(k Key, object []byte) ([]byte, error) {
	r, err := k.open(bytes.NewReader(object))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

// pieces cuts an object into its salt and its pieces.
func pieces(object []byte) (all [][]byte) {
	all, object = append(all, object[:saltBytes]), object[saltBytes:]
	for len(object) > 0 {
		n := 4 + int(binary.BigEndian.Uint32(object))
		all, object = append(all, object[:n]), object[n:]
	}
	return all
}

// TestSeal seals objects and opens them, also after they were changed, cut, lengthened, or their
// pieces moved.
func TestSeal(t *testing.T) {
	k, other := Key(bytes.Repeat([]byte{1}, keyBytes)), Key(bytes.Repeat([]byte{2}, keyBytes))
	for _, n := range []int{0, 1, pieceBytes - 1, pieceBytes, pieceBytes + 1, 4*pieceBytes + 17} {
		content, object := sealed(t, k, n)
		if got, err := opened(k, object); err != nil || !bytes.Equal(got, content) {
			t.Errorf("%d bytes: %v", n, err)
		}
		_, again := sealed(t, k, n)
		all := pieces(object)
		bad := map[string][]byte{
			"a byte more": append(bytes.Clone(object), 0), "cut": object[:rand.IntN(len(object))], "twice the last piece": append(bytes.Clone(object), all[len(all)-1]...),
			"the last piece cut": bytes.Join(all[:len(all)-1], nil), "another object's salt": append(bytes.Clone(again[:saltBytes]), object[saltBytes:]...),
		}
		changed := bytes.Clone(object)
		changed[rand.IntN(len(changed))] ^= 1
		bad["changed"] = changed
		if len(all) > 3 {
			bad["pieces swapped"] = bytes.Join([][]byte{all[0], all[2], all[1], bytes.Join(all[3:], nil)}, nil)
		}
		for what, b := range bad {
			if got, err := opened(k, b); !errors.Is(err, errSealed) {
				t.Errorf("%d bytes, %s: %d bytes, %v", n, what, len(got), err)
			}
		}
		if _, err := opened(other, object); !errors.Is(err, errSealed) {
			t.Errorf("%d bytes, another key: %v", n, err)
		}
	}
}
