package backup

import (
	"context"
	"errors"
	"path"
	"slices"

	"github.com/mayflydb/mayfly/internal/objectstore"
)

// Pruned is what Prune has removed.
type Pruned struct {
	Backups []*Manifest
	// Broken stay and are not counted: they cannot be restored, as objects are missing. Those
	// that are older than all that is kept go as others do.
	Broken  []*Manifest
	Objects int   // others than manifests
	Bytes   int64 // of the repository
}

// Prune removes all but the newest backups of each cluster, set or standalone that can be
// restored, the log before those that stay, and files that no backup has. Nobody else may use the repository. Errors: *DamageError
// of a manifest, as it is not known what it names.
func (r *Repository) Prune(ctx context.Context, keep int) (p *Pruned, err error) {
	ctx, lock, err := r.lock(ctx, true)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	all, err := r.Backups(ctx)
	if err != nil {
		return nil, err
	}
	stored, err := r.stored(ctx)
	if err != nil {
		return nil, err
	}
	p = &Pruned{}
	stay := map[string][]*Manifest{} // by what they are of, the newest first
	whole := map[string]int{}        // of them
	for _, m := range slices.Backward(all) {
		of := m.Of()
		if whole[of] == keep {
			p.Backups = append(p.Backups, m)
			continue
		}
		switch is, err := r.isWhole(ctx, m, stored); {
		case err != nil:
			return nil, err
		case is:
			whole[of]++
		default:
			p.Broken = append(p.Broken, m)
		}
		stay[of] = append(stay[of], m)
	}
	named, oldest := map[string]bool{}, map[string]uint64{} // objects; positions of sets from which the log stays
	var old []objectstore.StoredFile                        // other objects that nobody needs
	for _, backups := range stay {
		for _, m := range backups {
			for _, f := range m.files() {
				named[f.Object] = true
			}
			for _, part := range m.parts() {
				if at, ok := oldest[part.SetID]; !ok || part.Index < at {
					oldest[part.SetID] = part.Index
				}
			}
		}
	}
	logs, err := r.list(ctx, logDirectory)
	if err != nil {
		return nil, err
	}
	sets := map[string]bool{}
	for _, f := range logs {
		sets[path.Base(path.Dir(f.Name))] = true
	}
	for set := range sets {
		log, err := r.logOf(ctx, set)
		if err != nil {
			return nil, err
		}
		for _, o := range log {
			if at, ok := oldest[set]; !ok || o.last <= at { // not ok: of a shard that has left
				old = append(old, objectstore.StoredFile{Name: o.name, Size: o.size})
			}
		}
	}
	for name, size := range stored {
		if !named[name] {
			old = append(old, objectstore.StoredFile{Name: name, Size: size})
		}
	}
	for _, m := range p.Backups { // before what they name
		if err := r.remove(ctx, lock, p, objectstore.StoredFile{Name: m.name, Size: m.stored}); err != nil {
			return nil, err
		}
	}
	for _, f := range old {
		if err := r.remove(ctx, lock, p, f); err != nil {
			return nil, err
		}
		p.Objects++
	}
	return p, nil
}

// isWhole reports whether all that the backup needs is there: its files, and of a cluster's parts
// the log up to its time.
func (r *Repository) isWhole(ctx context.Context, m *Manifest, stored map[string]int64) (bool, error) {
	if m.lacks(stored) > 0 {
		return false, nil
	}
	for _, p := range m.Parts {
		log, err := r.logOf(ctx, p.SetID)
		if err != nil {
			return false, err
		}
		if m.reaches(log, p, m.Time) != nil {
			return false, nil
		}
	}
	return true, nil
}

func (r *Repository) remove(ctx context.Context, lock objectstore.Lock, p *Pruned, f objectstore.StoredFile) error {
	if err := lock.Check(ctx); err != nil {
		return err
	}
	p.Bytes += f.Size
	return r.store.Remove(ctx, f.Name)
}
