package catalog

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// openProved opens a store and its catalog; that what it commits says all is proved
// when the catalog is closed. It is replay.Open, which these tests cannot import.
var openProved func(failer, storage.Options, Options) (*storage.Engine, *Catalog)

// failer is what helpers need of *testing.T and *rapid.T.
type failer interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

// open opens a catalog on fs.
func open(t testing.TB, fs *storage.MemFS) *Catalog {
	t.Helper()
	e, c := openProved(t, storage.Options{Dir: "db", FS: fs, CacheBytes: 8 << 20, MemtableBytes: 512 << 10}, Options{})
	t.Cleanup(func() {
		c.Close()
		e.Close()
	})
	return c
}

func reopen(t testing.TB, c *Catalog, fs *storage.MemFS) *Catalog {
	t.Helper()
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if err := c.engine.Close(); err != nil {
		t.Fatal(err)
	}
	return open(t, fs)
}

// parse reads relaxed Extended JSON.
func parse(t failer, s string) bson.Doc {
	t.Helper()
	d, err := bson.ParseJSON(s)
	if err != nil {
		t.Fatalf("%s: %v", s, err)
	}
	return d
}

func specs(t failer, ns schema.Namespace, list ...string) (all []bson.Doc) {
	t.Helper()
	for _, s := range list {
		d, err := schema.ParseIndexSpec(ns, parse(t, s), false)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, d)
	}
	return all
}

// write writes one document through a unit of its own: nil inserts or deletes.
func write(c *Catalog, coll *Collection, key RecordKey, doc bson.Doc) error {
	ctx := context.Background()
	return c.Run(ctx, storage.Buffered, func(u *Unit) error {
		if key == nil {
			return u.Insert(ctx, coll, doc)
		}
		old, err := u.LockRecord(ctx, coll, key)
		if err != nil || old == nil {
			return err
		}
		if doc == nil {
			return u.Delete(ctx, coll, key, old)
		}
		return u.Update(ctx, coll, key, old, doc)
	})
}

// records returns the documents in the order of their keys.
func records(t failer, r storage.Reader, coll *Collection) (keys []RecordKey, docs []bson.Doc) {
	t.Helper()
	it, err := r.NewIter(coll.Ident, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		v, err := it.Value()
		if err != nil {
			t.Fatal(err)
		}
		keys, docs = append(keys, slices.Clone(it.Key())), append(docs, bson.Doc(v).Clone())
	}
	return keys, docs
}

// endProcess closes a catalog and its store.
func endProcess(t failer, c *Catalog) {
	t.Helper()
	c.Close()
	if err := c.engine.Close(); err != nil {
		t.Fatal(err)
	}
}

// mustValidate fails the test unless coll is whole.
func mustValidate(t failer, c *Catalog, coll *Collection) *Validation {
	t.Helper()
	v, err := c.Validate(context.Background(), coll, true)
	if err != nil {
		t.Fatal(err)
	}
	if !v.Valid {
		t.Fatal(describe(v))
	}
	return v
}

func describe(v *Validation) string {
	var b strings.Builder
	fmt.Fprintf(&b, "valid=%t records=%d invalid=%d", v.Valid, v.Records, v.InvalidDocuments)
	for _, e := range v.Errors {
		fmt.Fprintf(&b, "\n%s", e)
	}
	for _, ix := range v.Indexes {
		fmt.Fprintf(&b, "\n%s: valid=%t keys=%d %s", ix.Index.Name, ix.Valid, ix.Keys, strings.Join(ix.Errors, "; "))
	}
	for _, f := range v.MissingEntries {
		fmt.Fprintf(&b, "\nmissing in %s: %x of %x", f.Index.Name, f.Key.Bytes, f.Record)
	}
	for _, f := range v.ExtraEntries {
		fmt.Fprintf(&b, "\nextra in %s: %x of %x", f.Index.Name, f.Key.Bytes, f.Record)
	}
	return b.String()
}

// TestScripts runs testdata: one command per directive, its outcome below.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		s := &script{fs: storage.NewMemFS(), seen: map[string]*Collection{}}
		s.c = open(t, s.fs)
		datadriven.RunTest(t, path, s.run)
	})
}

type script struct {
	fs   *storage.MemFS
	c    *Catalog
	seen map[string]*Collection // descriptors kept by `keep`
	// dumped is what `stored` has shown, by key.
	dumped map[string]string
}

