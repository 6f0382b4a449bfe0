package storage

import (
	"bytes"
	"errors"
)

// joined merges several iterators, in the order of their keys and, where those are
// equal, in the order of the iterators. They are few, so the next one is found by
// comparing all.
type joined struct {
	parts []*Iter
	at    int    // the part that has the current key, -1 for none
	back  bool   // the other parts are positioned before it, not after it
	key   []byte // memory
}

// Join makes one iterator of several, which it takes over: it walks all their keys
// in order. Their bounds are final.
// They are of one state of the store.
func Join(parts ...*Iter) *Iter { return IterOf(&joined{parts: parts, at: -1}) }

// Joined reports whether the iterator is one of several.
func (it *Iter) Joined() bool {
	if it.walk == nil {
		return false
	}
	_, is := it.walk.(*joined)
	return is
}

// Part says which of the iterators that were joined has the current key.
func (it *Iter) Part() int {
	if j, is := it.walk.(*joined); is {
		return j.at
	}
	return 0
}

// pick finds the part with the next key.
func (j *joined) pick() bool {
	j.at = -1
	var best []byte
	for i, p := range j.parts {
		if !p.Valid() {
			if p.Err() != nil {
				j.at = -1
				return false
			}
			continue
		}
		k := p.Key()
		if j.at < 0 || (bytes.Compare(k, best) < 0) != j.back {
			j.at, best = i, k
		}
	}
	return j.at >= 0
}

// all moves each part by itself, and picks one.
func (j *joined) all(back bool, move func(*Iter) bool) bool {
	for _, p := range j.parts {
		move(p)
	}
	j.back = back
	return j.pick()
}

// First and the others are Walk's.
func (j *joined) First() bool { return j.all(false, (*Iter).First) }
func (j *joined) Last() bool  { return j.all(true, (*Iter).Last) }
func (j *joined) Next() bool  { return j.step(false) }
func (j *joined) Prev() bool  { return j.step(true) }
func (j *joined) Valid() bool { return j.at >= 0 }
func (j *joined) Key() []byte { return j.parts[j.at].Key() }
func (j *joined) SeekGE(k []byte) bool {
	return j.all(false, func(p *Iter) bool { return p.SeekGE(k) })
}
func (j *joined) SeekLT(k []byte) bool   { return j.all(true, func(p *Iter) bool { return p.SeekLT(k) }) }
func (j *joined) Value() ([]byte, error) { return j.parts[j.at].Value() }

// step moves to the next key in a direction.
func (j *joined) step(back bool) bool {
	switch {
	case j.at < 0 && j.back == back:
		return false
	case j.at < 0 && back:
		return j.Last()
	case j.at < 0:
		return j.First()
	}
	if j.back != back {
		j.turn()
	}
	if back {
		j.parts[j.at].Prev()
	} else {
		j.parts[j.at].Next()
	}
	return j.pick()
}

// turn moves the parts other than the current one to its other side.
func (j *joined) turn() {
	j.key = append(append(j.key[:0], j.parts[j.at].Key()...), 0)
	at, behind := j.key[:len(j.key)-1], j.key // the first key that is after it
	j.back = !j.back
	for i, p := range j.parts {
		to := behind
		if i > j.at {
			to = at
		}
		switch {
		case i == j.at:
		case j.back:
			p.SeekLT(to)
		default:
			p.SeekGE(to)
		}
	}
}

func (j *joined) Err() error {
	var errs []error
	for _, p := range j.parts {
		errs = append(errs, p.Err())
	}
	return errors.Join(errs...)
}

func (j *joined) Close() error {
	var errs []error
	for _, p := range j.parts {
		errs = append(errs, p.Close())
	}
	return errors.Join(errs...)
}
