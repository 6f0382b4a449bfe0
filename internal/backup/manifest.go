package backup

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/repl"
)

// The formats of manifests: that of a cluster is one which builds from before do not read, as
// they would restore nothing.
const (
	manifestFormat        = 1
	clusterManifestFormat = 2
)

// Manifest describes a backup: of a server or a set, which is then its only part, or of a
// cluster.
type Manifest struct {
	Format int       `json:"format"`
	Taken  time.Time `json:"taken"` // when it began, by the clock of who took it
	Part
	// Cluster is the id of a cluster, and Parts are its parts. Each has files of the time of its
	// own, and a log that reaches behind the backup's, to which all are restored.
	Cluster string  `json:"cluster,omitempty"`
	Parts   []*Part `json:"parts,omitempty"`

	name   string // of its object
	stored int64  // bytes of that
}

// Part is what a backup has of one server.
type Part struct {
	// Shard is the name of the shard, or configPart, in a backup of a cluster.
	Shard  string `json:"shard,omitempty"`
	Server string `json:"server"`
	// ServerID is the id of a standalone: Server is what who took the backup calls it, and localhost
	// is many. "" of others, and of a standalone from before there were such ids.
	ServerID string `json:"serverId,omitempty"`
	// Set, SetID, Index and Term are the position in the log of a replica set; "" and 0 of a
	// standalone. Time is the cluster time, of a standalone the time of its own clock.
	Set   string `json:"set,omitempty"`
	SetID string `json:"setId,omitempty"`
	Index uint64 `json:"index,omitempty"`
	Term  uint64 `json:"term,omitempty"`
	Time  Time   `json:"time"`
	Files []File `json:"files,omitempty"`

	uri *client.URI // of the set, while the backup is being taken
}

// parts are the parts of a cluster, or the only one.
func (m *Manifest) parts() []*Part {
	if m.Cluster != "" {
		return m.Parts
	}
	return []*Part{&m.Part}
}

// Count counts the files.
func (m *Manifest) Count() int { return len(m.files()) }

// files are those of all parts.
func (m *Manifest) files() (all []File) {
	for _, p := range m.parts() {
		all = append(all, p.Files...)
	}
	return all
}

// Of is the id of what the backup is of, among those in a repository: of a cluster, a set or a
// standalone, the address of one that had no id.
func (m *Manifest) Of() string { return cmp.Or(m.Cluster, m.SetID, m.ServerID, m.Server) }

// File is a file of a data directory.
type File struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	Object string `json:"object"`
	// Identity is the server's name for a file that never changes; "" for others.
	Identity string `json:"identity,omitempty"`
}

// Time is a cluster time, written as seconds, a dot, and the counter.
type Time repl.Timestamp

// Latest is the end of the log.
const Latest = Time(1<<64 - 1)

// String formats the time as ParseTime reads it.
func (t Time) String() string {
	return fmt.Sprintf("%d.%d", repl.Timestamp(t).Seconds(), uint32(t))
}

// Said formats the time for a person.
func (t Time) Said() string {
	return fmt.Sprintf("%s (%s)", time.Unix(int64(repl.Timestamp(t).Seconds()), 0).UTC().Format(time.RFC3339), t)
}

// MarshalText implements encoding.TextMarshaler.
func (t Time) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (t *Time) UnmarshalText(b []byte) (err error) {
	*t, err = ParseTime(string(b))
	return err
}

// ParseTime reads a time: RFC 3339 with whole seconds, a cluster time as seconds and counter
// with a dot between them, or "latest".
func ParseTime(text string) (Time, error) {
	if text == "latest" {
		return Latest, nil
	}
	if seconds, counter, ok := strings.Cut(text, "."); ok && !strings.ContainsAny(text, "T:") {
		s, err1 := strconv.ParseUint(seconds, 10, 32)
		c, err2 := strconv.ParseUint(counter, 10, 32)
		if errors.Join(err1, err2) == nil {
			return Time(s<<32 | c), nil
		}
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil || at.Nanosecond() != 0 || at.Unix() < 0 || at.Unix() > 1<<32-1 {
		return 0, fmt.Errorf("%q is no time: 2026-11-28T16:30:00Z, a cluster time as 1795883400.1, or latest", text)
	}
	return Time(uint64(at.Unix()) << 32), nil
}

// manifestTime formats when a backup was taken, in its name.
const manifestTime = "20060102T150405.000Z"

// Name is how people name the backup.
func (m *Manifest) Name() string {
	base := path.Base(m.name)
	return base[:len(base)-sumBytes+8]
}

// size is the sum of the files.
func (m *Manifest) size() (n int64) {
	for _, f := range m.files() {
		n += f.Size
	}
	return n
}

// lacks counts the files whose objects are not among those that are stored.
func (m *Manifest) lacks(stored map[string]int64) (n int) {
	for _, f := range m.files() {
		if _, ok := stored[f.Object]; !ok {
			n++
		}
	}
	return n
}

// putManifest stores a manifest: the objects that it names are there (invariant
// manifest-last).
func (r *Repository) putManifest(ctx context.Context, m *Manifest) (err error) {
	b, err := json.MarshalIndent(m, "", " ")
	if err != nil {
		return err
	}
	stored, err := r.stored(ctx)
	if err != nil {
		return err
	}
	for _, f := range m.files() {
		if _, ok := stored[f.Object]; !ok {
			return missing(f.Object)
		}
	}
	m.name, _, err = r.put(ctx, func(sum string) string {
		return path.Join(backupsDirectory, m.Taken.UTC().Format(manifestTime)+"-"+sum)
	}, func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	})
	return err
}

// manifest reads a manifest.
func (r *Repository) manifest(ctx context.Context, name string) (*Manifest, error) {
	var b bytes.Buffer
	if err := r.get(ctx, name, &b); err != nil {
		return nil, err
	}
	m := &Manifest{name: name}
	if err := json.Unmarshal(b.Bytes(), m); err != nil {
		return nil, &DamageError{name, err}
	}
	if m.Format > clusterManifestFormat {
		return nil, fmt.Errorf("%s has format %d, written by a newer version", name, m.Format)
	}
	names := map[string]bool{}
	for _, p := range m.Parts {
		if bad := p.Shard == "" || p.Shard != path.Base(p.Shard) || strings.ContainsAny(p.Shard, `/\`) || strings.Trim(p.Shard, ".") == ""; bad || names[p.Shard] {
			return nil, &DamageError{name, fmt.Errorf("it has a part %q", p.Shard)}
		}
		names[p.Shard] = true
	}
	for _, f := range m.files() {
		if f.Name != path.Base(f.Name) || strings.ContainsAny(f.Name, `/\`) || strings.Trim(f.Name, ".") == "" || !isSum(path.Base(f.Object)) {
			return nil, &DamageError{name, fmt.Errorf("it has a file %q", f.Name)}
		}
	}
	return m, nil
}

// Backups lists the backups, the oldest first. Those whose manifests are damaged are among the
// errors.
func (r *Repository) Backups(ctx context.Context) (all []*Manifest, damaged error) {
	objects, err := r.list(ctx, backupsDirectory)
	if err != nil {
		return nil, err
	}
	for _, o := range objects {
		m, err := r.manifest(ctx, o.Name)
		if err != nil {
			damaged = errors.Join(damaged, err)
			continue
		}
		m.stored = o.Size
		all = append(all, m)
	}
	slices.SortStableFunc(all, func(a, b *Manifest) int { return a.Taken.Compare(b.Taken) })
	return all, damaged
}
