package update

import (
	"cmp"
	"slices"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/match"
)

// linearChildren is the number of children of a node up to which names are
// compared one by one.
const linearChildren = 8

// node is a place in the tree of paths that an update names. It is one of
// three: a leaf with an operator, a set of named fields (one of which may be
// the positional $), or a set of array filters.
type node struct {
	leaf       *leaf
	children   []child
	index      map[string]int // of children, if there are many
	positional *node
	filters    []filtered
	first      [1]child // memory for a single child
}

// child is a field of a node.
type child struct {
	name  string
	index int // the name as an array index, or -1
	node  *node
}

// filtered is the part of an update for the elements that an array filter
// accepts; without a filter ($[]) for all.
type filtered struct {
	identifier string
	filter     *match.Filter
	node       *node
}

// newLeaf makes the node of a leaf, in one allocation.
func newLeaf(l leaf) *node {
	m := &struct {
		node
		memory leaf
	}{memory: l}
	m.leaf = &m.memory
	return &m.node
}

// leaf is one operator at one path.
type leaf struct {
	op   operator
	path string // as written

	creates    bool // makes the field where it is missing
	lenient    bool // lets a path pass that leads through a scalar
	insertOnly bool // acts in an upsert only
	onID       bool // the path is _id or below it
	dollar     bool // the first name starts with $
}

func newChild(name string, n *node) child { return child{name, arrayIndex(name), n} }

// arrayIndex is the number that a name is as the place in an array, or -1.
func arrayIndex(name string) int {
	if !bson.AllDigits(name) {
		return -1
	}
	i := 0
	for _, c := range []byte(name) {
		if i > maxIndex {
			return maxIndex + 1
		}
		i = i*10 + int(c-'0')
	}
	return i
}

// maxIndex is more than the elements of any array.
const maxIndex = 1 << 30

func (n *node) find(name string) int {
	if n.index != nil {
		if i, ok := n.index[name]; ok {
			return i
		}
		return -1
	}
	return findChild(n.children, name)
}

func findChild(kids []child, name string) int {
	for i := range kids {
		if kids[i].name == name {
			return i
		}
	}
	return -1
}

func (n *node) append(name string, kid *node) {
	if n.children == nil {
		n.children = n.first[:0]
	}
	n.children = append(n.children, newChild(name, kid))
	if len(n.children) > linearChildren {
		n.reindex()
	}
}

// reindex adds to the index what it does not have yet.
func (n *node) reindex() {
	if n.index == nil {
		n.index = make(map[string]int, len(n.children))
	}
	for i := len(n.index); i < len(n.children); i++ {
		n.index[n.children[i].name] = i
	}
}

// slot returns the place of a name in a node, which is the name of a field,
// the positional $ or the identifier of an array filter. Without filters every
// name is that of a field, also in the functions below.
func (n *node) slot(name string, filters *arrayFilters) *node {
	if name == "$" && filters != nil {
		return n.positional
	}
	if id, ok := identifier(name); ok && filters != nil {
		for _, f := range n.filters {
			if f.identifier == id {
				return f.node
			}
		}
		return nil
	}
	if i := n.find(name); i >= 0 {
		return n.children[i].node
	}
	return nil
}

func (n *node) put(name string, kid *node, filters *arrayFilters) {
	if name == "$" && filters != nil {
		n.positional = kid
		return
	}
	if id, ok := identifier(name); ok && filters != nil {
		n.filters = append(n.filters, filtered{id, filters.get(id), kid})
		return
	}
	n.append(name, kid)
}

// takes reports whether a node can have a name in addition to those that it has: array
// filters and the names of fields do not mix.
func (n *node) takes(name string, filters *arrayFilters) bool {
	if n.leaf != nil {
		return false
	}
	if _, ok := identifier(name); ok && filters != nil {
		return len(n.children) == 0 && n.positional == nil
	}
	return len(n.filters) == 0
}

// add puts a leaf at a path. Two paths of which one leads to or through the
// other are refused.
func (n *node) add(l leaf, parts []string, filters *arrayFilters) error {
	conflict := func(upTo int) error {
		return mongoerr.New(mongoerr.ConflictingUpdateOperators,
			"Updating the path '%s' would create a conflict at '%s'", l.path, strings.Join(parts[:upTo], "."))
	}
	for i, name := range parts {
		if i > 0 && !n.takes(name, filters) {
			return conflict(i)
		}
		kid, last := n.slot(name, filters), i == len(parts)-1
		switch {
		case kid == nil && last:
			n.put(name, newLeaf(l), filters)
		case kid == nil:
			kid = &node{}
			n.put(name, kid, filters)
		case last:
			return conflict(len(parts))
		}
		n = kid
	}
	return nil
}

// compareNames orders children as the server applies and creates them: names
// that are numbers first, by value, then the others byte by byte. (Manual,
// "Update Operators": fields are processed in lexicographic order, those with
// numeric names in numeric order.)
func compareNames(a, b child) int {
	switch an, bn := bson.AllDigits(a.name), bson.AllDigits(b.name); {
	case an && bn:
		x, y := strings.TrimLeft(a.name, "0"), strings.TrimLeft(b.name, "0")
		if c := cmp.Or(cmp.Compare(len(x), len(y)), strings.Compare(x, y)); c != 0 {
			return c
		}
	case an:
		return -1
	case bn:
		return 1
	}
	return strings.Compare(a.name, b.name)
}

// sort puts all children below n in order.
func (n *node) sort() {
	if n == nil {
		return
	}
	slices.SortFunc(n.children, compareNames)
	if n.index != nil {
		n.index = nil
		n.reindex()
	}
	slices.SortFunc(n.filters, func(a, b filtered) int { return strings.Compare(a.identifier, b.identifier) })
	n.positional.sort()
	for _, c := range n.children {
		c.node.sort()
	}
	for _, f := range n.filters {
		f.node.sort()
	}
}

// merge joins two parts of the tree that meet in one element of an array,
// which is where path leads.
func merge(a, b *node, path string) (*node, error) {
	aKind, bKind := a.shape(), b.shape()
	if aKind == shapeLeaf || aKind != bKind {
		return nil, mongoerr.New(mongoerr.ConflictingUpdateOperators, "Update created a conflict at '%s'", path)
	}
	out := &node{positional: a.positional}
	var err error
	if b.positional != nil {
		if out.positional = b.positional; a.positional != nil {
			out.positional, err = merge(a.positional, b.positional, path+".$")
			if err != nil {
				return nil, err
			}
		}
	}
	out.children = slices.Clone(a.children)
	for _, kid := range b.children {
		i := findChild(out.children, kid.name)
		if i < 0 {
			out.children = append(out.children, kid)
			continue
		}
		out.children[i].node, err = merge(out.children[i].node, kid.node, path+"."+kid.name)
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(out.children, compareNames)
	out.filters = slices.Clone(a.filters)
	for _, f := range b.filters {
		i := slices.IndexFunc(out.filters, func(g filtered) bool { return g.identifier == f.identifier })
		if i < 0 {
			out.filters = append(out.filters, f)
			continue
		}
		out.filters[i].node, err = merge(out.filters[i].node, f.node, path+".$["+f.identifier+"]")
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

type shape uint8

const (
	shapeFields shape = iota
	shapeFilters
	shapeLeaf
)

func (n *node) shape() shape {
	switch {
	case n.leaf != nil:
		return shapeLeaf
	case len(n.filters) > 0:
		return shapeFilters
	}
	return shapeFields
}
