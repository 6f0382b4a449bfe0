package exec

import (
	"bytes"

	"github.com/mayflydb/mayfly/internal/storage"
)

// walk reads records in the rising order of their keys by one iterator, which
// steps to those that are near and seeks those that are not.
type walk struct {
	it *storage.Iter // nil until the first record
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

// begin makes ready for records in a new order.
func (w *walk) begin() { w.placed, w.found, w.vain = false, false, 0 }

func (w *walk) close() error {
	w.begin()
	return closeIter(&w.it)
}

// to moves to a record of the source, which is above the one before, and says
// whether it is there. Mostly it is the next one.
func (w *walk) to(s *source, record []byte) (bool, error) {
	if w.found && w.vain <= maxVain {
		if w.it.Next() && bytes.Equal(w.it.Key(), record) {
			w.vain = max(0, w.vain-1)
			return true, nil
		}
		w.found = false
	}
	return w.reach(s, record)
}

// reach is to where the iterator stands behind the record before.
func (w *walk) reach(s *source, record []byte) (bool, error) {
	if w.it == nil {
		it, err := s.records(nil, nil)
		if err != nil {
			return false, err
		}
		w.it = it
	}
	if w.placed && w.vain <= maxVain {
		switch c := w.step(record); {
		case c == 0:
			return true, nil
		case c > 0:
			return false, w.it.Err()
		}
		w.vain += vainCost
	}
	w.placed = true
	w.found = w.it.SeekGE(record) && bytes.Equal(w.it.Key(), record)
	return w.found, w.it.Err()
}

// step moves to a record in some steps. It returns how the key at hand compares
// to it: less than 0 where it was not reached, and more where it is not there.
func (w *walk) step(record []byte) int {
	for range stepSpan {
		if !w.it.Valid() {
			return 1
		}
		if c := bytes.Compare(w.it.Key(), record); c >= 0 {
			w.vain = max(0, w.vain-1)
			w.found = c == 0
			return c
		}
		w.it.Next()
	}
	return -1
}
