package project

import (
	"strings"

	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/expr"
	"github.com/mayflydb/mayfly/internal/query/match"
)

// linearFields is the number of fields of a node up to which names are
// compared one by one.
const linearFields = 8

// action is the action on a field of the tree.
type action uint8

const (
	keep    action = iota
	drop           // leave out
	compute        // the value of an expression
	pick           // the first element that $elemMatch accepts
	descend        // a document, or an array of documents, with a node of its own
)

// field is one name in a node and its action.
type field struct {
	name   string
	do     action
	expr   expr.Expr     // of compute
	filter *match.Filter // of pick: {name: {$elemMatch: …}}
	sub    *node         // of descend
	slice  *slice        // of keep: which elements of an array stay
	// positional marks the path of the positional operator: the first array on
	// it shrinks to the element that matched.
	positional bool
}

// node is the part of a specification that applies to one document, top-level
// or nested.
type node struct {
	fields   []*field // in the order of the specification
	index    map[string]int
	computes bool // some value here or below is computed
	descends bool
}

// find returns the index of a name in fields, or -1.
func (n *node) find(name string) int {
	if n.index != nil {
		if i, ok := n.index[name]; ok {
			return i
		}
		return -1
	}
	for i, f := range n.fields {
		if f.name == name {
			return i
		}
	}
	return -1
}

func (n *node) append(f *field) {
	n.fields = append(n.fields, f)
	if n.index == nil && len(n.fields) > linearFields {
		n.index = make(map[string]int, len(n.fields))
		for i, f := range n.fields {
			n.index[f.name] = i
		}
	} else if n.index != nil {
		n.index[f.name] = len(n.fields) - 1
	}
	n.descends = n.descends || f.do == descend
}

// child returns the node at a name, making it if there is none, or nil
// if the name has a leaf.
func (n *node) child(name string) *node {
	if i := n.find(name); i >= 0 {
		return n.fields[i].sub
	}
	f := &field{name: name, do: descend, sub: &node{}}
	n.append(f)
	return f.sub
}

// add puts a leaf at a dotted path below n. It rejects two paths if one is a prefix of
// the other.
func (n *node) add(path string, leaf field) error {
	rest := path
	for {
		name, tail, more := strings.Cut(rest, ".")
		if !more {
			break
		}
		at := n
		if n = n.child(name); n == nil {
			_, tail, _ = strings.Cut(path, ".") // what mongod names, however deep the collision
			return mongoerr.New(mongoerr.Code(31249), "Path collision at %s remaining portion %s", path, tail)
		}
		if leaf.positional {
			at.fields[at.find(name)].positional = true
		}
		rest = tail
	}
	if n.find(rest) >= 0 {
		return mongoerr.New(mongoerr.Code(31250), "Path collision at %s", path)
	}
	leaf.name = rest
	n.append(&leaf)
	return nil
}

// conflict returns a path of the tree that path leads to or through, or "".
func (n *node) conflict(path string) string {
	for at, rest := 0, path; ; {
		name, tail, more := strings.Cut(rest, ".")
		i := n.find(name)
		if i < 0 {
			return ""
		}
		f := n.fields[i]
		at += len(name)
		if f.sub == nil {
			return path[:at]
		}
		if !more {
			for other := path; ; other += "." + f.name {
				if f.sub == nil {
					return other
				}
				f = f.sub.fields[0]
			}
		}
		n, rest = f.sub, tail
		at++
	}
}

// finish notes, bottom up, where values are computed.
func (n *node) finish() bool {
	for _, f := range n.fields {
		if f.do == compute || f.do == pick || f.do == descend && f.sub.finish() {
			n.computes = true
		}
	}
	return n.computes
}
