package measurements

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
)

// goldenKeys are the keys and the values of the keyspace that are no documents.
const goldenKeys = `source of none: 00
source of 1: 012d02dcdb6132c8bcf751
source of 1.0: 012d0257df23459573b651
open: 012d02dcdb6132c8bcf7518000018bcfe568000000000000000007
staged: 020000000000000102
all flushed: 0000000000000003
flushed in part: 000000000000000400000000000000090102
`

// TestGoldenKeys holds the bytes on the disk.
func TestGoldenKeys(t *testing.T) {
	var out strings.Builder
	say := func(what string, b []byte) { fmt.Fprintf(&out, "%s: %s\n", what, hex.EncodeToString(b)) }
	source := appendSource(nil, bson.Int32(1))
	say("source of none", appendSource(nil, bson.Value{}))
	say("source of 1", source)
	say("source of 1.0", appendSource(nil, bson.Double(1)))
	key := appendNumber(AppendTime(source, 1_700_000_000_000), 7)
	say("open", key)
	say("staged", appendStaged(nil, 258))
	say("all flushed", (&Progress{flushes: 3}).append(nil))
	p := Progress{flushes: 4, cut: 9, last: []byte{1, 2}}
	say("flushed in part", p.append(nil))
	if out.String() != goldenKeys {
		t.Errorf("the keys are\n%s", out.String())
	}
	if got, err := decodeProgress(p.append(nil)); err != nil || fmt.Sprint(got) != fmt.Sprint(p) {
		t.Errorf("%v became %v, %v", p, got, err)
	}
	if timeOf(key) != 1_700_000_000_000 || numberOf(key) != 7 || string(SourceOf(key)) != string(appendSource(nil, bson.Int32(1))) {
		t.Errorf("%x is taken apart into %x, %d and %d", key, SourceOf(key), timeOf(key), numberOf(key))
	}
}
