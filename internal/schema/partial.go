package schema

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/query/match"
)

func partialOptions(coll bson.Collator) *match.Options {
	return &match.Options{
		Collator: coll,
		Forbid:   match.AllFeatures,
	}
}

// validatePartial checks that a filter uses only what the filter of a partial
// index may: error 67.
func validatePartial(n match.Node) error {
	switch n := n.(type) {
	case *match.And:
		return validatePartials(n.Children)
	case *match.Or:
		return validatePartials(n.Children)
	case *match.Compare, *match.In, *match.Exists, *match.Type, *match.GeoWithin:
		return nil
	}
	return cannotCreate("Expression not supported in partial index: %s", match.Serialize(n))
}

func validatePartials(ns []match.Node) error {
	for _, n := range ns {
		if err := validatePartial(n); err != nil {
			return err
		}
	}
	return nil
}
