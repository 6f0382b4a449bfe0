package configsvr

import (
	"context"
	"slices"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/cluster/step"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/node"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/shard"
)

// renameCollection renames a collection, sharded or not. (Manual:
// renameCollection.)
func (s *Server) renameCollection() *command.Command {
	return newCommand("RenameCollection", command.String(""), s.runRenameCollection, command.String("to").Required(), command.OneOf("dropTarget", bson.TypeBool, bson.TypeBinary).NotNull(),
		command.Bool("stayTemp"), command.UUID("collectionUUID"))
}

func (s *Server) runRenameCollection(ctx context.Context, op *command.Op) error {
	from, err := namespaceOf(op)
	if err != nil {
		return err
	}
	to, err := checkNamespace(op.Args.Str("to"))
	if err != nil {
		return err
	}
	if from == to {
		return mongoerr.New(mongoerr.IllegalOperation, "Can't rename a collection to itself")
	}
	drop, id, err := node.DropTarget(schema.ParseNamespace(from), schema.ParseNamespace(to), op.Args.Value("dropTarget"))
	if err != nil {
		return err
	}
	if err := s.checkNamed(ctx, from, op.Args.Value("collectionUUID")); err != nil {
		return err
	}
	if err := s.checkNamed(ctx, to, id); err != nil {
		return err
	}
	r := renaming{from: from, to: to, kind: step.KindRename, drop: drop, source: op.Args.Value("collectionUUID"), target: id, stayTemp: op.Args.Bool("stayTemp")}
	c, err := s.collection(from)
	if err != nil {
		return err
	}
	if c.Namespace == "" {
		r.kind = step.KindRenameUnsharded
	}
	_, err = s.operate(ctx, plan{op: op, kind: r.kind, ns: from, claim: claim{alone: []string{from, to}}, decide: func() (decision, error) { return s.decideRename(r) }})
	if err != nil {
		return err
	}
	return s.change(ctx, func() ([]write, error) {
		return s.stopsAnalyzing(func(ns string) bool { return ns == from || ns == to })
	})
}

// renaming is what a renameCollection asks for.
type renaming struct {
	from, to, kind string
	drop, stayTemp bool
	// source and target are the UUIDs that the collection and that with the new name must have;
	// missing for any.
	source, target bson.Value
}

// checkNamed checks that the collection of that name, sharded or not, has the UUID, if one is given.
// Errors: 361.
func (s *Server) checkNamed(ctx context.Context, ns string, id bson.Value) error {
	if id.Type != bson.TypeBinary {
		return nil
	}
	c, err := s.collection(ns)
	if err == nil && c.Namespace == "" {
		c, err = s.alone(ctx, ns)
	}
	if err == nil && !c.is(id) {
		err = errUUID
	}
	return err
}

// is reports whether the collection is there and has the UUID; with none given, it does.
func (c *collectionDoc) is(id bson.Value) bool {
	if id.Type != bson.TypeBinary {
		return true
	}
	_, content := id.Binary()
	return c.Namespace != "" && string(content) == string(c.UUID[:])
}

