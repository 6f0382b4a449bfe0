package schema

import (
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/expr"
)

// TimeWindow is a part of every day, by the clocks of a time zone. One whose
// end lies before its beginning goes over midnight.
type TimeWindow struct {
	from, to int // minutes since midnight; to is the first that is outside
	zone     *time.Location
}

const minutesPerDay = 24 * 60

func parseWindow(path string, v bson.Value) (*TimeWindow, error) {
	if v.Type != bson.TypeDocument {
		return nil, notA(path, v, "object")
	}
	w := &TimeWindow{from: -1, to: -1, zone: time.UTC}
	for name, v := range v.Doc().All() {
		at := path + "." + name
		if name != "from" && name != "to" && name != "timeZone" {
			return nil, unknownField(at)
		}
		if v.Type != bson.TypeString {
			return nil, notA(at, v, "string")
		}
		var err error
		switch name {
		case "from":
			w.from, err = parseTimeOfDay(at, v.Str())
		case "to":
			w.to, err = parseTimeOfDay(at, v.Str())
		case "timeZone":
			w.zone, err = expr.Location(v.Str())
		}
		if err != nil {
			return nil, err
		}
	}
	for _, f := range []struct {
		name string
		at   int
	}{{"from", w.from}, {"to", w.to}} {
		if f.at < 0 {
			return nil, mongoerr.New(mongoerr.Code(40414), "BSON field '%s.%s' is missing but a required field", path, f.name)
		}
	}
	if w.from == w.to {
		return nil, mongoerr.New(mongoerr.BadValue, "BSON field '%s' must not begin and end at the same time", path)
	}
	return w, nil
}

// parseTimeOfDay reads HH:MM as minutes since midnight; 24:00 is not one.
func parseTimeOfDay(path, s string) (int, error) {
	t, err := time.Parse("15:04", s)
	if err != nil || len(s) != len("15:04") {
		return 0, mongoerr.New(mongoerr.BadValue, "BSON field '%s' must be a time of day as HH:MM, actual value '%s'", path, s)
	}
	return t.Hour()*60 + t.Minute(), nil
}

// Open reports whether t lies in the window. A nil window is always open.
func (w *TimeWindow) Open(t time.Time) bool {
	if w == nil {
		return true
	}
	t = t.In(w.zone)
	at := t.Hour()*60 + t.Minute()
	if w.from < w.to {
		return w.from <= at && at < w.to
	}
	return at >= w.from || at < w.to
}

// Opens is when the window opens next, or t where it is open. A time that the
// day of a change of the clocks does not have counts as time.Date takes it.
func (w *TimeWindow) Opens(t time.Time) time.Time {
	if w.Open(t) {
		return t
	}
	local := t.In(w.zone)
	for day := 0; ; day++ {
		at := time.Date(local.Year(), local.Month(), local.Day()+day, 0, w.from%minutesPerDay, 0, 0, w.zone)
		if at.After(t) {
			return at
		}
	}
}
