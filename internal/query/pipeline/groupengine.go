package pipeline

import "github.com/mayflydb/mayfly/internal/bson"

// engine is the engine in which MongoDB would run a $group: the slot-based engine if
// only stages that a query could execute precede it, else the classic one. The codes of
// some errors depend on it, and the results, if a stage of the other engine follows.
type engine struct {
	query     bool // it runs in that engine
	handsOver bool // a stage of the other one follows
}

// markGroups marks the groups that run in the query engine.
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

// ofQuery reports whether a query could execute s.
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

// result returns v for the next stage. Between the engines MinKey and MaxKey are
// wrapped in a document, under an empty name.
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

// id returns the _id v for the next stage. Between the engines code becomes a string.
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
