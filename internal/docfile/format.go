package docfile

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

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
	// CSV has columns of text, as mongoexport and mongoimport have them: it keeps fields that are
	// named, and no types.
	CSV Format = "csv"
	// Parquet has columns. What is written has each document as BSON, too, so nothing is lost.
	Parquet Format = "parquet"
)

// formats is how errors list them.
const formats = "jsonLines, relaxedLines, bson, csv or parquet"

const (
	// maxLine bounds a line, in bytes: canonical JSON takes up to six bytes for one (\u0001).
	maxLine = 8 * bson.MaxDocumentSize
	// maxDepth bounds the levels of a document, as a server's limit for what is stored does.
	maxDepth = 200
	// compressed ends the name of a file that is compressed by gzip.
	compressed = ".gz"
)

var extensions = map[string]Format{".json": JSONLines, ".jsonl": JSONLines, ".ndjson": JSONLines, ".bson": BSON, ".csv": CSV, ".parquet": Parquet}

// Options say what a file has.
type Options struct {
	Format Format
	// Fields are the columns of CSV, paths with dots; to be read, with types if Types is set. A
	// Parquet file that is written has them as columns of their own.
	Fields []string
	// HeaderLine: the first line of CSV has the columns. One that is written has it unless
	// NoHeaderLine is set.
	HeaderLine, NoHeaderLine bool
	// Types: each name of a column says its type: name.int32().
	Types bool
	// IgnoreBlanks: an empty text of CSV is no field.
	IgnoreBlanks bool
}

// ParseFormat is the format of a name, or where that is "" of a file's name. Errors: one that gzip does
// not compress, and the file's name says so.
func ParseFormat(name, path string) (f Format, err error) {
	switch f = Format(name); f {
	case JSONLines, RelaxedLines, BSON, CSV, Parquet:
	case "":
		if f = extensions[filepath.Ext(strings.TrimSuffix(path, compressed))]; f == "" {
			return "", fmt.Errorf("the name %q does not say which format: --format %s", filepath.Base(path), formats)
		}
	default:
		return "", fmt.Errorf("%q is no format: %s", name, formats)
	}
	if f == Parquet && strings.HasSuffix(path, compressed) {
		return "", errors.New("a Parquet file is compressed by itself, and not by gzip: its name does not end with .gz")
	}
	return f, nil
}

// Check reports options that do not go together. writes says what the file is for.
func (o *Options) Check(writes bool) error {
	columns := len(o.Fields) > 0 || o.HeaderLine || o.NoHeaderLine || o.Types || o.IgnoreBlanks
	switch {
	case o.Format == Parquet && writes && o.NoHeaderLine:
		return errors.New("a header line is what csv has, not parquet")
	case o.Format == Parquet && writes, o.Format != CSV && !columns:
		return nil
	case o.Format != CSV:
		return fmt.Errorf("options about columns are for csv, not for %s", o.Format)
	case writes && len(o.Fields) == 0:
		return errors.New("csv needs --fields: the columns")
	case !writes && o.HeaderLine == (len(o.Fields) > 0):
		return errors.New("csv needs either --headerline, if the first line has the columns, or --fields")
	}
	return nil
}
