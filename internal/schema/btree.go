package schema

import "github.com/mayflydb/mayfly/internal/bson"

// btree is the ordinary index, single or compound.
type btree struct{}

func (btree) validatePattern(bson.Doc) error { return nil }
func (btree) validateSpec(bson.Doc) error    { return nil }
func (btree) collated() bool                 { return true }

func (btree) keys(ix *Index, doc bson.Doc, dst []Key) ([]Key, MultikeyPaths, error) {
	var values [maxParts]bson.Value
	missing := 0
	for i := range ix.Parts {
		v, _ := walk(doc, ix.Parts[i].Components)
		switch v.Type {
		case bson.TypeArray:
			return multikey(ix, doc, dst)
		case bson.Missing:
			v = bson.Null
			missing++
		}
		values[i] = v
	}
	if ix.Sparse && missing == len(ix.Parts) {
		return dst, nil, nil
	}
	return ix.appendKey(dst, values[:len(ix.Parts)]), nil, nil
}
