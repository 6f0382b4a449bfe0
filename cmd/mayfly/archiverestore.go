package main

import (
	"bufio"
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
	done, err := openProgress(o.progress)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done.close()) }()
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
	objects, err := o.objects(ctx, c)
	if err != nil {
		return err
	}
	told := tellCopied()
	inserted, kept, finished := int64(0), int64(0), 0
	for _, at := range objects {
		if !done.objects[at.id] {
			n, k, err := o.restoreObject(ctx, c, into, at.id)
			inserted, kept = inserted+n, kept+k
			if err == nil {
				err = done.add(at.id)
			}
			if err != nil {
				return fmt.Errorf("%d documents were inserted, of %d of %d objects: %w", inserted, finished, len(objects), err)
			}
		}
		finished++
		told(inserted + kept)
	}
	fmt.Printf("%d documents were inserted, and %d were there already.\n", inserted, kept)
	return nil
}

// objects lists the objects of the database's archive, in the order of their dates. Those of other
// collections have nothing to restore.
func (o *archiveOptions) objects(ctx context.Context, c *client.Conn) (all []archivedObject, err error) {
	writing := new(bson.Builder).OpenDoc("writing").Bool("$exists", false).Close().Finish()
	shown := new(bson.Builder).Int32("from", 1).Finish()
	cur, err := c.Open(ctx, o.db, new(bson.Builder).String("find", "system.archive").Doc("filter", writing).Doc("projection", shown).Finish())
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

// progress is a file with the objects that are finished.
type progress struct {
	objects map[string]bool
	file    *os.File // nil for none
}

// openProgress opens a file of before, or a new one; "" is none.
func openProgress(name string) (*progress, error) {
	p := &progress{objects: map[string]bool{}}
	if name == "" {
		return p, nil
	}
	was, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	whole := was[:strings.LastIndexByte(string(was), '\n')+1] // the last line may have been cut off
	for lines := bufio.NewScanner(strings.NewReader(string(whole))); lines.Scan(); {
		p.objects[lines.Text()] = true
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
	return p, nil
}

// add notes an object, durably.
func (p *progress) add(id string) error {
	if p.file == nil {
		return nil
	}
	_, err := p.file.WriteString(id + "\n")
	return errors.Join(err, p.file.Sync())
}

func (p *progress) close() error {
	if p.file == nil {
		return nil
	}
	return p.file.Close()
}
