package pipeline

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/match"
)

// Archive is {$archive: {query: {…}, of: "collection" | "all", objects: […]}}: the documents of the
// collection that were archived, as they were when they were removed. The World reads them.
type Archive struct {
	Query  bson.Doc
	Filter *match.Filter // of Query
	All    bool          // of all collections that had the name
	// Objects are the _ids of the rows of the objects that are read; nil for all.
	Objects map[string]bool

	arg bson.Value
}

func parseArchive(arg bson.Value, p *parsing) (Stage, error) {
	if _, err := parseServer(arg, p); err != nil {
		return nil, err
	}
	a := &Archive{Query: bson.Empty, arg: arg}
	for name, v := range arg.Doc().All() {
		switch name {
		case "query":
			if v.Type != bson.TypeDocument {
				return nil, mongoerr.New(mongoerr.TypeMismatch, "BSON field '$archive.query' is the wrong type '%s', expected type 'object'", v.Type)
			}
			a.Query = v.Doc()
		case "of":
			if v.Type != bson.TypeString {
				return nil, mongoerr.New(mongoerr.TypeMismatch, "BSON field '$archive.of' is the wrong type '%s', expected type 'string'", v.Type)
			}
			if a.All = v.Str() == "all"; !a.All && v.Str() != "collection" {
				return nil, mongoerr.New(mongoerr.BadValue, "Enumeration value '%s' for field '$archive.of' is not a valid value.", v.Str())
			}
		case "objects":
			if err := a.parseObjects(v); err != nil {
				return nil, err
			}
		default:
			return nil, mongoerr.New(mongoerr.Code(40415), "BSON field '$archive.%s' is an unknown field.", name)
		}
	}
	// What needs an index, sorts, or runs scripts is not for objects.
	opts := *p.matchOptions()
	opts.Forbid |= match.FeatureText | match.FeatureNear | match.FeatureJavaScript
	var err error
	a.Filter, err = match.Parse(a.Query, &opts)
	return a, err
}

func (a *Archive) parseObjects(v bson.Value) error {
	if v.Type != bson.TypeArray {
		return mongoerr.New(mongoerr.TypeMismatch, "BSON field '$archive.objects' is the wrong type '%s', expected type 'array'", v.Type)
	}
	a.Objects = map[string]bool{}
	for v := range v.Doc().Values() {
		if v.Type != bson.TypeString {
			return mongoerr.New(mongoerr.TypeMismatch, "BSON field '$archive.objects.0' is the wrong type '%s', expected type 'string'", v.Type)
		}
		a.Objects[v.Str()] = true
	}
	return nil
}

// ArchiveStats is what was read of archives.
type ArchiveStats struct{ Objects, RowGroups, Bytes int64 }

// Archived is what the stage has read of archives, nil for all but $archive.
func (s *StageStats) Archived() *ArchiveStats {
	if r, ok := s.it.(interface{ ArchiveStats() *ArchiveStats }); ok {
		return r.ArchiveStats()
	}
	return nil
}

func (a *Archive) source() {}

// Name is the stage's name.
func (a *Archive) Name() string { return "$archive" }

// Serialize is the argument.
func (a *Archive) Serialize() bson.Value { return a.arg }

// Open asks the World.
func (a *Archive) Open(_ Iterator, r *Run) (Iterator, error) {
	return r.World.Archived(context.Background(), a, r)
}
