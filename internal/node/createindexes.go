package node

import (
	"context"
	"fmt"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/repl"
	"github.com/mayflydb/mayfly/internal/schema"
)

var createIndexesFields = command.NewFields("createIndexes",
	command.Collection(),
	command.ArrayOf("indexes", command.Object("")).Required(),
	command.Bool("ignoreUnknownIndexOptions"),
	command.OneOf("commitQuorum", bson.TypeString, bson.TypeInt32, bson.TypeInt64, bson.TypeDouble, bson.TypeDecimal),
	command.UUID("collectionUUID"),
	command.Bool("isTimeseriesNamespace"),
	command.Bool("returnOnStart"),
)

// createIndexes answers {createIndexes: collection, indexes: [specification,
// …]}; a collection that does not exist is made. (Manual: database command
// createIndexes.)
func (n *Node) createIndexes() *command.Command {
	return &command.Command{
		Name: "createIndexes", Fields: createIndexesFields, Flags: command.ChecksDatabase | ddlFlags | command.Transaction | command.APIv1,
		Help: "create indexes on a collection",
		Run:  n.runCreateIndexes,
	}
}

func (n *Node) runCreateIndexes(ctx context.Context, op *command.Op) error {
	ns := namespace(op)
	specs, err := parseIndexSpecs(ns, op)
	if err == nil {
		err = ns.CheckArchive()
	}
	if err != nil {
		return err
	}
	c := n.lookup(op, ns)
	if err := n.checkUUID(ns.DB, ns.Coll, c, op.Args.Value("collectionUUID")); err != nil {
		return err
	}
	built, err := n.builtFor(op)
	if err != nil {
		return err
	}
	if c != nil && c.IsView() {
		return mongoerr.New(mongoerr.CommandNotSupportedOnView, "Cannot create indexes on a view")
	}
	dry, err := takeDryRun(specs)
	if err == nil {
		err = n.checkArchives(specs)
	}
	if err != nil {
		return err
	}
	if dry {
		return n.dryRunIndexes(ctx, op, c, specs)
	}
	created := c == nil
	if created {
		if err := n.createForIndexes(ctx, op, ns, specs); err != nil {
			return err
		}
	} else if op.Transaction != nil && !op.Transaction.Created(c) {
		return mongoerr.New(mongoerr.OperationNotSupportedInTransaction, "Cannot create new indexes on existing collection %s in a multi-document transaction.", ns)
	}
	op.ReportProgress(func() (command.Progress, bool) { return n.buildProgress(ns) })
	before, after, err := n.buildIndexes(ctx, op, ns, specs, built)
	if err != nil {
		if created && op.Transaction == nil {
			if _, failed := n.Catalog.Drop(ctx, ns); failed == nil {
				op.Audited("dropCollection", new(bson.Builder).String("ns", ns.String()).Finish())
			}
		}
		return err
	}
	var notes []string
	switch {
	case before == after:
		notes = append(notes, "all indexes already exist")
	case after-before < len(specs):
		notes = append(notes, "index already exists")
	}
	if c := n.lookup(op, ns); c != nil {
		if c.Settings.Clustered != nil {
			before, after = before-1, after-1
		}
		for _, spec := range specs {
			note, err := n.noteSpec(ctx, c, spec)
			if err != nil {
				return err
			}
			if note != "" {
				n.Log.WarnContext(ctx, note, "id", 9000012, "c", "INDEX", "namespace", ns.String())
				notes = append(notes, note)
			}
		}
	}
	op.Reply.Int32("numIndexesBefore", int32(before)).Int32("numIndexesAfter", int32(after)).
		Bool("createdCollectionAutomatically", created)
	if op.Args.Has("commitQuorum") && before != after {
		op.Reply.Value("commitQuorum", op.Args.Value("commitQuorum"))
	}
	if notes != nil {
		op.Reply.String("note", strings.Join(notes, "\n\n"))
	}
	return nil
}

// buildIndexes builds indexes for an operation.
func (n *Node) buildIndexes(ctx context.Context, op *command.Op, ns schema.Namespace, specs []bson.Doc, built func(context.Context, catalog.UUID) error) (before, after int, err error) {
	if op.Transaction != nil {
		return op.Transaction.CreateIndexes(ctx, op.Transaction.Lookup(ns), specs)
	}
	return n.Catalog.CreateIndexesWhen(ctx, ns, specs, built)
}

// builtFor returns what a build waits for before its indexes are ready: the quorum of the
// command, or one that is set while it runs; nil on a standalone. Errors: 2 there, 9, 79,
// 278.
func (n *Node) builtFor(op *command.Op) (func(context.Context, catalog.UUID) error, error) {
	var first *repl.Concern
	if op.Args.Has("commitQuorum") {
		if n.Dispatcher.Member == nil {
			return nil, mongoerr.New(mongoerr.BadValue, "Standalones can't specify commitQuorum")
		}
		q, err := parseCommitQuorum(op.Args.Value("commitQuorum"))
		if err == nil {
			err = n.checkQuorum(q)
		}
		if err != nil {
			return nil, err
		}
		first = &q
	}
	if n.Dispatcher.Member == nil {
		return nil, nil
	}
	return func(ctx context.Context, id catalog.UUID) error { return n.awaitQuorum(ctx, id, first) }, nil
}

// parseIndexSpecs checks the specifications as far as that needs no collection.
func parseIndexSpecs(ns schema.Namespace, op *command.Op) ([]bson.Doc, error) {
	var specs []bson.Doc
	for _, d := range op.Documents("indexes") {
		parse := schema.ParseIndexSpec
		if op.Client != nil && op.Client.Internal {
			parse = schema.ParseOwnIndexSpec
		}
		spec, err := parse(ns, d, op.Args.Bool("ignoreUnknownIndexOptions"))
		if err != nil {
			return nil, err
		}
		specs = append(specs, spec)
	}
	if len(specs) == 0 {
		return nil, mongoerr.New(mongoerr.BadValue, "Must specify at least one index to create")
	}
	return specs, nil
}

// createForIndexes creates the collection for new indexes.
func (n *Node) createForIndexes(ctx context.Context, op *command.Op, ns schema.Namespace, specs []bson.Doc) error {
	if err := ns.ValidateCreate(); err != nil {
		return err
	}
	for _, spec := range specs {
		if spec.Has("clustered") {
			return mongoerr.New(mongoerr.Code(6100900), "Cannot implicitly create a new collection with createIndex 'clustered' option")
		}
	}
	_, err := n.createByUse(ctx, op, ns)
	if op.Transaction == nil && mongoerr.Is(err, mongoerr.NamespaceExists) {
		return nil
	}
	return err
}

// buildProgress is how far the build of indexes on a collection is.
func (n *Node) buildProgress(ns schema.Namespace) (command.Progress, bool) {
	for _, b := range n.Catalog.Builds() {
		if b.Namespace == ns {
			percent := int64(100)
			if b.Total > 0 {
				percent = min(100*b.Docs/b.Total, 100)
			}
			const scanning = "Index Build: scanning collection"
			message := fmt.Sprintf("%s %s: %d/%d %d%%", scanning, scanning, b.Docs, b.Total, percent)
			return command.Progress{Message: message, Done: b.Docs, Total: b.Total}, true
		}
	}
	return command.Progress{}, false
}
