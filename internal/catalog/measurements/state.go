package measurements

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mayflydb/mayfly/internal/timeseries"
)

// State describes a table in lines of text, for comparing two members: see
// catalog.LiveState. No writer may be active.
func (t *Table) State(say func(format string, args ...any)) error {
	t.mu.RLock()
	defer t.mu.RUnlock()
	g := &t.staging
	say("  %d measurements, %d bytes open of %d sources, %d staged, %d frozen below %d, %d parts flushed", t.Count(), t.Bytes(),
		t.open, g.bytes.Load(), g.frozen.Load(), g.cut, g.flushes)
	for _, key := range slices.Sorted(maps.Keys(t.sources)) {
		s := t.sources[key]
		if s.Count == 0 {
			continue
		}
		say("  source %x of %s: %d of %d bytes from %d to %d, not staged to %d; staged %s, frozen %s", s.Key, s.Meta, s.Count, s.bytes, s.First, s.Last, s.StoredLast,
			docsOf(s.Staged), docsOf(s.frozen))
		say("pace: source %x is to be sealed at %d", s.Key, s.sealAt)
	}
	say("  sources with staged ones %s, with frozen ones %s", keysOf(g.sources), keysOf(g.left))
	it, err := t.engine.NewIter(t.id, nil, []byte{progressKey})
	if err != nil {
		return err
	}
	defer it.Close()
	above := true
	for ok := it.First(); ok; ok = it.Next() {
		above = above && numberOf(it.Key()) <= t.seq
	}
	say("  numbers are above those stored: %t", above && g.cut <= t.seq)
	return it.Err()
}

// docsOf returns the documents of measurements, in the order of their bytes.
func docsOf(ms []timeseries.Measurement) string {
	docs := make([][]byte, len(ms))
	for i, m := range ms {
		docs[i] = m.Doc
	}
	slices.SortFunc(docs, bytes.Compare)
	return fmt.Sprintf("%x", bytes.Join(docs, nil))
}

func keysOf(sources []*source) string {
	keys := make([]string, len(sources))
	for i, s := range sources {
		keys[i] = fmt.Sprintf("%x", s.Key)
	}
	slices.Sort(keys)
	return strings.Join(keys, " ")
}
