package match

import "github.com/mayflydb/mayfly/internal/bson"

// NewExists makes {path: {$exists: true}}.
func NewExists(path string) *Exists { return &Exists{newLeaf(path)} }

func (n *Exists) match(s subject, env *Env) (bool, error) { return n.test(s, each, n, env) }
func (n *Exists) kind() kind                              { return kindExists }
func (n *Exists) elem(v bson.Value, _ *Env) (bool, error) { return !v.IsMissing(), nil }
func (n *Exists) text(b *bson.Builder)                    { b.OpenDoc(n.Path).Bool("$exists", true).Close() }

func parseExists(_ *parser, a argument) (Node, error) {
	if a.v.Type == bson.TypeUndefined {
		return nil, badValue("$exists can't be eoo")
	}
	if a.v.Truthy() {
		return NewExists(a.path), nil
	}
	return &Not{NewExists(a.path)}, nil
}
