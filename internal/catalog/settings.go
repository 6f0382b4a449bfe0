package catalog

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/schema"
)

// loadSettings parses the stored options of a collection.
func loadSettings(d bson.Doc) (*schema.Options, error) {
	o := &schema.Options{ExpireAfterSeconds: schema.NoExpiry}
	for name, v := range d.All() {
		switch name {
		case "capped":
			o.Capped = v.Truthy()
		case "size":
			o.Size = integer(v)
		case "max":
			o.Max = integer(v)
		case "viewOn":
			o.ViewOn = v.Str()
		case "pipeline":
			o.Pipeline = v.Doc()
		case "collation":
			c, err := schema.ParseCollation(v.Doc())
			if err != nil {
				return nil, err
			}
			o.Collation = c
		}
	}
	return o, nil
}

func integer(v bson.Value) int64 {
	switch v.Type {
	case bson.TypeInt32:
		return int64(v.Int32())
	case bson.TypeInt64:
		return v.Int64()
	case bson.TypeDouble:
		return int64(v.Double())
	}
	return 0
}
