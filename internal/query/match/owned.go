package match

import "github.com/mayflydb/mayfly/internal/bson"

// Owned matches the documents that a shard owns, of a collection that has others, too. No
// client writes it: the executor appends it to the filter of a query, and explain shows it
// as a stage of its own, SHARDING_FILTER.
type Owned struct {
	// Hides reports whether a document is another shard's.
	Hides func(doc bson.Doc) bool
}

func (n *Owned) kind() kind                                   { return kindOwned }
func (n *Owned) text(b *bson.Builder)                         { b.Bool("$_owned", true) }
func (n *Owned) match(s subject, env *Env) (ok bool, _ error) { return !n.Hides(s.v.Doc()), nil }

// AndOwned is the filter with an Owned after all other conditions.
func (f *Filter) AndOwned(hides func(doc bson.Doc) bool) *Filter {
	g := *f
	g.root = AndOf(f.root, &Owned{hides})
	return &g
}

// WithoutOwned is a tree without its Owned, and whether it had one. A nil tree, or one of
// which nothing is left, is nil.
func WithoutOwned(n Node) (rest Node, had bool) {
	if n == nil {
		return nil, false
	}
	for _, c := range Conjuncts(n) {
		if _, had = c.(*Owned); had {
			break
		}
	}
	if !had {
		return n, false
	}
	_, rest = SplitBy(n, func(c Node) bool { _, is := c.(*Owned); return is })
	if and, ok := rest.(*And); ok && len(and.Children) == 0 {
		return nil, true
	}
	return rest, true
}
