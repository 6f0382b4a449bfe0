package storage

import (
	"bytes"
	"encoding/binary"
	"slices"
)

// The tags of the edits in a manifest, for Pebble's formats up to pebbleFormat.
// Pebble's package for them is internal.
const (
	tagComparator     = 1
	tagLogNumber      = 2
	tagNextFile       = 3
	tagLastSequence   = 4
	tagCompactPointer = 5
	tagDeletedTable   = 6
	tagPrevLogNumber  = 9
	tagNewTable2      = 100
	tagNewTable4      = 103
	tagCreatedBacking = 105
	tagRemovedBacking = 106

	fieldEnd     = 1
	fieldVirtual = 66 // a number; all others are bytes with their length

	trailerBytes     = 8 // after the user key of a bound
	trailerSentinel  = 0xffffffffffffff0f
	maxManifestLevel = 6
)

// manifestTable is a table, or the part of one, that a manifest names.
type manifestTable struct {
	num, file         uint64 // file is another number where this is a part of a table
	level             int
	smallest, largest []byte // store's keys
	exclusive         bool   // largest is above all keys
	// seq is the sequence number of all keys, 0 where they have more than one: of a table
	// that was not written by Pebble (apart.go), the keys have none.
	seq uint64
}

// manifestState is the sum of the readable edits of a manifest.
type manifestState struct {
	tables map[uint64]manifestTable
	named  map[uint64]bool // files that any edit names
	log    uint64          // logs with lower numbers are no longer needed
	// missing says that an edit could not be read, so that the state may be
	// incomplete.
	missing bool
}

// readManifest adds up the edits of a manifest, and continues after damaged ones.
func readManifest(b []byte, f controlledFile) manifestState {
	s := manifestState{tables: map[uint64]manifestTable{}, named: map[uint64]bool{}}
	scan := scanChunks(b, f.num, false)
	s.missing = scan.valid < f.synced || scan.behind > 0 || scan.records == 0
	eachRecord(b, 0, int64(len(b)), f.num, false, func(record []byte, _ int64) {
		if !s.apply(record) {
			s.missing = true
		}
	})
	return s
}

// editDecoder decodes an edit; it has failed where b is nil.
type editDecoder struct{ b []byte }

func (d *editDecoder) number() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.b = nil
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *editDecoder) bytes() []byte {
	n := d.number()
	if d.b == nil || n > uint64(len(d.b)) {
		d.b = nil
		return nil
	}
	v := d.b[:n:n]
	d.b = d.b[n:]
	return v
}

// apply adds an edit; false if it cannot be read.
func (s *manifestState) apply(record []byte) bool {
	d := editDecoder{append(make([]byte, 0, len(record)), record...)}
	var added []manifestTable
	for len(d.b) > 0 {
		switch d.number() {
		case tagComparator:
			d.bytes()
		case tagLogNumber:
			s.log = max(s.log, d.number())
		case tagNextFile, tagLastSequence, tagPrevLogNumber, tagRemovedBacking:
			d.number()
		case tagCompactPointer:
			d.number()
			d.bytes()
		case tagCreatedBacking:
			s.named[d.number()] = true
			d.number()
		case tagDeletedTable:
			if d.number() > maxManifestLevel {
				return false
			}
			delete(s.tables, d.number())
		case tagNewTable2:
			added = append(added, d.table(false))
		case tagNewTable4:
			added = append(added, d.table(true))
		default:
			return false
		}
		if d.b == nil {
			return false
		}
	}
	for _, t := range added {
		s.tables[t.num] = t
		s.named[t.num], s.named[t.file] = true, true
	}
	return true
}

// table reads a new table: level, number, size, bounds, sequence numbers, and further fields.
func (d *editDecoder) table(fields bool) (t manifestTable) {
	t.level = int(d.number())
	t.num = d.number()
	t.file = t.num
	d.number()
	smallest, largest := d.bytes(), d.bytes()
	if len(smallest) < trailerBytes || len(largest) < trailerBytes {
		d.b = nil
		return t
	}
	t.smallest, t.largest = smallest[:len(smallest)-trailerBytes], largest[:len(largest)-trailerBytes]
	t.exclusive = binary.LittleEndian.Uint64(largest[len(largest)-trailerBytes:]) == trailerSentinel
	if seq := d.number(); seq == d.number() {
		t.seq = seq
	}
	for fields && d.b != nil {
		switch d.number() {
		case fieldEnd:
			return t
		case fieldVirtual:
			t.file = d.number()
		default:
			d.bytes()
		}
	}
	return t
}

// sorted returns the tables in the order of their first keys.
func (s *manifestState) sorted() []manifestTable {
	all := make([]manifestTable, 0, len(s.tables))
	for _, t := range s.tables {
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b manifestTable) int { return bytes.Compare(a.smallest, b.smallest) })
	return all
}
