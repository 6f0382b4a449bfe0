package cosmos

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/query/nosql"
)

// maxComputed is the service's bound on the computed properties of a container.
const maxComputed = 20

// parseComputed reads a definition's computedProperties: queries that compute one value
// of an item. (Cosmos DB: "Computed properties".) Errors: 400.
func parseComputed(v bson.Value) (nosql.Computed, error) {
	if v.IsNullish() {
		return nil, nil
	}
	bad := badRequest("The computed properties are invalid: there can be at most %d, each with a name and a query.", maxComputed)
	if v.Type != bson.TypeArray || v.Doc().Len() > maxComputed {
		return nil, bad
	}
	all := nosql.Computed{}
	for e := range v.Doc().Values() {
		if e.Type != bson.TypeDocument {
			return nil, bad
		}
		name, text := e.Doc().Lookup("name"), e.Doc().Lookup("query")
		if name.Type != bson.TypeString || text.Type != bson.TypeString || name.Str() == "id" || systemOfItem[name.Str()] || nosql.IsRenamed(name.Str()) || all[name.Str()] != nil {
			return nil, bad
		}
		q, err := nosql.Parse(text.Str(), nil, nil)
		if err != nil {
			return nil, err
		}
		s := q.Shape()
		if !s.Value || !q.NeedsItems() || s.GroupBy || s.OrderBy || s.Distinct || s.Top || s.OffsetLimit || len(s.Aggregates) > 0 {
			return nil, badRequest("The query of the computed property '%s' is invalid: it must be a SELECT VALUE of one item, without other clauses.", name.Str())
		}
		all[name.Str()] = q
	}
	return all, nil
}
