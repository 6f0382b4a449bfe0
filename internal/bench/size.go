package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"text/tabwriter"
	"time"
)

// The row size is the disk and the memory that documents take: of each kind of collection on a
// server of its own, as docs/operate/size.md has it.

// sizeRow is its name.
const sizeRow = "size"

// sizedEvery is how often the disk is looked at while documents are inserted.
const sizedEvery = 100 * time.Millisecond

// sizedKind is a kind of collection.
type sizedKind struct {
	name string
	layout
}

// sizedKinds have an index beside the one on _id.
var sizedKinds = []sizedKind{
	{"150 bytes", layout{Bytes: 150, Mixed: true}},
	{"300 bytes", layout{Mixed: true}},
	{"300 bytes, TTL index", layout{Mixed: true, Due: true}},
	{"300 bytes, alike", layout{}},
	{"1000 bytes", layout{Bytes: 1000, Mixed: true}},
	{"4000 bytes", layout{Bytes: 4000, Mixed: true}},
}

// size measures the row.
func (b *bench) size(ctx context.Context) error {
	w := tabwriter.NewWriter(b.o.Out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "\n%d documents, MB for a million\tBSON\tdisk\tmost while inserting\tmemory after a start, MB\tall read\tmost while inserting\t\n", b.o.Documents)
	for i, k := range sizedKinds {
		if err := b.sizeOf(ctx, w, fmt.Sprintf("size-%d", i), k); err != nil {
			return fmt.Errorf("%s: %w", k.name, err)
		}
	}
	return w.Flush()
}

func (b *bench) sizeOf(ctx context.Context, w *tabwriter.Writer, name string, k sizedKind) (err error) {
	m, err := startServer(ctx, b.dir, name, &b.o, "--setParameter", "ttlMonitorEnabled=false")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.close(), os.RemoveAll(m.dir)) }()
	if err := m.connect("mongodb://" + local(m.port)); err != nil {
		return err
	}
	if err := m.reset(ctx, k.layout); err != nil {
		return err
	}
	most, err := mostWhile(m.dir, func() error { return errors.Join(fill(ctx, m, 0, b.o.Documents, never), settled(ctx, m)) })
	if err != nil {
		return err
	}
	peak, err := m.memory("VmHWM")
	if err != nil {
		return err
	}
	if err := m.restart(ctx); err != nil {
		return err
	}
	if err := settled(ctx, m); err != nil {
		return err
	}
	disk, err := treeSize(m.dir)
	if err != nil {
		return err
	}
	begun, err := m.memory("VmRSS")
	if err != nil {
		return err
	}
	if err := warmed(ctx, m, b.o.Documents); err != nil {
		return err
	}
	read, err := m.memory("VmRSS")
	if err != nil {
		return err
	}
	million := func(n int64) int64 { return n / b.o.Documents }
	size := int64(k.Bytes)
	if size == 0 {
		size = documentBytes
	}
	fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t\n", k.name, size, million(disk), million(most), begun/1e6, read/1e6, peak/1e6)
	return nil
}

// mostWhile returns the most bytes that a directory takes while f runs.
func mostWhile(dir string, f func() error) (most int64, err error) {
	done := make(chan error, 1)
	go func() { done <- f() }()
	for {
		size, sizeErr := treeSize(dir)
		most = max(most, size)
		select {
		case err := <-done:
			return most, errors.Join(err, sizeErr)
		case <-time.After(sizedEvery):
		}
	}
}

// memory is a value of the process's memory, in bytes: VmRSS what it has now, VmHWM the most.
// (manual: proc(5))
func (m *mayfly) memory(name string) (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", m.process.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(status) {
		if text, ok := bytes.CutPrefix(line, []byte(name+":")); ok {
			n, err := strconv.ParseInt(string(bytes.TrimSpace(bytes.TrimSuffix(bytes.TrimSpace(text), []byte("kB")))), 10, 64)
			return n << 10, err
		}
	}
	return 0, fmt.Errorf("the system does not say %s", name)
}
