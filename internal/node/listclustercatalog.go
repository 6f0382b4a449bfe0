package node

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/query/pipeline"
)

// databases are those whose collections a stage lists: the pipeline's own, or
// all on admin.
func (w *world) databases() []string {
	if w.ns.DB == "admin" {
		return w.n.Catalog.Databases()
	}
	return []string{w.ns.DB}
}

// listClusterCatalog lists the collections as listCollections does, with how
// they are sharded. (Manual: $listClusterCatalog.)
func (w *world) listClusterCatalog(arg bson.Doc) (pipeline.Iterator, error) {
	l := &pipeline.List{}
	for _, db := range w.databases() {
		for _, c := range w.n.Catalog.Collections(db) {
			for _, d := range listedCollection(c, false) {
				b := new(bson.Builder).String("db", db).String("ns", db+"."+d.Lookup("name").Str())
				for it := d.Iter(); it.Next(); {
					if it.Key != "name" {
						b.Value(it.Key, it.Value)
					}
				}
				b.Bool("sharded", false).Bool("tracked", false)
				if v := arg.Lookup("shards"); v.Type == bson.TypeBool && v.Bool() {
					b.OpenArray("shards").Close()
				}
				l.Docs = append(l.Docs, b.Finish())
			}
		}
	}
	return l, nil
}

// listCatalog lists the catalog's entries: that of the collection, or all on
// admin. (Manual: $listCatalog.)
func (w *world) listCatalog() (pipeline.Iterator, error) {
	l := &pipeline.List{}
	for _, db := range w.databases() {
		for _, c := range w.n.Catalog.Collections(db) {
			if w.ns.Coll != "" && c.Namespace != w.ns {
				continue
			}
			for _, d := range listedCollection(c, false) {
				name := d.Lookup("name").Str()
				b := new(bson.Builder).String("db", db).String("name", name).Value("type", d.Lookup("type")).String("ns", db+"."+name)
				b.OpenDoc("md").Value("options", d.Lookup("options")).Close()
				l.Docs = append(l.Docs, b.Finish())
			}
		}
	}
	return l, nil
}
