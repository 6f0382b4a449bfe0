package exec

import (
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/pipeline"
)

// searchByDistance puts the $geoNear that a pipeline begins with into the
// query. Errors: 26 where there is no collection, 27 where it is not clear
// which index is meant, and those of the stage's arguments.
func searchByDistance(c *catalog.Collection, q *Query, p *pipeline.Pipeline) error {
	stage := p.First()
	if stage == nil {
		return nil
	}
	if c == nil {
		return mongoerr.New(mongoerr.NamespaceNotFound, "$geoNear requires an existing collection with a geospatial index")
	}
	key := stage.Key
	if key == "" {
		var err error
		if key, err = onlyGeoPath(c); err != nil {
			return err
		}
	}
	f, err := stage.Query(key, q.Env)
	if err != nil {
		return err
	}
	q.Filter = f
	return nil
}

// onlyGeoPath is the path of the only 2d index, or else of the only 2dsphere
// index: error 27.
func onlyGeoPath(c *catalog.Collection) (string, error) {
	for _, plugin := range []string{"2d", "2dsphere"} {
		found := ""
		for _, ix := range c.Indexes() {
			if ix.Plugin != plugin || !ix.Ready || ix.Hidden {
				continue
			}
			if found != "" {
				return "", mongoerr.New(mongoerr.IndexNotFound, "There is more than one %s index on %s; unsure which to use for $geoNear", plugin, c.Namespace)
			}
			for _, part := range ix.Parts {
				if part.Plugin == plugin {
					found = part.Path
					break
				}
			}
		}
		if found != "" {
			return found, nil
		}
	}
	return "", mongoerr.New(mongoerr.IndexNotFound, "$geoNear requires a 2d or 2dsphere index, but none were found")
}
