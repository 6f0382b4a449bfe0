package pipeline

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/project"
)

// parseFill converts {$fill: {partitionBy, partitionByFields, sortBy, output}} to a
// $setWindowFields for the methods and an $addFields for the values.
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
	windows, values, err := project.FillOutputs(v[3].Doc(), !v[2].IsMissing())
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
