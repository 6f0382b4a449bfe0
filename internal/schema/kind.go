package schema

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/geo"
)

// The names of the index kinds as in key patterns; an ordinary index has none,
// and "wildcard" is never in a pattern.
const (
	pluginBtree    = ""
	pluginHashed   = "hashed"
	pluginText     = "text"
	pluginSphere   = "2dsphere"
	pluginFlat     = "2d"
	pluginWildcard = "wildcard"
)

// indexKind is what distinguishes one kind of index from another. Each kind is
// one file; kinds lists them.
type indexKind interface {
	// validatePattern checks a key pattern of this kind beyond what all kinds
	// have in common.
	validatePattern(key bson.Doc) error
	// validateSpec checks the other options of a specification.
	validateSpec(spec bson.Doc) error
	// collated reports whether an index of this kind may have a collation.
	collated() bool
	// keys appends the keys of a document that the index's filter admits.
	keys(ix *Index, doc bson.Doc, dst []Key) ([]Key, MultikeyPaths, error)
}

// configured is a kind that depends on its index's options.
type configured interface {
	configure(spec bson.Doc) indexKind
}

var kinds = map[string]indexKind{
	pluginBtree:     btree{},
	pluginLastWrite: lastWrite{},
	pluginHashed:    hashed{},
	pluginText:      textIndex{},
	pluginSphere:    sphere{sphereV3},
	pluginFlat:      flat{geo.DefaultGrid},
	pluginWildcard:  wildcard{},
}
