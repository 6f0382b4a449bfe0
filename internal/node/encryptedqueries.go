package node

import (
	"math"
	"math/bits"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// foreignOption is an option of queries that one query type refuses.
type foreignOption struct {
	name string
	code int32
}

var (
	notForEquality = []foreignOption{
		{"sparsity", 6775205}, {"min", 6775206}, {"max", 6775207}, {"trimFactor", 8574104}, {"precision", 10774900},
		{"strMaxLength", 10774901}, {"strMinQueryLength", 10774902}, {"strMaxQueryLength", 10774903},
		{"caseSensitive", 10774904}, {"diacriticSensitive", 10774905},
	}
	notForRange = []foreignOption{
		{"strMaxLength", 10774906}, {"strMinQueryLength", 10774907}, {"strMaxQueryLength", 10774908},
		{"caseSensitive", 10774909}, {"diacriticSensitive", 10774910},
	}
	notForText = []foreignOption{
		{"sparsity", 10774911}, {"min", 10774912}, {"max", 10774913}, {"trimFactor", 10774914}, {"precision", 10774915},
	}
)

func checkForeign(q *command.Args, kind string, options []foreignOption) error {
	for _, o := range options {
		if q.Has(o.name) {
			return mongoerr.New(mongoerr.Code(o.code), "The field '%s' is not allowed for %s index but is present", o.name, kind)
		}
	}
	return nil
}

func checkEncryptedEquality(t bson.Type, q *command.Args) error {
	switch t {
	case bson.TypeDouble, bson.TypeDecimal, bson.TypeDocument, bson.TypeArray, bson.TypeCodeScope,
		bson.TypeNull, bson.TypeUndefined, bson.TypeMinKey, bson.TypeMaxKey:
		return mongoerr.New(mongoerr.Code(6338405), "Type '%s' is not a supported equality indexed type", t)
	}
	return checkForeign(q, "equality", notForEquality)
}

// maxSparsity is the highest sparsity of a range index.
const maxSparsity = 8

func checkEncryptedRange(t bson.Type, path string, q *command.Args) error {
	switch t {
	case bson.TypeInt32, bson.TypeInt64, bson.TypeDate, bson.TypeDouble, bson.TypeDecimal:
	default:
		return mongoerr.New(mongoerr.Code(6775201), "Type '%s' is not a supported range indexed type", t)
	}
	if err := checkForeign(q, "range", notForRange); err != nil {
		return err
	}
	if q.Int64Or("sparsity", 1) > maxSparsity {
		return mongoerr.New(mongoerr.Code(6775214), "The field 'sparsity' must be between 1 and %d", maxSparsity)
	}
	low, high := q.Value("min"), q.Value("max")
	if !low.IsMissing() && low.Type != t {
		return mongoerr.New(mongoerr.Code(7018200), "Range field type '%s' does not match the min value type '%s'", t, low.Type)
	}
	if !high.IsMissing() && high.Type != t {
		return mongoerr.New(mongoerr.Code(7018201), "Range field type '%s' does not match the max value type '%s'", t, high.Type)
	}
	if q.Has("min") && q.Has("max") && bson.Compare(low, high) >= 0 {
		return mongoerr.New(mongoerr.Code(6720005), "Min must be less than max.")
	}
	if t == bson.TypeDouble || t == bson.TypeDecimal {
		if q.Has("min") != q.Has("max") || q.Has("min") != q.Has("precision") {
			return mongoerr.New(mongoerr.Code(6967100), "Precision, min, and max must all be specified together for floating point fields")
		}
		if err := checkPrecision(t, path, q); err != nil {
			return err
		}
	}
	return checkTrimFactor(t, q)
}

// checkPrecision refuses bounds of a range of doubles that have more decimal
// digits than precision.
func checkPrecision(t bson.Type, path string, q *command.Args) error {
	if !q.Has("precision") || t != bson.TypeDouble {
		return nil
	}
	for _, bound := range []struct {
		name, word string
		code       int32
	}{{"min", "minimum", 6966805}, {"max", "maximum", 6966806}} {
		scaled := q.Double(bound.name) * math.Pow(10, q.Double("precision"))
		whole := math.Trunc(scaled)
		if math.Abs(scaled-whole) > math.Abs(whole)*0x1p-52 {
			return mongoerr.New(mongoerr.Code(bound.code),
				"The number of decimal digits for %s value of field '%s' must be less than or equal to precision", bound.word, path)
		}
	}
	return nil
}

// checkTrimFactor checks that the trim factor is below the number of bits that
// the values between the bounds need.
func checkTrimFactor(t bson.Type, q *command.Args) error {
	if !q.Has("trimFactor") || q.Has("precision") {
		return nil
	}
	width := 64
	switch t {
	case bson.TypeDecimal:
		width = 128
	case bson.TypeInt32:
		width = domainBits(rangeBound(q.Value("min"), math.MinInt32), rangeBound(q.Value("max"), math.MaxInt32))
	case bson.TypeInt64, bson.TypeDate:
		width = domainBits(rangeBound(q.Value("min"), math.MinInt64), rangeBound(q.Value("max"), math.MaxInt64))
	}
	if trim := q.Int64("trimFactor"); trim != 0 && trim >= int64(width) {
		return mongoerr.New(mongoerr.Code(8574000),
			"The field 'trimFactor' must be >= 0 and less than the total number of bits needed to represent elements in the domain (%d)", width)
	}
	return nil
}

func rangeBound(v bson.Value, absent int64) int64 {
	switch {
	case v.IsMissing():
		return absent
	case v.Type == bson.TypeDate:
		return v.Date()
	}
	return bson.ClampToInt64(v)
}

// domainBits returns how many bits the values from low to high need.
func domainBits(low, high int64) int { return bits.Len64(uint64(high) - uint64(low)) }

func checkEncryptedText(t bson.Type, path string, q *command.Args) error {
	if t != bson.TypeString {
		return mongoerr.New(mongoerr.Code(9783400), "Type '%s' is not a supported type for text search indexed encrypted field %s", t, path)
	}
	if err := checkForeign(q, "text-based", notForText); err != nil {
		return err
	}
	kind := q.Str("queryType")
	for i, name := range []string{"strMinQueryLength", "strMaxQueryLength", "caseSensitive", "diacriticSensitive"} {
		if !q.Has(name) {
			return mongoerr.New(mongoerr.Code(int32(9783402+i)), "%s parameter is required for %s query type of field %s", name, kind, path)
		}
	}
	if q.Int64("strMinQueryLength") > q.Int64("strMaxQueryLength") {
		return mongoerr.New(mongoerr.Code(9783406), "strMinQueryLength cannot be greater than strMaxQueryLength")
	}
	if kind != "substringPreview" {
		return nil
	}
	if !q.Has("strMaxLength") {
		return mongoerr.New(mongoerr.Code(9783407), "strMaxLength parameter is required for %s query type of field %s", kind, path)
	}
	if q.Int64("strMaxQueryLength") > q.Int64("strMaxLength") {
		return mongoerr.New(mongoerr.Code(9783408), "strMaxQueryLength cannot be greater than strMaxLength")
	}
	return nil
}

// defaultContention is the contention of a query type that gives none.
const defaultContention = 8

// checkEncryptedPair checks the one pair of query types that a field may have:
// suffixes and prefixes, with everything else the same.
func checkEncryptedPair(t bson.Type, path string, a, b *command.Args) error {
	kinds := [2]string{a.Str("queryType"), b.Str("queryType")}
	if kinds != [2]string{"suffixPreview", "prefixPreview"} && kinds != [2]string{"prefixPreview", "suffixPreview"} {
		return mongoerr.New(mongoerr.Code(9783414),
			"Multiple query types may only include the suffixPreview and prefixPreview query types")
	}
	for _, q := range []*command.Args{a, b} {
		if err := checkEncryptedText(t, path, q); err != nil {
			return err
		}
	}
	for _, same := range []struct {
		name string
		code int32
		ok   bool
	}{
		{"caseSensitive", 9783409, a.Bool("caseSensitive") == b.Bool("caseSensitive")},
		{"diacriticSensitive", 9783410, a.Bool("diacriticSensitive") == b.Bool("diacriticSensitive")},
		{"contention", 9783411, a.Int64Or("contention", defaultContention) == b.Int64Or("contention", defaultContention)},
	} {
		if !same.ok {
			return mongoerr.New(mongoerr.Code(same.code), "%s parameter must be the same for all query types of field %s", same.name, path)
		}
	}
	return nil
}
