package backup

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// restoreCluster restores parts of a cluster to one time.
func (r *Repository) restoreCluster(ctx context.Context, m *Manifest, o RestoreOptions) (*Restored, error) {
	if len(o.Only) > 0 {
		return nil, errors.New("collections of a cluster are not restored by themselves, as each shard has a part of them: restore the cluster, start it elsewhere, and copy them from there (mongodump)")
	}
	if o.Look {
		o.Hosts = m.nowhere()
	}
	if err := m.checkHosts(o.Hosts); err != nil {
		return nil, err
	}
	parts, err := m.chosen(o.Parts)
	if err != nil {
		return nil, err
	}
	at, err := r.timeOfCluster(ctx, m, o.At)
	if err != nil {
		return nil, err
	}
	if len(o.Parts) > 0 && !o.fixesTime() {
		return nil, fmt.Errorf("parts that are restored by themselves fit together if all are of one time: say --at %s for each (--at latest, and no --at without --backup, may be another time for the next)", at)
	}
	done := &Restored{Manifest: m, Reached: at}
	a := &adoption{m: m, hosts: o.Hosts, id: m.newCluster(at, o.Hosts)}
	var all []*restoredPart
	total := int64(0)
	for _, part := range parts {
		p := &restoredPart{r: r, m: m, part: part, dir: filepath.Join(o.To, part.Shard), at: at, o: o, adopt: a.adopt}
		for _, f := range part.Files {
			total += f.Size
		}
		if err := p.findLog(ctx); err != nil {
			return nil, err
		}
		all, done.Dirs = append(all, p), append(done.Dirs, p.dir)
	}
	if err := prepareTarget(o.To); err != nil {
		return nil, err
	}
	for _, p := range all {
		if err := os.Mkdir(p.dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		if err := storage.SetUnfinished(storage.OSFS(), p.dir); err != nil {
			return nil, err
		}
	}
	read := int64(0)
	for _, p := range all {
		p.done, p.total = read, total
		if err := p.restore(ctx); err != nil {
			return nil, fmt.Errorf("%s: %w", p.part.Shard, err)
		}
		read, done.Entries = p.done, done.Entries+p.entries
	}
	for _, p := range all { // then the directory: what was killed before is begun anew
		if err := storage.SetFinished(storage.OSFS(), p.dir); err != nil {
			return nil, err
		}
	}
	return done, storage.SetFinished(storage.OSFS(), o.To)
}

// fixesTime reports whether the options stand for one time, whatever else is stored later.
func (o *RestoreOptions) fixesTime() bool {
	return o.At != Latest && (o.At != 0 || o.Backup != "")
}

// nowhere has places for the parts at which there is nothing.
func (m *Manifest) nowhere() map[string]string {
	hosts := map[string]string{}
	for _, p := range m.Parts {
		hosts[p.Shard] = p.Set + "/nowhere.invalid:27017"
	}
	return hosts
}

// distinctSets refuses parts that are sets of one name: an address in the data could be that of
// either.
func (m *Manifest) distinctSets() error {
	sets := map[string]string{}
	for _, p := range m.Parts {
		if other, ok := sets[p.Set]; ok {
			return fmt.Errorf("the parts %s and %s of the cluster are both a replica set %s: such a cluster can be neither backed up nor restored as one", other, p.Shard, p.Set)
		}
		sets[p.Set] = p.Shard
	}
	return nil
}

// checkHosts checks that it is said of each part, and of nothing else, where it will be.
func (m *Manifest) checkHosts(hosts map[string]string) error {
	if err := m.distinctSets(); err != nil {
		return err
	}
	sets := map[string]string{}
	for _, p := range m.Parts {
		at, err := client.ParseSetString(hosts[p.Shard])
		if other, ok := sets[at.Name]; ok && err == nil {
			return fmt.Errorf("--host says that the parts %s and %s will both be a replica set %s: each needs a name of its own", other, p.Shard, at.Name)
		}
		sets[at.Name] = p.Shard
		if err != nil {
			var all []string
			for _, p := range m.Parts {
				all = append(all, fmt.Sprintf("--host %s=%s/HOST:PORT", p.Shard, p.Set))
			}
			return fmt.Errorf("%s is the backup of a cluster: say where each part will be, so that none of it speaks with the cluster that it comes from: %s", m.Name(), strings.Join(all, " "))
		}
	}
	for name := range hosts {
		if !slices.ContainsFunc(m.Parts, func(p *Part) bool { return p.Shard == name }) {
			return fmt.Errorf("%s has no part %s", m.Name(), name)
		}
	}
	return nil
}

// chosen returns the parts with these names; all for none.
func (m *Manifest) chosen(names []string) (parts []*Part, err error) {
	if len(names) == 0 {
		return m.Parts, nil
	}
	for _, name := range names {
		i := slices.IndexFunc(m.Parts, func(p *Part) bool { return p.Shard == name })
		if i < 0 {
			return nil, fmt.Errorf("%s has no part %s", m.Name(), name)
		}
		parts = append(parts, m.Parts[i])
	}
	return parts, nil
}

// timeOfCluster returns the time to which the parts are restored: the one that is asked for, the
// backup's for 0, and for Latest the last of which the log of each part proves what was.
func (r *Repository) timeOfCluster(ctx context.Context, m *Manifest, at Time) (Time, error) {
	switch {
	case at == 0:
		return m.Time, nil
	case at != Latest:
		return at, nil
	}
	for _, p := range m.Parts {
		log, err := r.logOf(ctx, p.SetID)
		if err != nil {
			return 0, err
		}
		at = min(at, chain(log, p).time-1)
	}
	if at < m.Time { // files of other parts may have what is from behind it
		return 0, fmt.Errorf("the log of a part of %s proves only what was up to %s, and the backup is of %s: objects of the log are missing", m.Name(), at.Said(), m.Time.Said())
	}
	return at, nil
}

// newCluster returns the id of the cluster that is restored: another one, so that what the old one
// asks of it, or it of the old one, has no effect. Parts that are restored each on its own, with
// the same options, have the same.
func (m *Manifest) newCluster(at Time, hosts map[string]string) (id [12]byte) {
	h := sha256.New()
	fmt.Fprintf(h, "%q %s", m.Cluster, at)
	for _, name := range slices.Sorted(maps.Keys(hosts)) {
		fmt.Fprintf(h, " %q %q", name, hosts[name])
	}
	copy(id[:], h.Sum(nil))
	return id
}

// adoption makes parts of a cluster those of another one.
type adoption struct {
	m     *Manifest
	hosts map[string]string
	id    [12]byte
}

var (
	shardsOfCluster = schema.Namespace{DB: "config", Coll: "shards"}
	operations      = schema.Namespace{DB: "config", Coll: "operations"}
	// places are where it is written which cluster this is, and where its parts are. What shards
	// have heard of operations (config.cache.operations) stays with the id of the old cluster, and
	// so counts for nothing: the terms of its primaries are not those of the new ones.
	places = []schema.Namespace{
		{DB: "admin", Coll: "system.version"}, {DB: "config", Coll: "version"}, shardsOfCluster, operations,
		{DB: "config", Coll: "receiving"}, {DB: "config", Coll: "cloning"},
	}
)

// adopt changes the data of a part.
func (a *adoption) adopt(ctx context.Context, c *catalog.Catalog) error {
	if err := a.check(c); err != nil {
		return err
	}
	old, err := hex.DecodeString(a.m.Cluster)
	if err != nil || len(old) != len(a.id) {
		return &DamageError{a.m.name, fmt.Errorf("it is of a cluster %q", a.m.Cluster)}
	}
	change := func(v bson.Value) bson.Value {
		switch v.Type {
		case bson.TypeObjectID:
			if v.ObjectID() == [12]byte(old) {
				return bson.ObjectID(a.id)
			}
		case bson.TypeString:
			set, at, ok := strings.Cut(v.Str(), "/")
			if !ok || !strings.Contains(at, ":") {
				break
			}
			for _, p := range a.m.Parts {
				if p.Set == set {
					return bson.String(a.hosts[p.Shard])
				}
			}
		}
		return v
	}
	for _, ns := range places {
		if err := rewrite(ctx, c, ns, change); err != nil {
			return fmt.Errorf("%s: %w", ns, err)
		}
	}
	return nil
}

// check refuses times at which the cluster had other parts than the backup, or was about to.
func (a *adoption) check(c *catalog.Catalog) error {
	if err := each(c, shardsOfCluster, func(_ catalog.RecordKey, d bson.Doc) error {
		name := d.Lookup("_id")
		if name.Type == bson.TypeString && !slices.ContainsFunc(a.m.Parts, func(p *Part) bool { return p.Shard == name.Str() }) {
			return fmt.Errorf("the cluster had a shard %s at that time, which is not in %s: take a backup from behind it", name.Str(), a.m.Name())
		}
		return nil
	}); err != nil {
		return err
	}
	return each(c, operations, func(_ catalog.RecordKey, d bson.Doc) error {
		if kind := d.Lookup("kind"); kind.Type == bson.TypeString && (kind.Str() == "addShard" || kind.Str() == "removeShard") {
			return errors.New("a shard was being added or removed at that time: choose an earlier or later one")
		}
		return nil
	})
}

// each calls f with the documents of a collection, if it is there, which f copies to keep.
func each(c *catalog.Catalog, ns schema.Namespace, f func(key catalog.RecordKey, d bson.Doc) error) (err error) {
	coll := c.Lookup(ns)
	if coll == nil {
		return nil
	}
	it, err := c.Engine().NewIter(coll.Ident, nil, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for ok := it.First(); ok; ok = it.Next() {
		v, err := it.Value()
		if err != nil {
			return err
		}
		if err := f(it.Key(), bson.Doc(v)); err != nil {
			return err
		}
	}
	return it.Err()
}

// rewrite changes the values of the documents of a collection.
func rewrite(ctx context.Context, c *catalog.Catalog, ns schema.Namespace, change func(bson.Value) bson.Value) error {
	var keys []catalog.RecordKey
	if err := each(c, ns, func(key catalog.RecordKey, _ bson.Doc) error {
		keys = append(keys, slices.Clone(key))
		return nil
	}); err != nil {
		return err
	}
	for _, key := range keys {
		if err := c.Run(ctx, storage.Journaled, func(u *catalog.Unit) error {
			coll := c.Lookup(ns)
			old, err := u.LockRecord(ctx, coll, key)
			if err != nil || old == nil {
				return err
			}
			doc := rewritten(old, change)
			if bytes.Equal(doc, old) {
				return nil
			}
			return u.Update(ctx, coll, key, old, doc)
		}); err != nil {
			return err
		}
	}
	return nil
}

// rewritten returns a document with changed values.
func rewritten(d bson.Doc, change func(bson.Value) bson.Value) bson.Doc {
	b := new(bson.Builder)
	for name, v := range d.All() {
		switch v.Type {
		case bson.TypeDocument:
			b.Doc(name, rewritten(v.Doc(), change))
		case bson.TypeArray:
			b.Value(name, bson.Value{Type: bson.TypeArray, Data: rewritten(v.Doc(), change)})
		default:
			b.Value(name, change(v))
		}
	}
	return b.Finish()
}
