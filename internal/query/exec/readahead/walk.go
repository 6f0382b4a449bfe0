package readahead

import (
	"bytes"

	"github.com/mayflydb/mayfly/internal/storage"
)

// Walk reads records in the rising order of their keys by one iterator, which
// steps to those that are near and seeks those that are not.
type Walk struct {
	Iter *storage.Iter // over the records; nil until the first one is asked for

	// placed says that it stands at the record asked for last, or at the first one
	// behind where that is gone.
	placed bool
	found  bool // the record asked for last was there
	// vain rises with each try of stepSpan steps that reached nothing, and falls
	// with those that did.
	vain int
}

const (
	// stepSpan is how many steps are tried before a seek: they cost as much.
	stepSpan = 16
	// vainCost is what a try in vain weighs against one that was not: where more
	// than one in five is, to seek at once costs less.
	vainCost = 4
	// maxVain is how vain tries may be before the walk only seeks.
	maxVain = 16
)

// Begin makes ready for records in a new order.
func (w *Walk) Begin() { w.placed, w.found, w.vain = false, false, 0 }

// Close closes the iterator.
func (w *Walk) Close() error {
	w.Begin()
	it := w.Iter
	if w.Iter = nil; it == nil {
		return nil
	}
	return it.Close()
}

// To moves to a record, which is above the one before, and says whether it is there.
// Mostly it is the next one. There is an Iter.
func (w *Walk) To(record []byte) (bool, error) {
	if w.found && w.vain <= maxVain {
		if w.Iter.Next() && bytes.Equal(w.Iter.Key(), record) {
			w.vain = max(0, w.vain-1)
			return true, nil
		}
		w.found = false
	}
	return w.reach(record)
}

// reach is To where the iterator stands behind the record before.
func (w *Walk) reach(record []byte) (bool, error) {
	if w.placed && w.vain <= maxVain {
		switch c := w.step(record); {
		case c == 0:
			return true, nil
		case c > 0:
			return false, w.Iter.Err()
		}
		w.vain += vainCost
	}
	w.placed = true
	w.found = w.Iter.SeekGE(record) && bytes.Equal(w.Iter.Key(), record)
	return w.found, w.Iter.Err()
}

// step moves to a record in some steps. It returns how the key at hand compares
// to it: less than 0 where it was not reached, and more where it is not there.
func (w *Walk) step(record []byte) int {
	for range stepSpan {
		if !w.Iter.Valid() {
			return 1
		}
		if c := bytes.Compare(w.Iter.Key(), record); c >= 0 {
			w.vain = max(0, w.vain-1)
			w.found = c == 0
			return c
		}
		w.Iter.Next()
	}
	return -1
}
