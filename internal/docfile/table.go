package docfile

import (
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"github.com/mayflydb/mayfly/internal/bson"
)

// table makes documents of rows of columns. (Parquet: "Nested Encoding", "Logical Types".)
type table struct{ fields []*tableField }

// tableField is a column, or a group of them.
type tableField struct {
	name               string
	optional, repeated bool
	repetition         int // the levels up to here
	definition         int
	first, end         int // the numbers of its columns
	kind               tableKind
	below              []*tableField
	value              func(parquet.Value) (bson.Value, error) // of a column
}

// tableKind is what a field is in a document.
type tableKind int

const (
	tableColumn tableKind = iota
	tableGroup            // a document
	tableList             // an array, of a repeated group with one field or a repeated column
	tableMap              // a document, of a repeated group with a key and a value
)

var errNUL = errors.New("its name has a byte 0, which that of a field cannot have")

// newTable makes a table of the columns below one. Errors: types that no document has.
func newTable(root *parquet.Column) (*table, error) {
	t := &table{}
	columns := 0
	for _, c := range root.Columns() {
		f, err := newTableField(c, &columns)
		if err != nil {
			return nil, fmt.Errorf("the column %q: %w", c.Name(), err)
		}
		t.fields = append(t.fields, f)
	}
	return t, nil
}

func newTableField(c *parquet.Column, columns *int) (*tableField, error) {
	if strings.Contains(c.Name(), "\x00") {
		return nil, errNUL
	}
	f := &tableField{name: c.Name(), optional: c.Optional(), repeated: c.Repeated(), repetition: c.MaxRepetitionLevel(), definition: c.MaxDefinitionLevel(), first: *columns}
	if c.Leaf() {
		*columns++
		f.end = *columns
		var err error
		f.value, err = valuesOf(c.Type())
		return f, err
	}
	for _, b := range c.Columns() {
		below, err := newTableField(b, columns)
		if err != nil {
			return nil, err
		}
		f.below = append(f.below, below)
	}
	f.end, f.kind = *columns, tableGroup
	logical := c.Type().LogicalType()
	if logical == nil {
		return f, nil
	}
	switch logical.Value.(type) {
	case *format.VariantType:
		return nil, errors.New("its type VARIANT is not read")
	case *format.ListType:
		if len(f.below) == 1 && f.below[0].repeated {
			f.kind = tableList
		}
	case *format.MapType:
		if len(f.below) == 1 && f.below[0].repeated && len(f.below[0].below) == 2 {
			f.kind = tableMap
		}
	}
	return f, nil
}

// cells are the values of each column of a field, of one place where the field is.
type cells [][]parquet.Value

// of are the cells of a field below the one whose first column is first.
func (c cells) of(f *tableField, first int) cells { return c[f.first-first : f.end-first] }

// document makes the document of a row.
func (t *table) document(row parquet.Row) (bson.Doc, error) {
	var all cells
	row.Range(func(_ int, values []parquet.Value) bool {
		all = append(all, values)
		return true
	})
	b := new(bson.Builder)
	for _, f := range t.fields {
		if err := f.appendTo(b, f.name, all.of(f, 0), false); err != nil {
			return nil, fmt.Errorf("the column %q: %w", f.name, err)
		}
	}
	return b.Finish(), nil
}

// appendTo appends the field, under a name. Where it is null it is no field, or null if it is an
// element of an array.
func (f *tableField) appendTo(b *bson.Builder, name string, c cells, element bool) error {
	if f.repeated {
		b.OpenArray(name)
		if err := f.eachElement(c, func(i int, c cells) error { return f.appendOne(b, fmt.Sprint(i), c, true) }); err != nil {
			return err
		}
		b.Close()
		return nil
	}
	return f.appendOne(b, name, c, element)
}

