package catalog

import (
	"slices"

	"github.com/mayflydb/mayfly/internal/storage"
)

// Logged is an effect with its place in the log of a replicated group; Effect is nil for
// an entry that changes nothing.
type Logged struct {
	Effect *Effect
	At     LogPosition
}

// ApplyAll applies effects that follow each other in the log, and ends their units, as
// Apply one after the other would; but those that only write documents become visible
// together, by one batch of the store. So a reader comes before the first of them or
// after the last, and so does a crash. Errors: as for Apply.
func (c *Catalog) ApplyAll(all []Logged) error {
	defer func() {
		for _, l := range all {
			if l.Effect != nil {
				l.Effect.u.Abort()
			}
		}
	}()
	rest := all
	for len(rest) > 0 && rest[0].At.Index <= c.engine.Applied() {
		rest = rest[1:]
	}
	for len(rest) > 0 {
		n := together(rest)
		var err error
		if first := rest[0]; n == 1 && first.Effect != nil {
			err = first.Effect.Apply(first.At)
		} else {
			err = c.applyTogether(rest[:n])
		}
		if err != nil {
			return err
		}
		rest = rest[n:]
	}
	return nil
}

// together returns how many of the first effects can become visible together: at least
// one.
func together(all []Logged) int {
	n := slices.IndexFunc(all, func(l Logged) bool { return l.Effect != nil && l.Effect.alone() })
	if n < 0 {
		n = len(all)
	}
	return max(n, 1)
}

// alone reports whether a note of the effect needs the store as the effect leaves it, or
// a closed gate, or its records are stored apart.
func (e *Effect) alone() bool {
	if id, _ := e.fills(); id != 0 {
		return true
	}
	return slices.ContainsFunc(e.notes, func(n note) bool { return !n.joins() })
}

// applyTogether applies effects of which none is alone.
func (c *Catalog) applyTogether(all []Logged) error {
	units := make([]*storage.Unit, 0, len(all))
	var foreign []*Effect
	for _, l := range all {
		e := l.Effect
		if e == nil {
			continue
		}
		if units = append(units, e.u); e.foreign {
			if err := e.bind(); err != nil {
				return err
			}
			foreign = append(foreign, e)
		}
	}
	leave := enter(foreign...)
	defer leave()
	c.shows(all[len(all)-1].At)
	for _, l := range all {
		if l.Effect != nil {
			if err := l.Effect.show(l.At); err != nil {
				return err
			}
			l.Effect.u.Place(l.At.Index)
		}
	}
	if err := c.engine.ApplyAll(units, all[len(all)-1].At.Index); err != nil {
		return err
	}
	for _, l := range all {
		if l.Effect != nil {
			if err := l.Effect.shown(); err != nil {
				return err
			}
		}
	}
	return nil
}
