package cosmos

import (
	"context"
	"encoding/binary"
	"strings"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
)

// Some SDKs name resources by their resource ids, as in the links that the
// service gives (_self): dbs/<rid>/colls/<rid>/docs/<rid>. Such a request is
// signed with the last of them, in lower case.

// resolveWait is how long a request waits for the servers that know what a resource id names.
const resolveWait = 10 * time.Second

// resolve is registry.resolve; a router asks the config servers, where the path may have
// resource ids.
func (s *Server) resolve(ctx context.Context, p *path) error {
	if s.o.Cluster == nil {
		s.registry.resolve(p)
		return nil
	}
	if len(decodeRID(p.db)) != databaseRID {
		return nil
	}
	either := new(bson.Builder).OpenArray("$or").OpenDoc("0").String("_id", p.db).Close().OpenDoc("1").String("rid", p.db).Close().Close().Finish()
	found, err := s.o.Cluster.ReadConfig(ctx, databasesNamespace.Coll, either)
	if err != nil {
		return err
	}
	d := &database{containers: map[string]*container{}}
	for _, doc := range found {
		if d.id = doc.Lookup("_id").Str(); d.id == p.db {
			return nil // a name
		}
	}
	if d.id == "" {
		return nil
	}
	containers, err := s.o.Cluster.ReadConfig(ctx, containersNamespace.Coll, new(bson.Builder).String("rid", p.container).Finish())
	for _, doc := range containers {
		d.containers[""] = &container{id: doc.Lookup("_id").Doc().Lookup("c").Str(), rid: p.container}
	}
	d.name(p)
	return err
}

// databaseRID is the length of a database's resource id, in bytes.
const databaseRID = 4

// resolve converts a path of resource ids into one of names. A database with that name
// takes precedence.
func (g *registry) resolve(p *path) {
	if p.db == "" {
		return
	}
	g.mu.RLock()
	defer g.mu.RUnlock()
	if g.dbs[p.db] != nil {
		return
	}
	d := g.databaseByRID(p.db)
	if d == nil {
		return
	}
	d.name(p)
}

// name converts a path that names d by its resource id.
func (d *database) name(p *path) {
	p.db, p.byRID, p.link = d.id, true, p.linkByRID()
	for _, c := range d.containers {
		if c.rid == p.container {
			p.container = c.id
			return
		}
	}
}

// linkByRID is what is signed of a path that names resources by their resource ids.
func (p *path) linkByRID() string {
	return strings.ToLower(p.link[strings.LastIndexByte(p.link, '/')+1:])
}

// databaseByRID returns a database, or nil; the caller holds mu.
func (g *registry) databaseByRID(rid string) *database {
	for _, d := range g.dbs {
		if d.rid == rid {
			return d
		}
	}
	return nil
}

// resolveItem turns the resource id of an item into its id. Errors: 404.
func (r *request) resolveItem() error {
	c, err := r.container()
	if err != nil {
		return err
	}
	id, err := r.itemByRID(c, r.path.item)
	if err == nil {
		r.item = id.Lookup("i").Str()
	}
	return err
}

// itemByRID finds the _id of an item by its resource id. Errors: 404.
func (r *request) itemByRID(c *container, text string) (id bson.Doc, err error) {
	rid := decodeRID(text)
	if len(rid) != len(c.ridBytes)+8 || string(rid[:len(c.ridBytes)]) != string(c.ridBytes) {
		return nil, errNotFound
	}
	number := int64(binary.LittleEndian.Uint64(rid[len(c.ridBytes):]))
	filter := new(bson.Builder).Int64(fieldNumber, number).Finish()
	_, err = r.find(c.collection, filter, nil, 1, func(item bson.Doc) (bool, error) {
		id = item.Lookup("_id").Doc().Clone()
		return false, nil
	})
	if err == nil && id == nil {
		err = errNotFound
	}
	return id, err
}
