package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/mayflydb/mayfly/internal/objectstore"
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
	ctx, lock, err := r.lock(ctx, false)
	if err != nil {
		return nil, err
	}
	v, err := r.verify(ctx, progress)
	return v, errors.Join(err, lock.Unlock())
}

func (r *Repository) verify(ctx context.Context, progress Progress) (*Verified, error) {
	v := &Verified{}
	var objects []objectstore.StoredFile
	for _, directory := range []string{filesDirectory, backupsDirectory, logDirectory} {
		list, err := r.list(ctx, directory)
		if err != nil {
			return nil, err
		}
		objects = append(objects, list...)
	}
	for i, o := range objects {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		var damage *DamageError
		err := r.get(ctx, o.Name, io.Discard)
		if errors.As(err, &damage) { // on the way to us, perhaps
			err = r.get(ctx, o.Name, io.Discard)
		}
		if errors.As(err, &damage) {
			v.Problems = append(v.Problems, damage.Error())
			if errors.Is(err, errMissing) { // it is listed: the store may have it, and tell of it later
				continue
			}
			if err := r.setAside(ctx, o.Name); err != nil {
				return nil, err
			}
		} else if err != nil {
			return nil, err
		}
		progress("objects", int64(i+1), int64(len(objects)))
	}
	v.Objects = len(objects)
	all, err := r.Backups(ctx)
	if err != nil {
		return nil, err
	}
	v.Backups = len(all)
	if err := r.verifyBackups(ctx, v, all); err != nil {
		return nil, err
	}
	return v, r.verifyLog(ctx, v, all)
}

// verifyBackups looks for files that are missing.
func (r *Repository) verifyBackups(ctx context.Context, v *Verified, all []*Manifest) error {
	stored, err := r.stored(ctx)
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, m := range all {
		for _, f := range m.files() {
			if !seen[f.Object] {
				seen[f.Object] = true
				v.Bytes += f.Size
			}
		}
		if lacks := m.lacks(stored); lacks > 0 {
			v.Problems = append(v.Problems, fmt.Sprintf("backup %s cannot be restored: %d of its %d files are damaged or missing", m.Name(), lacks, len(m.files())))
		}
	}
	return nil
}

// verifyLog says how far the log reaches behind backups.
func (r *Repository) verifyLog(ctx context.Context, v *Verified, all []*Manifest) error {
	var sets []string
	for _, m := range all {
		for _, p := range m.parts() {
			if p.SetID != "" && !slices.Contains(sets, p.SetID) {
				sets = append(sets, p.SetID)
			}
		}
	}
	for _, set := range sets {
		log, err := r.logOf(ctx, set)
		if err != nil {
			return err
		}
		if len(log) == 0 {
			continue
		}
		var of []*Part
		for _, m := range all {
			for _, p := range m.parts() {
				if p.SetID == set {
					of = append(of, p)
				}
			}
		}
		var from, to *Part // a run of backups with one chain
		for _, m := range of {
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

func tellChain(log []logObject, from, to *Part) string {
	return fmt.Sprintf("the set %s can be restored to any time between %s and %s", from.Set, from.Time.Said(), chain(log, to).time.Said())
}
