package archive

import (
	"bytes"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/mayflydb/mayfly/internal/bson"
)

// TestTableGroups: a file of large documents has row groups that a writer can have in memory.
func TestTableGroups(t *testing.T) {
	defer func(was int) { groupBytes = was }(groupBytes)
	groupBytes = 100_000
	var file bytes.Buffer
	w := NewTable(&file, nil)
	for i := range 100 {
		if err := w.Write(new(bson.Builder).Int32("_id", int32(i)).String("text", strings.Repeat("x", 10_000)).Finish()); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	p, err := parquet.OpenFile(bytes.NewReader(file.Bytes()), int64(file.Len()))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(p.RowGroups()); n != 10 {
		t.Errorf("%d row groups", n)
	}
	n := int32(0)
	if err := Documents(bytes.NewReader(file.Bytes()), int64(file.Len()), func(d bson.Doc) (bool, error) {
		if id := d.Lookup("_id").Int32(); id != n {
			t.Errorf("%d stands where %d was written", id, n)
		}
		n++
		return true, nil
	}); err != nil || n != 100 {
		t.Errorf("%d documents, %v", n, err)
	}
}
