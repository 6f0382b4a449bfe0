package pipeline

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// parseFill makes {$fill: {partitionBy, partitionByFields, sortBy, output}} the
// $setWindowFields for the methods and the $addFields for the values that it
// stands for.
func parseFill(arg bson.Value, p *parsing) (Stage, error) {
	if arg.Type != bson.TypeDocument {
		return nil, mongoerr.New(mongoerr.FailedToParse, "The $fill stage specification must be an object, found %s", arg.Type)
	}
	v, err := readSpec("$fill", arg.Doc(), field{name: "partitionBy", types: []bson.Type{bson.TypeString, bson.TypeDocument}},
		arrayField("partitionByFields"), docField("sortBy"), docField("output").must())
	if err != nil {
		return nil, err
	}
	if !v[0].IsMissing() && !v[1].IsMissing() {
		return nil, mongoerr.New(6050204, "Maximum one of 'partitionBy' and 'partitionByFields can be specified in '$fill'")
	}
	windows, values, err := fillOutputs(v[3].Doc(), !v[2].IsMissing())
	if err != nil {
		return nil, err
	}
	s := &sequence{name: "$fill", arg: arg}
	add := func(name string, spec bson.Doc) error {
		stage, err := parseStage(new(bson.Builder).Doc(name, spec).Finish(), p.index, p.Options)
		s.stages = append(s.stages, stage)
		return err
	}
	if !windows.IsEmpty() {
		partition, err := fillPartition(v[0], v[1])
		if err != nil {
			return nil, err
		}
		spec := new(bson.Builder).Value("partitionBy", partition).Value("sortBy", v[2]).Doc("output", windows).Finish()
		if err := add("$setWindowFields", spec); err != nil {
			return nil, err
		}
	}
	if !values.IsEmpty() {
		return s, add("$addFields", values)
	}
	return s, nil
}

// fillPartition is the partitionBy of the $setWindowFields.
func fillPartition(by, fields bson.Value) (bson.Value, error) {
	if fields.IsMissing() {
		return by, nil
	}
	var b bson.Builder
	for e := range fields.Doc().Values() {
		if e.Type != bson.TypeString {
			return by, wrongType("$fill.partitionByFields", e, []bson.Type{bson.TypeString})
		}
		if e.Str() != "" && e.Str()[0] == '$' {
			return by, mongoerr.New(6050205, "Field path '%s' in 'partitionByFields' may not start with '$'", e.Str())
		}
		b.String(e.Str(), "$"+e.Str())
	}
	return bson.Document(b.Finish()), nil
}

// fillOutputs takes the outputs apart into those of $setWindowFields and those
// of $addFields.
func fillOutputs(output bson.Doc, sorted bool) (windows, values bson.Doc, err error) {
	if output.IsEmpty() {
		return nil, nil, mongoerr.New(6050203, "'output' must have at least one field")
	}
	var w, a bson.Builder
	for it := output.Iter(); it.Next(); {
		if it.Value.Type != bson.TypeDocument {
			return nil, nil, mongoerr.New(6050200, "Each fill output specification must be an object, found %s", it.Value.Type)
		}
		if it.Value.Doc().Len() != 1 {
			return nil, nil, mongoerr.New(6050201, "Each fill output specification must have exactly one field, 'method' or 'value'")
		}
		name, v := it.Value.Doc().First()
		path := "$" + it.Key
		switch {
		case name == "value":
			a.OpenDoc(it.Key).OpenArray("$ifNull").String("0", path).Value("1", v).Close().Close()
		case name != "method":
			return nil, nil, mongoerr.New(40415, "BSON field '$fill.output.%s' is an unknown field.", name)
		case v.Type != bson.TypeString:
			return nil, nil, mongoerr.New(6050202, "The 'method' of a fill output must be a string, found %s", v.Type)
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
