//go:build linux

package bench

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2"
)

// BenchmarkSetLog is what the log of a replica set costs a member's disk, in two ways
// (docs/rfcs/0016-replication-engine.md): entries in the store that has the data, whose
// own log has both; and a file of entries as the only journal, with a store that has
// none. Each operation is an entry; so many of them share a sync and are then applied
// one by one. B/entry is all that is written, by the end of which tables have
// everything.
func BenchmarkSetLog(b *testing.B) {
	for _, size := range []int{300, 4000} {
		for _, share := range []int{1, 64} {
			b.Run(fmt.Sprintf("bytes=%d/sync=%d/store", size, share), func(b *testing.B) { setLog(b, size, share, false) })
			b.Run(fmt.Sprintf("bytes=%d/sync=%d/journal", size, share), func(b *testing.B) { setLog(b, size, share, true) })
		}
	}
}

// setLogWindow is how many bytes of the log stay.
const setLogWindow = 64 << 20

func setLog(b *testing.B, size, share int, journal bool) {
	dir := b.TempDir()
	db, err := pebble.Open(filepath.Join(dir, "db"), &pebble.Options{DisableWAL: journal, MemTableSize: 16 << 20, Logger: quiet{}})
	if err != nil {
		b.Fatal(err)
	}
	file, err := os.Create(filepath.Join(dir, "journal"))
	if err != nil {
		b.Fatal(err)
	}
	// As Pebble's logs, the file is one that was written before: a sync then has no
	// new length to write.
	if _, err := file.Write(make([]byte, setLogWindow)); err != nil {
		b.Fatal(err)
	}
	if err := file.Sync(); err != nil {
		b.Fatal(err)
	}
	l := &setLogger{db: db, file: file, window: uint64(setLogWindow / size), payload: make([]byte, size)}
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range l.payload { // about half of it can be compressed away
		l.payload[i] = "0123456789abcdef"[rng.IntN(16)]
	}
	b.ResetTimer()
	for n := 0; n < b.N; n += share {
		if err := l.round(min(share, b.N-n), journal); err != nil {
			b.Fatal(err)
		}
	}
	if err := db.Flush(); err != nil {
		b.Fatal(err)
	}
	b.StopTimer()
	m := db.Metrics()
	written := l.written + m.WAL.BytesWritten
	for i := range m.Levels {
		written += m.Levels[i].TableBytesFlushed + m.Levels[i].TableBytesCompacted
	}
	b.ReportMetric(float64(written)/float64(b.N), "B/entry")
	if err := errors.Join(db.Close(), file.Close()); err != nil {
		b.Fatal(err)
	}
}

// setLogger writes entries and applies them.
type setLogger struct {
	db            *pebble.DB
	file          *os.File
	payload, room []byte
	last, first   uint64
	window        uint64 // entries
	written       uint64 // bytes of the file
}

func (l *setLogger) round(n int, journal bool) error {
	from := l.last + 1
	l.last += uint64(n)
	if err := l.append(from, journal); err != nil {
		return err
	}
	for i := from; i <= l.last; i++ {
		batch := l.db.NewBatch()
		key := binary.BigEndian.AppendUint64([]byte{'d'}, i*0x9e3779b97f4a7c15)
		if err := errors.Join(batch.Set(key, l.payload, nil), batch.Set([]byte("applied"), key, nil), l.db.Apply(batch, pebble.NoSync)); err != nil {
			return err
		}
	}
	if journal || l.last-l.first < 2*l.window {
		return nil
	}
	to := l.last - l.window
	err := l.db.DeleteRange(binary.BigEndian.AppendUint64([]byte{'l'}, l.first), binary.BigEndian.AppendUint64([]byte{'l'}, to), pebble.NoSync)
	l.first = to
	return err
}

// append makes the entries from one on durable.
func (l *setLogger) append(from uint64, journal bool) error {
	if journal {
		l.room = l.room[:0]
		for i := from; i <= l.last; i++ {
			l.room = append(binary.BigEndian.AppendUint64(l.room, i), l.payload...)
		}
		at := l.written % (setLogWindow / 2)
		l.written += uint64(len(l.room))
		_, err := l.file.WriteAt(l.room, int64(at))
		return errors.Join(err, syscall.Fdatasync(int(l.file.Fd())))
	}
	batch := l.db.NewBatch()
	for i := from; i <= l.last; i++ {
		if err := batch.Set(binary.BigEndian.AppendUint64([]byte{'l'}, i), l.payload, nil); err != nil {
			return err
		}
	}
	return l.db.Apply(batch, pebble.Sync)
}
