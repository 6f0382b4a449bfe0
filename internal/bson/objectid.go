package bson

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"sync/atomic"
	"time"
)

// objectIDProcess is the part of every new ObjectId that tells processes
// apart: five random bytes, drawn once.
var objectIDProcess = func() (p [5]byte) {
	rand.Read(p[:]) // never fails
	return
}()

// objectIDCounter starts anywhere, so that a process restarted within a second
// under the same random bytes would still not repeat itself.
var objectIDCounter = func() *atomic.Uint32 {
	var seed [4]byte
	rand.Read(seed[:])
	c := new(atomic.Uint32)
	c.Store(binary.BigEndian.Uint32(seed[:]))
	return c
}()

// NewObjectID makes an ObjectId: seconds since 1970, five random bytes of this
// process, a counter of three bytes, all big-endian.
func NewObjectID() [12]byte { return NewObjectIDAt(time.Now()) }

// NewObjectIDAt is NewObjectID with the given time.
func NewObjectIDAt(t time.Time) (id [12]byte) {
	binary.BigEndian.PutUint32(id[:], uint32(t.Unix()))
	copy(id[4:], objectIDProcess[:])
	c := objectIDCounter.Add(1)
	id[9], id[10], id[11] = byte(c>>16), byte(c>>8), byte(c)
	return id
}

// ObjectIDSeconds is the time in an ObjectId, in seconds since 1970.
func ObjectIDSeconds(id [12]byte) int64 { return int64(int32(binary.BigEndian.Uint32(id[:]))) }

// ParseObjectID reads 24 hexadecimal digits.
func ParseObjectID(s string) (id [12]byte, ok bool) {
	if len(s) != 24 {
		return id, false
	}
	_, err := hex.Decode(id[:], []byte(s))
	return id, err == nil
}

// FormatObjectID writes 24 lower-case hexadecimal digits.
func FormatObjectID(id [12]byte) string { return hex.EncodeToString(id[:]) }
