package pipeline

import (
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// place says at which positions a stage is allowed. The zero place is everywhere.
type place struct {
	first, last bool
	// noFacet, noLookup and noUnion keep a stage out of the pipelines inside
	// $facet, $lookup and $unionWith.
	noFacet, noLookup, noUnion bool
}

// places has the stages that are not allowed everywhere.
var places = map[string]place{
	"$out":                         {last: true, noFacet: true, noLookup: true, noUnion: true},
	"$merge":                       {last: true, noFacet: true, noLookup: true, noUnion: true},
	"$facet":                       {noFacet: true},
	"$geoNear":                     {noFacet: true},
	"$collStats":                   {first: true, noFacet: true},
	"$indexStats":                  {first: true, noFacet: true},
	"$expiryStats":                 {first: true, noFacet: true},
	"$archive":                     {first: true, noFacet: true},
	"$planCacheStats":              {first: true, noFacet: true},
	"$documents":                   {first: true, noFacet: true},
	"$currentOp":                   {first: true, noFacet: true},
	"$listSessions":                {first: true, noFacet: true},
	"$listLocalSessions":           {first: true, noFacet: true},
	"$listSampledQueries":          {first: true, noFacet: true},
	"$listCatalog":                 {first: true, noFacet: true},
	"$listClusterCatalog":          {first: true, noFacet: true},
	"$listSearchIndexes":           {first: true, noFacet: true},
	"$querySettings":               {first: true, noFacet: true},
	"$queryStats":                  {first: true, noFacet: true},
	"$search":                      {first: true, noFacet: true},
	"$searchBeta":                  {first: true, noFacet: true},
	"$searchMeta":                  {first: true, noFacet: true},
	"$vectorSearch":                {first: true, noFacet: true, noLookup: true},
	"$changeStream":                {first: true, noFacet: true, noLookup: true, noUnion: true},
	"$changeStreamSplitLargeEvent": {last: true, noFacet: true, noLookup: true, noUnion: true},
}

// checkPlaces checks that every stage is at an allowed position. Errors: 40600,
// 51047 and 31441 for stages inside others, 40602 and 40601 for those that must
// come first or last.
func (p *Pipeline) checkPlaces(opts *Options) error {
	for i, s := range p.Stages {
		at := places[s.Name()]
		switch {
		case at.noLookup && opts.inside == "$lookup":
			return mongoerr.New(51047, "%s is not allowed within a $lookup's sub-pipeline", s.Name())
		case at.noUnion && opts.inside == "$unionWith":
			return mongoerr.New(31441, "%s is not allowed within a $unionWith's sub-pipeline", s.Name())
		case at.noFacet && opts.inFacet:
			return mongoerr.New(40600, "%s is not allowed to be used within a $facet stage", s.Name())
		case at.first && i > 0:
			return mongoerr.New(40602, "%s is only valid as the first stage in a pipeline", s.Name())
		case at.last && i < len(p.Stages)-1:
			return mongoerr.New(40601, "%s can only be the final stage in the pipeline", s.Name())
		}
	}
	return nil
}
