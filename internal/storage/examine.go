package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"math"
	"slices"

	"github.com/cockroachdb/errors/oserror"
	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/batchrepr"
	"github.com/cockroachdb/pebble/v2/sstable"
)

// Loss is what the damage in one place takes from a store.
type Loss struct {
	Damage
	// First and Last are the keyspaces that had keys there, Lower and Upper the bounds
	// of those keys within them, both of which may be lost. All are zero, and Last
	// the greatest of all, where nothing is known of what was there; nothing but
	// Writes is set where a log is damaged.
	First, Last  Ident
	Lower, Upper []byte
	// Keys says that keys are lost, Older that newer versions and deletions of keys that
	// are also elsewhere may be: then those are older than they were, or back.
	Keys, Older bool
	// Writes is how many writes behind the damage of a log can still be read, by
	// keyspace; they are not taken over, since some before them are missing.
	Writes map[Ident]int64
}

// Examination is a closed store whose files have all been read: what is damaged, and the
// keys that can be read (salvage.go).
type Examination struct {
	Damages []Damage
	Losses  []Loss
	// Unlisted says that which tables are the store's is not wholly known, so that some
	// may be older ones that were to be removed.
	Unlisted bool
	// Newer says that the format is one that this version does not know.
	Newer bool

	fs     FS
	dir    string
	lock   *pebble.Lock
	parts  []tablePart
	spans  []span
	logs   []logPiece
	checks map[string]*tableCheck
}

// tablePart is a table, or a part of one, and what can be read of it.
type tablePart struct {
	manifestTable
	name  string
	whole bool       // all of the file is the store's
	runs  []tableRun // of blocks that can be read
}

// tableRun is keys k of a table with from <= k <= to; nil for to is the table's end.
type tableRun struct{ from, to []byte }

// span is a range deletion.
type span struct {
	start, end []byte
	seq        uint64
}

// logPiece is the whole records at the beginning of a log.
type logPiece struct {
	controlledFile
	valid int64
}

// tableCheck is what reading a file has shown.
type tableCheck struct {
	blocks  []keyBlock
	damages []Damage
	opened  bool // footer and index can be read
	spans   []span
	spanErr error
}

// errNoStore says that a directory has no store.
var errNoStore = errors.New("the directory holds no store")

// Examine reads all files of a store that is not open, and changes nothing in the
// directory; fs is nil for the operating system's. Until Close, no server opens the
// store. progress is told how many of the tables' bytes have been read; it may be nil.
// Errors: code 98 if a process has the store open, the file system's, and
// ctx's; damage is in the result.
func Examine(ctx context.Context, fs FS, dir string, progress func(done, total int64)) (*Examination, error) {
	x := &Examination{fs: ReadOnly(fs), dir: dir, checks: map[string]*tableCheck{}}
	names, err := x.fs.List(dir)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(names, func(n string) bool {
		_, controlled := parseControlled(n)
		return n == formatFile || n == controlFile || isTable(n) || controlled
	}) {
		return nil, fmt.Errorf("%s: %w", dir, errNoStore)
	}
	if x.lock, err = pebble.LockDirectory(dir, x.fs); errors.Is(err, iofs.ErrPermission) {
		return nil, err
	} else if err != nil {
		return nil, lockError(dir, err)
	}
	slices.Sort(names)
	if err := x.examine(ctx, names, progress); err != nil {
		return nil, errors.Join(err, x.Close())
	}
	return x, nil
}

// Close lets servers open the store.
func (x *Examination) Close() error { return x.lock.Close() }

func (x *Examination) examine(ctx context.Context, names []string, progress func(done, total int64)) error {
	if err := x.examineFormat(); err != nil {
		return err
	}
	found, err := Inspect(x.fs, x.dir)
	if err != nil {
		return err
	}
	x.Damages = append(x.Damages, found...)
	state, rec, err := x.readState(names)
	if err != nil {
		return err
	}
	if err := x.examineTables(ctx, names, &state, progress); err != nil {
		return err
	}
	return x.examineLogs(names, &state, rec)
}

// examineFormat checks the file that names the format.
func (x *Examination) examineFormat() error {
	f, err := readFormat(x.fs, x.dir)
	switch {
	case oserror.IsNotExist(err):
		x.Damages = append(x.Damages, Damage{formatFile, 0, "the file is missing, and with it the format of the others; no data is lost"})
	case errors.Is(err, ErrCorruption):
		x.Damages = append(x.Damages, Damage{formatFile, 0, "it cannot be read, so the format of the others is not known; no data is lost"})
	case err != nil:
		return err
	case f.version > FormatVersion || f.pebble != pebbleFormat:
		x.Newer = true
		x.Damages = append(x.Damages, Damage{formatFile, 0, fmt.Sprintf("it names a format that this version cannot read (mayfly %d, pebble %d); no data is lost", f.version, f.pebble)})
	}
	return nil
}

