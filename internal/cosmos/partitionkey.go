package cosmos

import (
	"slices"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/query/nosql"
)

// partitionKey is a container's partition key: up to three paths.
type partitionKey struct {
	paths  [][]string
	system bool // the client gave none: /_partitionKey, which is optional in items
	// hashes2 says that SDKs make hashes of the key as of version 2.
	hashes2 bool
}

// maxKeyPaths is the service's bound on hierarchical keys.
const maxKeyPaths = 3

// parsePartitionKey reads a definition's partitionKey. Errors: 400.
func parsePartitionKey(v bson.Value) (partitionKey, error) {
	if v.IsNullish() {
		return partitionKey{paths: [][]string{{"_partitionKey"}}, system: true, hashes2: true}, nil
	}
	bad := badRequest("The partition key component definition path is invalid.")
	if v.Type != bson.TypeDocument || v.Doc().Lookup("paths").Type != bson.TypeArray {
		return partitionKey{}, bad
	}
	d := v.Doc()
	k := partitionKey{system: d.Lookup("systemKey").Truthy(), hashes2: d.Lookup("version").IsNumber() && bson.ToDouble(d.Lookup("version")) == 2}
	for p := range v.Doc().Lookup("paths").Doc().Values() {
		if p.Type != bson.TypeString {
			return k, bad
		}
		names, err := splitPath(p.Str())
		if err != nil {
			return k, err
		}
		k.paths = append(k.paths, names)
	}
	if len(k.paths) == 0 || len(k.paths) > maxKeyPaths {
		return k, bad
	}
	return k, nil
}

// splitPath reads a path like /a/"b c"/d, whose last component may be ? for a value or
// * for everything below. Errors: 400.
func splitPath(p string) ([]string, error) {
	bad := badRequest("The path '%s' is invalid.", p)
	if !strings.HasPrefix(p, "/") || p == "/" {
		return nil, bad
	}
	var names []string
	for rest := p[1:]; ; {
		name, after := rest, ""
		if strings.HasPrefix(rest, `"`) {
			end := strings.IndexByte(rest[1:], '"')
			if end < 0 {
				return nil, bad
			}
			name, after = rest[1:1+end], rest[2+end:]
			if after != "" && after[0] != '/' {
				return nil, bad
			}
			after = strings.TrimPrefix(after, "/")
		} else {
			name, after, _ = strings.Cut(rest, "/")
		}
		if name == "" || strings.ContainsAny(name, ".$\x00") {
			return nil, bad
		}
		names = append(names, name)
		if rest = after; rest == "" {
			return names, nil
		}
	}
}

func (k partitionKey) equal(o partitionKey) bool {
	return slices.EqualFunc(k.paths, o.paths, func(a, b []string) bool { return slices.Equal(a, b) })
}

// none stands for the absent value of a partition key.
var none = bson.Value{Type: bson.TypeMinKey}

// of returns the partition key of an item's body. Errors: 400 if a component is an
// array or an object.
func (k partitionKey) of(body bson.Doc) ([]bson.Value, error) {
	vs := make([]bson.Value, len(k.paths))
	for i, p := range k.paths {
		v := bson.Document(body)
		for _, name := range p {
			if v.Type != bson.TypeDocument {
				v = bson.Value{}
				break
			}
			v = v.Doc().Lookup(name)
		}
		switch {
		case v.IsMissing():
			v = none
		case v.Type == bson.TypeArray || v.Type == bson.TypeDocument:
			return nil, keyMismatch("PartitionKey extracted from document is not a string, a number, a boolean or null.")
		}
		vs[i] = v
	}
	return vs, nil
}

// fixed returns the single partition to which a query's WHERE is limited, or nil.
func (k partitionKey) fixed(q *nosql.Query) []bson.Value {
	var key []bson.Value
	for _, p := range k.paths {
		v, ok := q.Fixed(strings.Join(p, "."))
		if !ok {
			return nil
		}
		key = append(key, v)
	}
	return key
}

// keyHeader returns the partition key of a request, nil if it has none. {} and [] stand
// for an absent value. Errors: 400.
func (r *request) keyHeader(k partitionKey) ([]bson.Value, error) {
	h := r.header("X-Ms-Documentdb-Partitionkey")
	if h == "" {
		return nil, nil
	}
	return k.parse(h)
}

// parse reads a partition key from JSON.
func (k partitionKey) parse(s string) ([]bson.Value, error) {
	bad := func() error { return badRequest("Partition key %s is invalid.", s) }
	v, err := nosql.ParseJSON([]byte(s))
	if err != nil || v.Type != bson.TypeArray {
		return nil, bad()
	}
	vs := v.Doc().Slice()
	if len(vs) == 0 {
		vs = append(vs, none)
	}
	if len(vs) > len(k.paths) {
		return nil, keyMismatch("Partition key provided either doesn't correspond to definition in the collection or doesn't match partition key field values specified in the document.")
	}
	for i, v := range vs {
		switch {
		case v.Type == bson.TypeDocument && v.Doc().IsEmpty():
			vs[i] = none
		case v.Type == bson.TypeDocument || v.Type == bson.TypeArray:
			return nil, bad()
		}
	}
	return vs, nil
}

// itemIDRoom is room for an _id with a short key, in bytes.
const itemIDRoom = 96

// itemID is the _id of an item's document.
func itemID(key []bson.Value, id string) bson.Value {
	var b bson.Builder
	b.Reset(make([]byte, 0, itemIDRoom+len(id))).OpenDoc("p")
	for i, v := range key {
		b.Value(bson.Index(i), v)
	}
	return bson.Document(b.Close().String("i", id).Finish())
}

// keyDocument returns a partition key as {0: …, 1: …}, not as an array, which would
// make indexes multikey.
func keyDocument(key ...bson.Value) bson.Doc {
	var b bson.Builder
	for i, v := range key {
		b.Value(bson.Index(i), v)
	}
	return b.Finish()
}

// bounds returns the _id below and above those of the items of a partition, or of
// all partitions that begin with a prefix of a hierarchical key.
func (k partitionKey) bounds(key []bson.Value) (low, high bson.Doc) {
	low = new(bson.Builder).Doc("p", keyDocument(key...)).Finish()
	var b bson.Builder
	top := bson.Value{Type: bson.TypeMaxKey}
	if len(key) < len(k.paths) {
		return low, b.Doc("p", keyDocument(append(slices.Clone(key), top)...)).Finish()
	}
	return low, b.Doc("p", keyDocument(key...)).Value("i", top).Finish()
}

// partition returns a filter for the items between the bounds of a key: a range of _id.
func (k partitionKey) partition(key []bson.Value) bson.Doc {
	low, high := k.bounds(key)
	var b bson.Builder
	b.OpenDoc("_id").Doc("$gte", low).Doc("$lte", high).Close()
	return b.Finish()
}

func sameKey(a, b []bson.Value) bool {
	return slices.EqualFunc(a, b, func(x, y bson.Value) bool { return bson.Equal(x, y) })
}
