package pipeline

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// Search is a stage of Atlas Search. A server without a search process answers
// it with an error.
type Search struct {
	name string
	arg  bson.Value
}

func parseSearch(arg bson.Value, p *parsing) (Stage, error) {
	if arg.Type != bson.TypeDocument {
		return nil, mongoerr.New(mongoerr.FailedToParse, "The %s stage specification must be an object, found %s", p.name, arg.Type)
	}
	return &Search{p.name, arg}, nil
}

func (s *Search) source() {}

// Name is the stage's name.
func (s *Search) Name() string { return s.name }

// Serialize is the argument.
func (s *Search) Serialize() bson.Value { return s.arg }

// Open fails with SearchNotEnabled.
func (s *Search) Open(Iterator, *Run) (Iterator, error) {
	if s.name == "$listSearchIndexes" {
		return nil, NoSearchIndexes()
	}
	return nil, mongoerr.New(mongoerr.SearchNotEnabled, "Using $search and $vectorSearch aggregation stages requires additional configuration. "+
		"Please connect to Atlas or an AtlasCLI local deployment to enable. For more information on how to connect, see "+
		"https://dochub.mongodb.org/core/atlas-cli-deploy-local-reqs.")
}

// NoSearchIndexes is the error of the commands and the stage about search
// indexes, where no search process is configured.
func NoSearchIndexes() error {
	return mongoerr.New(mongoerr.SearchNotEnabled, "Using Atlas Search Database Commands and the $listSearchIndexes aggregation stage requires additional configuration. "+
		"Please connect to Atlas or an AtlasCLI local deployment to enable. For more information on how to connect, see "+
		"https://dochub.mongodb.org/core/atlas-cli-deploy-local-reqs.")
}
