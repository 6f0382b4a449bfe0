package command

import (
	"math"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// readPreferenceModes are the modes of a read preference.
var readPreferenceModes = map[string]bool{
	"primary": true, "primaryPreferred": true, "secondary": true, "secondaryPreferred": true, "nearest": true,
}

// minStaleness is the smallest maxStalenessSeconds that is not 0, in seconds.
const minStaleness = 90

// checkReadPreference checks $readPreference, and reports whether secondaries may be
// read. A standalone can be read with any, but rejects invalid ones.
// (Manual: Read Preference.)
func checkReadPreference(d bson.Doc) (secondary bool, err error) {
	mode := d.Lookup("mode")
	switch {
	case mode.IsMissing():
		return false, mongoerr.New(mongoerr.NoSuchKey, `Missing expected field "mode"`)
	case mode.Type != bson.TypeString:
		return false, mongoerr.New(mongoerr.TypeMismatch, `"mode" had the wrong type. Expected string, found %s`, mode.Type)
	case !readPreferenceModes[mode.Str()]:
		return false, mongoerr.New(mongoerr.BadValue, "Could not parse $readPreference mode '%s'. Only the modes 'primary', 'primaryPreferred', 'secondary', "+
			"'secondaryPreferred', and 'nearest' are supported. :: caused by :: Enumeration value '%s' for field 'mode' is not a valid value.", mode.Str(), mode.Str())
	}
	primary := mode.Str() == "primary"
	if err := checkHedge(d.Lookup("hedge"), primary); err != nil {
		return false, err
	}
	if err := checkTags(d.Lookup("tags"), primary); err != nil {
		return false, err
	}
	return !primary, checkStaleness(d.Lookup("maxStalenessSeconds"), primary)
}

var hedgeFields = NewFields("hedge", Bool("enabled"))

func checkHedge(v bson.Value, primary bool) error {
	switch {
	case v.IsMissing():
		return nil
	case v.Type != bson.TypeDocument:
		return mongoerr.New(mongoerr.TypeMismatch, "hedge field must be of type object if provided; found hedge: %s", v)
	}
	a, err := ParseDoc(hedgeFields, v.Doc())
	if err != nil {
		return err
	}
	if primary && (!a.Has("enabled") || a.Bool("enabled")) {
		return mongoerr.New(mongoerr.InvalidOptions, `cannot enable hedging for $readPreference mode "primaryOnly"`)
	}
	return nil
}

// checkTags checks a list of tag sets; [{}] counts as none.
func checkTags(v bson.Value, primary bool) error {
	switch {
	case v.IsMissing():
	case v.Type != bson.TypeArray:
		return mongoerr.New(mongoerr.TypeMismatch, `"tags" had the wrong type. Expected array, found %s`, v.Type)
	case primary && v.Doc().Len() > 0 && v.String() != "[ {} ]":
		return mongoerr.New(mongoerr.BadValue, "Only empty tags are allowed with primary read preference")
	}
	return nil
}

func checkStaleness(v bson.Value, primary bool) error {
	if v.IsMissing() {
		return nil
	}
	if !v.IsNumber() {
		return mongoerr.New(mongoerr.TypeMismatch, `Expected field "maxStalenessSeconds" to have numeric type, but found %s`, v.Type)
	}
	n, whole := bson.ExactInt64(v)
	switch {
	case !whole:
		return mongoerr.New(mongoerr.BadValue, `Expected field "maxStalenessSeconds" to have a value exactly representable as a 64-bit integer, but found maxStalenessSeconds: %s`, v)
	case n < 0:
		return mongoerr.New(mongoerr.BadValue, "maxStalenessSeconds must be a non-negative integer")
	case n == math.MaxInt64:
		return mongoerr.New(mongoerr.BadValue, "maxStalenessSeconds value can not exceed %d", int64(math.MaxInt64))
	case n > 0 && n < minStaleness:
		return mongoerr.New(mongoerr.MaxStalenessOutOfRange, "maxStalenessSeconds value can not be less than %d", minStaleness)
	case n > 0 && primary:
		return mongoerr.New(mongoerr.BadValue, "maxStalenessSeconds can not be set for the primary mode")
	}
	return nil
}
