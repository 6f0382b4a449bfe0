package replay

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/keystring"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// told is the documents of all collections as a reader of operations knows them: by
// collection and _id. Time series are left out, as operations do not contain their
// buckets.
type told struct {
	engine  *storage.Engine
	catalog *catalog.Catalog
	docs    map[schema.Namespace]map[string]bson.Doc
}

// tell starts with the documents of the replica.
func tell(e *storage.Engine, c *catalog.Catalog) (*told, error) {
	t := &told{e, c, nil}
	var err error
	t.docs, err = t.stored()
	return t, err
}

// stored returns all documents of the replica.
func (t *told) stored() (map[schema.Namespace]map[string]bson.Doc, error) {
	all := map[schema.Namespace]map[string]bson.Doc{}
	for _, db := range t.catalog.Databases() {
		for _, c := range t.catalog.Collections(db) {
			if !tells(c) {
				continue
			}
			docs := map[string]bson.Doc{}
			if err := t.each(c, nil, nil, func(d bson.Doc) { docs[idOf(d)] = d.Clone() }); err != nil {
				return nil, err
			}
			all[c.Namespace] = docs
		}
	}
	return all, nil
}

// tells reports whether operations contain the documents of a collection.
func tells(c *catalog.Collection) bool {
	return c != nil && c.Ident != 0 && c.Ident < storage.FirstOwnIdent && c.Settings.Timeseries == nil
}

func (t *told) each(c *catalog.Collection, from, to []byte, f func(bson.Doc)) error {
	it, err := t.engine.NewIter(c.Ident, from, to)
	if err != nil {
		return err
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		v, err := it.Value()
		if err != nil {
			return err
		}
		f(v)
	}
	return it.Err()
}

// idOf is the same for equal _ids, such as 1 and 1.0.
func idOf(d bson.Doc) string { return string(keystring.Append(nil, d.Lookup("_id"), false, nil)) }

// follow adds the operations of an effect that is about to be applied.
func (t *told) follow(all []catalog.Operation) error {
	for _, op := range all {
		if err := t.one(op); err != nil {
			return fmt.Errorf("operation %d on %s, %s: %w", op.Kind, op.Namespace, op.Doc, err)
		}
	}
	return nil
}

func (t *told) one(op catalog.Operation) error {
	if op.Kind == catalog.OpCommand {
		return t.command(op)
	}
	if c := t.catalog.Lookup(op.Namespace); c != nil && !tells(c) || op.Namespace.IsBuckets() {
		return nil
	}
	docs := t.docs[op.Namespace]
	if docs == nil {
		return fmt.Errorf("no operation created the collection")
	}
	id := idOf(op.Doc)
	switch op.Kind {
	case catalog.OpInsert:
		if docs[id] != nil {
			return fmt.Errorf("it is there")
		}
		docs[id] = op.Doc
	case catalog.OpUpdate, catalog.OpReplace:
		if !bytes.Equal(docs[id], op.Old) {
			return fmt.Errorf("it was %s, but the operation says %s", docs[id], op.Old)
		}
		docs[id] = op.Doc
	case catalog.OpDelete:
		if docs[id] == nil {
			return fmt.Errorf("it is not there")
		}
		delete(docs, id)
	case catalog.OpExpired:
		for _, v := range op.IDs {
			id := idOf(new(bson.Builder).Value("_id", v).Finish())
			if docs[id] == nil {
				return fmt.Errorf("%s is not there", v)
			}
			delete(docs, id)
		}
	case catalog.OpRange:
		n := int64(0)
		for r := range op.Doc.Lookup("ranges").Doc().Values() {
			_, from := r.Doc().Lookup("from").Binary()
			_, to := r.Doc().Lookup("to").Binary()
			err := t.each(t.catalog.Lookup(op.Namespace), from, to, func(d bson.Doc) {
				delete(docs, idOf(d))
				n++
			})
			if err != nil {
				return err
			}
		}
		if want := op.Doc.Lookup("documents").Int64(); n != want {
			return fmt.Errorf("%d documents are there", n)
		}
	}
	return nil
}

func (t *told) command(op catalog.Operation) error {
	name, v := op.Doc.First()
	switch name {
	case "create":
		t.docs[op.Namespace] = map[string]bson.Doc{}
	case "drop":
		delete(t.docs, op.Namespace)
	case "renameCollection":
		db, coll, _ := strings.Cut(op.Doc.Lookup("to").Str(), ".")
		t.docs[schema.Namespace{DB: db, Coll: coll}] = t.docs[op.Namespace]
		delete(t.docs, op.Namespace)
	case "dropDatabase":
		for ns := range t.docs {
			if ns.DB == op.Namespace.DB {
				delete(t.docs, ns)
			}
		}
	case "createIndexes", "dropIndexes", "collMod", "startIndexBuild", "commitIndexBuild", "abortIndexBuild":
		if v.Str() != op.Namespace.Coll {
			return fmt.Errorf("it is of another collection")
		}
	default:
		return fmt.Errorf("unknown command")
	}
	return nil
}

// check reports the differences of told and the stored documents.
func (t *told) check() error {
	all, err := t.stored()
	if err != nil {
		return err
	}
	for ns, docs := range all {
		was := t.docs[ns]
		if was == nil || len(was) != len(docs) {
			return fmt.Errorf("%s has %d documents, but the operations made %d", ns, len(docs), len(was))
		}
		for id, d := range docs {
			if !bytes.Equal(was[id], d) {
				return fmt.Errorf("%s has %s, but the operations made %s", ns, d, was[id])
			}
		}
	}
	return nil
}
