package cosmos

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"strings"
)

// Resource ids are base64 with '-' for '/': four bytes for a database, eight
// for a container, the database's first, sixteen for an item.

func encodeRID(b []byte) string {
	return strings.ReplaceAll(base64.StdEncoding.EncodeToString(b), "/", "-")
}

func decodeRID(s string) []byte {
	b, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(s, "-", "/"))
	if err != nil {
		return nil
	}
	return b
}

func newDatabaseRID() string {
	var b [4]byte
	rand.Read(b[:])
	return encodeRID(b[:])
}

func newContainerRID(db string) string {
	b := append(decodeRID(db), 0, 0, 0, 0)
	rand.Read(b[4:])
	b[4] |= 0x80 // distinguishes it from the id of a user
	return encodeRID(b)
}

// itemRID returns the id of the n-th item of a container.
func itemRID(container []byte, n int64) string {
	return encodeRID(binary.LittleEndian.AppendUint64(container[:len(container):len(container)], uint64(n)))
}

// newETag returns a quoted etag that ends with the time.
func newETag(seconds int64) string {
	var b [4]byte
	rand.Read(b[:])
	out := append(make([]byte, 0, 38), '"')
	out = append(hex.AppendEncode(out, b[:]), "-0000-0100-0000-"...)
	out = hex.AppendEncode(out, binary.BigEndian.AppendUint32(b[:0], uint32(seconds)))
	return string(append(out, `0000"`...))
}
