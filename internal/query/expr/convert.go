package expr

import (
	"errors"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

func init() {
	register("$convert", parseConvert)
	registerShorthand("$toBool", bson.TypeBool)
	registerShorthand("$toInt", bson.TypeInt32)
	registerShorthand("$toLong", bson.TypeInt64)
	registerShorthand("$toDouble", bson.TypeDouble)
	registerShorthand("$toDecimal", bson.TypeDecimal)
	registerShorthand("$toDate", bson.TypeDate)
	registerShorthand("$toObjectId", bson.TypeObjectID)
	registerShorthand("$toString", bson.TypeString)
	registerShorthand("$toUUID", bson.TypeBinary)
}

// The arguments of $convert, by their place in convertParams.
const (
	convertInput = iota
	convertTo
	convertOnError
	convertOnNull
	convertFormat
	convertByteOrder
)

var convertParams = []string{"input", "to", "onError", "onNull", "format", "byteOrder"}

// convertCall is $convert, and its short forms $toInt and the like.
type convertCall struct {
	recordCall
	fixed *conversion // if nothing about it depends on the document
}

// conversion is what a value is converted to, and how.
type conversion struct {
	to        bson.Type
	subtype   byte   // of a binary
	format    string // of the text of a binary; "" if none is given
	bigEndian bool   // of the bytes of a number
}

func parseConvert(p *parser, name string, arg bson.Value) (Expr, error) {
	if arg.Type != bson.TypeDocument {
		return nil, mongoerr.New(mongoerr.FailedToParse,
			"$convert expects an object of named arguments but found: %s", arg.Type)
	}
	args, err := p.named(arg.Doc(), convertParams, func(field string) error {
		return mongoerr.New(mongoerr.FailedToParse, "$convert found an unknown argument: %s", field)
	})
	switch {
	case err != nil:
		return nil, err
	case args[convertInput] == nil:
		return nil, mongoerr.New(mongoerr.FailedToParse, "Missing 'input' parameter to $convert")
	case args[convertTo] == nil:
		return nil, mongoerr.New(mongoerr.FailedToParse, "Missing 'to' parameter to $convert")
	}
	return newConvert(args), nil
}

// registerShorthand registers an operator that is $convert with the type given.
func registerShorthand(name string, to bson.Type) {
	register(name, func(p *parser, name string, arg bson.Value) (Expr, error) {
		operands, err := p.arguments(arg)
		if err != nil {
			return nil, err
		}
		if len(operands) != 1 {
			return nil, mongoerr.New(mongoerr.Code(50723), "%s requires a single argument, got %d", name, len(operands))
		}
		args := make([]Expr, len(convertParams))
		args[convertInput], args[convertTo] = operands[0], Const(bson.String(to.String()))
		switch to {
		case bson.TypeString:
			args[convertFormat] = Const(bson.String(formatAuto))
		case bson.TypeBinary:
			target := new(bson.Builder).String("type", to.String()).Int32("subtype", subtypeUUID).Finish()
			args[convertTo] = Const(bson.Document(target))
			args[convertFormat] = Const(bson.String(formatUUID))
		}
		return newConvert(args), nil
	})
}

func newConvert(args []Expr) *convertCall {
	return &convertCall{recordCall: recordCall{name: "$convert", params: convertParams, args: args}}
}

// reduce computes once what is constant about the conversion.
func (c *convertCall) reduce(env *Env) (Expr, error) {
	constants := true
	for i, a := range c.args {
		if _, ok := a.(*constant); a != nil && !ok {
			constants = false
			if i == convertTo || i == convertFormat || i == convertByteOrder {
				return c, nil
			}
		}
	}
	if constants {
		v, err := c.Eval(env)
		return &constant{v.Clone()}, err
	}
	if to := c.args[convertTo].(*constant).value; !to.IsNullish() {
		// What is wrong with the arguments is an error for a document that is
		// converted, not before.
		if how, err := c.conversion(env, to); err == nil {
			c.fixed = &how
		}
	}
	return c, nil
}

func (c *convertCall) Eval(env *Env) (bson.Value, error) {
	v, err := c.args[convertInput].Eval(env)
	if err != nil {
		return bson.Value{}, err
	}
	var to bson.Value
	if c.fixed == nil {
		if to, err = c.args[convertTo].Eval(env); err != nil {
			return bson.Value{}, err
		}
	}
	if v.IsNullish() {
		return evalOr(env, c.args[convertOnNull], bson.Null)
	}
	how := c.fixed
	if how == nil {
		if to.IsNullish() {
			return bson.Null, nil
		}
		h, err := c.conversion(env, to)
		if err != nil {
			return bson.Value{}, err
		}
		how = &h
	}
	converted, err := how.convert(env, v)
	if err == nil || c.args[convertOnError] == nil {
		return converted, err
	}
	var e *mongoerr.Error
	if errors.As(err, &e) && e.Code == mongoerr.ConversionFailure {
		return c.args[convertOnError].Eval(env)
	}
	return bson.Value{}, err
}

// conversion reads the arguments that say how to convert.
func (c *convertCall) conversion(env *Env, to bson.Value) (how conversion, err error) {
	if how, err = conversionTo(to); err != nil {
		return how, err
	}
	format, err := evalOr(env, c.args[convertFormat], bson.Null)
	if err != nil {
		return how, err
	}
	order, err := evalOr(env, c.args[convertByteOrder], bson.Null)
	if err != nil {
		return how, err
	}
	if !format.IsNullish() {
		if how.format, err = binaryFormat(format); err != nil {
			return how, err
		}
	}
	if !order.IsNullish() {
		how.bigEndian, err = byteOrder(order)
	}
	return how, err
}

// conversionTo reads `to`: a type, or {type, subtype}.
func conversionTo(to bson.Value) (how conversion, err error) {
	if to.Type != bson.TypeDocument {
		how.to, err = targetType(to)
		return how, err
	}
	t := to.Doc().Lookup("type")
	if t.IsMissing() {
		return how, mongoerr.New(mongoerr.FailedToParse, "$convert's 'to' argument is an object without the field 'type'")
	}
	if how.to, err = targetType(t); err != nil {
		return how, err
	}
	if s := to.Doc().Lookup("subtype"); how.to == bson.TypeBinary && !s.IsMissing() {
		how.subtype, err = targetSubtype(s)
	}
	return how, err
}

// targetType reads the name or the number of a type.
func targetType(v bson.Value) (bson.Type, error) {
	switch {
	case v.Type == bson.TypeString:
		t, ok := bson.TypeByAlias(v.Str())
		if !ok {
			return t, mongoerr.New(mongoerr.BadValue, "Unknown type name: %s", v.Str())
		}
		return t, nil
	case !v.IsNumber():
		return 0, mongoerr.New(mongoerr.FailedToParse,
			"$convert's 'to' argument must be a string or number, but is %s", v.Type)
	}
	n, ok := bson.ExactInt32(v)
	if !ok {
		return 0, mongoerr.New(mongoerr.FailedToParse, "In $convert, numeric 'to' argument is not an integer")
	}
	t := bson.Type(byte(n))
	if n != 0 && n != -1 && (n < 0 || n > int32(bson.TypeMaxKey) || !t.Valid()) {
		return 0, mongoerr.New(mongoerr.FailedToParse,
			"In $convert, numeric value for 'to' does not correspond to a BSON type: %d", n)
	}
	return t, nil
}

func unsupported(v bson.Value, to bson.Type) error {
	return mongoerr.New(mongoerr.ConversionFailure,
		"Unsupported conversion from %s to %s in $convert with no onError value", v.Type, to)
}

// convert converts a value that is not null.
func (how *conversion) convert(env *Env, v bson.Value) (bson.Value, error) {
	if v.Type == how.to && v.Type != bson.TypeBinary {
		switch v.Type {
		case bson.TypeBool, bson.TypeInt32, bson.TypeInt64, bson.TypeDouble, bson.TypeDecimal,
			bson.TypeDate, bson.TypeObjectID, bson.TypeString:
			return v, nil
		}
	}
	switch how.to {
	case bson.TypeBool:
		return bson.Bool(v.Truthy()), nil
	case bson.TypeInt32, bson.TypeInt64:
		return how.toInteger(env, v)
	case bson.TypeDouble:
		return how.toDouble(env, v)
	case bson.TypeDecimal:
		return toDecimal(env, v)
	case bson.TypeDate:
		return toDate(env, v)
	case bson.TypeObjectID:
		return toObjectID(v)
	case bson.TypeString:
		return how.toText(env, v)
	case bson.TypeBinary:
		return how.toBinary(v)
	}
	return bson.Value{}, unsupported(v, how.to)
}

func toObjectID(v bson.Value) (bson.Value, error) {
	if v.Type != bson.TypeString {
		return bson.Value{}, unsupported(v, bson.TypeObjectID)
	}
	s := v.Str()
	id, ok := bson.ParseObjectID(s)
	if ok {
		return bson.ObjectID(id), nil
	}
	reason := "Invalid character found in hex string"
	if len(s) != 2*len(id) {
		reason = "Invalid string length for parsing to OID"
		return bson.Value{}, mongoerr.New(mongoerr.ConversionFailure,
			"Failed to parse objectId '%s' in $convert with no onError value: %s, expected %d but found %d",
			s, reason, 2*len(id), len(s))
	}
	return bson.Value{}, mongoerr.New(mongoerr.ConversionFailure,
		"Failed to parse objectId '%s' in $convert with no onError value: %s", s, reason)
}

// toDate converts numbers but ints, which are taken as milliseconds, and text.
func toDate(env *Env, v bson.Value) (bson.Value, error) {
	if ms, ok := dateMillis(v); ok {
		return env.Date(ms), nil
	}
	switch v.Type {
	case bson.TypeInt64, bson.TypeDouble, bson.TypeDecimal:
		ms, err := integerOf(v, bson.TypeInt64)
		return env.Date(ms), err
	case bson.TypeString:
		ms, err := parseDate(v.Str(), zone{})
		return env.Date(ms), err
	}
	return bson.Value{}, unsupported(v, bson.TypeDate)
}