// eachElement calls do with the cells of each element of a repeated field.
func (f *tableField) eachElement(c cells, do func(i int, c cells) error) error {
	if c[0][0].DefinitionLevel() < f.definition {
		return nil // there is none
	}
	rest := append(cells(nil), c...)
	for i := 0; len(rest[0]) > 0; i++ {
		one := make(cells, len(rest))
		for j, values := range rest {
			n := 1
			for n < len(values) && values[n].RepetitionLevel() > f.repetition {
				n++
			}
			if len(values) == 0 {
				return errors.New("columns of one group have different numbers of elements")
			}
			one[j], rest[j] = values[:n], values[n:]
		}
		if err := do(i, one); err != nil {
			return err
		}
	}
	return nil
}

// appendOne appends the field, or one element of it.
func (f *tableField) appendOne(b *bson.Builder, name string, c cells, element bool) error {
	if f.optional && c[0][0].DefinitionLevel() < f.definition {
		if element {
			b.Null(name)
		}
		return nil
	}
	switch f.kind {
	case tableColumn:
		v, err := f.value(c[0][0])
		if err == nil {
			b.Value(name, v)
		}
		return err
	case tableList:
		b.OpenArray(name)
		item := f.below[0]
		if err := item.eachElement(c, func(i int, c cells) error {
			if item.kind == tableGroup && len(item.below) == 1 {
				return item.below[0].appendTo(b, fmt.Sprint(i), c, true)
			}
			return item.appendOne(b, fmt.Sprint(i), c, true)
		}); err != nil {
			return err
		}
		b.Close()
		return nil
	case tableMap:
		return f.appendMap(b, name, c)
	}
	b.OpenDoc(name)
	for _, below := range f.below {
		if err := below.appendTo(b, below.name, c.of(below, f.first), false); err != nil {
			return err
		}
	}
	b.Close()
	return nil
}

// appendMap appends a map as a document. Errors: a key that is no text.
func (f *tableField) appendMap(b *bson.Builder, name string, c cells) error {
	pair := f.below[0]
	key, value := pair.below[0], pair.below[1]
	b.OpenDoc(name)
	err := pair.eachElement(c, func(_ int, c cells) error {
		if key.kind != tableColumn {
			return errors.New("a key of a map is no text")
		}
		k, err := key.value(c[0][0])
		if err != nil || k.Type != bson.TypeString {
			return errors.Join(errors.New("a key of a map is no text"), err)
		}
		if strings.Contains(k.Str(), "\x00") {
			return errNUL
		}
		return value.appendTo(b, k.Str(), c.of(value, f.first), true)
	})
	if err == nil {
		b.Close()
	}
	return err
}

// valuesOf is what makes a column's values those of documents.
func valuesOf(t parquet.Type) (func(parquet.Value) (bson.Value, error), error) {
	if logical := t.LogicalType(); logical != nil {
		switch l := logical.Value.(type) {
		case *format.StringType, *format.EnumType, *format.JsonType:
			return func(v parquet.Value) (bson.Value, error) { return bson.String(string(v.ByteArray())), nil }, nil
		case *format.BsonType:
			return documentOf, nil
		case *format.UUIDType:
			return func(v parquet.Value) (bson.Value, error) { return bson.Binary(4, v.ByteArray()), nil }, nil
		case *format.DateType:
			return func(v parquet.Value) (bson.Value, error) {
				return bson.Date(int64(v.Int32()) * (24 * time.Hour).Milliseconds()), nil
			}, nil
		case *format.TimestampType:
			return timestamps(l.Unit)
		case *format.DecimalType:
			return decimals(t.Kind(), l.Scale), nil
		case *format.IntType:
			if !l.IsSigned && l.BitWidth == 32 {
				return func(v parquet.Value) (bson.Value, error) { return bson.Int(int64(v.Uint32())), nil }, nil
			}
			if !l.IsSigned && l.BitWidth == 64 {
				return func(v parquet.Value) (bson.Value, error) {
					if v.Int64() < 0 {
						d, _ := bson.ParseDecimal(strconv.FormatUint(uint64(v.Int64()), 10)) // 20 digits
						return bson.Decimal(d), nil
					}
					return bson.Int64(v.Int64()), nil
				}, nil
			}
		case *format.Float16Type, *format.TimeType, *format.GeometryType, *format.GeographyType:
			return nil, fmt.Errorf("its type %s is not read", logical)
		}
	}
	value := plainValues[t.Kind()]
	if value == nil {
		return nil, fmt.Errorf("its type %s is not read", t)
	}
	return value, nil
}