// readState reads the manifest as far as it can be read, and the control file.
func (x *Examination) readState(names []string) (s manifestState, rec controlRecord, err error) {
	in := inspection{fs: x.fs, dir: x.dir, names: names}
	if rec, _, err = readControl(x.fs, x.dir); err != nil && !errors.Is(err, ErrCorruption) {
		return s, rec, err
	}
	var f controlledFile
	ok := false
	if name, whole := markerValue(in.find(manifestMarker), manifestMarker); whole {
		f, ok = parseControlled(name)
	}
	if !ok || !f.manifest || !slices.Contains(names, f.name()) {
		f, ok = parseControlled(in.find("MANIFEST-"))
	}
	if !ok {
		return manifestState{missing: true, named: map[uint64]bool{}}, rec, nil
	}
	b, err := in.read(f.name())
	if err != nil {
		return s, rec, err
	}
	if i := slices.IndexFunc(rec.files, func(g controlledFile) bool { return g.manifest && g.num == f.num }); i >= 0 {
		f.synced = rec.files[i].synced
	}
	return readManifest(b, f), rec, nil
}

// examineTables reads all tables that the manifest names; where it is incomplete,
// the others, too.
func (x *Examination) examineTables(ctx context.Context, names []string, s *manifestState, progress func(done, total int64)) error {
	x.Unlisted = s.missing
	for _, t := range s.sorted() {
		x.parts = append(x.parts, tablePart{manifestTable: t, name: tableName(t.file), whole: t.num == t.file})
	}
	if s.missing {
		for _, n := range names {
			if num := tableNumber(n); num > 0 && !s.named[num] {
				x.parts = append(x.parts, tablePart{manifestTable: manifestTable{num: num, file: num}, name: n, whole: true})
			}
		}
	}
	done, total := int64(0), int64(0)
	sizes := map[string]int64{}
	for i := range x.parts {
		n := x.parts[i].name
		if _, known := sizes[n]; !known {
			if info, err := x.fs.Stat(x.fs.PathJoin(x.dir, n)); err == nil {
				sizes[n] = info.Size()
				total += info.Size()
			}
		}
	}
	for i := range x.parts {
		p := &x.parts[i]
		c, err := x.checkFile(ctx, p.name)
		if oserror.IsNotExist(err) {
			x.loseTable(p, Damage{p.name, 0, "the file is missing"})
			continue
		}
		if err != nil {
			return err
		}
		x.take(p, c)
		if done += sizes[p.name]; progress != nil && sizes[p.name] > 0 {
			progress(done, total)
		}
		delete(sizes, p.name)
	}
	return nil
}

// loseTable notes a table of which nothing can be read.
func (x *Examination) loseTable(p *tablePart, d Damage) {
	l := Loss{Damage: d, Last: math.MaxUint64, Keys: true, Older: p.level != lastLevel}
	if p.smallest != nil {
		l.First, l.Lower = splitKey(p.smallest)
		l.Last, l.Upper = splitKey(p.largest)
	}
	x.Losses = append(x.Losses, l)
	if !slices.Contains(x.Damages, d) {
		x.Damages = append(x.Damages, d)
	}
}

// checkFile reads a file of tables once.
func (x *Examination) checkFile(ctx context.Context, name string) (*tableCheck, error) {
	if c := x.checks[name]; c != nil {
		return c, nil
	}
	c := &tableCheck{}
	x.checks[name] = c
	t, err := openTable(ctx, x.fs, x.dir, name)
	var d *tableError
	switch {
	case errors.As(err, &d):
		c.damages = []Damage{{d.name, d.offset, d.what}}
	case err != nil:
		delete(x.checks, name)
		return nil, err
	default:
		c.opened = true
		if c.blocks, c.damages, err = t.check(ctx); err == nil {
			c.spans, c.spanErr = t.deletions(ctx)
		}
		if err := errors.Join(err, t.close()); err != nil {
			return nil, err
		}
	}
	x.Damages = append(x.Damages, c.damages...)
	return c, nil
}

// deletions reads the range deletions of a table.
func (t *table) deletions(ctx context.Context) (spans []span, err error) {
	it, err := t.r.NewRawRangeDelIter(ctx, sstable.NoFragmentTransforms, sstable.NoReadEnv)
	if err != nil || it == nil {
		return nil, err
	}
	defer it.Close()
	s, err := it.First()
	for ; s != nil; s, err = it.Next() {
		for _, k := range s.Keys {
			spans = append(spans, span{slices.Clone(s.Start), slices.Clone(s.End), uint64(k.SeqNum())})
		}
	}
	return spans, err
}

