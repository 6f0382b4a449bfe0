package project

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// FillOutputs takes the outputs of a $fill apart into those of the
// $setWindowFields and those of the $addFields that it stands for. sorted says
// that it has a sortBy. (Manual: $fill.)
func FillOutputs(output bson.Doc, sorted bool) (windows, values bson.Doc, err error) {
	if output.IsEmpty() {
		return nil, nil, mongoerr.New(6050203, "'output' must have at least one field")
	}
	var w, a bson.Builder
	for it := output.Iter(); it.Next(); {
		if it.Value.Type != bson.TypeDocument {
			return nil, nil, mongoerr.New(6050200, "Each fill output specification must be an object, found %s", it.Value.Type)
		}
		for f := it.Value.Doc().Iter(); f.Next(); {
			if f.Key != "method" && f.Key != "value" {
				return nil, nil, mongoerr.New(40415, "BSON field '$fill.output.%s' is an unknown field.", f.Key)
			}
		}
		if it.Value.Doc().Len() != 1 {
			return nil, nil, mongoerr.New(6050201, "Each fill output specification must have exactly one field, 'method' or 'value'")
		}
		name, v := it.Value.Doc().First()
		path := "$" + it.Key
		switch {
		case name == "value":
			a.OpenDoc(it.Key).OpenArray("$ifNull").String("0", path).Value("1", v).Close().Close()
		case v.Type != bson.TypeString:
			return nil, nil, mongoerr.New(mongoerr.TypeMismatch, "BSON field '$fill.output.method' is the wrong type '%s', expected type 'string'", v.Type)
		case v.Str() == "locf":
			w.OpenDoc(it.Key).String("$locf", path).Close()
		case v.Str() == "linear":
			if !sorted {
				return nil, nil, mongoerr.New(605001, "$linearFill must be specified with a top level sortBy expression with exactly one element")
			}
			w.OpenDoc(it.Key).String("$linearFill", path).Close()
		default:
			return nil, nil, mongoerr.New(6050202, "Method must be either 'locf' or 'linear'")
		}
	}
	return w.Finish(), a.Finish(), nil
}
