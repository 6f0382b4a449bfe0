package cosmos

import (
	"encoding/base64"
	"net/url"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/query/nosql"
)

// indexMetrics returns which indexes a query can use by its WHERE, its ORDER BY and the container's policy, and which it
// could use if the policy included them: JSON, as base64, or in the second version of the header with percent signs.
// (Cosmos DB: "Indexing metrics in Azure Cosmos DB".)
func (p *pager) indexMetrics() string {
	used, potential := p.singleIndexes()
	var composite []string
	if s := p.shape; len(s.OrderByPaths) > 1 {
		for i, path := range s.OrderByPaths {
			composite = append(composite, "/"+strings.ReplaceAll(path, ".", "/")+map[bool]string{false: " ASC", true: " DESC"}[s.OrderByDescending[i]])
		}
	}
	var b bson.Builder
	second := p.r.flag("X-Ms-Cosmos-Populateindexmetrics-V2")
	if second {
		for _, set := range []struct {
			name  string
			specs []string
		}{{"Utilized", used}, {"Potential", potential}} {
			b.OpenDoc(set.name).OpenArray("SingleIndexes")
			for i, spec := range set.specs {
				b.OpenDoc(bson.Index(i)).String("IndexSpec", spec).Close()
			}
			b.Close().OpenArray("CompositeIndexes")
			if set.name == "Utilized" && composite != nil {
				b.OpenDoc("0").Strings("IndexSpecs", composite...).Close()
			}
			b.Close().Close()
		}
	} else {
		for _, set := range []struct {
			name  string
			specs []string
		}{{"UtilizedSingleIndexes", used}, {"PotentialSingleIndexes", potential}} {
			b.OpenArray(set.name)
			for i, spec := range set.specs {
				b.OpenDoc(bson.Index(i)).String("FilterExpression", "").String("IndexSpec", spec).Bool("FilterPreciseSet", true).
					Bool("IndexPreciseSet", true).String("IndexImpactScore", "High").Close()
			}
			b.Close()
		}
		b.OpenArray("UtilizedCompositeIndexes")
		if composite != nil {
			b.OpenDoc("0").Strings("IndexSpecs", composite...).Bool("IndexPreciseSet", true).String("IndexImpactScore", "High").Close()
		}
		b.Close().Array("PotentialCompositeIndexes", bson.Empty)
	}
	text := nosql.AppendJSONDocument(nil, b.Finish())
	if second {
		return url.PathEscape(string(text))
	}
	return base64.StdEncoding.EncodeToString(text)
}

// singleIndexes returns the indexes on one property that the query can use, and
// those that it could use if the policy included them.
func (p *pager) singleIndexes() (used, potential []string) {
	_, paths := p.q.Filter()
	if len(p.shape.OrderByPaths) == 1 && p.shape.OrderByPaths[0] != "" {
		paths = append(paths, nosql.FilterPath{Path: p.shape.OrderByPaths[0]})
	}
	seen := map[string]bool{}
	for _, f := range paths {
		spec, has := "/"+strings.Join(f.Names(), "/")+"/?", p.c.indexing.indexes(f.Names())
		if f.Spatial {
			has = p.c.indexing.indexesShapes(f.Names())
		}
		switch {
		case seen[spec]:
		case has:
			used = append(used, spec)
		default:
			potential = append(potential, spec)
		}
		seen[spec] = true
	}
	return used, potential
}
