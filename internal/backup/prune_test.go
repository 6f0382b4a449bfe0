package backup

import (
	"context"
	"io"
	"path"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/objectstore"
)

// withFile publishes the backup of a server, of one file.
func withFile(ctx context.Context, r *Repository, taken int64, server, content string) (*Manifest, error) {
	name, _, err := r.put(ctx, func(sum string) string { return path.Join(filesDirectory, sum) }, func(w io.Writer) error {
		_, err := io.WriteString(w, content)
		return err
	})
	if err != nil {
		return nil, err
	}
	m := &Manifest{Format: manifestFormat, Taken: time.Unix(taken, 0), Part: Part{
		Server: "localhost:27017", ServerID: server, Time: Time(taken << 32), Files: []File{{Name: "1.sst", Size: int64(len(content)), Object: name}},
	}}
	return m, r.putManifest(ctx, m)
}

// TestNamesakes holds that servers which their clients call the same are two.
func TestNamesakes(t *testing.T) {
	ctx := t.Context()
	r, err := Open(ctx, objectstore.NewDirectory(t.TempDir()), nil, true)
	if err != nil {
		t.Fatal(err)
	}
	for i, server := range []string{"a", "b", ""} {
		if _, err := withFile(ctx, r, 1_800_000_000+int64(i), server, "of "+server); err != nil {
			t.Fatal(err)
		}
	}
	if m, err := r.choose(ctx, RestoreOptions{}); err == nil {
		t.Errorf("%s is restored, and nobody was asked", m.Name())
	}
	for id, server := range map[string]string{"a": "a", "b": "b", "localhost:27017": ""} {
		if m, err := r.choose(ctx, RestoreOptions{Set: id}); err != nil || m.ServerID != server {
			t.Errorf("of %s: %+v: %v", id, m, err)
		}
	}
	if p, err := r.Prune(ctx, 1); err != nil || len(p.Backups)+p.Objects != 0 {
		t.Errorf("of three servers %+v was removed: %v", p, err)
	}
}

// TestPruneBroken holds that a backup which lacks a file is none of those that are kept.
func TestPruneBroken(t *testing.T) {
	ctx := t.Context()
	r, err := Open(ctx, objectstore.NewDirectory(t.TempDir()), nil, true)
	if err != nil {
		t.Fatal(err)
	}
	var all []*Manifest
	for i, content := range []string{"oldest", "old", "new"} {
		m, err := withFile(ctx, r, 1_800_000_000+int64(i), "a", content)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, m)
	}
	if err := r.store.Remove(ctx, all[2].Files[0].Object); err != nil {
		t.Fatal(err)
	}
	p, err := r.Prune(ctx, 1)
	if err != nil || len(p.Backups) != 1 || p.Backups[0].Name() != all[0].Name() || len(p.Broken) != 1 || p.Broken[0].Name() != all[2].Name() {
		t.Fatalf("%+v: %v", p, err)
	}
	if there, err := r.has(ctx, all[1].Files[0].Object); err != nil || !there {
		t.Errorf("the file of the only whole backup is gone: %v", err)
	}
	// A backup that is whole makes those before it superfluous, broken or not.
	if _, err := withFile(ctx, r, 1_800_000_010, "a", "newest"); err != nil {
		t.Fatal(err)
	}
	if p, err := r.Prune(ctx, 1); err != nil || len(p.Backups) != 2 || len(p.Broken) != 0 {
		t.Errorf("%+v: %v", p, err)
	}
}
