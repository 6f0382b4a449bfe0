package cosmos

import (
	"slices"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
)

// etagPath is always excluded from indexing.
const etagPath = `/"_etag"/?`

// completeIndexing returns an indexing policy with its defaults: consistent,
// automatic, everything but the etag. (Cosmos DB: "Indexing policies".)
// Errors: 400, also for mode none if items may expire.
func completeIndexing(v bson.Value, expires bool) (bson.Doc, error) {
	var p bson.Doc
	switch {
	case v.IsNullish():
		p = bson.Empty
	case v.Type == bson.TypeDocument:
		p = v.Doc()
	default:
		return nil, badRequest("The indexing policy is invalid.")
	}
	mode := "consistent"
	if m := p.Lookup("indexingMode"); m.Type == bson.TypeString {
		mode = strings.ToLower(m.Str())
	}
	switch mode {
	case "consistent", "none":
	case "lazy":
		return nil, badRequest("The indexing mode 'lazy' is no longer available. Use 'consistent' or 'none'.")
	default:
		return nil, badRequest("The indexing mode '%s' is invalid.", mode)
	}
	if mode == "none" && expires {
		return nil, badRequest("Indexing mode value cannot be 'none' when 'defaultTtl' is specified in the collection")
	}
	var b bson.Builder
	b.String("indexingMode", mode)
	automatic := mode != "none"
	if a := p.Lookup("automatic"); a.Type == bson.TypeBool {
		automatic = a.Bool()
	}
	b.Bool("automatic", automatic)
	included, excluded := p.Lookup("includedPaths"), p.Lookup("excludedPaths")
	if mode == "none" {
		b.Array("includedPaths", bson.Empty).Array("excludedPaths", bson.Empty)
	} else {
		switch {
		case included.Type == bson.TypeArray && !included.Doc().IsEmpty():
			b.Value("includedPaths", included)
		case hasPath(excluded, "/*"):
			b.Array("includedPaths", bson.Empty)
		default:
			b.OpenArray("includedPaths").OpenDoc("0").String("path", "/*").Close().Close()
		}
		excludePaths(&b, excluded)
	}
	for name, v := range p.All() {
		if !slices.Contains([]string{"indexingMode", "automatic", "includedPaths", "excludedPaths"}, name) {
			b.Value(name, v)
		}
	}
	return b.Finish(), nil
}

// hasPath reports whether a path is among [{path}, …].
func hasPath(paths bson.Value, path string) bool {
	if paths.Type != bson.TypeArray {
		return false
	}
	for v := range paths.Doc().Values() {
		if v.Type == bson.TypeDocument && v.Doc().Lookup("path").Type == bson.TypeString && v.Doc().Lookup("path").Str() == path {
			return true
		}
	}
	return false
}

func excludePaths(b *bson.Builder, excluded bson.Value) {
	b.OpenArray("excludedPaths")
	n := 0
	if excluded.Type == bson.TypeArray {
		for v := range excluded.Doc().Values() {
			b.Value(bson.Index(n), v)
			n++
		}
	}
	if !hasPath(excluded, etagPath) {
		b.OpenDoc(bson.Index(n)).String("path", etagPath).Close()
	}
	b.Close()
}

// compositePath is one path of a composite index.
type compositePath struct {
	path       string // dotted
	descending bool
}

// compositeIndex is the paths of one.
type compositeIndex []compositePath

// maxComposite is the service's bound on the paths of a composite index.
const maxComposite = 8

// parseComposite reads compositeIndexes. Errors: 400.
func parseComposite(policy bson.Doc) ([]compositeIndex, error) {
	v := policy.Lookup("compositeIndexes")
	if v.IsNullish() {
		return nil, nil
	}
	bad := badRequest("The composite indexes of the indexing policy are invalid.")
	if v.Type != bson.TypeArray {
		return nil, bad
	}
	var all []compositeIndex
	for ix := range v.Doc().Values() {
		if ix.Type != bson.TypeArray || ix.Doc().Len() < 2 || ix.Doc().Len() > maxComposite {
			return nil, bad
		}
		var paths compositeIndex
		for p := range ix.Doc().Values() {
			if p.Type != bson.TypeDocument || p.Doc().Lookup("path").Type != bson.TypeString {
				return nil, bad
			}
			order := p.Doc().Lookup("order")
			names, err := splitPath(p.Doc().Lookup("path").Str())
			if err != nil {
				return nil, err
			}
			paths = append(paths, compositePath{strings.Join(names, "."), order.Type == bson.TypeString && strings.EqualFold(order.Str(), "descending")})
		}
		all = append(all, paths)
	}
	return all, nil
}

// sorts reports whether a composite index has the order of an ORDER BY, or its exact
// reverse.
func (index compositeIndex) sorts(paths []string, descending []bool) bool {
	if len(index) != len(paths) {
		return false
	}
	for i, p := range index {
		if p.path != paths[i] || p.descending != descending[i] != (index[0].descending != descending[0]) {
			return false
		}
	}
	return true
}

// uniqueKey is the paths whose combination of values is unique in a partition.
type uniqueKey [][]string

// maxUniqueKeys and maxUniquePaths are the service's bounds.
const (
	maxUniqueKeys  = 10
	maxUniquePaths = 16
)

// parseUniqueKeys reads a uniqueKeyPolicy. Errors: 400.
func parseUniqueKeys(v bson.Value) ([]uniqueKey, error) {
	if v.IsNullish() {
		return nil, nil
	}
	bad := badRequest("The unique key policy is invalid.")
	if v.Type != bson.TypeDocument {
		return nil, bad
	}
	keys := v.Doc().Lookup("uniqueKeys")
	if keys.IsNullish() {
		return nil, nil
	}
	if keys.Type != bson.TypeArray || keys.Doc().Len() > maxUniqueKeys {
		return nil, bad
	}
	var all []uniqueKey
	for k := range keys.Doc().Values() {
		if k.Type != bson.TypeDocument || k.Doc().Lookup("paths").Type != bson.TypeArray {
			return nil, bad
		}
		var u uniqueKey
		for p := range k.Doc().Lookup("paths").Doc().Values() {
			if p.Type != bson.TypeString {
				return nil, bad
			}
			names, err := splitPath(p.Str())
			if err != nil {
				return nil, err
			}
			u = append(u, names)
		}
		if len(u) == 0 || len(u) > maxUniquePaths {
			return nil, bad
		}
		all = append(all, u)
	}
	return all, nil
}

// index returns the unique index that enforces u within each partition.
func (u uniqueKey) index() bson.Doc {
	paths := []string{"_id.p"}
	name := uniqueKeyName
	for _, p := range u {
		paths = append(paths, strings.Join(append([]string{storedName(p[0])}, p[1:]...), "."))
		name += "/" + strings.Join(p, "/")
	}
	return indexSpec(name, true, paths...)
}

// uniqueKeyName begins the names of the indexes of unique keys.
const uniqueKeyName = "unique"

func isUniqueKey(index string) bool { return strings.HasPrefix(index, uniqueKeyName+"/") }

func sameUniqueKeys(a, b []uniqueKey) bool {
	return slices.EqualFunc(a, b, func(x, y uniqueKey) bool {
		return slices.EqualFunc(x, y, func(p, q []string) bool { return slices.Equal(p, q) })
	})
}
