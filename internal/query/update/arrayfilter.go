package update

import (
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/match"
)

// forbidden has the operators that are not allowed in array filters and in conditions
// of $pull.
const forbidden = match.AllFeatures

// matchOptions returns the options of the statement, without the forbidden operators.
func (o *Options) matchOptions() *match.Options {
	m := match.Options{Collator: o.Collator}
	if o.Match != nil {
		m = *o.Match
	}
	m.Forbid |= forbidden
	return &m
}

// arrayFilters are the filters of a statement by identifier.
type arrayFilters struct {
	byID map[string]*arrayFilter
	ids  []string // in the order of the statement
}

type arrayFilter struct {
	filter *match.Filter
	used   bool
}

// get returns the filter of an identifier; nil for $[].
func (a *arrayFilters) get(id string) *match.Filter {
	if f := a.byID[id]; f != nil {
		return f.filter
	}
	return nil
}

// use records that a path has an identifier.
func (a *arrayFilters) use(id, path string) error {
	if id == "" {
		return nil
	}
	f := a.byID[id]
	if f == nil {
		return mongoerr.New(mongoerr.BadValue, "No array filter found for identifier '%s' in path '%s'", id, path)
	}
	f.used = true
	return nil
}

func (a *arrayFilters) checkUsed(u bson.Doc) error {
	for _, id := range a.ids {
		if !a.byID[id].used {
			return mongoerr.New(mongoerr.FailedToParse, "The array filter for identifier '%s' was not used in the update %s", id, u)
		}
	}
	return nil
}

func parseArrayFilters(opts *Options) (a arrayFilters, err error) {
	if len(opts.ArrayFilters) > 0 {
		a.byID = map[string]*arrayFilter{}
	}
	for _, d := range opts.ArrayFilters {
		f, err := match.Parse(d, opts.matchOptions())
		if err != nil {
			return a, mongoerr.Prefix(err, "Error parsing array filter")
		}
		id, err := filterIdentifier(d)
		if err != nil {
			return a, mongoerr.Prefix(err, "Error parsing array filter")
		}
		if id == "" {
			return a, mongoerr.New(mongoerr.FailedToParse, "Cannot use an expression without a top-level field name in arrayFilters")
		}
		if a.byID[id] != nil {
			return a, mongoerr.New(mongoerr.FailedToParse, "Found multiple array filters with the same top-level field name %s", id)
		}
		a.byID[id] = &arrayFilter{filter: f}
		a.ids = append(a.ids, id)
	}
	return a, nil
}

// filterIdentifier returns the first name of the paths in a filter, which must all be
// the same; empty if the filter has no path.
func filterIdentifier(d bson.Doc) (string, error) {
	id := ""
	if err := addIdentifier(d, &id); err != nil {
		return "", err
	}
	for i, c := range []byte(id) {
		lower, other := c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !lower && (i == 0 || !other) {
			return "", mongoerr.New(mongoerr.BadValue,
				"The top-level field name must be an alphanumeric string beginning with a lowercase letter, found '%s'", id)
		}
	}
	return id, nil
}

func addIdentifier(d bson.Doc, id *string) error {
	for it := d.Iter(); it.Next(); {
		if strings.HasPrefix(it.Key, "$") {
			if it.Value.Type != bson.TypeArray {
				continue
			}
			for branch := range it.Value.Doc().Values() {
				if branch.Type != bson.TypeDocument {
					continue
				}
				if err := addIdentifier(branch.Doc(), id); err != nil {
					return err
				}
			}
			continue
		}
		name, _, _ := strings.Cut(it.Key, ".")
		if *id != "" && *id != name {
			return mongoerr.New(mongoerr.FailedToParse, "Expected a single top-level field name, found '%s' and '%s'", *id, name)
		}
		*id = name
	}
	return nil
}
