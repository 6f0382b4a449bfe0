package docfile

import (
	"fmt"
	"path/filepath"

	"github.com/mayflydb/mayfly/internal/bson"
)

// Format is the format of a file of documents.
type Format string

const (
	// JSONLines has a document in canonical extended JSON v2 on each line: nothing is lost.
	// A reader takes relaxed JSON as well.
	JSONLines Format = "jsonLines"
	// RelaxedLines has relaxed JSON, which loses the types of numbers.
	RelaxedLines Format = "relaxedLines"
	// BSON has one document behind the other, as a file of mongodump has.
	BSON Format = "bson"
)

const (
	// maxLine bounds a line, in bytes: canonical JSON takes up to six bytes for one (\u0001).
	maxLine = 8 * bson.MaxDocumentSize
	// maxDepth bounds the levels of a document, as a server's limit for what is stored does.
	maxDepth = 200
)

var extensions = map[string]Format{".json": JSONLines, ".jsonl": JSONLines, ".ndjson": JSONLines, ".bson": BSON}

// ParseFormat is the format of a name, or where that is "" of a file's name.
func ParseFormat(name, path string) (Format, error) {
	switch f := Format(name); f {
	case JSONLines, RelaxedLines, BSON:
		return f, nil
	case "":
		if f, ok := extensions[filepath.Ext(path)]; ok {
			return f, nil
		}
		return "", fmt.Errorf("the name %q does not say which format: --format jsonLines, relaxedLines or bson", filepath.Base(path))
	}
	return "", fmt.Errorf("%q is no format: jsonLines, relaxedLines or bson", name)
}
