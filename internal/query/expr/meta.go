package expr

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// metaKinds are the names that $meta takes.
var metaKinds = map[string]bool{
	"textScore": true, "searchScore": true, "searchHighlights": true, "geoNearDistance": true,
	"geoNearPoint": true, "recordId": true, "randVal": true, "indexKey": true, "sortKey": true,
	"searchScoreDetails": true, "searchSequenceToken": true, "vectorSearchScore": true,
	"timeseriesBucketMinTime": true, "timeseriesBucketMaxTime": true, "score": true, "scoreDetails": true,
}

func init() { register("$meta", parseMeta) }

// meta is {$meta: kind}: what the plan knows about the document besides its
// fields.
type meta struct{ kind string }

func parseMeta(p *parser, name string, arg bson.Value) (Expr, error) {
	if arg.Type != bson.TypeString {
		return nil, mongoerr.New(mongoerr.Code(17307), "$meta only supports string arguments")
	}
	if !metaKinds[arg.Str()] {
		return nil, mongoerr.New(mongoerr.Code(17308), "Unsupported argument to $meta: %s", arg.Str())
	}
	return &meta{arg.Str()}, nil
}

func (m *meta) Eval(env *Env) (bson.Value, error) {
	if env.Meta == nil {
		return bson.Value{}, nil
	}
	return env.Meta(m.kind), nil
}

func (m *meta) walk(func(*Expr))          {}
func (m *meta) reduce(*Env) (Expr, error) { return m, nil }
func (m *meta) serialize() bson.Value     { return wrap("$meta", bson.String(m.kind)) }
