package catalog

import (
	"bytes"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/storage"
)

// gap is what a unit knows of the keys before which it inserts, where the _ids of its documents
// count up: one look at the index of _ids, or the records that lie by them, tells of many documents
// that their _ids are not there. That holds as long as the engine has no further commit: whoever
// has inserted one of them had its lock, and has committed before this unit got it.
type gap struct {
	in      storage.Ident // the keyspace; 0 for none
	last    []byte        // the key of the document before
	to      []byte        // no key is from the one behind last up to it, if known
	known   bool
	commits uint64 // of the engine, before that was read
}

// gapBytes is how many bytes at the end of a key may differ from that of the document before: so a
// look passes that many keys at the most that were removed.
const gapBytes = 2

// countsUp reports whether _ids of a type are often consecutive, and their keys as long as each
// other.
func countsUp(t bson.Type) bool {
	return t == bson.TypeObjectID || t == bson.TypeInt32 || t == bson.TypeInt64
}

// absent reports whether the _id of u.id, which the unit has just locked, is not there, where it
// tells that without a look for each. False says nothing.
func (u *Unit) absent(c *Collection, t bson.Type) (bool, error) {
	in := c.Ident
	if c.entersIDs() {
		in = c.indexes[0].Ident
	}
	if u.txn != nil || !countsUp(t) || c.relay != nil || c.live.relaid.Load() != nil {
		return false, nil
	}
	g, key := &u.gap, u.id
	n := len(key) - gapBytes
	rises := g.in == in && n > 0 && len(g.last) == len(key) && bytes.Equal(g.last[:n], key[:n]) && bytes.Compare(g.last, key) < 0
	g.in, g.last = in, append(g.last[:0], key...)
	if !rises {
		g.known = false
		return false, nil
	}
	now := u.c.engine.Commits() // before the look
	if g.known && g.commits == now && bytes.Compare(key, g.to) < 0 {
		return true, nil
	}
	g.commits, g.to = now, behind(append(g.to[:0], key[:n]...))
	it, err := u.c.engine.NewIter(in, key, g.to)
	if err != nil {
		return false, err
	}
	if it.First() {
		g.to = append(g.to[:0], it.Key()...)
	}
	g.known = !bytes.Equal(key, g.to)
	err = it.Err()
	if err := it.Close(); err != nil {
		return false, err
	}
	return g.known && err == nil, err
}

// behind makes of a prefix the least key that is above all keys with it. No key begins with ff.
func behind(prefix []byte) []byte {
	for i := len(prefix) - 1; prefix[i] == 0xff; i-- {
		prefix = prefix[:i]
	}
	prefix[len(prefix)-1]++
	return prefix
}
