package pipeline

import (
	"slices"

	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/expr"
	"github.com/mayflydb/mayfly/internal/query/match"
)

// checkMeta refuses the metadata of a text search or of a ranking where there
// is none: error 40218.
func (p *Pipeline) checkMeta() error {
	var has []string
	for i, s := range p.Stages {
		switch s := s.(type) {
		case *RankFusion:
			has = []string{"score", "textScore"}
			if s.details {
				has = append(has, "scoreDetails")
			}
		case *Match:
			if i > 0 && hasText(s.Filter.Root()) {
				return mongoerr.New(17313, "$match with $text is only allowed as the first pipeline stage")
			}
			if i == 0 && hasText(s.Filter.Root()) {
				has = []string{"textScore", "score"}
			}
		case *GeoNear:
			has = []string{"geoNearDistance", "geoNearPoint"}
		case *Search, *Server:
			return nil
		}
		for _, name := range metaOf(s) {
			if checkedMeta[name] && !slices.Contains(has, name) {
				return mongoerr.New(40218, "query requires %s metadata, but it is not available", metaTitle(name))
			}
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

func hasText(n match.Node) bool {
	for _, c := range match.Conjuncts(n) {
		if _, ok := c.(*match.Text); ok {
			return true
		}
	}
	return false
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
