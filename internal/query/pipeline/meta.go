package pipeline

import (
	"context"
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/expr"
	"github.com/mayflydb/mayfly/internal/query/match"
)

// checkMeta rejects the metadata of a text search or of a ranking if there is none:
// error 40218. has is what there is of the documents below.
func (p *Pipeline) checkMeta(has []string) error {
	var sort *Sort // the last one before the stage
	for i, s := range p.Stages {
		switch s := s.(type) {
		case *RankFusion:
			has = []string{"score", "textScore"}
			if s.details {
				has = append(has, "scoreDetails")
			}
		case *Match:
			if i > 0 && match.TextIn(s.Filter.Root()) != nil {
				return mongoerr.New(17313, "$match with $text is only allowed as the first pipeline stage")
			}
			if i == 0 && match.TextIn(s.Filter.Root()) != nil {
				has = []string{"textScore", "score"}
			}
		case *GeoNear:
			has = []string{"geoNearDistance", "geoNearPoint"}
		case *Search, *Server:
			return nil
		}
		for _, name := range metaOf(s) {
			if name == "sortKey" && sort != nil {
				sort.keyed = true
			}
			if checkedMeta[name] && !slices.Contains(has, name) {
				return mongoerr.New(40218, "query requires %s metadata, but it is not available", metaTitle(name))
			}
		}
		if s, ok := s.(*Sort); ok {
			sort = s
		}
	}
	return nil
}

// checkedMeta is the metadata that only some stages bring.
var checkedMeta = map[string]bool{"textScore": true, "scoreDetails": true, "score": true, "geoNearDistance": true, "geoNearPoint": true}

func metaTitle(name string) string {
	switch name {
	case "textScore":
		return "text score"
	case "geoNearDistance":
		return "$geoNear distance"
	case "geoNearPoint":
		return "$geoNear point"
	}
	return name
}

// metaOf lists the metadata that a stage reads.
func metaOf(s Stage) []string {
	var d expr.Deps
	switch s := s.(type) {
	case *Shape:
		return s.Spec.Meta()
	case *Group:
		d.Add(s.ID)
		for _, f := range s.Fields {
			for _, e := range f.Spec.Exprs() {
				d.Add(e)
			}
		}
	case *Sort:
		for _, part := range s.Pattern.Parts {
			if part.Meta != "" {
				d.Meta = append(d.Meta, part.Meta)
			}
		}
	}
	return d.Meta
}

// Meta lists the metadata of the query below that stages of the pipeline read,
// each once.
func (p *Pipeline) Meta() []string {
	var d expr.Deps
	for _, s := range p.Stages {
		exprsOf(s, &d)
	}
	slices.Sort(d.Meta)
	return slices.Compact(d.Meta)
}

// Describe hands the documents of in on with the metadata called names, which
// known tells of the document that in has just delivered. From here on it goes
// with the documents, also through stages that hold them back.
func (r *Run) Describe(in Iterator, names []string, known func(name string) bson.Value) Iterator {
	r.Env.Meta = r.meta
	return &described{in: in, r: r, names: names, known: known}
}

type described struct {
	in    Iterator
	r     *Run
	names []string
	known func(string) bson.Value
}

func (m *described) Close() { m.in.Close() }

func (m *described) Next(ctx context.Context) (bson.Doc, error) {
	d, err := m.in.Next(ctx)
	if err != nil || d == nil {
		return nil, err
	}
	var b bson.Builder
	for _, name := range m.names {
		if v := m.known(name); !v.IsMissing() {
			b.Value(name, v)
		}
	}
	m.r.Meta = nil
	if about := b.Finish(); !about.IsEmpty() {
		m.r.Meta = about
	}
	return d, nil
}
