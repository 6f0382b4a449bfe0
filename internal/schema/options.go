package schema

import (
	"github.com/mayflydb/mayfly/internal/bson"
)

// Options are a collection's options, as `create` sets and collMod changes
// them. Doc is their stored form, and what listCollections shows.
type Options struct {
	Capped bool
	Size   int64 // bytes a capped collection may hold
	Max    int64 // documents a capped collection may hold; 0 is no bound
	Temp   bool

	Collation *Collation // the default; nil is the simple one
	ViewOn    string     // not empty: a view
	Pipeline  bson.Doc   // of a view, as an array

	Validator        bson.Doc   // nil: none
	ValidationLevel  string     // "" (not set), "off", "strict", "moderate"
	ValidationAction string     // "" (not set), "error", "warn"
	Validation       *Validator // the three above, ready for use; nil: every document is fine

	Clustered          *Clustered
	Timeseries         *Timeseries
	ExpireAfterSeconds int64 // NoExpiry, or the TTL of a clustered or time-series collection
	Expiry             Expiry

	StorageEngine       bson.Doc
	IndexOptionDefaults bson.Doc
	EncryptedFields     bson.Doc
	PreAndPostImages    bool // changeStreamPreAndPostImages.enabled
}

// Clustered is the clusteredIndex of a collection, whose key is always {_id: 1}.
type Clustered struct {
	Name string
}

// LoadOptions parses options in their stored form.
func LoadOptions(d bson.Doc) (*Options, error) {
	o := &Options{ExpireAfterSeconds: NoExpiry}
	for name, v := range d.All() {
		if load, ok := optionLoaders[name]; ok {
			if err := load(o, v); err != nil {
				return nil, err
			}
		}
	}
	if err := o.checkOwnExpiry(); err != nil {
		return nil, err
	}
	return o, o.loadValidator()
}

// optionLoaders read the stored options one by one.
var optionLoaders = map[string]func(*Options, bson.Value) error{
	"capped":   func(o *Options, v bson.Value) error { o.Capped = v.Truthy(); return nil },
	"size":     func(o *Options, v bson.Value) error { o.Size = bson.ClampToInt64(v); return nil },
	"max":      func(o *Options, v bson.Value) error { o.Max = bson.ClampToInt64(v); return nil },
	"temp":     func(o *Options, v bson.Value) error { o.Temp = v.Truthy(); return nil },
	"viewOn":   func(o *Options, v bson.Value) error { o.ViewOn = text(v); return nil },
	"pipeline": func(o *Options, v bson.Value) error { o.Pipeline = document(v); return nil },
	"collation": func(o *Options, v bson.Value) (err error) {
		o.Collation, err = ParseCollation(document(v))
		return err
	},
	"validator":        func(o *Options, v bson.Value) error { o.Validator = document(v); return nil },
	"validationLevel":  func(o *Options, v bson.Value) error { o.ValidationLevel = text(v); return nil },
	"validationAction": func(o *Options, v bson.Value) error { o.ValidationAction = text(v); return nil },
	"clusteredIndex": func(o *Options, v bson.Value) error {
		o.Clustered = &Clustered{Name: text(document(v).Lookup("name"))}
		return nil
	},
	"timeseries": func(o *Options, v bson.Value) error { o.Timeseries = loadTimeseries(document(v)); return nil },
	"expireAfterSeconds": func(o *Options, v bson.Value) error {
		o.ExpireAfterSeconds = bson.ClampToInt64(v)
		return nil
	},
	"storageEngine": func(o *Options, v bson.Value) (err error) {
		o.StorageEngine = document(v)
		o.Expiry, _, err = ExpiryOf(o.StorageEngine)
		return err
	},
	"indexOptionDefaults": func(o *Options, v bson.Value) error { o.IndexOptionDefaults = document(v); return nil },
	"encryptedFields":     func(o *Options, v bson.Value) error { o.EncryptedFields = document(v); return nil },
	"changeStreamPreAndPostImages": func(o *Options, v bson.Value) error {
		o.PreAndPostImages = document(v).Lookup("enabled").Truthy()
		return nil
	},
}

// text returns the content of a string, "" for anything else.
func text(v bson.Value) string {
	if v.Type != bson.TypeString {
		return ""
	}
	return v.Str()
}

// document returns an object or an array as a document, nil for anything else.
func document(v bson.Value) bson.Doc {
	if v.Type != bson.TypeDocument && v.Type != bson.TypeArray {
		return nil
	}
	return v.Doc()
}

// Doc is the stored form of the options: those that are set, in the order
// listCollections shows them.
func (o *Options) Doc() bson.Doc {
	var b bson.Builder
	b.Reset(nil)
	if o.Capped {
		b.Bool("capped", true)
		if o.Size != 0 {
			b.Int("size", o.Size)
		}
		if o.Max != 0 {
			b.Int("max", o.Max)
		}
	}
	if o.Temp {
		b.Bool("temp", true)
	}
	if o.PreAndPostImages {
		b.OpenDoc("changeStreamPreAndPostImages").Bool("enabled", true).Close()
	}
	for _, f := range []struct {
		name string
		doc  bson.Doc
	}{{"storageEngine", o.StorageEngine}, {"indexOptionDefaults", o.IndexOptionDefaults}, {"validator", o.Validator}} {
		if f.doc != nil && !f.doc.IsEmpty() {
			b.Doc(f.name, f.doc)
		}
	}
	if o.ValidationLevel != "" {
		b.String("validationLevel", o.ValidationLevel)
	}
	if o.ValidationAction != "" {
		b.String("validationAction", o.ValidationAction)
	}
	if o.Collation != nil {
		b.Doc("collation", o.Collation.Spec)
	}
	if o.ViewOn != "" {
		pipeline := o.Pipeline
		if pipeline == nil {
			pipeline = bson.Empty
		}
		b.String("viewOn", o.ViewOn).Array("pipeline", pipeline)
	}
	if o.Clustered != nil {
		b.Doc("clusteredIndex", o.Clustered.doc())
	}
	if o.ExpireAfterSeconds != NoExpiry {
		b.Int64("expireAfterSeconds", o.ExpireAfterSeconds)
	}
	if o.EncryptedFields != nil {
		b.Doc("encryptedFields", o.EncryptedFields)
	}
	if o.Timeseries != nil {
		b.Doc("timeseries", o.Timeseries.doc())
	}
	return b.Finish()
}

func (c *Clustered) doc() bson.Doc {
	return new(bson.Builder).Int32("v", 2).Doc("key", idKey).String("name", c.Name).Bool("unique", true).Finish()
}
