package command

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// Params is the registry of server parameters (getParameter, setParameter and
// the option --setParameter). Each is registered once, at start, by the part
// that honours it, which keeps the returned handle and reads it whenever it
// needs the value:
//
//	sleep := params.Int(command.IntSpec{Name: "ttlMonitorSleepSecs", Default: 60, Above: true, OnChange: wake})
//	… time.Duration(sleep.Load()) * time.Second
type Params struct {
	mu struct {
		sync.Mutex // also serializes sets, so that "was" is true
		all        map[string]*Param
	}
}

// NewParams makes an empty registry.
func NewParams() *Params {
	p := &Params{}
	p.mu.all = map[string]*Param{}
	return p
}

// Param is one parameter.
type Param struct {
	Name string
	// AtStartup and AtRuntime say when the parameter may be set; a read-only one has
	// neither.
	AtStartup, AtRuntime bool
	// Get returns the value.
	Get func() bson.Value
	// Check validates a new value and returns a function that puts it into effect. Nil
	// where the parameter cannot be set.
	Check func(v bson.Value) (apply func(), err error)
	// Text parses the value of --setParameter name=text.
	Text func(text string) (bson.Value, error)
}

// Register adds a parameter that none of the methods below can make; a name that is
// taken is a bug and panics.
func (p *Params) Register(q *Param) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.all[q.Name] != nil {
		panic(fmt.Sprintf("command: parameter %q is registered twice", q.Name))
	}
	p.mu.all[q.Name] = q
}

// Lookup finds a parameter, or nil.
func (p *Params) Lookup(name string) *Param {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.all[name]
}

// All returns the parameters in order of their names.
func (p *Params) All() []*Param {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]*Param, 0, len(p.mu.all))
	for _, q := range p.mu.all {
		all = append(all, q)
	}
	slices.SortFunc(all, func(a, b *Param) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// Setting is one parameter to set and its value.
type Setting struct {
	Name  string
	Value bson.Value
}

// Set sets parameters while the server runs, all or none. It returns the value
// that the first had before.
func (p *Params) Set(settings []Setting) (was bson.Value, err error) {
	p.mu.Lock()
	var apply []func()
	for i, s := range settings {
		q := p.mu.all[s.Name]
		switch {
		case q == nil:
			err = mongoerr.New(mongoerr.InvalidOptions, "Unrecognized parameter: %s", s.Name)
		case !q.AtRuntime || q.Check == nil:
			err = mongoerr.New(mongoerr.IllegalOperation, "not allowed to change [%s] at runtime", s.Name)
		default:
			if i == 0 {
				was = q.Get()
			}
			var f func()
			if f, err = q.Check(s.Value); err == nil {
				apply = append(apply, f)
			}
		}
		if err != nil {
			p.mu.Unlock()
			return bson.Value{}, err
		}
	}
	p.mu.Unlock()
	for _, f := range apply {
		f()
	}
	return was, nil
}

// SetAtStartup sets a parameter as --setParameter name=text or a configuration
// file does.
func (p *Params) SetAtStartup(name, text string) error {
	q := p.Lookup(name)
	if q == nil {
		return mongoerr.New(mongoerr.BadValue, "Unknown --setParameter '%s'", name)
	}
	if !q.AtStartup || q.Check == nil {
		return mongoerr.New(mongoerr.BadValue, "Cannot use --setParameter to set '%s' at startup", name)
	}
	v, err := q.Text(text)
	if err == nil {
		var apply func()
		if apply, err = q.Check(v); err == nil {
			apply()
			return nil
		}
	}
	return mongoerr.New(mongoerr.BadValue, "Bad value for parameter \"%s\": %s", name, mongoerr.From(err).Message)
}

// IntParam is a parameter that is a whole number.
type IntParam struct{ v atomic.Int64 }

// Load returns the value.
func (p *IntParam) Load() int64 { return p.v.Load() }

// IntSpec declares an IntParam.
type IntSpec struct {
	Name    string
	Default int64
	// Min and Max bound the value where HasMin and HasMax say so; Above makes Min
	// exclusive (and implies HasMin).
	Min, Max              int64
	HasMin, HasMax, Above bool
	// Long prints it as a long and allows it 64 bits.
	Long bool
	// Startup makes it settable at startup only; Runtime, at runtime only.
	Startup, Runtime bool
	// OnChange is called after each change, with the new value in effect.
	OnChange func()
}

// Int registers a parameter that is a whole number.
func (p *Params) Int(s IntSpec) *IntParam {
	q := &IntParam{}
	q.v.Store(s.Default)
	p.Register(&Param{
		Name: s.Name, AtStartup: !s.Runtime, AtRuntime: !s.Startup,
		Get: func() bson.Value {
			if s.Long {
				return bson.Int64(q.Load())
			}
			return bson.Int32(int32(q.Load()))
		},
		Text: func(text string) (bson.Value, error) {
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return bson.Value{}, mongoerr.New(mongoerr.FailedToParse, "Did not consume whole string.")
			}
			return bson.Int64(n), nil
		},
		Check: func(v bson.Value) (func(), error) {
			n, err := s.check(v)
			return func() { q.v.Store(n); changed(s.OnChange) }, err
		},
	})
	return q
}

func changed(f func()) {
	if f != nil {
		f()
	}
}

