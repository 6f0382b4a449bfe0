package schema

import (
	"math"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// Archive says where documents are written before a rule removes them
// (docs/rfcs/0034-archive.md).
type Archive struct {
	// To is a directory, file:///DIRECTORY, or a part of a bucket, s3://BUCKET/PREFIX.
	To string
	// Fields are the paths that are columns of their own.
	Fields []string
	// ExpireAfterSeconds is how long an object is kept after its documents were archived; 0 for ever.
	ExpireAfterSeconds int64
}

// maxArchiveFields bounds the columns that a rule may name: each costs memory while an object is
// written, and a filter in it.
const maxArchiveFields = 32

// maxArchiveSeconds is that of expireAfterSeconds.
const maxArchiveSeconds = math.MaxInt32

// ArchiveColumns are the columns that each object has. No field may be called so, in whatever
// case: some tools do not tell columns apart by that.
var ArchiveColumns = []string{"_id", "date", "expiredAt", "rule", "doc", "bson"}

// Same reports whether two say the same. Either may be nil.
func (a *Archive) Same(o *Archive) bool {
	return a == o || a != nil && o != nil && a.To == o.To && a.ExpireAfterSeconds == o.ExpireAfterSeconds && slices.Equal(a.Fields, o.Fields)
}

// parseArchive reads the setting archive. Errors: 14, 2, 40415, 40414.
func parseArchive(at string, v bson.Value) (*Archive, error) {
	if v.Type != bson.TypeDocument {
		return nil, notA(at, v, "object")
	}
	a := &Archive{}
	var err error
	for name, v := range v.Doc().All() {
		at := at + "." + name
		switch name {
		case "to":
			a.To, err = parseArchivePlace(at, v)
		case "fields":
			a.Fields, err = parseArchiveFields(at, v)
		case "expireAfterSeconds":
			if a.ExpireAfterSeconds, err = perSecond(at, v); err == nil && a.ExpireAfterSeconds > maxArchiveSeconds {
				err = mongoerr.New(mongoerr.BadValue, "BSON field '%s' value must be <= %d, actual value '%d'", at, int64(maxArchiveSeconds), a.ExpireAfterSeconds)
			}
		default:
			err = unknownField(at)
		}
		if err != nil {
			return nil, err
		}
	}
	if a.To == "" {
		return nil, mongoerr.New(40414, "BSON field '%s.to' is missing but a required field", at)
	}
	return a, nil
}

func parseArchivePlace(at string, v bson.Value) (string, error) {
	if v.Type != bson.TypeString {
		return "", notA(at, v, "string")
	}
	if !IsArchivePlace(v.Str()) {
		return "", mongoerr.New(mongoerr.BadValue, "BSON field '%s' must be a directory, as file:///DIRECTORY, or in a bucket, as s3://BUCKET/PREFIX", at)
	}
	return v.Str(), nil
}

// IsArchivePlace reports whether a place is well formed: no part of its path is empty or has
// dots only, so that what it begins with contains it.
func IsArchivePlace(place string) bool {
	u, err := url.Parse(place)
	if err != nil || u.Opaque != "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.RawPath != "" || strings.ContainsAny(place, "?#%\\\x00") {
		return false
	}
	switch u.Scheme {
	case "file":
		return u.Host == "" && strings.HasPrefix(place, "file:///") && u.Path != "/" && path.Clean(u.Path) == u.Path
	case "s3":
		return u.Host != "" && strings.HasPrefix(place, "s3://"+u.Host) && (u.Path == "" || u.Path != "/" && path.Clean(u.Path) == u.Path)
	}
	return false
}

func parseArchiveFields(at string, v bson.Value) (fields []string, err error) {
	if v.Type != bson.TypeArray {
		return nil, notA(at, v, "array")
	}
	taken := map[string]bool{}
	for _, name := range ArchiveColumns {
		taken[strings.ToLower(name)] = true
	}
	for _, v := range v.Doc().All() {
		if v.Type != bson.TypeString {
			return nil, notA(at+".0", v, "string")
		}
		f := v.Str()
		if f == "" || strings.HasPrefix(f, ".") || strings.HasSuffix(f, ".") || strings.Contains(f, "..") || strings.ContainsAny(f, "$\x00") {
			return nil, mongoerr.New(mongoerr.BadValue, "BSON field '%s' must be paths of fields, actual value '%s'", at, f)
		}
		if taken[strings.ToLower(f)] {
			return nil, mongoerr.New(mongoerr.BadValue, "BSON field '%s' has '%s' twice, or it is a column that each object has", at, f)
		}
		taken[strings.ToLower(f)] = true
		fields = append(fields, strings.Clone(f))
	}
	if len(fields) > maxArchiveFields {
		return nil, mongoerr.New(mongoerr.BadValue, "BSON field '%s' has more than %d fields", at, maxArchiveFields)
	}
	return fields, nil
}

// checkArchive refuses an archive where documents cannot be archived: error 72.
func (o *Options) checkArchive(e Expiry) error {
	switch {
	case e.Archive == nil:
		return nil
	case o.Timeseries != nil:
		return invalidOptions("'%s.archive' is not supported on time-series collections", expiryPath)
	case e.By == ByLastWrite.String():
		return invalidOptions("'%s.archive' is not supported by last writes", expiryPath)
	}
	return nil
}
