package schema

import (
	"bytes"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/match"
)

// MaxIndexes bounds the indexes of a collection, the one on _id among them.
const MaxIndexes = 64

// ResolveIndexes turns specifications that ParseIndexSpec returned into the indexes that
// have to be built on a collection with those options and indexes. Specifications of
// indexes that exist already are left out: existed reports whether there were any. Errors:
// 67, 85, 86, 6049202 and the codes of collations and of single kinds.
func ResolveIndexes(ns Namespace, o *Options, existing []*Index, specs []bson.Doc) (build []*Index, existed bool, err error) {
	var candidates []*Index
	for _, spec := range specs {
		if err := checkClustered(spec, o); err != nil {
			return nil, false, err
		}
		ix, err := resolve(asExisting(spec, existing), o)
		if err != nil {
			return nil, false, err
		}
		if exists(ix, o, existing) {
			existed = true
			continue
		}
		candidates = append(candidates, ix)
	}
	all := append([]*Index(nil), existing...)
	for _, ix := range candidates {
		if err := validateResolved(ns, o, ix); err != nil {
			return nil, false, err
		}
		if err := conflict(ns, ix, all); err != nil {
			return nil, false, err
		}
		all = append(all, ix)
		build = append(build, ix)
	}
	return build, existed, nil
}

// asExisting completes a specification without engine options from an existing
// index by last writes with that name and key, so that the specification still
// matches as it did before there was a setting.
func asExisting(spec bson.Doc, existing []*Index) bson.Doc {
	if !MayCountFromWrite(spec) || spec.Has("storageEngine") {
		return spec
	}
	for _, ix := range existing {
		if ix.CountsFromWrite() && ix.Name == text(spec.Lookup("name")) {
			return new(bson.Builder).Fields(spec).Value("storageEngine", ix.Spec.Lookup("storageEngine")).Finish()
		}
	}
	return spec
}

// checkClustered refuses to cluster a collection by a later index: error
// 6243700, unless it is clustered by that key.
func checkClustered(spec bson.Doc, o *Options) error {
	if !spec.Lookup("clustered").Truthy() || o.Clustered != nil && isIDPattern(spec.Lookup("key").Doc()) {
		return nil
	}
	return mongoerr.New(mongoerr.Code(6243700), "Cannot create index %s with the 'clustered' option: a collection is clustered when it is created", shown(spec))
}

// resolve fills in what a specification takes from the collection.
func resolve(spec bson.Doc, o *Options) (*Index, error) {
	if err := validateTTL(spec, o); err != nil {
		return nil, err
	}
	spec, err := withCollation(spec, o.Collation)
	if err != nil {
		return nil, err
	}
	return LoadIndex(storedForm(spec))
}

// withCollation puts the whole collation into a specification: its own, or the
// collection's where it has none. The simple collation is left out.
func withCollation(spec bson.Doc, def *Collation) (bson.Doc, error) {
	own := spec.Lookup("collation")
	if own.IsMissing() {
		if def == nil || bson.ClampToInt64(spec.Lookup("v")) < 2 {
			return spec, nil
		}
		return new(bson.Builder).Fields(spec).Doc("collation", def.Spec).Finish(), nil
	}
	c, err := ParseCollation(own.Doc())
	if err != nil {
		return nil, err
	}
	var b bson.Builder
	for name, v := range spec.All() {
		if name != "collation" {
			b.Value(name, v)
		}
	}
	if c != nil {
		b.Doc("collation", c.Spec)
	}
	return b.Finish(), nil
}

// exists reports whether there is an identical index already. The key of a
// clustered collection counts as one.
func exists(ix *Index, o *Options, existing []*Index) bool {
	if o.Clustered != nil && isIDPattern(ix.Key) {
		return true
	}
	for _, e := range existing {
		if e.Name == ix.Name && compareIndexes(ix, e) == identical {
			return true
		}
	}
	return false
}

// validateResolved checks what needs the whole index.
func validateResolved(ns Namespace, o *Options, ix *Index) error {
	if ns.IsOplog() {
		return cannotCreate("cannot have an index on the oplog")
	}
	if ix.Name == "" {
		return cannotCreate("index name cannot be empty")
	}
	if ix.Collation != nil && !ix.kind.collated() {
		return cannotCreate("Index type '%s' does not support collation: %s", ix.Plugin, ix.Collation)
	}
	if err := ix.kind.validateSpec(ix.Spec); err != nil {
		return err
	}
	if err := validateStorageEngine(ix); err != nil {
		return err
	}
	if o.Timeseries != nil {
		if err := o.Timeseries.validateIndex(ix, o.Collation); err != nil {
			return err
		}
	}
	if err := o.CheckRuleExpiry(ix.Expiry); err != nil {
		return err
	}
	if ix.Filter != nil {
		if ix.Sparse {
			return cannotCreate(`cannot mix "partialFilterExpression" and "sparse" options`)
		}
		if err := validatePartial(ix.Filter.Root()); err != nil {
			return err
		}
	}
	if isIDPattern(ix.Key) && !bytes.Equal(ix.Collation, o.Collation.spec()) {
		return mongoerr.New(mongoerr.BadValue,
			"The _id index must have the same collation as the collection. Index collation: %s, collection collation: %s",
			collationText(ix.Collation), collationText(o.Collation.spec()))
	}
	return nil
}

