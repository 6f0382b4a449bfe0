package schema

import "github.com/mayflydb/mayfly/internal/bson"

// Options are a collection's options, as `create` sets and collMod changes them.
type Options struct {
	Capped bool
	Size   int64 // bytes a capped collection may hold
	Max    int64 // documents a capped collection may hold; 0 is no bound
	Temp   bool

	Collation *Collation // the default; nil is the simple one
	ViewOn    string     // not empty: a view
	Pipeline  bson.Doc   // of a view, as an array

	Validator        bson.Doc
	ValidationLevel  string // "" (not set), "off", "strict", "moderate"
	ValidationAction string // "" (not set), "error", "warn"

	Clustered          *Clustered
	Timeseries         *Timeseries
	ExpireAfterSeconds int64 // NoExpiry, or the TTL of a clustered or time-series collection

	StorageEngine       bson.Doc
	IndexOptionDefaults bson.Doc
	EncryptedFields     bson.Doc
	PreAndPostImages    bool // changeStreamPreAndPostImages.enabled
	ImagesSet           bool // changeStreamPreAndPostImages was given
}

// Clustered is the clusteredIndex of a collection, whose key is always {_id: 1}.
type Clustered struct {
	Name string
}

// Timeseries are the options of a time-series collection.
type Timeseries struct {
	TimeField       string
	MetaField       string // "" where there is none
	Granularity     string // "seconds", "minutes", "hours", or "" for custom spans
	MaxSpanSeconds  int64
	RoundingSeconds int64
}
