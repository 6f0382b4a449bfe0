package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/docfile"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

const (
	// restoreDocuments and restoreBytes bound what is inserted at once.
	restoreDocuments = 1000
	restoreBytes     = 8 << 20
)

// archivedObject is an object whose documents are restored.
type archivedObject struct {
	id   string
	from int64
}

// restore inserts archived documents into a collection.
func (o *archiveOptions) restore(ctx context.Context, uri *client.URI) (err error) {
	c, _, err := uri.Connect(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	into, _, err := uri.Connect(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, into.Close()) }()
	done := &progress{objects: map[string]bool{}}
	if o.progress != "" {
		title, err := o.title(ctx, into)
		if err == nil {
			done, err = openProgress(o.progress, title)
		}
		if err != nil {
			return err
		}
	}
	defer func() { err = errors.Join(err, done.close()) }()
	r := restoring{o: o, c: c, into: into, done: done, told: tellCopied()}
	for r.replaced = true; r.replaced; {
		objects, err := o.objects(ctx, c)
		if err == nil {
			err = r.objects(ctx, objects)
		}
		if err != nil {
			return err
		}
	}
	fmt.Printf("%d documents were inserted, and %d were there already.\n", r.inserted, r.kept)
	return nil
}

// restoring is a restore.
type restoring struct {
	o              *archiveOptions
	c, into        *client.Conn
	done           *progress
	told           docfile.Progress
	inserted, kept int64
	replaced       bool // an object that was listed is none any more: there may be another one for it
}

// objects restores objects that were listed, but for those that are finished.
func (r *restoring) objects(ctx context.Context, objects []archivedObject) error {
	r.replaced = false
	for i, at := range objects {
		if !r.done.objects[at.id] {
			n, k, err := r.o.restoreObject(ctx, r.c, r.into, at.id)
			r.inserted, r.kept = r.inserted+n, r.kept+k
			if err == nil {
				err = r.done.add(at.id)
			} else if mongoerr.Is(err, mongoerr.OperationFailed) {
				if is, failed := r.o.isObject(ctx, r.c, at.id); failed == nil && !is {
					r.replaced = true
					continue
				}
			}
			if err != nil {
				return fmt.Errorf("%d documents were inserted, of %d of %d objects: %w", r.inserted, i, len(objects), err)
			}
		}
		r.told(r.inserted + r.kept)
	}
	return nil
}

// collectionUUID returns the UUID of a collection; none has type zero.
func collectionUUID(ctx context.Context, c *client.Conn, db, coll string) (bson.Value, error) {
	cur, err := c.Open(ctx, db, new(bson.Builder).Int32("listCollections", 1).OpenDoc("filter").String("name", coll).Close().Finish())
	if err != nil {
		return bson.Value{}, err
	}
	d, err := cur.Next(ctx)
	if err != nil || d == nil || d.Lookup("info").Type != bson.TypeDocument {
		return bson.Value{}, errors.Join(err, cur.Close(ctx))
	}
	return d.Lookup("info").Doc().Lookup("uuid"), cur.Close(ctx)
}

// objects lists the objects of the collection's archive, in the order of their dates.
func (o *archiveOptions) objects(ctx context.Context, c *client.Conn) (all []archivedObject, err error) {
	uuid, err := collectionUUID(ctx, c, o.db, o.coll)
	if err != nil {
		return nil, err
	}
	if uuid.Type != bson.TypeBinary && !o.all {
		return nil, nil // there is no such collection
	}
	b := new(bson.Builder).OpenDoc("writing").Bool("$exists", false).Close().OpenArray("$or")
	if uuid.Type == bson.TypeBinary {
		b.OpenDoc("0").Value("collection", uuid).Close()
	}
	if o.all {
		b.OpenDoc("1").String("ns", o.ns).Close()
	}
	filter, shown := b.Close().Finish(), new(bson.Builder).Int32("from", 1).Finish()
	cur, err := c.Open(ctx, o.db, new(bson.Builder).String("find", "system.archive").Doc("filter", filter).Doc("projection", shown).Finish())
	if err != nil {
		return nil, err
	}
	for {
		d, err := cur.Next(ctx)
		if d == nil || err != nil {
			slices.SortFunc(all, func(a, b archivedObject) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.id, b.id)) })
			return all, err
		}
		at := archivedObject{id: strings.Clone(d.Lookup("_id").Str())}
		if v := d.Lookup("from"); v.Type == bson.TypeDate {
			at.from = v.Date()
		}
		all = append(all, at)
	}
}

