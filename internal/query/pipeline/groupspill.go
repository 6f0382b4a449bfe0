package pipeline

import (
	"context"
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/keystring"
)

// evict spills the largest parts until half of the groups' memory is left.
func (w *grouping) evict() error {
	if w.space == nil {
		w.space = newSpillSpace(w.dir, w.memory/2)
	}
	if w.spill == nil {
		w.spill = newSpillParts(w.space)
	}
	// A spilled group needs its memory twice until it is written.
	w.space.tight = w.bytes > w.memory/2
	defer func() { w.space.tight = false }()
	var members [spillFanout][]*group
	var sizes [spillFanout]int
	for _, gr := range w.order {
		at := w.spill.partOf([]byte(gr.key))
		members[at] = append(members[at], gr)
		sizes[at] += gr.size()
	}
	for before := w.bytes; w.bytes > before/2; {
		at := 0
		for i := range sizes {
			if sizes[i] > sizes[at] {
				at = i
			}
		}
		if sizes[at] == 0 {
			break
		}
		if err := w.spillGroups(w.spill.begin(at), members[at]); err != nil {
			return err
		}
		w.bytes -= sizes[at]
		sizes[at] = 0
	}
	w.compact()
	return nil
}

// spillGroups writes groups to their part, and drops them.
func (w *grouping) spillGroups(p *spillPart, groups []*group) error {
	for _, gr := range groups {
		saved, err := w.states(gr)
		if err != nil {
			return err
		}
		if err := p.addGroup(saved); err != nil {
			return err
		}
		gr.acc = nil
	}
	return nil
}

// compact closes the gaps between the remaining groups.
func (w *grouping) compact() {
	groups := len(w.order)
	w.order = slices.DeleteFunc(w.order, func(gr *group) bool { return gr.acc == nil })
	w.taken = w.taken * len(w.order) / groups
	w.groups, w.slab = make(map[string]*group, len(w.order)), groupSlab{}
	for i, old := range w.order {
		gr := w.slab.group(len(w.g.Fields))
		gr.key, gr.id = old.key, bson.Value{Type: old.id.Type, Data: w.slab.bytes(old.id.Data)}
		copy(gr.acc, old.acc)
		w.order[i], w.groups[gr.key] = gr, gr
	}
}

// reload reads the groups of a part. Some of them may be spilled again.
func (w *grouping) reload(ctx context.Context, p *spillPart) error {
	env := w.r.Env.WithRoot(bson.Empty)
	for ; p.groups > 0; p.groups-- {
		d, err := p.Next(ctx)
		if err != nil {
			return err
		}
		id := d.Lookup("_id")
		w.key = keystring.Append(w.key[:0], id, false, env.Collator)
		if p := w.spilledPart(); p != nil {
			if err := p.addGroup(d); err != nil {
				return err
			}
			continue
		}
		gr, err := w.start(env, id)
		if err != nil {
			return err
		}
		grown, err := gr.join(env, d)
		if err != nil {
			return err
		}
		w.bytes += grown
		// Each has enough documents to stay in memory.
		w.taken += fewDocuments
		if err := w.room(); err != nil {
			return err
		}
	}
	return nil
}

// size returns the memory of a group, in bytes.
func (gr *group) size() int {
	n := len(gr.key) + len(gr.id.Data) + groupOverhead
	for _, a := range gr.acc {
		n += a.Size()
	}
	return n
}