func (s *IntSpec) check(v bson.Value) (int64, error) {
	n, ok := coerceInt(v, s.Long)
	if !ok {
		return 0, mongoerr.New(mongoerr.BadValue, "Unable to coerce value to integral type")
	}
	op := ""
	bound := s.Min
	switch {
	case s.Above && n <= s.Min:
		op = "greater than"
	case s.HasMin && n < s.Min:
		op = "greater than or equal to"
	case s.HasMax && n > s.Max:
		op, bound = "less than or equal to", s.Max
	default:
		return n, nil
	}
	return 0, mongoerr.New(mongoerr.BadValue, "Invalid value for parameter %s: %d is not %s %d", s.Name, n, op, bound)
}

// coerceInt accepts numbers, which it truncates, and bools.
func coerceInt(v bson.Value, long bool) (int64, bool) {
	if v.Type == bson.TypeBool {
		if v.Bool() {
			return 1, true
		}
		return 0, true
	}
	if !v.IsNumber() {
		return 0, false
	}
	n, ok := bson.TruncateToInt64(v)
	return n, ok && (long || n == int64(int32(n)))
}

// BoolParam is a parameter that is true or false.
type BoolParam struct{ v atomic.Bool }

// Load returns the value.
func (p *BoolParam) Load() bool { return p.v.Load() }

// Set sets the value, before the first request: what another option says.
func (p *BoolParam) Set(v bool) { p.v.Store(v) }

// BoolSpec declares a BoolParam; see IntSpec.
type BoolSpec struct {
	Name             string
	Default          bool
	Startup, Runtime bool
	OnChange         func()
}

// Bool registers a parameter that is true or false.
func (p *Params) Bool(s BoolSpec) *BoolParam {
	q := &BoolParam{}
	q.v.Store(s.Default)
	p.Register(&Param{
		Name: s.Name, AtStartup: !s.Runtime, AtRuntime: !s.Startup,
		Get: func() bson.Value { return bson.Bool(q.Load()) },
		Text: func(text string) (bson.Value, error) {
			switch text {
			case "1", "true":
				return bson.True, nil
			case "0", "false":
				return bson.False, nil
			}
			return bson.Value{}, mongoerr.New(mongoerr.BadValue, "Invalid boolean value: %s", text)
		},
		// Any value but false counts as true, whatever its type.
		Check: func(v bson.Value) (func(), error) {
			b := v.Truthy()
			return func() { q.v.Store(b); changed(s.OnChange) }, nil
		},
	})
	return q
}

// StringParam is a parameter that is a string.
type StringParam struct{ v atomic.Pointer[string] }

// Load returns the value.
func (p *StringParam) Load() string { return *p.v.Load() }

// StringSpec declares a StringParam; see IntSpec.
type StringSpec struct {
	Name, Default    string
	Startup, Runtime bool
	// Valid rejects values; nil accepts every string.
	Valid    func(string) error
	OnChange func()
}

// String registers a parameter that is a string.
func (p *Params) String(s StringSpec) *StringParam {
	q := &StringParam{}
	q.v.Store(&s.Default)
	p.Register(&Param{
		Name: s.Name, AtStartup: !s.Runtime, AtRuntime: !s.Startup,
		Get:  func() bson.Value { return bson.String(q.Load()) },
		Text: func(text string) (bson.Value, error) { return bson.String(text), nil },
		Check: func(v bson.Value) (func(), error) {
			if v.Type != bson.TypeString {
				return nil, mongoerr.New(mongoerr.TypeMismatch, "Value for parameter %s must be of type 'string'", s.Name)
			}
			text := string(append([]byte(nil), v.Str()...))
			if s.Valid != nil {
				if err := s.Valid(text); err != nil {
					return nil, err
				}
			}
			return func() { q.v.Store(&text); changed(s.OnChange) }, nil
		},
	})
	return q
}

// Fixed registers a read-only parameter; startup reports whether it is listed among those
// that are set at startup.
func (p *Params) Fixed(name string, startup bool, get func() bson.Value) {
	p.Register(&Param{Name: name, AtStartup: startup, Get: get})
}

// DoubleParam is a parameter that is a floating-point number.
type DoubleParam struct{ bits atomic.Uint64 }

// Load returns the value.
func (p *DoubleParam) Load() float64 { return math.Float64frombits(p.bits.Load()) }

func (p *DoubleParam) store(f float64) { p.bits.Store(math.Float64bits(f)) }

// DoubleSpec declares a DoubleParam; see IntSpec.
type DoubleSpec struct {
	Name              string
	Default, Min, Max float64
	Startup, Runtime  bool
	OnChange          func()
}

// Double registers a parameter that is a number between Min and Max.
func (p *Params) Double(s DoubleSpec) *DoubleParam {
	q := &DoubleParam{}
	q.store(s.Default)
	p.Register(&Param{
		Name: s.Name, AtStartup: !s.Runtime, AtRuntime: !s.Startup,
		Get: func() bson.Value { return bson.Double(q.Load()) },
		Text: func(text string) (bson.Value, error) {
			f, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return bson.Value{}, mongoerr.New(mongoerr.FailedToParse, "Did not consume whole string.")
			}
			return bson.Double(f), nil
		},
		Check: func(v bson.Value) (func(), error) {
			if !v.IsNumber() {
				return nil, mongoerr.New(mongoerr.BadValue, "Unable to coerce value to double")
			}
			f := bson.ToDouble(v)
			switch {
			case !(f >= s.Min):
				return nil, mongoerr.New(mongoerr.BadValue, "Invalid value for parameter %s: %g is not greater than or equal to %g", s.Name, f, s.Min)
			case f > s.Max:
				return nil, mongoerr.New(mongoerr.BadValue, "Invalid value for parameter %s: %g is not less than or equal to %g", s.Name, f, s.Max)
			}
			return func() { q.store(f); changed(s.OnChange) }, nil
		},
	})
	return q
}
