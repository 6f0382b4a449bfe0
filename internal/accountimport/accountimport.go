package accountimport

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// Options are those of an import.
type Options struct {
	From, To *Account
	// Delete deletes items of the target that the source does not have.
	Delete bool
	// Parallel is how many items are worked on at a time, from 1 on.
	Parallel int
	// Tell gets a line for each container.
	Tell func(line string)
}

// The default of Options.Parallel, and the most that it may be.
const (
	DefaultParallel = 8
	MaxParallel     = 64
)

// ErrDiffers ends an import whose target has items, containers or databases that its source does not have.
var ErrDiffers = errors.New("the target has what the source does not have")

// containerID names one.
type containerID struct{ db, coll string }

func (c containerID) path(more ...string) []string {
	return append([]string{"dbs", c.db, "colls", c.coll}, more...)
}

// definition is what a container is made with.
type definition struct {
	fields map[string]json.RawMessage
	paths  []string // of its partition key
	ttl    string   // its defaultTtl as it stands there; "none" where there is none
	unique []string // its unique keys, sorted: the paths of each with commas between
}

// counts are what was done in a container, in the reading that came to its end.
type counts struct{ equal, written, extra, deleted atomic.Int64 }

// Run makes the target's databases, containers and items those of the source. Errors: ErrDiffers;
// *failure, with what it was about.
func Run(ctx context.Context, o Options) error {
	dbs, err := o.From.ids(ctx, "dbs", "Databases")
	if err != nil {
		return fmt.Errorf("listing the source's databases: %w", err)
	}
	differs, err := o.others(ctx, "database", dbs, "dbs", "Databases")
	if err != nil {
		return err
	}
	for _, db := range dbs {
		if err := o.create(ctx, "dbs", map[string]string{"id": db}); err != nil {
			return fmt.Errorf("making the database %s: %w", db, err)
		}
		colls, err := o.From.ids(ctx, "colls", "DocumentCollections", "dbs", db)
		if err != nil {
			return fmt.Errorf("listing the containers of %s: %w", db, err)
		}
		others, err := o.others(ctx, "container", colls, "colls", "DocumentCollections", "dbs", db)
		if err != nil {
			return err
		}
		differs = differs || others
		for _, coll := range colls {
			c := containerID{db, coll}
			n, err := o.container(ctx, c)
			if err != nil {
				return fmt.Errorf("%s/%s: %w", db, coll, err)
			}
			differs = differs || n.extra.Load() > n.deleted.Load()
			o.Tell(fmt.Sprintf("%s/%s: %d items were equal, %d were written; %d that the source does not have, of which %d were deleted",
				db, coll, n.equal.Load(), n.written.Load(), n.extra.Load(), n.deleted.Load()))
		}
	}
	if differs {
		return ErrDiffers
	}
	return nil
}

// others tells of what the target has that is not among the source's, and reports whether there is any.
func (o *Options) others(ctx context.Context, what string, source []string, kind, in string, path ...string) (any bool, err error) {
	ids, err := o.To.ids(ctx, kind, in, path...)
	if err != nil {
		return false, fmt.Errorf("listing each %s of the target: %w", what, err)
	}
	for _, id := range ids {
		if !slices.Contains(source, id) {
			o.Tell(fmt.Sprintf("%s: the source does not have this %s", strings.Join(append(path[min(1, len(path)):], id), "/"), what))
			any = true
		}
	}
	return any, nil
}

// create makes something at the target that may be there already.
func (o *Options) create(ctx context.Context, kind string, body any, path ...string) error {
	b, err := json.Marshal(body)
	if err != nil {
		return err
	}
	_, _, err = o.To.do(ctx, request{method: http.MethodPost, kind: kind, path: path, feed: true, body: b})
	if hasStatus(err, http.StatusConflict) {
		return nil
	}
	return err
}

// container copies a container.
func (o *Options) container(ctx context.Context, c containerID) (n *counts, err error) {
	d, err := o.From.definition(ctx, c)
	if err != nil {
		return nil, err
	}
	if err := o.create(ctx, "colls", d.fields, "dbs", c.db); err != nil {
		return nil, fmt.Errorf("making it: %w", err)
	}
	have, err := o.To.definition(ctx, c)
	if err != nil {
		return nil, err
	}
	if err := have.differs(d); err != nil {
		return nil, err
	}
	for _, kind := range []struct{ of, in string }{{"sprocs", "StoredProcedures"}, {"triggers", "Triggers"}, {"udfs", "UserDefinedFunctions"}} {
		ids, err := o.From.ids(ctx, kind.of, kind.in, c.path()...)
		if err != nil {
			return nil, err
		}
		if len(ids) > 0 {
			o.Tell(fmt.Sprintf("%s/%s: not copied: %s %q", c.db, c.coll, kind.of, ids))
		}
	}
	n = &counts{}
	if err := o.items(ctx, o.From, c, d, func() { n.equal.Store(0); n.written.Store(0) }, func(ctx context.Context, i *item) error { return o.write(ctx, c, d, i, n) }); err != nil {
		return nil, err
	}
	return n, o.items(ctx, o.To, c, d, func() { n.extra.Store(0); n.deleted.Store(0) }, func(ctx context.Context, i *item) error { return o.extra(ctx, c, d, i, n) })
}

