package backup

import (
	"errors"
	"os"
	"slices"
)

// Pruned is what Prune has removed.
type Pruned struct {
	Backups []*Manifest
	Objects int   // others than manifests
	Bytes   int64 // of the repository
}

// Prune removes all but the newest backups of each set or standalone, the log before those that
// stay, and files that no backup has. Nobody else may use the repository. Errors: *DamageError
// of a manifest, as it is not known what it names.
func (r *Repository) Prune(keep int) (p *Pruned, err error) {
	unlock, err := r.lock(true)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	all, err := r.Backups()
	if err != nil {
		return nil, err
	}
	p = &Pruned{}
	stay := map[string][]*Manifest{} // by set or server, the newest first
	for _, m := range slices.Backward(all) {
		of := m.SetID
		if of == "" {
			of = m.Server
		}
		if len(stay[of]) == keep {
			p.Backups = append(p.Backups, m)
			continue
		}
		stay[of] = append(stay[of], m)
	}
	named := map[string]bool{}
	var old []string
	for _, backups := range stay {
		for _, m := range backups {
			for _, f := range m.Files {
				named[f.Object] = true
			}
		}
		oldest := backups[len(backups)-1]
		log, err := r.logOf(oldest.SetID)
		if err != nil {
			return nil, err
		}
		for _, o := range log {
			if o.last <= oldest.Index {
				old = append(old, o.name)
			}
		}
	}
	for _, m := range p.Backups { // before what they name
		if err := r.remove(p, m.name); err != nil {
			return nil, err
		}
	}
	if err := syncDirectory(r.path(backupsDirectory)); err != nil && len(p.Backups) > 0 {
		return nil, err
	}
	files, err := r.list(filesDirectory)
	if err != nil {
		return nil, err
	}
	for _, name := range append(files, old...) {
		if !named[name] {
			if err := r.remove(p, name); err != nil {
				return nil, err
			}
			p.Objects++
		}
	}
	return p, nil
}

func (r *Repository) remove(p *Pruned, name string) error {
	info, err := os.Stat(r.path(name))
	if err != nil {
		return err
	}
	p.Bytes += info.Size()
	return os.Remove(r.path(name))
}
