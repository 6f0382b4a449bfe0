package bson

import (
	"bytes"
	"testing"
	"time"
)

func TestObjectIDsAreNew(t *testing.T) {
	at := time.Unix(1700000000, 0)
	seen := map[[12]byte]bool{}
	for range 1000 {
		id := NewObjectIDAt(at)
		if seen[id] {
			t.Fatalf("%x twice", id)
		}
		seen[id] = true
		if ObjectIDSeconds(id) != at.Unix() || !bytes.Equal(id[4:9], objectIDProcess[:]) {
			t.Fatalf("%x is not of this process at %v", id, at)
		}
		if back, ok := ParseObjectID(FormatObjectID(id)); !ok || back != id {
			t.Fatalf("%x reads back as %x", id, back)
		}
	}
	for _, text := range []string{"", "0102030405060708090a0b0", "0102030405060708090a0b0g", "0102030405060708090a0b0c0d"} {
		if _, ok := ParseObjectID(text); ok {
			t.Errorf("%q is an ObjectId", text)
		}
	}
}
