package node

import (
	"context"

	"github.com/mayflydb/mayfly/internal/command"
)

// lockInfo lists the locks that are held. The only lock of the whole server is
// that of fsync; locks of records are not listed.
func (n *Node) lockInfo() *command.Command {
	return &command.Command{
		Name: "lockInfo", Flags: command.AdminOnly, Fields: command.NewFields("lockInfo"),
		Help: "show all lock info on the server", Run: n.runLockInfo,
	}
}

func (n *Node) runLockInfo(_ context.Context, op *command.Op) error {
	b := op.Reply.OpenArray("lockInfo")
	if op.Dispatcher.Gate.Locks() > 0 {
		b.OpenDoc("0").String("resourceId", "{2305843009213693953: Global, 1}").OpenArray("granted").OpenDoc("0").
			String("mode", "S").String("convertMode", "NONE").Bool("enqueueAtFront", false).Bool("compatibleFirst", false).
			Close().Close().OpenArray("pending").Close().Close()
	}
	b.Close()
	return nil
}
