package pipeline

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// The World executes the stages below, which list the state of the whole server.

// parseListClusterCatalog checks {$listClusterCatalog: {shards, tracked,
// balancingConfiguration}}.
func parseListClusterCatalog(arg bson.Value, p *parsing) (Stage, error) {
	if !p.Collectionless {
		return nil, mongoerr.New(9621301, "The $listClusterCatalog stage must be run on a database")
	}
	if arg.Type != bson.TypeDocument {
		return nil, mongoerr.New(9621302, "The $listClusterCatalog stage specification must be an object, found %s", arg.Type)
	}
	_, err := readSpec("$listClusterCatalog", arg.Doc(), boolField("shards").notNull(), boolField("tracked").notNull(), boolField("balancingConfiguration").notNull())
	return &Server{p.name, arg}, err
}

// parseQuerySettings checks {$querySettings: {showDebugQueryShape}}.
func parseQuerySettings(arg bson.Value, p *parsing) (Stage, error) {
	if arg.Type != bson.TypeDocument {
		return nil, mongoerr.New(7746800, "$querySettings stage expects a document as argument")
	}
	if _, err := readSpec("$querySettings", arg.Doc(), boolField("showDebugQueryShape").notNull()); err != nil {
		return nil, err
	}
	if err := p.needsDatabase(""); err != nil {
		return nil, err
	}
	return &Server{p.name, arg}, nil
}

// parseListSampledQueries checks {$listSampledQueries: {namespace}}.
func parseListSampledQueries(arg bson.Value, p *parsing) (Stage, error) {
	if arg.Type != bson.TypeDocument {
		return nil, mongoerr.New(mongoerr.FailedToParse, "$listSampledQueries must take a nested object but found: %s", arg)
	}
	if err := p.needsDatabase("admin"); err != nil {
		return nil, err
	}
	_, err := readSpec("$listSampledQueries", arg.Doc(), stringField("namespace"))
	return &Server{p.name, arg}, err
}

// parseQueryStats checks {$queryStats: {transformIdentifiers}}.
func parseQueryStats(arg bson.Value, p *parsing) (Stage, error) {
	if arg.Type != bson.TypeDocument {
		return nil, mongoerr.New(mongoerr.FailedToParse, "$queryStats value must be an object. Found: %s", arg.Type)
	}
	if err := p.needsDatabase("admin"); err != nil {
		return nil, err
	}
	_, err := readSpec("$queryStats", arg.Doc(), docField("transformIdentifiers"))
	return &Server{p.name, arg}, err
}

// parseListCatalog checks {$listCatalog: {}}.
func parseListCatalog(arg bson.Value, p *parsing) (Stage, error) {
	if arg.Type != bson.TypeDocument || !arg.Doc().IsEmpty() {
		return nil, mongoerr.New(mongoerr.FailedToParse, "The $listCatalog stage specification must be an empty object")
	}
	if p.Collectionless && p.DB != "admin" {
		return nil, mongoerr.New(mongoerr.InvalidNamespace, "Collectionless $listCatalog must be run against the 'admin' database with {aggregate: 1}")
	}
	return &Server{p.name, arg}, nil
}

// needsDatabase requires {aggregate: 1}, on the database db unless that is ""; a stage
// inside a $facet is rejected for that first.
func (p *parsing) needsDatabase(db string) error {
	if p.inFacet || p.Collectionless && (db == "" || p.DB == db) {
		return nil
	}
	if db == "" {
		return mongoerr.New(mongoerr.InvalidNamespace, "%s must be run against the database with {aggregate: 1}, not a collection", p.name)
	}
	return mongoerr.New(mongoerr.InvalidNamespace, "%s must be run against the '%s' database with {aggregate: 1}", p.name, db)
}
