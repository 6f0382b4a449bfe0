package node

import (
	"slices"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/exec"
	"github.com/mayflydb/mayfly/internal/query/match"
	"github.com/mayflydb/mayfly/internal/query/update"
	"github.com/mayflydb/mayfly/internal/schema"
)

// checkTimeseriesUpdate checks what an update of a time-series collection may be:
// a multi-update of the metaField by a condition on the metaField. (Manual: "Time
// Series Collection Limitations", updates.) Errors: 72.
func checkTimeseriesUpdate(c *catalog.Collection, u *exec.Update, modification bson.Value) error {
	if c == nil || !c.IsTimeseries() {
		return nil
	}
	o := c.Settings.Timeseries
	switch {
	case u.Upsert:
		return mongoerr.New(mongoerr.InvalidOptions, "Cannot perform an upsert on a time-series collection")
	case !u.Multi:
		return mongoerr.New(mongoerr.InvalidOptions, "Cannot perform a non-multi update on a time-series collection")
	case u.Update.Kind() == update.Pipeline:
		return mongoerr.New(mongoerr.InvalidOptions, "Cannot perform an update on a time-series collection using a pipeline update")
	case o.MetaField == "":
		return mongoerr.New(mongoerr.InvalidOptions, "Cannot perform an update on a time-series collection that does not have a metaField")
	case !onlyMeta(u.Query.Filter, o):
		return mongoerr.New(mongoerr.InvalidOptions,
			"Cannot perform an update on a time-series collection when querying on a field that is not the metaField '%s'", o.MetaField)
	}
	return modifiesOnlyMeta(modification.Doc(), o)
}

// onlyMeta reports whether a filter uses only the metaField.
func onlyMeta(f *match.Filter, o *schema.Timeseries) bool {
	for _, n := range match.Conjuncts(f.Root()) {
		if s, ok := n.(*match.JSONSchema); ok {
			if !schemaOnMeta(s.Schema, o) {
				return false
			}
			continue
		}
		d := match.DependsOn(n)
		if d.Whole || slices.ContainsFunc(d.Paths, func(p string) bool { return !o.IsMeta(p) }) {
			return false
		}
	}
	return true
}

// schemaOnMeta reports whether a $jsonSchema requires and describes only the
// metaField.
func schemaOnMeta(s bson.Doc, o *schema.Timeseries) bool {
	for keyword, v := range s.All() {
		switch keyword {
		case "required":
			for name := range v.Doc().Values() {
				if name.Str() != o.MetaField {
					return false
				}
			}
		case "properties":
			for name := range v.Doc().All() {
				if name != o.MetaField {
					return false
				}
			}
		case "allOf", "anyOf", "oneOf":
			for one := range v.Doc().Values() {
				if !schemaOnMeta(one.Doc(), o) {
					return false
				}
			}
		case "not":
			if !schemaOnMeta(v.Doc(), o) {
				return false
			}
		case "title", "description", "bsonType", "type":
		default:
			return false
		}
	}
	return true
}

// modifiesOnlyMeta refuses operators on fields other than the metaField.
func modifiesOnlyMeta(modification bson.Doc, o *schema.Timeseries) error {
	refuse := mongoerr.New(mongoerr.InvalidOptions,
		"Cannot perform an update on a time-series collection which updates a field that is not the metaField '%s'", o.MetaField)
	for operator, arg := range modification.All() {
		if !strings.HasPrefix(operator, "$") || arg.Type != bson.TypeDocument {
			return refuse
		}
		for path, v := range arg.Doc().All() {
			switch {
			case !o.IsMeta(path):
				return refuse
			case operator != "$rename":
			case path == o.MetaField, v.Type == bson.TypeString && !o.IsMeta(v.Str()):
				return mongoerr.New(mongoerr.InvalidOptions, "Cannot perform a rename of the metaField '%s' on a time-series collection", o.MetaField)
			}
		}
	}
	return nil
}

// checkTimeseriesModify refuses a findAndModify that updates a time-series
// collection: error 72.
func checkTimeseriesModify(c *catalog.Collection, remove bool) error {
	if c == nil || !c.IsTimeseries() || remove {
		return nil
	}
	return mongoerr.New(mongoerr.InvalidOptions, "Cannot perform a non-multi update on a time-series collection")
}
