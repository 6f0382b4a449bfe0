package node

import (
	"context"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// Bounds of replSetResizeOplog, in megabytes. (Manual: database command
// replSetResizeOplog.)
const (
	minOplogMB = 990
	maxOplogMB = 1 << 50 >> 20
)

var replSetResizeOplogFields = command.NewFields("replSetResizeOplog",
	command.Any("replSetResizeOplog"), command.Number("size"), command.Number("minRetentionHours")).Lenient()

// replSetResizeOplog says how much of its log this member keeps, until it is started
// again: then the options count.
func (n *Node) replSetResizeOplog() *command.Command {
	return &command.Command{
		Name: "replSetResizeOplog", Run: n.runReplSetResizeOplog,
		Help: "Resize oplog using size (in MBs) and optionally, retention (in terms of hours)\n{ replSetResizeOplog: 1, size: 10000, minRetentionHours: 12 }",
	}
}

func (n *Node) runReplSetResizeOplog(_ context.Context, op *command.Op) error {
	a, err := command.Parse(op, replSetResizeOplogFields)
	if err != nil {
		return err
	}
	m := n.Dispatcher.Member
	w := m.Window()
	if a.Has("size") {
		mb := bson.ToDouble(a.Value("size"))
		if !(mb >= minOplogMB && mb <= maxOplogMB) {
			return mongoerr.New(mongoerr.BadValue, "BSON field 'size' value must be >= %d and <= %d, actual value '%s'", minOplogMB, maxOplogMB, a.Value("size"))
		}
		w.Bytes = uint64(mb * (1 << 20))
	}
	if a.Has("minRetentionHours") {
		hours := bson.ToDouble(a.Value("minRetentionHours"))
		if !(hours >= 0 && hours <= 1<<20) {
			return mongoerr.New(mongoerr.BadValue, "BSON field 'minRetentionHours' value must be >= 0, actual value '%s'", a.Value("minRetentionHours"))
		}
		w.Retention = time.Duration(hours * float64(time.Hour))
	}
	return m.SetWindow(w)
}
