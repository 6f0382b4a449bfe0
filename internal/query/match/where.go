package match

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// parseWhere answers as a server does that was started with JavaScript
// disabled.
func parseWhere(p *parser, name string, v bson.Value, at level) (Node, error) {
	if err := p.topLevelOnly(name, FeatureJavaScript, at); err != nil {
		return nil, err
	}
	switch v.Type {
	case bson.TypeString, bson.TypeCode:
		return nil, mongoerr.New(mongoerr.Code(6108304), "no globalScriptEngine in $where parsing")
	}
	return nil, badValue("$where got bad type")
}
