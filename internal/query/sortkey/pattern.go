package sortkey

import (
	"slices"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// maxParts bounds the fields of one sort (the server allows 32).
const maxParts = 32

// maxComponents bounds the components of a path.
const maxComponents = 200

// Part is one field of a sort, or a piece of metadata.
type Part struct {
	Path       string // dotted; empty for metadata
	Descending bool
	Meta       string // "textScore", "randVal", "geoNearDistance" …, or empty

	parts []string
}

// Pattern is a parsed sort. The zero Pattern sorts nothing.
type Pattern struct {
	Parts []Part
	spec  bson.Doc
}

// Spec is the specification as it was given.
func (p Pattern) Spec() bson.Doc { return p.spec }

// IsEmpty reports whether the pattern orders nothing.
func (p Pattern) IsEmpty() bool { return len(p.Parts) == 0 }

// Natural returns 1 or -1 if the pattern is {$natural: 1 or -1}, else 0.
func (p Pattern) Natural() int {
	if len(p.Parts) != 1 || p.Parts[0].Path != "$natural" {
		return 0
	}
	if p.Parts[0].Descending {
		return -1
	}
	return 1
}

// Parse reads a sort specification. Errors: 15974 for an illegal value, 15975
// for a direction other than 1 and -1, 15976 and 17312 for metadata, 16410 and
// 15998 for names.
func Parse(spec bson.Doc) (Pattern, error) {
	p := Pattern{spec: spec}
	fields := 0
	for it := spec.Iter(); it.Next(); {
		part, err := parsePart(it.Key, it.Value)
		if err != nil {
			return Pattern{}, err
		}
		if part.Meta == "" {
			if fields++; slices.ContainsFunc(p.Parts, func(o Part) bool { return o.Meta == "" && o.Path == part.Path }) {
				return Pattern{}, mongoerr.New(7472500, "$sort key must not contain duplicate keys (duplicate key: '%s')", part.Path)
			}
		}
		p.Parts = append(p.Parts, part)
	}
	if fields > maxParts {
		return Pattern{}, mongoerr.New(13103, "too many compound keys")
	}
	return p, nil
}

func parsePart(name string, v bson.Value) (Part, error) {
	part := Part{Path: name, parts: strings.Split(name, ".")}
	if v.Type == bson.TypeDocument {
		k, m := v.Doc().First()
		if k == "$meta" && v.Doc().Len() > 1 {
			return part, mongoerr.New(mongoerr.FailedToParse, "Cannot have additional keys in a $meta sort specification")
		}
		if k != "$meta" || v.Doc().Len() != 1 {
			return part, mongoerr.New(17312, "$meta is the only expression supported by $sort right now")
		}
		if m.Type != bson.TypeString {
			return part, mongoerr.New(31138, "Illegal $meta sort: %s", m)
		}
		switch m.Str() {
		case "textScore", "randVal", "geoNearDistance", "searchScore", "vectorSearchScore":
		default:
			return part, mongoerr.New(31138, "Illegal $meta sort: $meta: %s", m)
		}
		return Part{Meta: m.Str(), Descending: m.Str() != "randVal"}, nil
	}
	if !v.IsNumber() {
		return part, mongoerr.New(15974, "Illegal key in $sort specification: %s: %s", name, v)
	}
	direction := bson.ClampToInt64(v)
	if direction != 1 && direction != -1 {
		return part, mongoerr.New(15975, "$sort key ordering must be 1 (for ascending) or -1 (for descending)")
	}
	part.Descending = direction < 0
	return part, validateName(name)
}

func validateName(name string) error {
	if name == "$natural" {
		return nil
	}
	if name == "" {
		return mongoerr.New(40352, "FieldPath cannot be constructed with empty string")
	}
	if strings.Count(name, ".") >= maxComponents {
		return mongoerr.New(mongoerr.Overflow, "FieldPath is too long")
	}
	if strings.HasSuffix(name, ".") {
		return mongoerr.New(mongoerr.Code(40353), "FieldPath must not end with a '.'.")
	}
	for f := range strings.SplitSeq(name, ".") {
		if f == "" {
			return mongoerr.New(15998, "FieldPath field names may not be empty strings.")
		}
		if f[0] == '$' && f != "$id" && f != "$ref" && f != "$db" {
			return mongoerr.New(16410, "FieldPath field names may not start with '$'. Consider using $getField or $setField.")
		}
	}
	return nil
}
