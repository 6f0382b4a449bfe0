package backup

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
)

// logObject is an object with entries of the log of a set, as repl.LogPart has them. Its name
// says which: log, the id of the set, and first ‖ last ‖ term ‖ time ‖ sum, in hexadecimal.
type logObject struct {
	name              string
	first, last, term uint64 // indexes; the term of the last
	time              Time   // of the last entry that has one; 0 for none
	size              int64  // in the store
	// prepared is what the server has said before the first entry was read: when the first
	// transaction was prepared that was not decided; 0 for none. It is not stored.
	prepared Time
}

func (o *logObject) nameOf(set, sum string) string {
	return path.Join(logDirectory, set, fmt.Sprintf("%016x-%016x-%016x-%016x-%s", o.first, o.last, o.term, uint64(o.time), sum))
}

// logOf lists the log of a set in the order of its entries.
func (r *Repository) logOf(ctx context.Context, set string) (all []logObject, err error) {
	if set == "" {
		return nil, nil
	}
	objects, err := r.list(ctx, path.Join(logDirectory, set))
	if err != nil {
		return nil, err
	}
	for _, f := range objects {
		o := logObject{name: f.Name, size: f.Size}
		if n, err := fmt.Sscanf(path.Base(f.Name), "%16x-%16x-%16x-%16x-", &o.first, &o.last, &o.term, (*uint64)(&o.time)); err != nil || n != 4 || o.first > o.last {
			return nil, &DamageError{f.Name, errNoMagic}
		}
		all = append(all, o)
	}
	slices.SortFunc(all, func(a, b logObject) int { return cmp.Or(cmp.Compare(a.first, b.first), cmp.Compare(a.last, b.last)) })
	return all, nil
}

// behind returns the object with the entry behind an index, of several the one that goes
// furthest; nil for none.
func behind(log []logObject, index uint64) (found *logObject) {
	for i := range log {
		if o := &log[i]; o.first <= index+1 && index+1 <= o.last && (found == nil || o.last > found.last) {
			found = o
		}
	}
	return found
}

// chain returns where the log ends that follows a backup without a gap.
func chain(log []logObject, p *Part) (end logObject) {
	end = logObject{last: p.Index, term: p.Term, time: p.Time}
	for {
		next := behind(log, end.last)
		if next == nil {
			return end
		}
		end.last, end.term, end.time = next.last, next.term, max(end.time, next.time)
	}
}

// reaches returns an error if the log behind a part of the backup does not prove what was at a
// time: an entry of a later time does.
func (m *Manifest) reaches(log []logObject, p *Part, at Time) error {
	end := chain(log, p)
	if end.time > at {
		return nil
	}
	of := m.Name()
	if p.Shard != "" {
		of = p.Shard + " in " + of
	}
	for i := range log {
		if log[i].first > end.last+1 {
			return fmt.Errorf("the log behind %s has a gap: it reaches up to %s, and goes on at entry %d. A time in the gap cannot be restored to; one behind it can, with a backup from behind it", of, end.time.Said(), log[i].first)
		}
	}
	return fmt.Errorf("the log behind %s reaches only up to %s: what was at %s is not known. --at latest restores all that is there", of, end.time.Said(), at.Said())
}