func (s *Server) decideRename(r renaming) (decision, error) {
	from, to, dropTarget := r.from, r.to, r.drop
	c, err := s.collection(from)
	if err != nil {
		return decision{}, err
	}
	if err := c.noSeries("renameCollection"); err != nil {
		return decision{}, err
	}
	target, err := s.collection(to)
	if err != nil {
		return decision{}, err
	}
	// One that is on one shard only was asked for its UUID before; a sharded one may have been
	// dropped and made anew since.
	if c.Namespace != "" && !c.is(r.source) || target.Namespace != "" && !target.is(r.target) {
		return decision{}, errUUID
	}
	db, err := s.existing(databaseOf(from))
	switch {
	case err != nil:
		return decision{}, err
	case (c.Namespace == "") != (r.kind == step.KindRenameUnsharded):
		return decision{}, mongoerr.New(mongoerr.ConflictingOperationInProgress, "%s was sharded or dropped concurrently", from)
	case target.Namespace != "" && !dropTarget:
		return decision{}, mongoerr.New(mongoerr.NamespaceExists, "Target namespace %s exists. Set 'dropTarget: true' to drop the target", to)
	}
	other, err := s.database(databaseOf(to))
	if err != nil {
		return decision{}, err
	}
	switch {
	case r.kind == step.KindRename && databaseOf(from) != databaseOf(to):
		return decision{}, mongoerr.New(mongoerr.CommandFailed, "Source and destination collections must be on the same database because %s is sharded", from)
	case other.Name == "":
		return decision{}, mongoerr.New(mongoerr.NamespaceNotFound, "database %s not found", databaseOf(to))
	case other.Primary != db.Primary:
		return decision{}, mongoerr.New(mongoerr.CommandFailed, "Source and destination collections must be on same shard")
	}
	b := new(bson.Builder).String("to", to).String("primary", db.Primary)
	if r.target.IsMissing() {
		b.Bool("dropTarget", dropTarget)
	} else {
		b.Value("dropTarget", r.target)
	}
	if r.stayTemp {
		b.Bool("stayTemp", true)
	}
	if r.kind == step.KindRenameUnsharded {
		if target.Namespace != "" {
			return decision{}, mongoerr.New(mongoerr.CommandNotSupported, "renaming an unsharded collection to the name of a sharded one is not supported")
		}
		return decision{args: b.Finish()}, nil
	}
	owners, err := s.owners(&c)
	if err != nil {
		return decision{}, err
	}
	all, err := s.shards()
	if err != nil {
		return decision{}, err
	}
	former := slices.DeleteFunc(ids(all), func(id string) bool { return slices.Contains(owners, id) })
	b.Strings("shards", owners...).Strings("former", former...).Binary("uuid", 4, c.UUID[:])
	if target.Namespace != "" {
		on, err := s.owners(&target)
		if err != nil {
			return decision{}, err
		}
		on = slices.DeleteFunc(on, func(id string) bool { return slices.Contains(owners, id) })
		b.Strings("target", on...)
	}
	shard.Version{ShardGeneration: s.generation()}.Append(b, "version")
	return decision{args: b.Finish()}, nil
}

func (s *Server) commitRename(o *step.Operation, got step.Answers) (commitment, error) {
	c, m, err := s.mapOf(o.Namespace)
	if err != nil {
		return commitment{}, err
	}
	v, err := shard.ParseVersion(o.Args.Lookup("version").Doc())
	if err != nil {
		return commitment{}, err
	}
	to := text(o.Args, "to")
	list := slices.Collect(m.Chunks())
	for i := range list {
		list[i].Version.ShardGeneration = v.ShardGeneration
	}
	renamed, err := shard.NewMap(to, c.Key, v.ShardGeneration, list)
	if err != nil {
		return commitment{}, err
	}
	writes, err := s.forgetting(to)
	if err != nil {
		return commitment{}, err
	}
	doc := with(c.doc, field{"_id", bson.String(to)}, field{"lastmodEpoch", bson.ObjectID(v.Epoch)}, field{"timestamp", bson.Timestamp(v.Timestamp)}, field{"lastmod", bson.Date(time.Now().UnixMilli())})
	writes = append(writes, remove(collections, bson.String(o.Namespace)), put(collections, doc))
	ranges, err := s.tagDocs(o.Namespace)
	for _, d := range ranges {
		writes = append(writes, put(tags, with(d, field{"ns", bson.String(to)})))
	}
	b := new(bson.Builder)
	versionsOf(b, renamed, textsOf(o.Args, "shards"))
	if _, target := step.RenameChecked(got); !target.IsMissing() {
		b.Value("dropTarget", target)
	}
	return commitment{writes: append(writes, s.logged("renameCollection", o.Namespace, o.Args)), told: b.Finish(), after: func() { s.keep(c.UUID, renamed) }}, err
}

func textsOf(d bson.Doc, name string) (out []string) {
	v := d.Lookup(name)
	if v.Type != bson.TypeArray {
		return nil
	}
	for e := range v.Doc().Values() {
		out = append(out, e.Str())
	}
	return out
}
