package node

import (
	"context"
	"github.com/mayflydb/mayfly/internal/access"
	"slices"

	"github.com/mayflydb/mayfly/internal/auth"
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/expr"
	"github.com/mayflydb/mayfly/internal/query/match"
)

var listDatabasesFields = command.NewFields("listDatabases",
	command.Object("filter"),
	command.SafeBool("nameOnly"),
	command.Bool("authorizedDatabases"),
)

// ownDatabases exist on every server, whether or not anything is in them.
var ownDatabases = []string{"admin", "config", "local"}

// listDatabases answers {listDatabases: 1}. (Manual: database command
// listDatabases.)
func (n *Node) listDatabases() *command.Command {
	return &command.Command{
		Name: "listDatabases", Fields: listDatabasesFields, Flags: command.AdminOnly | command.APIv1,
		Help: "{ listDatabases:1, [filter: <filterObject>] [, nameOnly: true ] }\nlist databases on this server",
		Run:  n.runListDatabases,
	}
}

func (n *Node) runListDatabases(ctx context.Context, op *command.Op) error {
	filter, err := ListFilter(op.Args.Doc("filter"))
	if err != nil {
		return err
	}
	names := n.Catalog.Databases()
	for _, own := range ownDatabases {
		if !slices.Contains(names, own) {
			names = append(names, own)
		}
	}
	slices.Sort(names)
	nameOnly := op.Args.Bool("nameOnly")
	every := op.May(auth.On(auth.Cluster, auth.ListDatabases))
	if !every && op.Args.Has("authorizedDatabases") && !op.Args.Bool("authorizedDatabases") {
		return mongoerr.New(mongoerr.Unauthorized, "Insufficient permissions to list all databases")
	}
	every = every && !op.Args.Bool("authorizedDatabases")
	total, listed := int64(0), 0
	op.Reply.OpenArray("databases")
	for _, name := range names {
		if !every && !access.Sees(op, name, "") {
			continue
		}
		var b bson.Builder
		b.String("name", name)
		size := int64(0)
		if !nameOnly {
			if size, err = n.databaseSize(name); err != nil {
				return err
			}
			b.Int64("sizeOnDisk", size).Bool("empty", n.emptyDatabase(name))
		}
		d := b.Finish()
		if ok, err := filter.Match(d); err != nil {
			return err
		} else if !ok {
			continue
		}
		op.Reply.Doc(bson.Index(listed), d)
		listed++
		total += size
	}
	op.Reply.Close()
	if !nameOnly {
		op.Reply.Int64("totalSize", total).Int64("totalSizeMb", total>>20)
	}
	return nil
}

// ListFilter parses the filter of a command that lists things.
func ListFilter(filter bson.Doc) (*match.Filter, error) {
	if filter == nil {
		filter = bson.Empty
	}
	return match.Parse(filter, &match.Options{
		Expr:   &expr.Options{NoClock: true},
		Forbid: match.FeatureText | match.FeatureNear | match.FeatureJavaScript,
	})
}

// emptyDatabase reports whether a database has nothing at all; the server's own
// ones always have something.
func (n *Node) emptyDatabase(name string) bool {
	return !slices.Contains(ownDatabases, name) && len(n.Catalog.Collections(name)) == 0
}

// databaseSize returns the size on disk of a database's collections and their
// indexes.
func (n *Node) databaseSize(db string) (int64, error) {
	size := int64(0)
	for _, c := range n.Catalog.Collections(db) {
		s, err := n.Catalog.Stats(c)
		if err != nil {
			return 0, err
		}
		size += s.StorageSize + s.IndexSize
	}
	return size, nil
}
