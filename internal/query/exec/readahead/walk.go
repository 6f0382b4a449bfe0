package readahead

import (
	"bytes"

	"github.com/mayflydb/mayfly/internal/storage"
)

// Walk reads records in the rising order of their keys by one iterator, which
// steps to those that are near and seeks those that are not.
type Walk struct {
	Iter *storage.Iter // over the records; nil until the first one is asked for

	// placed says that it is at the last requested record, or at the first one after it
	// if that was removed.
	placed bool
	found  bool // the last requested record exists
	// vain rises with each failed attempt of stepSpan steps, and falls with each
	// successful one.
	vain int
}

const (
	// stepSpan is how many steps are tried before a seek, which costs as much.
	stepSpan = 16
	// vainCost is the weight of a failed attempt against a successful one: if more than
	// one in five fails, seeking at once costs less.
	vainCost = 4
	// maxVain is the value of vain from which on the walk only seeks.
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

// To moves to a record, which is above the one before, and reports whether it is there.
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

// reach is To if the iterator is after the previous record.
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

// step moves to a record in some steps. It returns how the current key compares to it:
// less than 0 if it was not reached, more if it does not exist.
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
