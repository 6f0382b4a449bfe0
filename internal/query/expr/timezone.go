package expr

import (
	"strings"
	"sync"
	"time"
	_ "time/tzdata" // for machines without a time zone database

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// zone is a time zone: one of the database, or a fixed offset if there is
// no location. The zero zone is UTC.
type zone struct {
	location *time.Location
	offset   int64 // seconds east of UTC
}

var zones = struct {
	sync.RWMutex
	byName map[string]zone
}{byName: map[string]zone{"UTC": {}, "GMT": {}}}

// parseZone finds the zone that an identifier names: "America/New_York",
// "+hh:mm", "+hhmm" or "+hh".
func parseZone(id string) (zone, error) {
	zones.RLock()
	z, ok := zones.byName[id]
	zones.RUnlock()
	if ok {
		return z, nil
	}
	if offset, ok := parseOffset(id); ok {
		return zone{offset: offset}, nil
	}
	if !isZoneName(id) {
		return zone{}, unknownZone(id)
	}
	location, err := time.LoadLocation(id)
	if err != nil {
		return zone{}, unknownZone(id)
	}
	z = zone{location: location}
	zones.Lock()
	zones.byName[strings.Clone(id)] = z // as many as the database has
	zones.Unlock()
	return z, nil
}

func unknownZone(id string) error {
	return mongoerr.New(mongoerr.Code(40485), "unrecognized time zone identifier: \"%s\"", id)
}

// isZoneName excludes names that load as a location but are not in the database.
func isZoneName(id string) bool {
	return id != "" && id != "Local" && id != "localtime" && id != "posixrules" && len(id) < 64 &&
		!strings.HasPrefix(id, "posix/") && !strings.HasPrefix(id, "right/") && id[0] >= 'A' && id[0] <= 'Z'
}

// parseOffset reads +hh:mm, +hhmm and +hh as seconds. Hours and minutes are
// any two digits.
func parseOffset(s string) (seconds int64, ok bool) {
	if len(s) < 3 || s[0] != '+' && s[0] != '-' {
		return 0, false
	}
	digits := s[1:]
	if len(digits) == 5 && digits[2] == ':' {
		digits = digits[:2] + digits[3:]
	}
	if len(digits) != 2 && len(digits) != 4 {
		return 0, false
	}
	var n int64
	for i := range len(digits) {
		if digits[i] < '0' || digits[i] > '9' {
			return 0, false
		}
		n = n*10 + int64(digits[i]-'0')
	}
	if len(digits) == 2 {
		n *= 100
	}
	seconds = (n/100*60 + n%100) * 60
	if s[0] == '-' {
		seconds = -seconds
	}
	return seconds, true
}

// zoneArgument evaluates an optional argument that is a time zone. null is
// true if it is given and null.
func zoneArgument(env *Env, e Expr) (z zone, null bool, err error) {
	if e == nil {
		return zone{}, false, nil
	}
	v, err := e.Eval(env)
	switch {
	case err != nil:
		return zone{}, false, err
	case v.IsNullish():
		return zone{}, true, nil
	case v.Type != bson.TypeString:
		return zone{}, false, mongoerr.New(mongoerr.Code(40517), "timezone must evaluate to a string, found %s", v.Type)
	}
	z, err = parseZone(v.Str())
	return z, false, err
}

func (z zone) isUTC() bool { return z.location == nil && z.offset == 0 }

// offsetAt is the offset at a time, in seconds since 1970.
func (z zone) offsetAt(second int64) int64 {
	if z.location == nil {
		return z.offset
	}
	_, offset := time.Unix(second, 0).In(z.location).Zone()
	return int64(offset)
}

// local is the local date and time of a date.
func (z zone) local(ms int64) moment {
	second, milli := floorDiv(ms, 1000)
	offset := z.offsetAt(second)
	days, ofDay := floorDiv(second+offset, secondsPerDay)
	return moment{days, ofDay*1000 + milli, offset}
}

// date is the date at a local day and time; ok is false if it is out of
// range. A local time that a change of the clock skips is read as if the clock had not
// been changed yet.
func (z zone) date(days, millis int64) (ms int64, ok bool) {
	ms, ok = toMillis(days, millis)
	if !ok {
		return 0, false
	}
	second, _ := floorDiv(ms, 1000)
	return addLongs(ms, -1000*z.offsetOfLocal(second))
}

// offsetOfLocal is the offset at a local time: the one that is in force at the
// UTC time of the same name, unless the clock was changed in between.
func (z zone) offsetOfLocal(second int64) int64 {
	before := z.offsetAt(second)
	if z.location == nil {
		return before
	}
	t := time.Unix(second-before, 0).In(z.location)
	_, after := t.Zone()
	if int64(after) == before {
		return before
	}
	if change, _ := t.ZoneBounds(); !change.IsZero() && second-int64(after) < change.Unix() {
		return before
	}
	return int64(after)
}

// checkZone finds what is wrong with a time zone that is constant.
func checkZone(env *Env, e Expr) error {
	if _, ok := e.(*constant); !ok {
		return nil
	}
	_, _, err := zoneArgument(env, e)
	return err
}

// zoneCheck is a check of a recordCall whose argument at that place is a time
// zone.
func zoneCheck(at int) func(env *Env, args []Expr) error {
	return func(env *Env, args []Expr) error { return checkZone(env, args[at]) }
}

// Location is the time zone that an identifier names, in the forms that date
// operators take. Errors: 40485.
func Location(id string) (*time.Location, error) {
	z, err := parseZone(id)
	switch {
	case err != nil:
		return nil, err
	case z.location != nil:
		return z.location, nil
	case z.offset == 0:
		return time.UTC, nil
	}
	return time.FixedZone(id, int(z.offset)), nil
}
