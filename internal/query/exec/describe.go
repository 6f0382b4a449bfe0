package exec

import (
	"sync"
	"sync/atomic"

	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/query/plan"
	"github.com/mayflydb/mayfly/internal/schema"
)

// maxDescriptors bounds the cached descriptors.
const maxDescriptors = 4096

// descriptors caches the results of describe. A collection's own descriptor never
// changes except for its indexes' multikey paths.
type descriptors struct {
	made sync.Map // *catalog.Collection → *plan.Collection
	n    atomic.Int64
}

// describe returns the planner's descriptor of a collection, which is immutable. The
// caller has taken the snapshot before (catalog's invariant multikey-first), or the
// query reads no index.
func (x *Executor) describe(c *catalog.Collection) *plan.Collection {
	d := &x.descriptors
	if v, ok := d.made.Load(c); ok && current(v.(*plan.Collection)) {
		return v.(*plan.Collection)
	}
	p := describe(c)
	if _, known := d.made.Swap(c, p); !known && d.n.Add(1) > maxDescriptors {
		// Some are of collections that have changed or were dropped.
		d.made.Clear()
		d.n.Store(0)
	}
	return p
}

// current reports whether no index has got new multikey paths since the descriptor was
// made.
func current(d *plan.Collection) bool {
	for _, ix := range d.Indexes {
		if !samePaths(ix.Multikey, ix.Handle.(*catalog.Index).Multikey()) {
			return false
		}
	}
	return true
}

// samePaths reports whether a and b are the same slice; the catalog makes a new
// one for each change.
func samePaths(a, b schema.MultikeyPaths) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// describe makes the planner's descriptors of a collection.
func describe(c *catalog.Collection) *plan.Collection {
	d := &plan.Collection{Namespace: c.Namespace.String(), Collation: c.Options.Lookup("collation").Data, NoIDIndex: !c.FindsByID(), Exempt: c.Namespace.IsSystem() || c.Namespace.DB == "local"}
	if order := c.BucketOrder(); order != nil {
		d.Indexes = append(d.Indexes, &plan.Index{Index: order.Index, Handle: order, Clustered: true})
	}
	all := make([]plan.Index, len(c.Indexes()))
	for i, ix := range c.Indexes() {
		if !ix.Ready || ix.Form == nil {
			continue
		}
		p := &all[i]
		p.Index, p.Multikey, p.Handle = ix.Form, ix.Multikey(), ix
		p.Clustered = ix.Clusters() && c.Settings.Clustered != nil
		if ix.Form.Filter != nil {
			p.Partial = ix.Form.Filter.Root()
		}
		d.Indexes = append(d.Indexes, p)
	}
	return d
}
