package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
)

// Verified is what Verify has found.
type Verified struct {
	Backups, Objects int
	Bytes            int64 // of the files of all backups, each object once
	// Problems are what is damaged or missing, with what that spoils. What was damaged was set
	// aside, so that the next backup stores it anew.
	Problems []string
	// Notes say how far the log reaches.
	Notes []string
}

// Verify reads every object, and checks that the log has no gaps.
func (r *Repository) Verify(ctx context.Context, progress Progress) (*Verified, error) {
	unlock, err := r.lock(false)
	if err != nil {
		return nil, err
	}
	v, err := r.verify(ctx, progress)
	return v, errors.Join(err, unlock())
}

func (r *Repository) verify(ctx context.Context, progress Progress) (*Verified, error) {
	v := &Verified{}
	var names []string
	for _, directory := range []string{filesDirectory, backupsDirectory, logDirectory} {
		list, err := r.list(directory)
		if err != nil {
			return nil, err
		}
		names = append(names, list...)
	}
	for i, name := range names {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		var damage *DamageError
		if err := r.get(name, io.Discard); errors.As(err, &damage) {
			v.Problems = append(v.Problems, damage.Error())
			err = r.setAside(name)
			if err != nil {
				return nil, err
			}
		} else if err != nil {
			return nil, err
		}
		progress("objects", int64(i+1), int64(len(names)))
	}
	v.Objects = len(names)
	all, err := r.Backups()
	if err != nil {
		return nil, err
	}
	v.Backups = len(all)
	r.verifyBackups(v, all)
	return v, r.verifyLog(v, all)
}

// verifyBackups looks for files that are missing.
func (r *Repository) verifyBackups(v *Verified, all []*Manifest) {
	seen := map[string]bool{}
	for _, m := range all {
		lacks := 0
		for _, f := range m.Files {
			if !r.has(f.Object) {
				lacks++
			}
			if !seen[f.Object] {
				seen[f.Object] = true
				v.Bytes += f.Size
			}
		}
		if lacks > 0 {
			v.Problems = append(v.Problems, fmt.Sprintf("backup %s cannot be restored: %d of its %d files are damaged or missing", m.Name(), lacks, len(m.Files)))
		}
	}
}

// verifyLog says how far the log reaches behind backups.
func (r *Repository) verifyLog(v *Verified, all []*Manifest) error {
	var sets []string
	for _, m := range all {
		if m.SetID != "" && !slices.Contains(sets, m.SetID) {
			sets = append(sets, m.SetID)
		}
	}
	for _, set := range sets {
		log, err := r.logOf(set)
		if err != nil {
			return err
		}
		if len(log) == 0 {
			continue
		}
		var from, to *Manifest // a run of backups with one chain
		for _, m := range all {
			if m.SetID != set {
				continue
			}
			if to == nil || chain(log, to).last < m.Index {
				if from != nil {
					v.Notes = append(v.Notes, tellChain(log, from, to))
					v.Problems = append(v.Problems, fmt.Sprintf("the log of the set %s has a gap between %s and %s: a time in it cannot be restored to", m.Set, chain(log, to).time.Said(), m.Time.Said()))
				}
				from = m
			}
			to = m
		}
		v.Notes = append(v.Notes, tellChain(log, from, to))
	}
	return nil
}

func tellChain(log []logObject, from, to *Manifest) string {
	return fmt.Sprintf("the set %s can be restored to any time between %s and %s", from.Set, from.Time.Said(), chain(log, to).time.Said())
}
