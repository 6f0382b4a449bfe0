package archive

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/schema"
)

// errNoObject says that a file is not an object of an archive.
var errNoObject = errors.New("the file is not an object of an archive")

// Row is a document of system.archive: it says what an object has. One that is Writing only says
// that an object may be there, which is nobody's until another unit says so.
type Row struct {
	Path    string // below To; with To, the _id
	To      string
	Writing bool
	// GivenUp says that the object of one that is Writing is being removed: no unit makes it a row.
	GivenUp bool
	// Owner is the id of the server or the replica set that has written it: one that was restored has
	// another.
	Owner string

	Namespace  string
	Collection [16]byte // the UUID
	Rule, Key  string   // the rule, and the path of its date
	Written
	// Arrays says that the date of a document is in an array, so there may be others in it.
	Arrays bool
	// Gone is when the documents were removed, in milliseconds since 1970.
	Gone int64
}

// ID is the _id of the row.
func (r *Row) ID() string { return r.To + "/" + r.Path }

// maxFolder bounds the name of a directory of an archive: file systems have 255 bytes, and a name of a
// collection may have three times that as it is encoded.
const maxFolder = 200

// Folder is the directory of a namespace's objects: its name, encoded as in a URL; of a long one the
// beginning and a sum of it.
func Folder(namespace string) string {
	name := url.PathEscape(namespace)
	if len(name) <= maxFolder {
		return name
	}
	sum := sha256.Sum256([]byte(namespace))
	end := "~" + hex.EncodeToString(sum[:8])
	at := 0 // behind whole characters
	for _, c := range namespace {
		n := len(url.PathEscape(string(c)))
		if at+n > maxFolder-len(end) {
			break
		}
		at += n
	}
	return name[:at] + end
}

// Name returns a new path for an object of a namespace with documents of a day.
func Name(namespace, owner, day string) string {
	return fmt.Sprintf("%s/dt=%s/%s-%s.parquet", Folder(namespace), day, owner, strings.ToLower(rand.Text()))
}

// Doc is the row as it is stored.
func (r *Row) Doc() bson.Doc {
	b := new(bson.Builder).String("_id", r.ID()).String("to", r.To).String("path", r.Path).String("ns", r.Namespace)
	b.Binary("collection", 4, r.Collection[:]).String("rule", r.Rule).String("owner", r.Owner)
	if r.Writing {
		b.Bool("writing", true)
		if r.GivenUp {
			b.Bool("givenUp", true)
		}
		return b.Finish()
	}
	b.String("key", r.Key).Date("from", r.From).Date("until", r.Until).Bool("arrays", r.Arrays)
	b.Int64("rows", r.Rows).Int64("bytes", r.Bytes).String("sha256", r.SHA256).Date("gone", r.Gone)
	if len(r.Parts) > 0 {
		b.OpenArray("parts")
		for i, p := range r.Parts {
			b.OpenDoc(bson.Index(i)).Int64("bytes", p.Bytes).Binary("sha256", 0, p.SHA256[:]).Close()
		}
		b.Close()
	}
	return b.Finish()
}

// ParseRow reads a row. It returns false for what is none.
func ParseRow(d bson.Doc) (r Row, ok bool) {
	text := func(name string) string {
		if v := d.Lookup(name); v.Type == bson.TypeString {
			return strings.Clone(v.Str())
		}
		return ""
	}
	number := func(name string) int64 {
		switch v := d.Lookup(name); v.Type {
		case bson.TypeInt64:
			return v.Int64()
		case bson.TypeDate:
			return v.Date()
		}
		return 0
	}
	flag := func(name string) bool { v := d.Lookup(name); return v.Type == bson.TypeBool && v.Bool() }
	r = Row{
		Path: text("path"), To: text("to"), Writing: flag("writing"), Owner: text("owner"), GivenUp: flag("givenUp"),
		Namespace: text("ns"), Rule: text("rule"), Key: text("key"), Arrays: flag("arrays"), Gone: number("gone"),
		Written: Written{Rows: number("rows"), Bytes: number("bytes"), SHA256: text("sha256"), From: number("from"), Until: number("until")},
	}
	r.Parts = parseParts(d.Lookup("parts"), r.Bytes)
	if v := d.Lookup("collection"); v.Type == bson.TypeBinary {
		if _, content := v.Binary(); len(content) == 16 {
			r.Collection = [16]byte(content)
		}
	}
	return r, r.Path != "" && schema.IsArchivePlace(r.To)
}
