package pipeline

import "github.com/mayflydb/mayfly/internal/bson"

// engine is what a $group takes over from the engine that MongoDB runs it in:
// not the one of the stages, but the one of queries, where it follows nothing
// but what a query could do. The codes of some errors show that, and the
// results, where a stage of the other engine takes them on.
type engine struct {
	query     bool // it runs in that engine
	handsOver bool // a stage of the other one follows
}

// markGroups finds the groups that run in the engine of queries.
func markGroups(stages []Stage) {
	for i, s := range stages {
		if ofQuery(s) {
			continue
		}
		g := groupOf(s)
		if g == nil {
			return
		}
		g.engine.query = true
		if i+1 < len(stages) {
			next := stages[i+1]
			_, bucket := s.(*sequence)
			g.engine.handsOver = bucket && g.engine.handsOver || !ofQuery(next) && groupOf(next) == nil
		}
	}
}

// ofQuery reports whether a query could do s.
func ofQuery(s Stage) bool {
	switch s.(type) {
	case *Match, *Sort, *Skip, *Limit:
		return true
	}
	return false
}

// groupOf is the group that s is or starts with.
func groupOf(s Stage) *Group {
	switch s := s.(type) {
	case *Group:
		return s
	case *sequence:
		return groupOf(s.stages[0])
	}
	return nil
}

// result is v as the next stage sees it. Handed over, MinKey and MaxKey stand
// in a document, under no name.
func (e engine) result(v bson.Value) bson.Value {
	if !e.handsOver {
		return v
	}
	if v.Type == bson.TypeArray {
		for it := v.Doc().Iter(); it.Next(); {
			if isEnd(it.Value) {
				return e.elements(v.Doc())
			}
		}
	}
	return handOver(v)
}

// id is the _id v as the next stage sees it. Handed over, code is a string.
func (e engine) id(v bson.Value) bson.Value {
	if e.handsOver && v.Type == bson.TypeCode {
		return bson.Value{Type: bson.TypeString, Data: v.Data}
	}
	return e.result(v)
}

func (e engine) elements(array bson.Doc) bson.Value {
	var vs []bson.Value
	for v := range array.Values() {
		vs = append(vs, handOver(v))
	}
	return bson.Array(vs...)
}

func isEnd(v bson.Value) bool { return v.Type == bson.TypeMinKey || v.Type == bson.TypeMaxKey }

func handOver(v bson.Value) bson.Value {
	if isEnd(v) {
		return bson.Document(new(bson.Builder).Value("", v).Finish())
	}
	return v
}
