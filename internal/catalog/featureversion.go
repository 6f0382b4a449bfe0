package catalog

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/schema"
)

// The feature compatibility versions that there are. Nothing here depends on them: data
// files have a version of their own.
const (
	LatestFeatureVersion  = "8.0"
	LastLTSFeatureVersion = "7.0"
)

// Where MongoDB has the feature compatibility version, and members of a set get it from
// each other: {_id: "featureCompatibilityVersion", version: "8.0"}.
var (
	featureVersionNamespace = schema.Namespace{DB: "admin", Coll: "system.version"}
	featureVersionID        = bson.String("featureCompatibilityVersion")
)

// FeatureVersion returns the feature compatibility version: the latest one where none is
// stored, or what clients have written there cannot be.
func (c *Catalog) FeatureVersion() (version string, stored bool, err error) {
	doc, err := c.Kept(featureVersionNamespace, featureVersionID)
	if err != nil {
		return "", false, err
	}
	if v := doc.Lookup("version"); v.Type == bson.TypeString && v.Str() == LastLTSFeatureVersion {
		return LastLTSFeatureVersion, true, nil
	}
	return LatestFeatureVersion, doc != nil, nil
}

// SetFeatureVersion stores the feature compatibility version.
func (c *Catalog) SetFeatureVersion(ctx context.Context, version string) error {
	return c.Keep(ctx, featureVersionNamespace, new(bson.Builder).Value("_id", featureVersionID).String("version", version).Finish())
}
