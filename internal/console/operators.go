package console

import (
	"net/http"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/query/expr"
	"github.com/mayflydb/mayfly/internal/query/match"
	"github.com/mayflydb/mayfly/internal/query/pipeline"
)

// operators answers with what a query can have, for editors to propose: the names of {stages,
// match, expressions, accumulators, windows}, each sorted.
func (s *Server) operators(w http.ResponseWriter, _ *http.Request, _ *session) {
	answer(w, new(bson.Builder).
		Strings("stages", pipeline.Names()...).Strings("match", match.Operators()...).Strings("expressions", expr.Operators()...).
		Strings("accumulators", expr.Accumulators()...).Strings("windows", expr.WindowFunctions()...).Finish())
}
