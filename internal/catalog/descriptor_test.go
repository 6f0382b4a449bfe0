package catalog

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/schema"
)

// readDescriptor reads a stored descriptor, byte by byte, and says what it means
// and how it is stored now; what is stored now stays as it is.
func readDescriptor(t *testing.T, d *datadriven.TestData) string {
	stored, err := hex.DecodeString(strings.Join(strings.Fields(d.Input), ""))
	if err != nil {
		d.Fatalf(t, "%v", err)
	}
	c, err := decode(15, bson.Doc(stored))
	if err != nil {
		return err.Error()
	}
	var b strings.Builder
	b.WriteString("was " + bson.Doc(stored).String() + "\n")
	for _, ix := range c.indexes {
		if r := schema.IndexRule(ix.Index, &schema.Expiry{}); r != nil {
			b.WriteString(ix.Name + " expires by " + r.Kind.String() + "\n")
		}
	}
	if c.Windowed() && c.sections.Instants() {
		b.WriteString("windows by lastWrite\n")
	}
	now := c.encode()
	again, err := decode(15, now)
	if err != nil {
		d.Fatalf(t, "%v", err)
	}
	if twice := again.encode(); string(twice) != string(now) {
		d.Fatalf(t, "stored once more it is %s", twice)
	}
	b.WriteString("now " + now.String() + "\n")
	return b.String() + hex.EncodeToString(now) + "\n"
}