// differs returns in what a container of the target is another one than the source's, of what decides
// which items it takes and keeps. Its indexing policy does not.
func (d *definition) differs(source *definition) error {
	for _, part := range []struct {
		name         string
		have, wanted any
	}{
		{"partition key", d.paths, source.paths}, {"defaultTtl", d.ttl, source.ttl}, {"unique keys", d.unique, source.unique},
	} {
		if have, wanted := fmt.Sprintf("%q", part.have), fmt.Sprintf("%q", part.wanted); have != wanted {
			return fmt.Errorf("the target has it already, with the %s %s and not %s", part.name, have, wanted)
		}
	}
	return nil
}

// definition reads what a container is made with.
func (a *Account) definition(ctx context.Context, c containerID) (*definition, error) {
	d := &definition{}
	if err := a.get(ctx, "colls", &d.fields, c.path()...); err != nil {
		return nil, fmt.Errorf("reading its definition at %s: %w", a.name, err)
	}
	for name := range d.fields {
		if name[0] == '_' || name == "statistics" {
			delete(d.fields, name)
		}
	}
	var key struct{ Paths []string }
	if err := json.Unmarshal(d.fields["partitionKey"], &key); err != nil {
		return nil, fmt.Errorf("%s does not say its partition key: %w", a.name, err)
	}
	d.paths, d.ttl = key.Paths, "none"
	if ttl := string(d.fields["defaultTtl"]); ttl != "" && ttl != "null" {
		d.ttl = ttl
	}
	var policy struct{ UniqueKeys []struct{ Paths []string } }
	if raw := d.fields["uniqueKeyPolicy"]; raw != nil {
		if err := json.Unmarshal(raw, &policy); err != nil {
			return nil, fmt.Errorf("the unique keys at %s: %w", a.name, err)
		}
	}
	for _, k := range policy.UniqueKeys {
		d.unique = append(d.unique, strings.Join(k.Paths, ","))
	}
	slices.Sort(d.unique)
	return d, nil
}

// maxSplits bounds how often a container is read anew as its ranges were split meanwhile.
const maxSplits = 10

// items calls f with all items of a container, several at a time, and anew before it reads it anew.
func (o *Options) items(ctx context.Context, a *Account, c containerID, d *definition, anew func(), f func(ctx context.Context, i *item) error) error {
	for splits := 0; ; splits++ {
		ranges, err := a.ids(ctx, "pkranges", "PartitionKeyRanges", c.path()...)
		for _, r := range ranges {
			if err = a.each(ctx, "docs", "Documents", map[string]string{"X-Ms-Documentdb-Partitionkeyrangeid": r}, func(page []json.RawMessage) error {
				work, ctx := errgroup.WithContext(ctx)
				work.SetLimit(o.Parallel)
				for _, raw := range page {
					i, err := readItem(raw, d.paths)
					if err != nil {
						return errors.Join(err, work.Wait())
					}
					work.Go(func() error { return f(ctx, i) })
				}
				return work.Wait()
			}, c.path()...); err != nil {
				break
			}
		}
		if !hasStatus(err, http.StatusGone) || splits == maxSplits {
			return err
		}
		o.Tell(fmt.Sprintf("%s/%s: its ranges were split meanwhile at %s: it is read anew", c.db, c.coll, a.name))
		anew()
	}
}

// read reads an item, nil if there is none.
func (a *Account) read(ctx context.Context, c containerID, d *definition, i *item) (*item, error) {
	body, _, err := a.do(ctx, request{method: http.MethodGet, kind: "docs", path: c.path("docs", i.id), header: map[string]string{"X-Ms-Documentdb-Partitionkey": i.key}})
	if hasStatus(err, http.StatusNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return readItem(body, d.paths)
}

// write writes an item to the target if it has another one, or none.
func (o *Options) write(ctx context.Context, c containerID, d *definition, i *item, n *counts) error {
	have, err := o.To.read(ctx, c, d, i)
	if err == nil && have != nil && same(have.fields, i.fields) {
		n.equal.Add(1)
		return nil
	}
	if err == nil {
		_, _, err = o.To.do(ctx, request{method: http.MethodPost, kind: "docs", path: c.path(), feed: true, body: i.raw,
			header: map[string]string{"X-Ms-Documentdb-Partitionkey": i.key, "X-Ms-Documentdb-Is-Upsert": "true"}})
	}
	if err != nil {
		return fmt.Errorf("the item %q of %s: %w", i.id, i.key, err)
	}
	n.written.Add(1)
	return nil
}

// extra counts an item of the target that the source does not have, and deletes it if it is to.
func (o *Options) extra(ctx context.Context, c containerID, d *definition, i *item, n *counts) error {
	have, err := o.From.read(ctx, c, d, i)
	if err != nil || have != nil {
		return err
	}
	n.extra.Add(1)
	if !o.Delete {
		return nil
	}
	_, _, err = o.To.do(ctx, request{method: http.MethodDelete, kind: "docs", path: c.path("docs", i.id), header: map[string]string{"X-Ms-Documentdb-Partitionkey": i.key}})
	if err != nil && !hasStatus(err, http.StatusNotFound) {
		return fmt.Errorf("deleting the item %q of %s: %w", i.id, i.key, err)
	}
	n.deleted.Add(1)
	return nil
}