// take notes what can be read of a table, and what is lost.
func (x *Examination) take(p *tablePart, c *tableCheck) {
	if !c.opened || len(c.blocks) == 0 && len(c.damages) > 0 {
		x.loseTable(p, c.damages[0])
		return
	}
	if c.spanErr != nil {
		l := Loss{Damage: c.damages[0], Older: true, Last: math.MaxUint64}
		if p.smallest != nil {
			l.First, l.Lower = splitKey(p.smallest)
			l.Last, l.Upper = splitKey(p.largest)
		}
		x.Losses = append(x.Losses, l)
	}
	for _, s := range c.spans {
		if s, ok := p.clip(s); ok {
			x.spans = append(x.spans, s)
		}
	}
	var last []byte // of the block before
	run := tableRun{from: []byte{}}
	open := false
	end := func() {
		if run.to = last; open {
			p.runs = append(p.runs, run)
		}
		open = false
	}
	for i, b := range c.blocks {
		switch {
		case b.err == nil && !open:
			open = true
			if run.from = []byte{}; i > 0 {
				run.from = append(slices.Clone(last), 0)
			}
		case b.err != nil:
			end()
			x.loseBlock(p, b, last)
		}
		last = b.last
	}
	if last = nil; open {
		end()
	}
}

// loseBlock notes a block of keys above after that cannot be read.
func (x *Examination) loseBlock(p *tablePart, b keyBlock, after []byte) {
	lower, upper := after, b.last
	if lower == nil || p.smallest != nil && bytes.Compare(lower, p.smallest) < 0 {
		lower = p.smallest
	}
	if p.smallest != nil && bytes.Compare(upper, p.smallest) < 0 || p.largest != nil && lower != nil && bytes.Compare(lower, p.largest) > 0 {
		return // another part of the file
	}
	if p.largest != nil && bytes.Compare(upper, p.largest) > 0 {
		upper = p.largest
	}
	var d *tableError
	errors.As(b.err, &d)
	l := Loss{Damage: Damage{d.name, d.offset, d.what}, Keys: true, Older: p.level != lastLevel}
	if lower != nil {
		l.First, l.Lower = splitKey(lower)
	}
	l.Last, l.Upper = splitKey(upper)
	x.Losses = append(x.Losses, l)
}

// clip is the part of a range deletion that is within a part of a table.
func (p *tablePart) clip(s span) (span, bool) {
	if p.whole {
		return s, true
	}
	if bytes.Compare(s.start, p.smallest) < 0 {
		s.start = p.smallest
	}
	end := p.largest
	if !p.exclusive {
		end = append(slices.Clone(end), 0)
	}
	if bytes.Compare(s.end, end) > 0 {
		s.end = end
	}
	return s, bytes.Compare(s.start, s.end) < 0
}

// examineLogs finds the records of logs that can be recovered: those before the first
// damage.
func (x *Examination) examineLogs(names []string, s *manifestState, rec controlRecord) error {
	var logs []controlledFile
	for _, n := range names {
		if f, ok := parseControlled(n); ok && !f.manifest {
			logs = append(logs, f)
		}
	}
	for _, f := range rec.files {
		i := slices.IndexFunc(logs, func(g controlledFile) bool { return g.num == f.num })
		switch {
		case f.manifest:
		case i >= 0:
			logs[i].synced = f.synced
		default:
			logs = append(logs, f)
		}
	}
	slices.SortFunc(logs, func(a, b controlledFile) int { return int(int64(a.num) - int64(b.num)) })
	in := inspection{fs: x.fs, dir: x.dir}
	broken := -1 // the loss of the first damage
	for _, f := range logs {
		if f.num < s.log {
			continue // all of it is in tables
		}
		b, err := in.read(f.name())
		if err != nil && !oserror.IsNotExist(err) {
			return err
		}
		scan := scanChunks(b, f.num, true)
		if broken < 0 {
			if scan.valid > 0 {
				x.logs = append(x.logs, logPiece{f, scan.valid})
			}
			if err == nil && scan.valid >= f.synced && (rec.seq > 0 || scan.behind == 0) {
				continue
			}
			d := Damage{f.name(), scan.valid, "what follows was written and cannot be read"}
			if i := slices.IndexFunc(x.Damages, func(d Damage) bool { return d.File == f.name() }); i >= 0 {
				d = x.Damages[i]
			}
			broken = len(x.Losses)
			x.Losses = append(x.Losses, Loss{Damage: d, Keys: true, Writes: map[Ident]int64{}})
		} else {
			scan.valid = 0
		}
		eachRecord(b, scan.valid, int64(len(b)), f.num, true, func(record []byte, _ int64) {
			eachWrite(record, func(w logWrite) { id, _ := splitKey(w.key); x.Losses[broken].Writes[id]++ })
		})
	}
	return nil
}

// logWrite is one write of a log.
type logWrite struct {
	key, value []byte
	seq        uint64
	kind       pebble.InternalKeyKind
}

// eachWrite calls f with the writes of a unit; false if it cannot be read.
func eachWrite(record []byte, f func(logWrite)) bool {
	h, ok := batchrepr.ReadHeader(record)
	if !ok {
		return false
	}
	r := batchrepr.Read(record)
	for seq := uint64(h.SeqNum); ; {
		kind, key, value, ok, err := r.Next()
		if err != nil {
			return false
		}
		if !ok {
			return true
		}
		if kind != pebble.InternalKeyKindLogData { // these have no number
			f(logWrite{key, value, seq, kind})
			seq++
		}
	}
}
