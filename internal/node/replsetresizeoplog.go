package node

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/repl"
)

// Bounds of replSetResizeOplog, in megabytes. (Manual: database command
// replSetResizeOplog.)
const (
	minOplogMB = repl.MinWindowBytes >> 20
	maxOplogMB = repl.MaxWindowBytes >> 20
)

var replSetResizeOplogFields = command.NewFields("replSetResizeOplog",
	command.Any("replSetResizeOplog"), command.Number("size"), command.Number("minRetentionHours")).Lenient()

// replSetResizeOplog says how much of its log this member keeps, for good: it goes
// before the options.
func (n *Node) replSetResizeOplog() *command.Command {
	return &command.Command{
		Name: "replSetResizeOplog", Run: n.runReplSetResizeOplog,
		Help: "Resize oplog using size (in MBs) and optionally, retention (in terms of hours)\n{ replSetResizeOplog: 1, size: 10000, minRetentionHours: 12 }",
	}
}

func (n *Node) runReplSetResizeOplog(ctx context.Context, op *command.Op) error {
	a, err := command.Parse(op, replSetResizeOplogFields)
	if err != nil {
		return err
	}
	m := n.Dispatcher.Member
	if m.State().Config == nil {
		return mongoerr.New(mongoerr.NamespaceNotFound, "oplog does not exist")
	}
	w := m.Window()
	if a.Has("size") {
		mb := bson.ToDouble(a.Value("size"))
		if !(mb >= minOplogMB) {
			return mongoerr.New(mongoerr.BadValue, "BSON field 'size' value must be >= %d, actual value '%s'", minOplogMB, a.Value("size"))
		}
		if mb > maxOplogMB {
			return mongoerr.New(mongoerr.BadValue, "BSON field 'size' value must be <= %d, actual value '%s'", maxOplogMB, a.Value("size"))
		}
		w.Bytes = uint64(mb * (1 << 20))
	}
	if a.Has("minRetentionHours") {
		hours := bson.ToDouble(a.Value("minRetentionHours"))
		if !(hours >= 0) {
			return mongoerr.New(mongoerr.BadValue, "BSON field 'minRetentionHours' value must be >= 0, actual value '%s'", a.Value("minRetentionHours"))
		}
		w.Retention, w.Soft = repl.Hours(min(hours, repl.MaxRetentionHours)), false
	}
	return m.SetWindow(ctx, w)
}
