package node

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/process"
)

// maxDescriptor is the longest automationServiceDescriptor, in bytes.
const maxDescriptor = 64

// planParameters are the parameters that explain shows, in its order: here they
// are fixed limits.
var planParameters = []struct {
	name  string
	value bson.Value
}{
	{"internalQueryFacetBufferSizeBytes", bson.Int32(100 << 20)},
	{"internalQueryFacetMaxOutputDocSizeBytes", bson.Int32(100 << 20)},
	{"internalLookupStageIntermediateDocumentMaxSizeBytes", bson.Int32(100 << 20)},
	{"internalDocumentSourceGroupMaxMemoryBytes", bson.Int32(100 << 20)},
	{"internalQueryMaxBlockingSortMemoryUsageBytes", bson.Int32(100 << 20)},
	{"internalQueryProhibitBlockingMergeOnMongoS", bson.Int32(0)},
	{"internalQueryMaxAddToSetBytes", bson.Int32(100 << 20)},
	{"internalDocumentSourceSetWindowFieldsMaxMemoryBytes", bson.Int32(100 << 20)},
	{"internalQueryFrameworkControl", bson.String("forceClassicEngine")},
	{"internalQueryPlannerIgnoreIndexWithCollationForRegex", bson.Int32(1)},
}

// registerParameters adds the parameters that this package only shows or
// stores.
func (n *Node) registerParameters(p *command.Params) {
	p.Fixed("featureCompatibilityVersion", false, n.featureVersionParameter)
	process.RegisterParameters(p)
	process.RegisterTestCommands(n.Dispatcher)
	for _, q := range planParameters {
		p.Fixed(q.name, true, func() bson.Value { return q.value })
	}
	p.String(command.StringSpec{Name: "automationServiceDescriptor", Valid: func(s string) error {
		if len(s) > maxDescriptor {
			return mongoerr.New(mongoerr.Overflow, "Value for parameter automationServiceDescriptor must be no more than %d bytes", maxDescriptor)
		}
		return nil
	}})
}
