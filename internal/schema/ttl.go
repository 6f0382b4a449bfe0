package schema

import (
	"math"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// validateTTL checks the expireAfterSeconds of a specification as the user
// wrote it. Errors: 67, and 6049202 on a capped clustered collection.
func validateTTL(spec bson.Doc, o *Options) error {
	v := spec.Lookup("expireAfterSeconds")
	if v.IsMissing() {
		return nil
	}
	if o.Capped && o.Clustered != nil {
		return mongoerr.New(mongoerr.Code(6049202), "TTL secondary indexes are not allowed on a capped clustered collection")
	}
	least := int64(0)
	if isLastWrite(spec) {
		least = -1
	}
	if err := validateExpireAfter(v, least); err != nil {
		// The text starts with a full stop: mongod puts the context before it.
		return mongoerr.Prefix(err, ". Index spec: "+shown(spec).String())
	}
	if spec.Lookup("key").Doc().Len() != 1 {
		return cannotCreate("TTL indexes are single-field indexes, compound indexes do not support TTL. Index spec: %s", shown(spec))
	}
	return nil
}

// validateExpireAfter checks that v is a TTL of at least that many seconds.
func validateExpireAfter(v bson.Value, least int64) error {
	switch {
	case !v.IsNumber():
		return cannotCreate("TTL index 'expireAfterSeconds' option must be numeric, but received a type of '%s'", v.Type)
	}
	switch n, err := ExpireAfter(v, mongoerr.CannotCreateIndex); {
	case err != nil:
		return err
	case n < math.MinInt32 || n > math.MaxInt32:
		return cannotCreate("TTL index 'expireAfterSeconds' must be within the range of a 32-bit integer")
	case n < least:
		return cannotCreate("TTL index 'expireAfterSeconds' option cannot be less than %d", least)
	}
	return nil
}

// ExpireAfter reads an expireAfterSeconds, which is a number, in whole seconds; one out
// of the range of a long becomes the nearest long. It refuses, with the given code, NaN
// and numbers between -1 and 1 other than 0: truncated to 0, they would let everything
// expire at once.
func ExpireAfter(v bson.Value, code mongoerr.Code) (seconds int64, err error) {
	seconds = bson.ClampToInt64(v)
	switch {
	case v.IsNaN():
		return 0, mongoerr.New(code, "TTL index 'expireAfterSeconds' option must not be NaN")
	case seconds == 0 && !bson.Equal(v, bson.Int32(0)):
		return 0, mongoerr.New(code, "TTL index 'expireAfterSeconds' option must be a whole number of seconds, found %s", v)
	}
	return seconds, nil
}
