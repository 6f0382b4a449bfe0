package catalog

import "github.com/mayflydb/mayfly/internal/bson"

// optionTemp is the option of a collection that does not outlive the process. A
// command that builds a collection under a temporary name sets it, so that a killed
// command leaves no collection behind.
const optionTemp = "temp"

// WithTemp returns options with the mark of a temporary collection. Rename
// removes the mark.
func WithTemp(options bson.Doc) bson.Doc {
	b := copyOptions(options)
	return b.Bool(optionTemp, true).Finish()
}

func withoutTemp(options bson.Doc) bson.Doc { return copyOptions(options).Finish() }

// copyOptions starts a copy of options, without optionTemp.
func copyOptions(options bson.Doc) *bson.Builder {
	b := new(bson.Builder)
	b.Reset(nil)
	for name, v := range options.All() {
		if name != optionTemp {
			b.Value(name, v)
		}
	}
	return b
}