var plainValues = map[parquet.Kind]func(parquet.Value) (bson.Value, error){
	parquet.Boolean:           func(v parquet.Value) (bson.Value, error) { return bson.Bool(v.Boolean()), nil },
	parquet.Int32:             func(v parquet.Value) (bson.Value, error) { return bson.Int32(v.Int32()), nil },
	parquet.Int64:             func(v parquet.Value) (bson.Value, error) { return bson.Int64(v.Int64()), nil },
	parquet.Float:             func(v parquet.Value) (bson.Value, error) { return bson.Double(float64(v.Float())), nil },
	parquet.Double:            func(v parquet.Value) (bson.Value, error) { return bson.Double(v.Double()), nil },
	parquet.ByteArray:         func(v parquet.Value) (bson.Value, error) { return bson.Binary(0, v.ByteArray()), nil },
	parquet.FixedLenByteArray: func(v parquet.Value) (bson.Value, error) { return bson.Binary(0, v.ByteArray()), nil },
	parquet.Int96:             oldTimestamp,
}

// julian1970 is the Julian day that begins at noon of 1970-01-01.
const julian1970 = 2440588

// oldTimestamp reads a time as Hive and Impala wrote it: nanoseconds of a Julian day.
func oldTimestamp(v parquet.Value) (bson.Value, error) {
	i := v.Int96()
	days, nanos := int64(i[2])-julian1970, int64(uint64(i[1])<<32|uint64(i[0]))
	return bson.Date(days*(24*time.Hour).Milliseconds() + nanos/int64(time.Millisecond)), nil
}

func documentOf(v parquet.Value) (bson.Value, error) {
	d := bson.Doc(v.ByteArray())
	return bson.Document(d), bson.Validate(d, maxDepth)
}

// timestamps makes dates, which have milliseconds: what is finer is cut off.
func timestamps(unit format.TimeUnit) (func(parquet.Value) (bson.Value, error), error) {
	per := int64(1)
	switch unit.Value.(type) {
	case *format.MicroSeconds:
		per = 1000
	case *format.NanoSeconds:
		per = 1_000_000
	case *format.MilliSeconds:
	default:
		return nil, errors.New("its type is a timestamp without a unit")
	}
	return func(v parquet.Value) (bson.Value, error) {
		ms := v.Int64() / per
		if v.Int64()%per < 0 {
			ms--
		}
		return bson.Date(ms), nil
	}, nil
}

// decimals makes decimals of whole numbers and a scale. Errors: more than 34 digits.
func decimals(kind parquet.Kind, scale int32) func(parquet.Value) (bson.Value, error) {
	return func(v parquet.Value) (bson.Value, error) {
		unscaled := new(big.Int)
		switch kind {
		case parquet.Int32:
			unscaled.SetInt64(int64(v.Int32()))
		case parquet.Int64:
			unscaled.SetInt64(v.Int64())
		default: // bytes in the order of a number, as two's complement
			b := v.ByteArray()
			unscaled.SetBytes(b)
			if len(b) > 0 && b[0]&0x80 != 0 {
				unscaled.Sub(unscaled, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
			}
		}
		digits := new(big.Int).Abs(unscaled).String()
		if len(digits) > 34 {
			return bson.Value{}, fmt.Errorf("%s has more than 34 digits", digits)
		}
		d, ok := bson.ParseDecimal(fmt.Sprintf("%se-%d", unscaled, scale))
		if !ok {
			return bson.Value{}, fmt.Errorf("%s with the scale %d is no decimal", unscaled, scale)
		}
		return bson.Decimal(d), nil
	}
}
