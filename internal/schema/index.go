package schema

import (
	"math"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/query/match"
)

// IDIndexName is the name of the index on _id.
const IDIndexName = "_id_"

// NoExpiry is the ExpireAfterSeconds of an index or a collection without a TTL.
const NoExpiry = int64(math.MinInt64)

// Part is one field of an index key.
type Part struct {
	Path       string   // dotted, as in the key pattern
	Components []string // Path split at its dots
	Descending bool     // a negative number in the key pattern
	Plugin     string   // "" for a number, else "hashed", "text", "2d", "2dsphere", "wildcard", "lastwrite"
}

// Index is one index as the catalog keeps it: its specification, parsed.
// Immutable; collMod makes a new one with With.
type Index struct {
	Name    string
	Version int32    // v: 1 or 2
	Key     bson.Doc // the key pattern
	Parts   []Part
	Plugin  string // "" (ordinary), "hashed", "text", "2d", "2dsphere", "wildcard", "lastwrite"
	// Spec is the specification as the catalog stores it. Messages print Shown,
	// listIndexes ListForm.
	Spec bson.Doc

	// Text says which texts a text index holds; nil for other indexes.
	Text *match.TextSpec

	Unique        bool
	PrepareUnique bool
	Sparse        bool
	Hidden        bool
	Lenient       bool // see LeavesOut
	// ExpireAfterSeconds is the TTL in seconds, or NoExpiry; for an index by last
	// writes -1 is no default.
	ExpireAfterSeconds int64
	Expiry             Expiry        // the settings of the rule that the TTL makes
	PartialFilter      bson.Doc      // partialFilterExpression, or nil
	Filter             *match.Filter // PartialFilter parsed, or nil
	Collation          bson.Doc      // normalised; nil for the simple one
	Collator           bson.Collator // nil for the simple collation

	kind     indexKind
	scope    *wildcardScope // of a wildcard index, else nil
	keyParts []Part         // what appendKey encodes
	since    int64          // of an index by last writes, see WatchedFrom
	room     *keyRoom       // of a copy that makes the keys of one document; nil for any
}

// LoadIndex parses a specification that was accepted and stored before.
func LoadIndex(spec bson.Doc) (*Index, error) {
	ix := &Index{
		Name:               spec.Lookup("name").Str(),
		Version:            int32(bson.ClampToInt64(spec.Lookup("v"))),
		Key:                spec.Lookup("key").Doc(),
		Spec:               spec,
		Unique:             spec.Lookup("unique").Truthy(),
		PrepareUnique:      spec.Lookup("prepareUnique").Truthy(),
		Sparse:             spec.Lookup("sparse").Truthy(),
		Hidden:             spec.Lookup("hidden").Truthy(),
		Lenient:            spec.Lookup(lenientField).Truthy(),
		ExpireAfterSeconds: NoExpiry,
	}
	ix.Parts, ix.Plugin = parts(ix.Key), pluginOf(ix.Key)
	if isLastWrite(spec) {
		ix.Plugin, ix.Parts[0].Plugin = pluginLastWrite, pluginLastWrite
		ix.since = bson.ClampToInt64(spec.Lookup(sinceField))
	}
	ix.kind = kinds[ix.Plugin]
	if k, ok := ix.kind.(configured); ok {
		ix.kind = k.configure(spec)
	}
	if ix.Plugin == pluginWildcard {
		ix.scope = newWildcardScope(ix.Key, spec.Lookup("wildcardProjection"))
	}
	ix.keyParts = ix.KeyParts()
	if v := spec.Lookup("expireAfterSeconds"); v.IsNumber() {
		ix.ExpireAfterSeconds = bson.ClampToInt64(v)
	}
	var err error
	if ix.Expiry, _, err = ExpiryOf(document(spec.Lookup("storageEngine"))); err != nil {
		return nil, err
	}
	if v := spec.Lookup("collation"); v.Type == bson.TypeDocument {
		c, err := ParseCollation(v.Doc())
		if err != nil {
			return nil, err
		}
		ix.Collation, ix.Collator = c.spec(), c.order()
	}
	if v := spec.Lookup("partialFilterExpression"); v.Type == bson.TypeDocument {
		f, err := match.Parse(v.Doc(), partialOptions(ix.Collator))
		if err != nil {
			return nil, err
		}
		ix.PartialFilter, ix.Filter = v.Doc(), f
	}
	if ix.Plugin == pluginText {
		t, err := match.NewTextSpec(spec)
		if err != nil {
			return nil, err
		}
		ix.Text = t
	}
	return ix, nil
}

// IDIndex is the index on _id of a collection with that default collation.
func IDIndex(c *Collation) *Index {
	var b bson.Builder
	b.Int32("v", 2).Doc("key", idKey).String("name", IDIndexName)
	if c != nil {
		b.Doc("collation", c.Spec)
	}
	ix := &Index{
		Name: IDIndexName, Version: 2, Key: idKey, Parts: parts(idKey), Spec: b.Finish(),
		ExpireAfterSeconds: NoExpiry, Collation: c.spec(), Collator: c.order(), kind: btree{},
	}
	ix.keyParts = ix.Parts
	return ix
}

// IsID reports whether ix is the index on _id that every ordinary collection has.
func (ix *Index) IsID() bool { return ix.Name == IDIndexName }

// IsTTL reports whether ix lets documents expire.
func (ix *Index) IsTTL() bool { return ix.ExpireAfterSeconds != NoExpiry }

// CountsFromWrite reports whether ix lets documents expire after their last write:
// {_ts: 1} with expireAfterSeconds, by: "lastWrite".
func (ix *Index) CountsFromWrite() bool { return ix.Plugin == pluginLastWrite }

// Directions says, for each part of a key, whether it descends, as the decoding
// of keys wants it.
func (ix *Index) Directions() []bool {
	d := make([]bool, len(ix.keyParts))
	for i, p := range ix.keyParts {
		d[i] = p.Descending
	}
	return d
}

// With returns the index with options of its specification replaced; a Missing
// value takes an option away.
func (ix *Index) With(changes map[string]bson.Value) (*Index, error) {
	var b bson.Builder
	for name, v := range ix.Spec.All() {
		if _, changed := changes[name]; !changed {
			b.Value(name, v)
		}
	}
	for name, v := range changes {
		b.Value(name, v)
	}
	return LoadIndex(storedForm(b.Finish()))
}

// Shown is the specification as messages print it.
func (ix *Index) Shown() bson.Doc { return shown(ix.Spec) }

// listOrder is the order of fields that listIndexes prints.
var listOrder = []string{
	"v", "key", "name", "background", "unique", "hidden", "partialFilterExpression", "sparse",
	"expireAfterSeconds", "storageEngine", "weights", "default_language", "language_override",
	"textIndexVersion", "2dsphereIndexVersion", "bits", "min", "max", "coarsestIndexedLevel", "finestIndexedLevel",
	"collation", "wildcardProjection", "clustered", "originalSpec", "prepareUnique",
}

// ListForm is the specification as listIndexes shows it.
func (ix *Index) ListForm() bson.Doc {
	var b bson.Builder
	for _, name := range listOrder {
		v := ix.Spec.Lookup(name)
		switch {
		case v.IsMissing():
		case name == "background" || name == "sparse":
			b.Bool(name, v.Truthy())
		case name == "expireAfterSeconds":
			b.Int32(name, int32(ix.ExpireAfterSeconds))
		case name == "min" || name == "max":
			b.Double(name, bson.ToDouble(v))
		default:
			b.Value(name, v)
		}
	}
	return b.Finish()
}
