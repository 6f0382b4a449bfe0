package storage

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
)

// Logs and manifests are written in blocks of chunks, each with a checksum
// (Pebble's package record has the format). What Pebble's own reader takes for the
// end of such a file may be damage: these functions distinguish the two.

const (
	chunkBlock        = 32 << 10
	legacyHeader      = 7  // checksum, length, kind
	recyclableHeader  = 11 // and the number of the log
	chunkFull         = 1
	chunkFirst        = 2
	chunkLast         = 4
	recyclableOffset  = 4 // of the kinds of chunks that name their log
	chunkKinds        = 8
	maxResyncAttempts = 1 << 16 // offsets that are tried after damage
)

// chunk is an intact chunk of a file.
type chunk struct {
	data  []byte
	end   int64 // where the next may begin
	first bool  // a record begins with it
	last  bool  // a record ends with it
}

// chunkAt reads the chunk at an offset of a file; ok is false if there is none, or
// a damaged one. num is the number of a log, whose chunks name it; in a manifest
// they do not.
func chunkAt(b []byte, at int64, num uint64, log bool) (c chunk, ok bool) {
	room := min(chunkBlock-at%chunkBlock, int64(len(b))-at)
	header := int64(legacyHeader)
	if log {
		header = recyclableHeader
	}
	if room < header {
		return c, false
	}
	h := b[at:]
	kind := h[6]
	if kind == 0 || kind > chunkKinds || (kind > recyclableOffset) != log {
		return c, false
	}
	length := int64(binary.LittleEndian.Uint16(h[4:]))
	if log && binary.LittleEndian.Uint32(h[7:]) != uint32(num) || header+length > room {
		return c, false
	}
	sum := crc32.Checksum(h[6:header+length], castagnoli)
	if binary.LittleEndian.Uint32(h) != (sum>>15|sum<<17)+0xa282ead8 {
		return c, false
	}
	position := kind
	if log {
		position -= recyclableOffset
	}
	return chunk{
		data: h[header : header+length], end: at + header + length,
		first: position == chunkFull || position == chunkFirst, last: position == chunkFull || position == chunkLast,
	}, true
}

// endsLog reports whether the mark that ends a closed log is at an offset.
func endsLog(b []byte, at int64, num uint64) bool {
	mark := make([]byte, recyclableHeader)
	mark[6] = chunkFull + recyclableOffset
	binary.LittleEndian.PutUint32(mark[7:], uint32(num)+1)
	return bytes.HasPrefix(b[at:], mark)
}

// scanned is what a file of chunks holds.
type scanned struct {
	valid   int64 // everything before is intact, to the end of the last chunk
	records int   // that begin before valid
	// behind is how many records can be found after the end of the valid ones, the
	// first of which begins at resumes.
	behind  int
	resumes int64
}

// scanChunks reads the chunks of a log (by its number) or of a manifest, up to the
// first damaged one, and searches for intact ones after it.
func scanChunks(b []byte, num uint64, log bool) scanned {
	var s scanned
	at := int64(0)
	for {
		c, ok := chunkAt(b, at, num, log)
		if !ok {
			if next := skipPadding(b, at, log); next > at {
				at = next
				continue
			}
			break
		}
		if c.first {
			s.records++
		}
		at = c.end
	}
	if log && endsLog(b, at, num) {
		s.valid = at + recyclableHeader
		return s
	}
	s.valid = at
	s.countAfterDamage(b, num, log)
	return s
}

// eachRecord calls f with the intact records in b[from:to] of a log or a manifest, and
// the offset at which each begins. It continues after damage.
func eachRecord(b []byte, from, to int64, num uint64, log bool, f func(record []byte, at int64)) {
	var record []byte
	begun, in := int64(0), false
	for at := from; at < to; {
		c, ok := chunkAt(b, at, num, log)
		if !ok {
			if next := skipPadding(b, at, log); next > at {
				at = next
				continue
			}
			in = false
			at++
			continue
		}
		if c.first {
			record, begun, in = record[:0], at, true
		}
		if in {
			record = append(record, c.data...)
		}
		if in && c.last {
			f(record, begun)
			in = false
		}
		at = c.end
	}
}

// skipPadding is the next block, where the rest of this one has no room for a chunk
// and is filled with zeros.
func skipPadding(b []byte, at int64, log bool) int64 {
	header := int64(legacyHeader)
	if log {
		header = recyclableHeader
	}
	left := chunkBlock - at%chunkBlock
	if left >= header || at+left > int64(len(b)) {
		return at
	}
	return at + left
}

// countAfterDamage counts the records that can be found after the first damage: at the next
// offsets, and then at the beginnings of blocks.
func (s *scanned) countAfterDamage(b []byte, num uint64, log bool) {
	at := s.valid + 1
	for tried := 0; at < int64(len(b)); {
		c, ok := chunkAt(b, at, num, log)
		switch {
		case ok:
			if c.first {
				if s.behind++; s.behind == 1 {
					s.resumes = at
				}
			}
			at = c.end
		case tried < maxResyncAttempts:
			at++
			tried++
		default:
			at += chunkBlock - at%chunkBlock
		}
	}
}
