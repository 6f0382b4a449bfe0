package bson

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"math"
	"strconv"
	"strings"
	"time"
)

// typed turns a document like {$oid: "…"} into the value it stands for; any
// other document is itself.
func (p *jsonParser) typed(d Doc) (Value, error) {
	name, v := d.First()
	if !strings.HasPrefix(name, "$") {
		return Document(d), nil
	}
	switch n := d.Len(); {
	case n == 1:
		if v, known, err := p.typedOne(name, v); known {
			return v, err
		}
	case n == 2 && name == "$code" && d.Has("$scope"):
		scope := d.Lookup("$scope")
		if v.Type != TypeString || scope.Type != TypeDocument {
			return Value{}, p.fail("$code must be a string, and $scope a document")
		}
		return CodeScope(v.Str(), scope.Doc()), nil
	case n == 2 && name == "$binary" && d.Has("$type"):
		return p.binary(v, d.Lookup("$type"))
	}
	return Document(d), nil
}

// typedOne reads {name: v}; known reports whether name stands for a type.
func (p *jsonParser) typedOne(name string, v Value) (out Value, known bool, err error) {
	s, isString := "", v.Type == TypeString
	if isString {
		s = v.Str()
	}
	ok := isString
	switch name {
	case "$oid":
		var id [12]byte
		id, ok = ParseObjectID(s)
		out = ObjectID(id)
	case "$symbol":
		out = Symbol(s)
	case "$code":
		out = Code(s)
	case "$uuid":
		out, ok = parseUUID(s)
	case "$numberInt":
		i, e := strconv.ParseInt(s, 10, 32)
		out, ok = Int32(int32(i)), e == nil
	case "$numberLong":
		i, e := strconv.ParseInt(s, 10, 64)
		out, ok = Int64(i), e == nil
	case "$numberDouble":
		out, ok = parseDouble(s)
	case "$numberDecimal":
		var d Decimal128
		d, ok = ParseDecimal(s)
		out = Decimal(d)
	case "$date":
		out, ok = parseDate(v)
	case "$minKey":
		out, ok = MinKey, v.IsNumber()
	case "$maxKey":
		out, ok = MaxKey, v.IsNumber()
	case "$undefined":
		out, ok = Undefined, v.Type == TypeBool
	case "$binary", "$regularExpression", "$timestamp", "$dbPointer":
		if v.Type != TypeDocument {
			return Value{}, true, p.fail("%s is not a document", name)
		}
		out, err = p.typedDocument(name, v.Doc())
		return out, true, err
	default:
		return Value{}, false, nil
	}
	if !ok {
		return Value{}, true, p.fail("invalid value of %s", name)
	}
	return out, true, nil
}

func (p *jsonParser) typedDocument(name string, d Doc) (Value, error) {
	if d.Len() == 2 {
		switch name {
		case "$binary":
			return p.binary(d.Lookup("base64"), d.Lookup("subType"))
		case "$regularExpression":
			pattern, options := d.Lookup("pattern"), d.Lookup("options")
			if pattern.Type == TypeString && options.Type == TypeString {
				return p.makeRegex(pattern.Str(), sortedOptions(options.Str()))
			}
		case "$timestamp":
			t, tok := uint32Of(d.Lookup("t"))
			i, iok := uint32Of(d.Lookup("i"))
			if tok && iok {
				return Timestamp(uint64(t)<<32 | uint64(i)), nil
			}
		case "$dbPointer":
			ns, id := d.Lookup("$ref"), d.Lookup("$id")
			if ns.Type == TypeString && id.Type == TypeObjectID {
				return DBPointer(ns.Str(), id.ObjectID()), nil
			}
		}
	}
	return Value{}, p.fail("invalid value of %s", name)
}

// binary reads base64 text and a subtype in hexadecimal digits.
func (p *jsonParser) binary(text, subtype Value) (Value, error) {
	if text.Type == TypeString && subtype.Type == TypeString {
		content, err := base64.StdEncoding.DecodeString(text.Str())
		sub, subErr := strconv.ParseUint(subtype.Str(), 16, 8)
		if err == nil && subErr == nil {
			return makeBinary(byte(sub), content), nil
		}
	}
	return Value{}, p.fail("invalid value of $binary")
}

// makeBinary gives the old subtype 2 its second length.
func makeBinary(subtype byte, content []byte) Value {
	if subtype == 2 {
		content = append(binary.LittleEndian.AppendUint32(nil, uint32(len(content))), content...)
	}
	return Binary(subtype, content)
}

// sortedOptions orders the letters of a regular expression's options, as the
// specification of BSON wants them stored.
func sortedOptions(s string) string {
	b := []byte(s)
	for i := 1; i < len(b); i++ {
		for j := i; j > 0 && b[j] < b[j-1]; j-- {
			b[j], b[j-1] = b[j-1], b[j]
		}
	}
	return string(b)
}