func (s *script) run(t *testing.T, d *datadriven.TestData) string {
	ctx := t.Context()
	var name, to, keep string
	d.MaybeScanArgs(t, "c", &name)
	d.MaybeScanArgs(t, "to", &to)
	d.MaybeScanArgs(t, "kept", &keep)
	ns := schema.ParseNamespace(name)
	coll := s.c.Lookup(ns)
	if keep != "" {
		coll = s.seen[keep]
	}
	var err error
	switch d.Cmd {
	case "create":
		options := bson.Doc(nil)
		if d.Input != "" {
			options = parse(t, d.Input)
		}
		_, err = s.c.Create(ctx, ns, options)
	case "insert":
		return s.insert(t, coll, d.Input)
	case "update", "delete":
		return s.modify(t, coll, d)
	case "createIndexes":
		before, after, err := s.c.CreateIndexes(ctx, ns, specs(t, ns, strings.Split(d.Input, "\n")...))
		return fmt.Sprintf("%d → %d\n%s", before, after, outcome(err))
	case "dropIndex":
		_, err = s.c.DropIndexes(ctx, ns, func(c *Collection) ([]*Index, error) { return []*Index{c.Index(d.Input)}, nil })
	case "rename":
		_, err = s.c.Rename(ctx, ns, schema.ParseNamespace(to), d.HasArg("dropTarget"))
	case "drop":
		_, err = s.c.Drop(ctx, ns)
	case "dropDatabase":
		_, err = s.c.DropDatabase(ctx, name)
	case "hide":
		_, err = s.c.Modify(ctx, ns, func(c *Collection) (Modification, error) {
			ix, err := c.Index(d.Input).With(map[string]bson.Value{"hidden": bson.True})
			return Modification{Indexes: map[string]*schema.Index{d.Input: ix}}, err
		})
	case "collMod":
		_, err = s.c.Modify(ctx, ns, func(c *Collection) (Modification, error) {
			return Modification{Options: parse(t, d.Input)}, nil
		})
	case "shard":
		_, err = s.c.SetSharding(ctx, ns, func(*Collection) (*schema.Sharding, error) {
			if d.Input == "" {
				return nil, nil
			}
			return schema.LoadSharding(parse(t, d.Input))
		})
	case "lie":
		err = s.c.LieByShardKey(ctx, ns)
	case "keep":
		s.seen[d.CmdArgs[1].Key] = coll
	case "check":
		err = s.seen[d.CmdArgs[0].Key].Check()
	case "reopen":
		s.c = reopen(t, s.c, s.fs)
	case "validate":
		v, err := s.c.Validate(ctx, coll, true)
		if err != nil {
			return outcome(err)
		}
		return describe(v)
	case "show":
		return s.show(t)
	case "readDescriptor":
		return readDescriptor(t, d)
	case "measure", "freeze", "flush", "seal", "expire", "sweep", "stored":
		return s.stored(t, coll, d)
	default:
		d.Fatalf(t, "unknown command")
	}
	return outcome(err)
}

// outcome prints an error as a client sees it, or "ok".
func outcome(err error) string {
	if err == nil {
		return "ok"
	}
	e := mongoerr.From(err)
	s := fmt.Sprintf("%d %s", e.Code, uuids.ReplaceAllString(e.Message, "UUID"))
	if e.Extra != nil {
		s += "\n" + bson.Doc(e.Extra).String()
	}
	return s
}

var uuids = regexp.MustCompile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

func (s *script) insert(t *testing.T, coll *Collection, input string) string {
	var docs []bson.Doc
	for line := range strings.Lines(input) {
		docs = append(docs, parse(t, line))
	}
	var out string
	err := s.c.Run(t.Context(), storage.Buffered, func(u *Unit) error {
		for _, d := range docs {
			if err := u.Insert(t.Context(), coll, d); err != nil {
				out += outcome(err) + "\n"
			}
		}
		return nil
	})
	return out + outcome(err)
}

func (s *script) modify(t *testing.T, coll *Collection, d *datadriven.TestData) string {
	doc := parse(t, d.Input)
	keys, docs := records(t, s.c.engine, coll)
	for i := range docs {
		if bson.Equal(docs[i].Lookup("_id"), doc.Lookup("_id")) {
			if d.Cmd == "delete" {
				doc = nil
			}
			return outcome(write(s.c, coll, keys[i], doc))
		}
	}
	return "no such document"
}

// show prints all that the catalog has.
func (s *script) show(t *testing.T) string {
	var b strings.Builder
	for _, db := range s.c.Databases() {
		for _, c := range s.c.Collections(db) {
			fmt.Fprintf(&b, "%s %s: %d documents, %d bytes\n", c.Namespace, c.Options, c.Count(), c.DataSize())
			for _, ix := range c.Indexes() {
				fmt.Fprintf(&b, "  %s records=%t ready=%t multikey=%v\n", ix.Spec, ix.Records, ix.Ready, ix.Multikey())
			}
			if c.Ident != 0 {
				_, docs := records(t, s.c.engine, c)
				for _, d := range docs {
					fmt.Fprintf(&b, "  %s\n", d)
				}
			}
		}
	}
	for _, x := range s.c.TTL() {
		fmt.Fprintf(&b, "ttl %s\n", x.Collection.Namespace)
	}
	return b.String()
}
