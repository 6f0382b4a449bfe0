package match

import (
	"github.com/mayflydb/mayfly/internal/bson"
)

// Parse parses a filter. The errors are *mongoerr.Error with the server's
// codes and messages.
func Parse(filter bson.Doc, opts *Options) (*Filter, error) {
	if opts == nil {
		opts = &Options{}
	}
	root := &And{}
	for it := filter.Iter(); it.Next(); {
		root.Children = append(root.Children, NewCompare(it.Key, Eq, it.Value, opts.Collator))
	}
	return &Filter{root: root, filter: filter}, nil
}
