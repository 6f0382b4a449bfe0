package step

import (
	"cmp"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// Fence identifies the operation of a request and its place in it, so that a shard can
// reject requests that arrive late or come from a deposed config primary.
// (docs/rfcs/0023-cluster.md, "The fence")
type Fence struct {
	Number int64 // of the operation
	Phase  Phase
	Term   int64 // of the config primary
	Seq    int32
	// Low is a number below which all operations have ended. Compare ignores it.
	Low int64
	// Cluster is the cluster's id: another one counts its own operations. Compare ignores it.
	Cluster [12]byte
}

// Compare orders two fences.
func (f Fence) Compare(g Fence) int {
	return cmp.Or(cmp.Compare(f.Number, g.Number), cmp.Compare(f.Phase, g.Phase), cmp.Compare(f.Term, g.Term), cmp.Compare(f.Seq, g.Seq))
}

// Append writes f as the field operation of a request.
func (f Fence) Append(b *bson.Builder) {
	b.OpenDoc("operation").Int64("number", f.Number).Int32("phase", int32(f.Phase)).Int64("term", f.Term).Int32("seq", f.Seq).Int64("low", f.Low)
	if f.Cluster != [12]byte{} {
		b.ObjectID("cluster", f.Cluster)
	}
	b.Close()
}

// ParseFence reads the value of the field operation. Errors: 2.
func ParseFence(v bson.Value) (Fence, error) {
	if v.Type != bson.TypeDocument {
		return Fence{}, mongoerr.New(mongoerr.BadValue, "operation must be a document")
	}
	var n [5]int64
	for i, name := range []string{"number", "phase", "term", "seq", "low"} {
		var ok bool
		if n[i], ok = bson.ExactInt64(v.Doc().Lookup(name)); !ok || n[i] < 0 {
			return Fence{}, mongoerr.New(mongoerr.BadValue, "operation.%s must be a whole number: %s", name, v)
		}
	}
	f := Fence{Number: n[0], Phase: Phase(n[1]), Term: n[2], Seq: int32(n[3]), Low: n[4]}
	if id := v.Doc().Lookup("cluster"); id.Type == bson.TypeObjectID {
		f.Cluster = id.ObjectID()
	}
	return f, nil
}
