package catalog

import "github.com/mayflydb/mayfly/internal/bson"

// optionTemp is the option of a collection that lives no longer than the
// process. A command that builds a collection under a name of its own sets it,
// so that nothing stays of a command that was killed.
const optionTemp = "temp"

// WithTemp is options with the mark of a temporary collection. Rename takes the
// mark away.
func WithTemp(options bson.Doc) bson.Doc {
	b := copyOptions(options)
	return b.Bool(optionTemp, true).Finish()
}

func withoutTemp(options bson.Doc) bson.Doc { return copyOptions(options).Finish() }

// copyOptions begins a copy of options, without the mark.
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