// validateStorageEngine checks the storageEngine of a specification.
func validateStorageEngine(ix *Index) error {
	v := ix.Spec.Lookup("storageEngine")
	if v.IsMissing() {
		return nil
	}
	if v.Type != bson.TypeDocument {
		return cannotCreate(`"storageEngine" options must be a document if present`)
	}
	if v.Doc().IsEmpty() {
		return cannotCreate(`Empty "storageEngine" options are invalid. Please remove the field or include valid options.`)
	}
	if err := validateEngines(v.Doc()); err != nil {
		return err
	}
	if document(v.Doc().Lookup("mayfly")).Has("expiry") && !ix.IsTTL() {
		return invalidOptions("'%s' is only for indexes with 'expireAfterSeconds'", expiryPath)
	}
	if asksLastWrite(ix.Spec) && !ix.CountsFromWrite() {
		return invalidOptions("'%s.by' can only be 'lastWrite' for an index on {_ts: 1}, found key: %s", expiryPath, ix.Key)
	}
	return nil
}

// comparison says how similar two indexes are.
type comparison int

const (
	different  comparison = iota // both may exist
	equivalent                   // the same entries, but other options
	identical
)

// compareIndexes compares everything but the names. Key, collation, filter,
// uniqueness and sparseness distinguish indexes; the other options do not.
func compareIndexes(a, b *Index) comparison {
	if !bson.Equal(bson.Document(a.Key), bson.Document(b.Key)) ||
		!bytes.Equal(a.Collation, b.Collation) ||
		a.Unique != b.Unique || a.Sparse != b.Sparse ||
		!sameFilter(a.Filter, b.Filter) ||
		!a.scope.same(b.scope) {
		return different
	}
	if !sameOptions(a.Spec, b.Spec, false) || !sameOptions(b.Spec, a.Spec, !a.Spec.Has("storageEngine")) {
		return equivalent
	}
	return identical
}

func sameFilter(a, b *match.Filter) bool {
	if a == nil || b == nil {
		return a == b
	}
	return bson.CompareDocs(match.Serialize(a.Root()), match.Serialize(b.Root()), nil) == 0
}

// notCompared are the options in which identical indexes may differ, or that
// compareIndexes has compared before.
var notCompared = map[string]bool{
	"key": true, "name": true, "ns": true, "v": true, "background": true, "dropDups": true,
	"textIndexVersion": true, "2dsphereIndexVersion": true, sinceField: true, lenientField: true,
	"collation": true, "partialFilterExpression": true, "unique": true, "sparse": true, "wildcardProjection": true,
}

// sameOptions reports whether b has every option of a, with an equal value. A
// specification without engine options matches whatever the index has: collMod
// may have changed the settings of its expiry.
func sameOptions(a, b bson.Doc, anyEngine bool) bool {
	for name, v := range a.All() {
		if !notCompared[name] && !(anyEngine && name == "storageEngine") && !bson.Equal(v, b.Lookup(name)) {
			return false
		}
	}
	return true
}

// conflict returns the error where existing indexes prevent a new one: 85 and
// 86, and 67 if there are too many.
func conflict(ns Namespace, ix *Index, existing []*Index) error {
	for _, e := range existing {
		if e.Name != ix.Name {
			continue
		}
		switch compareIndexes(ix, e) {
		case different:
			return mongoerr.New(mongoerr.IndexKeySpecsConflict,
				"An existing index has the same name as the requested index. When index names are not specified, they are auto generated and can cause conflicts. Please refer to our documentation. Requested index: %s, existing index: %s", ix.Shown(), e.Shown())
		case equivalent:
			return mongoerr.New(mongoerr.IndexOptionsConflict,
				"An equivalent index already exists with the same name but different options. Requested index: %s, existing index: %s", ix.Shown(), e.Shown())
		}
		return mongoerr.New(mongoerr.IndexAlreadyExists, "Identical index already exists: %s", ix.Name)
	}
	for _, e := range existing {
		switch compareIndexes(ix, e) {
		case equivalent:
			return mongoerr.New(mongoerr.IndexOptionsConflict,
				"An equivalent index already exists with a different name and options. Requested index: %s, existing index: %s", ix.Shown(), e.Shown())
		case identical:
			return mongoerr.New(mongoerr.IndexOptionsConflict, "Index already exists with a different name: %s", e.Name)
		}
	}
	for _, e := range existing {
		if ix.Plugin == pluginText && e.Plugin == pluginText {
			return cannotCreate("only one text index per collection allowed, found existing text index \"%s\"", e.Name)
		}
	}
	if len(existing) >= MaxIndexes {
		return cannotCreate("add index fails, too many indexes for %s key:%s", ns, ix.Key)
	}
	return nil
}
