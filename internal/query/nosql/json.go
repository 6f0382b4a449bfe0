package nosql

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/mayflydb/mayfly/internal/bson"
)

// maxJSONDepth bounds how deep JSON nests, as the service does (128).
const maxJSONDepth = 128

// ParseJSON reads one JSON text as a value: whole numbers as int or long, all
// others as double; of a name that comes twice in an object the last counts.
func ParseJSON(data []byte) (bson.Value, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	v, err := readJSON(d, 0)
	if err != nil {
		return v, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return bson.Value{}, errors.New("unexpected text after the JSON value")
	}
	return v, nil
}

func readJSON(d *json.Decoder, depth int) (bson.Value, error) {
	if depth > maxJSONDepth {
		return bson.Value{}, fmt.Errorf("the JSON text nests deeper than %d levels", maxJSONDepth)
	}
	t, err := d.Token()
	if err != nil {
		return bson.Value{}, err
	}
	switch t := t.(type) {
	case bool:
		return bson.Bool(t), nil
	case string:
		return text(t), nil
	case json.Number:
		return jsonNumber(string(t))
	case json.Delim:
		if t == '[' {
			return readJSONArray(d, depth)
		}
		return readJSONObject(d, depth)
	}
	return bson.Value{Type: bson.TypeNull}, nil
}

func jsonNumber(s string) (bson.Value, error) {
	if i, err := strconv.ParseInt(s, 10, 64); err == nil && s != "-0" {
		return bson.Int(i), nil
	}
	f, err := strconv.ParseFloat(s, 64)
	if math.IsInf(f, 0) {
		return bson.Value{}, fmt.Errorf("the number %s is out of range", s)
	}
	return bson.Double(f), err
}

func readJSONArray(d *json.Decoder, depth int) (bson.Value, error) {
	var b bson.Builder
	for i := 0; d.More(); i++ {
		v, err := readJSON(d, depth+1)
		if err != nil {
			return v, err
		}
		b.Value(bson.Index(i), v)
	}
	_, err := d.Token()
	return bson.ArrayOf(b.Finish()), err
}

func readJSONObject(d *json.Decoder, depth int) (bson.Value, error) {
	var names []string
	values := map[string]bson.Value{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return bson.Value{}, err
		}
		name := t.(string)
		v, err := readJSON(d, depth+1)
		if err != nil {
			return v, err
		}
		if _, again := values[name]; !again {
			names = append(names, name)
		}
		values[name] = v
	}
	var b bson.Builder
	for _, name := range names {
		if bytes.IndexByte([]byte(name), 0) >= 0 {
			return bson.Value{}, errors.New("a property name contains a zero character")
		}
		b.Value(name, values[name])
	}
	_, err := d.Token()
	return bson.Document(b.Finish()), err
}
