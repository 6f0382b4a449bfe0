package storage

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/errors/oserror"
	"github.com/cockroachdb/pebble/v2/vfs"
)

const (
	manifestMarker = "marker.manifest."
	formatMarker   = "marker.format-version."
)

// Damage is a file of a store that lacks something it must have.
type Damage struct {
	File   string // within the data directory
	Offset int64  // of the first byte that is wrong, or from where on bytes are missing
	Lost   string // what a store without the rest would be without
}

func (d Damage) String() string {
	return fmt.Sprintf("%s is damaged at offset %d: %s", d.File, d.Offset, d.Lost)
}

// DamageError says that a store was not opened because data that it once had would be
// missing. It is an ErrCorruption.
type DamageError struct {
	Dir   string
	Files []Damage
}

func (e *DamageError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v: the data directory %s is damaged, and nothing in it was changed", ErrCorruption, e.Dir)
	for _, d := range e.Files {
		b.WriteString("; " + d.String())
	}
	return b.String()
}

// Unwrap makes it an ErrCorruption.
func (e *DamageError) Unwrap() error { return ErrCorruption }

// Inspect checks the files of a store that is not open, as Open does before it changes
// anything: the control file, the markers, the manifest and the logs, but no tables. It
// reads each file once. The result is empty if Open would succeed; errors are those
// of the file system.
func Inspect(fs FS, dir string) ([]Damage, error) {
	names, err := fs.List(dir)
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	in := inspection{fs: fs, dir: dir, names: names}
	rec, found, err := readControl(fs, dir)
	if err != nil && !errors.Is(err, ErrCorruption) {
		return nil, err
	}
	switch {
	case err != nil && !in.used() && in.find(manifestMarker) == "": // its creation was cut off
	case err != nil:
		in.add(controlFile, 0, "how far the logs and the manifest were written is not known")
	case !found && slices.Contains(names, formatFile) && in.formatVersion() >= controlledSince && in.used():
		in.add(controlFile, 0, "the file is missing, so how far the logs and the manifest were written is not known")
	}
	in.control = rec
	if err := in.markers(); err != nil {
		return nil, err
	}
	for _, f := range rec.files {
		// Logs whose writes are all in tables are only kept for reuse.
		if !f.manifest && f.num >= in.needed {
			if err := in.chunks(f, "log"); err != nil {
				return nil, err
			}
		}
	}
	return in.damages, nil
}

// inspection is the check of one directory.
type inspection struct {
	fs      FS
	dir     string
	names   []string
	control controlRecord
	needed  uint64 // logs with lower numbers are no longer needed, as far as is known
	damages []Damage
}

func (in *inspection) add(file string, offset int64, lost string, args ...any) {
	in.damages = append(in.damages, Damage{file, offset, fmt.Sprintf(lost, args...)})
}

// used reports whether a store may have had data in the directory. The server's own log
// file, which may also be there, does not count; nor do the first files of a store whose
// creation was cut off, which its control file tells.
func (in *inspection) used() bool {
	return slices.ContainsFunc(in.names, func(n string) bool {
		f, controlled := parseControlled(n)
		if controlled && in.control.seq > 0 && !in.control.opened {
			info, err := in.fs.Stat(in.fs.PathJoin(in.dir, n))
			return !f.manifest && (err != nil || info.Size() > 0)
		}
		return controlled || tableNumber(n) > 0
	})
}

// formatVersion returns FormatVersion as stored in the directory; 0 if that
// cannot be read, which loadFormat reports.
func (in *inspection) formatVersion() int {
	f, err := readFormat(in.fs, in.dir)
	if err != nil {
		return 0
	}
	return f.version
}

// find returns the greatest name with a prefix, or "".
func (in *inspection) find(prefix string) (last string) {
	for _, n := range in.names {
		if strings.HasPrefix(n, prefix) {
			last = n
		}
	}
	return last
}

// markers checks the files whose names say which manifest is the store's, and the
// format; and that manifest. Without the first, Pebble would make a new store here,
// and delete the tables.
func (in *inspection) markers() error {
	marker := in.find(manifestMarker)
	if marker == "" {
		if in.control.opened || in.used() {
			in.add(manifestMarker+"*", 0, "the file is missing, and with it the name of the store's manifest; lost: all data")
		}
		return nil
	}
	if version := in.find(formatMarker); in.control.opened && version == "" {
		in.add(formatMarker+"*", 0, "the file is missing, and with it the format of the files; no data is lost")
	} else if value, ok := markerValue(version, formatMarker); in.control.opened && (!ok || value != fmt.Sprintf("%03d", in.control.format)) {
		in.add(version, 0, "its name does not have format %d, with which the store was last opened; no data is lost", in.control.format)
	}
	if f, err := readFormat(in.fs, in.dir); err == nil && in.control.opened && uint64(f.pebble) != in.control.format {
		in.add(formatFile, 0, "it names format %d, but the store was last opened with %d; no data is lost", f.pebble, in.control.format)
	}
	name, ok := markerValue(marker, manifestMarker)
	f, known := parseControlled(name)
	if !ok || !known || !f.manifest {
		in.add(marker, 0, "its name has no manifest; lost: all data")
		return nil
	}
	if i := slices.IndexFunc(in.control.files, func(g controlledFile) bool { return g.manifest && g.num == f.num }); i >= 0 {
		f.synced = in.control.files[i].synced
	}
	if err := in.chunks(f, "manifest"); err != nil {
		return err
	}
	b, err := in.read(name)
	if oserror.IsNotExist(err) {
		return nil // which was reported
	}
	if s := readManifest(b, f); !s.missing {
		in.needed = s.log
	}
	return err
}

// markerValue returns the value in the name of a marker, after the count of its
// moves.
func markerValue(name, prefix string) (value string, ok bool) {
	moves, value, ok := strings.Cut(strings.TrimPrefix(name, prefix), ".")
	n, err := strconv.ParseUint(moves, 10, 64)
	return value, ok && err == nil && fmt.Sprintf("%06d", n) == moves
}

// chunks checks a file of chunks against what was synced of it; and a manifest, of
// which every record is synced before the next is written, also against what follows.
func (in *inspection) chunks(f controlledFile, kind string) error {
	name := f.name()
	b, err := in.read(name)
	if oserror.IsNotExist(err) {
		what := "all that is not yet in tables"
		if f.manifest {
			what = "all data"
		}
		in.add(name, 0, "the file is missing; lost: %s", what)
		return nil
	}
	if err != nil {
		return err
	}
	s := scanChunks(b, f.num, !f.manifest)
	if s.valid >= f.synced && (!f.manifest || s.behind == 0) {
		return nil
	}
	lost := fmt.Sprintf("%d records of the %s before it are intact; lost: what follows, %d bytes", s.records, kind, max(f.synced, int64(len(b)))-s.valid)
	if f.synced > 0 {
		lost = fmt.Sprintf("%d records of the %s before it are intact; lost: what follows, to offset %d", s.records, kind, f.synced)
	}
	if s.behind > 0 {
		lost += fmt.Sprintf(" (%d records from offset %d on can be read)", s.behind, s.resumes)
	}
	in.add(name, s.valid, "%s", lost)
	return nil
}

func (in *inspection) read(name string) ([]byte, error) {
	f, err := in.fs.Open(in.fs.PathJoin(in.dir, name), vfs.SequentialReadsOption)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}