// isObject reports whether an object is still one of the archive: it is not when it was replaced, or has
// expired.
func (o *archiveOptions) isObject(ctx context.Context, c *client.Conn, id string) (bool, error) {
	filter := new(bson.Builder).String("_id", id).OpenDoc("writing").Bool("$exists", false).Close().Finish()
	cur, err := c.Open(ctx, o.db, new(bson.Builder).String("find", "system.archive").Doc("filter", filter).Finish())
	if err != nil {
		return false, err
	}
	d, err := cur.Next(ctx)
	return d != nil, errors.Join(err, cur.Close(ctx))
}

// restoreObject inserts the documents of an object.
func (o *archiveOptions) restoreObject(ctx context.Context, c, into *client.Conn, id string) (inserted, kept int64, err error) {
	var b bson.Builder
	b.String("aggregate", o.coll).OpenArray("pipeline").OpenDoc("0").OpenDoc("$archive").Doc("query", o.query).String("of", o.of()).
		OpenArray("objects").String("0", id).Close().Close().Close().Close().OpenDoc("cursor").Close()
	cur, err := c.Open(ctx, o.db, b.Finish())
	if err != nil {
		return 0, 0, err
	}
	db, coll, _ := strings.Cut(o.to, ".")
	var docs []bson.Doc
	size := 0
	for {
		d, err := cur.Next(ctx)
		if err != nil {
			return inserted, kept, err
		}
		if len(docs) > 0 && (d == nil || len(docs) == restoreDocuments || size+len(d) > restoreBytes) {
			n, k, err := into.Insert(ctx, db, coll, docs, false)
			inserted, kept = inserted+n, kept+k
			if err != nil {
				return inserted, kept, errors.Join(err, cur.Close(ctx))
			}
			docs, size = docs[:0], 0
		}
		if d == nil {
			return inserted, kept, nil
		}
		docs, size = append(docs, d.Clone()), size+len(d)
	}
}

// title is the first line of a file of progress: what is restored, and into which collection, which is made
// if there is none. One that was dropped since has another UUID.
func (o *archiveOptions) title(ctx context.Context, into *client.Conn) (string, error) {
	db, coll, _ := strings.Cut(o.to, ".")
	if _, err := into.Run(ctx, db, new(bson.Builder).String("create", coll).Finish()); err != nil && !mongoerr.Is(err, mongoerr.NamespaceExists) {
		return "", err
	}
	uuid, err := collectionUUID(ctx, into, db, coll)
	if err != nil {
		return "", err
	}
	b := new(bson.Builder).String("ns", o.ns).String("to", o.to).Doc("filter", o.query).Bool("all", o.all)
	if uuid.Type == bson.TypeBinary {
		b.Value("uuid", uuid)
	}
	return string(b.Finish().AppendJSON(nil, bson.CanonicalJSON)), nil
}

// progress is a file with the objects that are finished, behind its title.
type progress struct {
	objects map[string]bool
	file    *os.File // nil for none
}

// otherProgress says that a file is not of the restore that was asked for.
type otherProgress struct{ name, title string }

func (e *otherProgress) Error() string {
	return fmt.Sprintf("--progress: %s is of another restore, or of a collection that was dropped since; this one is %s", e.name, e.title)
}

// openProgress opens a file of before, or a new one. Errors: otherProgress.
func openProgress(name, title string) (*progress, error) {
	p := &progress{objects: map[string]bool{}}
	was, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	whole := was[:strings.LastIndexByte(string(was), '\n')+1] // the last line may have been cut off
	first, rest, _ := strings.Cut(string(whole), "\n")
	if len(was) > 0 && first != title && !(len(whole) == 0 && strings.HasPrefix(title, string(was))) {
		return nil, &otherProgress{name, title}
	}
	for id := range strings.Lines(rest) {
		p.objects[strings.TrimSuffix(id, "\n")] = true
	}
	if p.file, err = os.OpenFile(name, os.O_CREATE|os.O_WRONLY, 0o600); err != nil {
		return nil, err
	}
	if err := p.file.Truncate(int64(len(whole))); err != nil {
		return nil, errors.Join(err, p.file.Close())
	}
	if _, err := p.file.Seek(int64(len(whole)), 0); err != nil {
		return nil, errors.Join(err, p.file.Close())
	}
	if len(whole) == 0 {
		if err := p.write(title); err != nil {
			return nil, errors.Join(err, p.file.Close())
		}
	}
	return p, nil
}

// add notes an object, durably.
func (p *progress) add(id string) error {
	p.objects[id] = true
	if p.file == nil {
		return nil
	}
	return p.write(id)
}

// write writes a line.
func (p *progress) write(line string) error {
	_, err := p.file.WriteString(line + "\n")
	return errors.Join(err, p.file.Sync())
}

func (p *progress) close() error {
	if p.file == nil {
		return nil
	}
	return p.file.Close()
}
