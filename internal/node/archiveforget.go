package node

import (
	"context"

	"github.com/mayflydb/mayfly/internal/archive"
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/match"
)

// ArchiveForgetter removes the documents that match from archived objects, of which list returns the rows
// in a manifest, and those of objects that are intended only; dry says that it only counts them. With an
// error it returns what was done until then.
// Package expire implements it.
type ArchiveForgetter func(ctx context.Context, manifest *catalog.Collection, list func(context.Context) ([]archive.Row, error), dry bool, matches func(bson.Doc) (bool, error)) (archive.Forgotten, error)

var archiveForgetFields = command.NewFields("archiveForget",
	command.Object("filter").Required(),
	command.String("of"),
	command.Object("collation"),
	command.Object("let"),
	command.Bool("dryRun"),
)

// archiveForget answers {archiveForget: collection, filter, of: "collection" | "all", dryRun}: it
// removes documents that match from the collection's archive, and rewrites the objects that have them.
// Live documents stay. Reply: {documents, read, readBytes, rewritten, removed, waiting, left, more}.
func (n *Node) archiveForget() *command.Command {
	return &command.Command{
		Name: "archiveForget", Fields: archiveForgetFields,
		Help: "remove documents from the archive of a collection", Run: n.runArchiveForget,
	}
}

func (n *Node) runArchiveForget(ctx context.Context, op *command.Op) error {
	ns, err := looseNamespace(op)
	if err != nil {
		return err
	}
	all := op.Args.Str("of") == "all"
	switch of := op.Args.Str("of"); {
	case of != "" && of != "collection" && !all:
		return mongoerr.New(mongoerr.BadValue, "Enumeration value '%s' for field 'archiveForget.of' is not a valid value.", of)
	case n.shard || n.Forget == nil:
		return mongoerr.New(mongoerr.CommandNotSupported, "archiveForget is not supported on a cluster")
	}
	if err := op.MayWrite(ns.DB); err != nil {
		return err
	}
	c := n.Catalog.Lookup(ns)
	if c != nil && c.IsView() {
		return mongoerr.New(mongoerr.CommandNotSupportedOnView, "Namespace %s is a view, not a collection", ns)
	}
	s, err := n.newScope(op, c, op.Args.Doc("let"), op.Args.Doc("collation"))
	if err != nil {
		return err
	}
	opts := *s.match
	opts.Forbid |= match.FeatureText | match.FeatureNear | match.FeatureJavaScript
	filter, err := match.Parse(op.Args.Doc("filter"), &opts)
	if err != nil {
		return err
	}
	manifest := n.Catalog.Lookup(manifestOf(ns))
	bounds := archive.BoundsOf(op.Args.Doc("filter"), false)
	list := func(ctx context.Context) ([]archive.Row, error) {
		return n.archiveRows(ctx, manifest, nil, archivedOf{ns: ns, coll: c, all: all}, func(r *archive.Row) bool { return r.Writing || bounds.MayHave(r) })
	}
	env := match.Env{Expr: s.env}
	did, err := n.Forget(ctx, manifest, list, op.Args.Bool("dryRun"), func(d bson.Doc) (bool, error) { return filter.MatchEnv(d, &env) })
	if err != nil {
		return readError(ctx, err)
	}
	op.Reply.Int64("documents", did.Documents).Int64("read", did.Read).Int64("readBytes", did.ReadBytes).
		Int64("rewritten", did.Rewritten).Int64("removed", did.Removed).Int64("waiting", did.Waiting).Strings("left", did.Left...).Bool("more", did.More)
	return nil
}
