package nosql

import "github.com/mayflydb/mayfly/internal/bson"

// aggregate is COUNT and its like in a SELECT list: its value is that of the
// group whose row is made.
type aggregate struct {
	name  string
	arg   expression
	index int
}

func (e *aggregate) eval(env *env) (bson.Value, error) {
	if e.index >= len(env.totals) {
		return bson.Value{}, nil
	}
	t := env.totals[e.index]
	if err := env.makes(room(t.list)); err != nil {
		return bson.Value{}, err
	}
	return aggregates[e.name](t), nil
}

// total is what an aggregate has seen in one group.
type total struct {
	count   int64   // defined values
	trues   int64   // of COUNTIF
	sum     float64 // of numbers
	numbers int64
	other   bool // a defined value that is no number
	complex bool // an array or an object
	least   bson.Value
	most    bson.Value

	list []bson.Value // of MAKELIST and MAKESET
	seen map[string]bool
}

// collect takes the value of MAKELIST, or of MAKESET, which has each value
// once. It returns the bytes that it keeps.
func (t *total) collect(v bson.Value, once bool) int {
	if v.IsMissing() {
		return 0
	}
	if once {
		id := string(identity(nil, v))
		if t.seen[id] {
			return 0
		}
		if t.seen == nil {
			t.seen = map[string]bool{}
		}
		t.seen[id] = true
	}
	t.list = append(t.list, v.Clone())
	return len(v.Data) + 48
}

// add takes the value of any other aggregate. It returns the bytes by which what it keeps
// grows.
func (t *total) add(v bson.Value) (grows int) {
	if v.IsMissing() {
		return 0
	}
	t.count++
	if isTrue(v) {
		t.trues++
	}
	if v.IsNumber() {
		t.sum += bson.ToDouble(v)
		t.numbers++
	} else {
		t.other = true
	}
	if typeRank(v) > typeRank(text("")) {
		t.complex = true
		return 0
	}
	kept := len(t.least.Data) + len(t.most.Data)
	if t.least.IsMissing() || order(v, t.least) < 0 {
		t.least = v.Clone()
	}
	if t.most.IsMissing() || order(v, t.most) > 0 {
		t.most = v.Clone()
	}
	return len(t.least.Data) + len(t.most.Data) - kept
}

// aggregates are the functions that make one value of many. SUM and AVG are
// undefined as soon as a defined value is no number, MIN and MAX if one is
// an array or an object.
var aggregates = map[string]func(*total) bson.Value{
	"COUNT":   func(t *total) bson.Value { return bson.Int(t.count) },
	"COUNTIF": func(t *total) bson.Value { return bson.Int(t.trues) },
	"SUM": func(t *total) bson.Value {
		if t.other {
			return bson.Value{}
		}
		return finite(t.sum)
	},
	"AVG": func(t *total) bson.Value {
		if t.other || t.numbers == 0 {
			return bson.Value{}
		}
		return finite(t.sum / float64(t.numbers))
	},
	"MAKELIST": func(t *total) bson.Value { return bson.Array(t.list...) },
	"MAKESET":  func(t *total) bson.Value { return bson.Array(t.list...) },
	"MIN": func(t *total) bson.Value {
		if t.complex {
			return bson.Value{}
		}
		return t.least
	},
	"MAX": func(t *total) bson.Value {
		if t.complex {
			return bson.Value{}
		}
		return t.most
	},
}
