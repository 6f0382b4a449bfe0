package pipeline

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/match"
)

// Match is {$match: filter}.
type Match struct{ Filter *match.Filter }

func parseMatch(arg bson.Value, p *parsing) (Stage, error) {
	if arg.Type != bson.TypeDocument {
		return nil, mongoerr.New(15959, "the match filter must be an expression in an object")
	}
	opts := *p.matchOptions()
	opts.Forbid |= match.FeatureNear | match.FeatureJavaScript
	f, err := match.Parse(arg.Doc(), &opts)
	if err != nil {
		return nil, err
	}
	return &Match{f}, nil
}

// Name is the stage's name.
func (m *Match) Name() string { return "$match" }

// Serialize is the filter.
func (m *Match) Serialize() bson.Value { return bson.Document(match.Serialize(m.Filter.Root())) }

// Open lets through what matches.
func (m *Match) Open(in Iterator, r *Run) (Iterator, error) {
	env := &match.Env{Expr: r.Env}
	return &mapped{in, r, func(d bson.Doc) (bson.Doc, error) {
		ok, err := m.Filter.MatchEnv(d, env)
		if err != nil || !ok {
			return nil, err
		}
		return d, nil
	}}, nil
}
