package match

import "github.com/mayflydb/mayfly/internal/bson"

// explain appends an array under that name: one document for each rule that v
// breaks.
func (s *schema) explain(b *bson.Builder, name string, v bson.Value) error {
	b.OpenArray(name)
	n := 0
	for _, r := range s.rules {
		if !r.applies(v.Type) {
			continue
		}
		ok, err := r.accepts(v, nil)
		if err != nil {
			return err
		}
		if ok {
			continue
		}
		b.OpenDoc(bson.Index(n)).String("operatorName", r.keyword())
		n++
		if err := r.explain(b, v); err != nil {
			return err
		}
		b.Close()
	}
	if s.types != nil && !s.types.Has(v.Type) {
		keyword, _ := s.typeRule.First()
		b.OpenDoc(bson.Index(n)).String("operatorName", keyword).Doc("specifiedAs", s.typeRule)
		b.String("reason", "type did not match").Value("consideredValue", v)
		b.String("consideredType", v.Type.String()).Close()
	}
	b.Close()
	return nil
}

// appendTexts appends the title and the description, if there are any.
func (s *schema) appendTexts(b *bson.Builder) {
	if s.title != "" {
		b.String("title", s.title)
	}
	if s.description != "" {
		b.String("description", s.description)
	}
}
