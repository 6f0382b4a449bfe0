package pipeline

import (
	"context"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// maxNamespace bounds the full name of a collection, in bytes.
const maxNamespace = 255

// Out is {$out: {db, coll, timeseries}}.
type Out struct {
	Into Namespace
	// Timeseries are the options of the time-series collection to make, Missing
	// if it is an ordinary one.
	Timeseries bson.Value
}

func parseOut(arg bson.Value, p *parsing) (Stage, error) {
	o := &Out{Into: Namespace{DB: p.DB}}
	switch arg.Type {
	case bson.TypeString:
		o.Into.Coll = arg.Str()
	case bson.TypeDocument:
		v, err := readSpec("$out", arg.Doc(), stringField("coll").must(), stringField("db").must(), docField("timeseries"))
		if err != nil {
			return nil, err
		}
		o.Into = Namespace{v[1].Str(), v[0].Str()}
		if o.Timeseries = v[2]; !v[2].IsMissing() {
			if err := checkTimeseries(v[2].Doc()); err != nil {
				return nil, err
			}
		}
	default:
		return nil, mongoerr.New(16990, "$out only supports a string or object argument, but found %s", arg.Type)
	}
	if err := checkTarget(o.Into); err != nil {
		return nil, err
	}
	switch {
	case strings.HasPrefix(o.Into.Coll, "system."):
		return nil, mongoerr.New(17385, "Can't $out to special collection: %s", o.Into.Coll)
	case o.Into.DB == "admin" || o.Into.DB == "config" || o.Into.DB == "local":
		return nil, mongoerr.New(31321, "Can't $out to internal database: %s", o.Into.DB)
	}
	return o, nil
}

// checkTimeseries checks the form of the options; their sense is checked where
// the collection is made.
func checkTimeseries(d bson.Doc) error {
	v, err := readSpec("$out.timeseries", d, stringField("timeField").must(), stringField("metaField"), stringField("granularity"),
		field{name: "bucketMaxSpanSeconds", types: numberTypes}, field{name: "bucketRoundingSeconds", types: numberTypes})
	if err != nil {
		return err
	}
	switch g := v[2]; {
	case g.IsMissing(), g.Str() == "seconds", g.Str() == "minutes", g.Str() == "hours":
	default:
		return mongoerr.New(mongoerr.BadValue, "Enumeration value '%s' for field '$out.timeseries.granularity' is not a valid value.", g.Str())
	}
	return nil
}

// Check reports whether a collection of that name may be made: error 20.
func (o *Out) Check() error {
	if strings.IndexByte(o.Into.Coll, '$') >= 0 || len(o.Into.String()) > maxNamespace {
		return mongoerr.New(mongoerr.IllegalOperation, "error with target namespace: Invalid collection name: %s", o.Into.Coll)
	}
	return nil
}

// Name is the stage's name.
func (o *Out) Name() string { return "$out" }

// Serialize is the specification in full.
func (o *Out) Serialize() bson.Value {
	return bson.Document(new(bson.Builder).String("coll", o.Into.Coll).String("db", o.Into.DB).Value("timeseries", o.Timeseries).Finish())
}

// Open writes all documents before it delivers none.
func (o *Out) Open(in Iterator, r *Run) (Iterator, error) {
	return &writing{in: in, r: r, open: func(ctx context.Context) (Target, error) { return r.World.Out(ctx, o, r) }}, nil
}