func uint32Of(v Value) (uint32, bool) {
	if v.Type != TypeInt32 && v.Type != TypeInt64 {
		return 0, false
	}
	i := integer(v)
	return uint32(i), i >= 0 && i <= math.MaxUint32
}

func parseUUID(s string) (Value, bool) {
	b, err := hex.DecodeString(strings.ReplaceAll(s, "-", ""))
	return Binary(4, b), err == nil && len(b) == 16
}

func parseDouble(s string) (Value, bool) {
	f, err := strconv.ParseFloat(s, 64)
	return Double(f), err == nil || math.IsInf(f, 0)
}

// parseDate reads milliseconds or RFC 3339 text.
func parseDate(v Value) (Value, bool) {
	switch v.Type {
	case TypeInt32, TypeInt64:
		return Date(integer(v)), true
	case TypeString:
		for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05.999999999Z0700", "2006-01-02T15:04:05", "2006-01-02"} {
			if t, err := time.Parse(layout, v.Str()); err == nil {
				return Date(t.UnixMilli()), true
			}
		}
	}
	return Value{}, false
}

// word reads a bare word: a literal, or a constructor of the shell.
func (p *jsonParser) word(level int) (Value, error) {
	word, err := p.name()
	if err == nil && word == "new" {
		word, err = p.name()
	}
	if err != nil {
		return Value{}, err
	}
	switch word {
	case "true":
		return True, nil
	case "false":
		return False, nil
	case "null":
		return Null, nil
	case "undefined":
		return Undefined, nil
	case "NaN":
		return Double(math.NaN()), nil
	case "Infinity":
		return Double(math.Inf(1)), nil
	}
	args, err := p.arguments(level)
	if err != nil {
		return Value{}, err
	}
	if v, ok := construct(word, args); ok {
		return v, nil
	}
	return Value{}, p.fail("unknown function %s, or invalid arguments", word)
}

// arguments reads (v, …), or nothing if no parenthesis follows.
func (p *jsonParser) arguments(level int) ([]Value, error) {
	var args []Value
	if !p.take('(') {
		return nil, nil
	}
	for !p.take(')') {
		v, err := p.value(level + 1)
		if err != nil {
			return nil, err
		}
		args = append(args, v)
		if !p.take(',') && p.peek() != ')' {
			return nil, p.fail("expected ',' or ')'")
		}
	}
	return args, nil
}

// construct calls the shell's constructor of that name.
func construct(name string, args []Value) (Value, bool) {
	switch len(args) {
	case 0:
		switch name {
		case "MinKey":
			return MinKey, true
		case "MaxKey":
			return MaxKey, true
		}
		return Value{}, false
	case 1:
		return constructOne(name, args[0])
	}
	first, second := args[0], args[1]
	switch name {
	case "Timestamp":
		t, tok := uint32Of(first)
		i, iok := uint32Of(second)
		return Timestamp(uint64(t)<<32 | uint64(i)), tok && iok
	case "BinData", "HexData":
		sub, ok := uint32Of(first)
		if !ok || sub > 255 || second.Type != TypeString {
			return Value{}, false
		}
		decode := base64.StdEncoding.DecodeString
		if name == "HexData" {
			decode = hex.DecodeString
		}
		content, err := decode(second.Str())
		return makeBinary(byte(sub), content), err == nil
	case "DBPointer":
		if first.Type == TypeString && second.Type == TypeObjectID {
			return DBPointer(first.Str(), second.ObjectID()), true
		}
	}
	return Value{}, false
}

func constructOne(name string, arg Value) (Value, bool) {
	text := ""
	switch arg.Type {
	case TypeString:
		text = arg.Str()
	case TypeInt32, TypeInt64:
		text = strconv.FormatInt(integer(arg), 10)
	case TypeDouble:
		text = strconv.FormatFloat(arg.Double(), 'g', -1, 64)
	}
	switch name {
	case "ObjectId":
		id, ok := ParseObjectID(text)
		return ObjectID(id), ok
	case "NumberInt":
		i, err := strconv.ParseInt(text, 10, 32)
		return Int32(int32(i)), err == nil
	case "NumberLong":
		i, err := strconv.ParseInt(text, 10, 64)
		return Int64(i), err == nil
	case "NumberDecimal":
		d, ok := ParseDecimal(text)
		return Decimal(d), ok
	case "Double":
		return parseDouble(text)
	case "ISODate", "Date":
		return parseDate(arg)
	case "UUID":
		return parseUUID(text)
	case "Symbol":
		return Symbol(text), arg.Type == TypeString
	case "Code":
		return Code(text), arg.Type == TypeString
	}
	return Value{}, false
}
