package command

import (
	"strconv"
	"strings"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
)

// CurrentOpOptions say what CurrentOps lists; they are those of the stage
// $currentOp.
type CurrentOpOptions struct {
	// IdleConnections lists clients that run nothing, too.
	IdleConnections bool
	// IdleSessions lists transactions of which no statement runs, too.
	IdleSessions bool
	// IdleCursors lists open cursors that no operation uses, too.
	IdleCursors bool
	// OwnOps lists only what the user of For runs or, where For's client has not
	// authenticated, what that client runs.
	OwnOps bool
	// Truncate cuts commands longer than 1 KiB.
	Truncate bool
	// For is the operation that asks for the list.
	For *Op
}

// owns reports whether c's operation belongs to the caller's users.
func (o *CurrentOpOptions) owns(c *Client) bool {
	if o.For == nil {
		return false
	}
	return c == o.For.Client || c.Principal() != nil && c.Owner() == o.For.Client.Owner()
}

// CurrentOps lists the running operations as $currentOp prints them.
func (d *Dispatcher) CurrentOps(o CurrentOpOptions) []bson.Doc {
	var docs []bson.Doc
	now := time.Now()
	cursors := d.Cursors.used()
	for _, c := range d.Clients.All() {
		if o.OwnOps && !o.owns(c) {
			continue
		}
		op := c.Current()
		if op == nil && !o.IdleConnections {
			continue
		}
		var cursor *shownCursor
		if shown, ok := cursors[op]; ok {
			cursor = &shown
		}
		docs = append(docs, d.currentOp(c, op, cursor, now, o.Truncate))
	}
	if !o.OwnOps {
		for _, list := range d.Background {
			docs = append(docs, list()...)
		}
	}
	if o.IdleSessions {
		docs = append(docs, d.idleSessions(o, now)...)
	}
	if o.IdleCursors {
		docs = append(docs, d.Cursors.idle(d.Host, o)...)
	}
	return docs
}

// currentOpTime formats a time as currentOp prints it.
const currentOpTime = "2006-01-02T15:04:05.000-07:00"

// maxShownCommand is how many bytes of a command a truncated listing shows.
const maxShownCommand = 1 << 10

// currentOp shows a client and its operation, nil for none; cursor is the one that a getMore reads, or nil.
func (d *Dispatcher) currentOp(c *Client, op *Op, cursor *shownCursor, now time.Time, truncate bool) bson.Doc {
	b := new(bson.Builder).Reset(make([]byte, 0, 1024))
	b.String("type", "op").String("host", d.Host)
	switch {
	case c.Desc != "":
		b.String("desc", c.Desc)
	default:
		b.String("desc", "conn"+strconv.FormatInt(c.ConnectionID, 10)).Int("connectionId", c.ConnectionID)
	}
	if c.Remote != "" {
		b.String("client", c.Remote)
	}
	if m := c.Metadata(); m != nil {
		if m.AppName != "" {
			b.String("appName", m.AppName)
		}
		b.Doc("clientMetadata", m.Document)
	}
	b.Bool("active", op != nil).String("currentOpTime", now.Format(currentOpTime))
	if c.Principal() != nil {
		c.writeUsers(b, "effectiveUsers")
	}
	if op == nil {
		return b.Bool("isFromUserConnection", c.Desc == "").Finish()
	}
	b.Bool("isFromUserConnection", c.Desc == "").Bool("threaded", true).Int32("opid", op.ID)
	if op.Killed() {
		b.Bool("killPending", true)
	}
	if op.Session != nil {
		b.Doc("lsid", op.Session.ID.Document())
		if t := op.Session.shown.Load(); t != nil && op.InTransaction() && op.Generic.TxnNumber == t.number {
			t.append(b, now)
		}
	}
	took := now.Sub(op.Start)
	b.Int64("secs_running", int64(took/time.Second)).Int64("microsecs_running", took.Microseconds())
	op.appendRunning(b, truncate)
	if cursor != nil {
		cursor.append(b, truncate)
	}
	return b.Finish()
}

// appendRunning writes what the operation does.
func (op *Op) appendRunning(b *bson.Builder, truncate bool) {
	b.String("op", op.Kind().String()).String("ns", *op.active.namespace.Load())
	b.Bool("redacted", op.secret())
	cmd := op.ShownCommand()
	if truncate {
		cmd = op.shortCommand(maxShownCommand)
	}
	b.Doc("command", cmd)
	if p := op.PlanSummary(); p != "" {
		b.String("planSummary", p).String("queryFramework", "classic")
	}
	if p := op.progressNow(); p != nil {
		b.String("msg", p.Message)
		if p.Total > 0 {
			b.OpenDoc("progress").Int64("done", p.Done).Int64("total", p.Total).Close()
		}
	}
	b.Int("numYields", op.active.yields.Load()).OpenDoc("locks").Close()
	b.Bool("waitingForLock", op.active.waiting.Load()).OpenDoc("lockStats").Close()
	b.Bool("waitingForFlowControl", false).OpenDoc("flowControlStats").Close()
}

// shortCommand returns the redacted command, truncated to text of limit bytes if it is
// longer.
func (op *Op) shortCommand(limit int) bson.Doc {
	return shortCommand(op.ShownCommand(), op.Generic.Comment, limit)
}

// shortCommand truncates a command that is shown to text of limit bytes, and its comment, if it
// is longer.
func shortCommand(cmd bson.Doc, comment bson.Value, limit int) bson.Doc {
	if len(cmd) <= limit {
		return cmd
	}
	text := cmd.String()
	b := new(bson.Builder).String("$truncated", strings.ToValidUTF8(text[:min(limit, len(text))], ""))
	if !comment.IsMissing() {
		b.Value("comment", comment)
	}
	return b.Finish()
}

// FindOp returns the running operation with that opid, or nil.
func (cs *Clients) FindOp(id int32) *Op {
	for _, op := range cs.Ops() {
		if op.ID == id {
			return op
		}
	}
	return nil
}

// idle lists the cursors that no operation uses.
func (cs *Cursors) idle(host string, o CurrentOpOptions) []bson.Doc {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	var docs []bson.Doc
	for _, c := range cs.mu.open {
		if c.pinned != nil || o.OwnOps && o.For != nil && c.owner != o.For.Client.Owner() {
			continue
		}
		b := new(bson.Builder).String("type", "idleCursor").String("host", host).String("ns", c.spec.NS)
		if c.session != nil {
			b.Doc("lsid", c.session.Document())
		}
		if c.planSummary != "" {
			b.String("planSummary", c.planSummary)
		}
		shown := c.shownLocked()
		shown.append(b, o.Truncate)
		docs = append(docs, b.Finish())
	}
	return docs
}

// used are the cursors that operations read at the moment, as a getMore in currentOp has them.
func (cs *Cursors) used() map[*Op]shownCursor {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	all := map[*Op]shownCursor{}
	for _, c := range cs.mu.open {
		if c.pinned != nil {
			all[c.pinned] = c.shownLocked()
		}
	}
	return all
}

// shownCursor is what currentOp shows of a cursor. The command is the table's own, which nothing
// changes.
type shownCursor struct {
	id, docs, batches              int64
	created, lastUse               time.Time
	noTimeout, tailable, awaitData bool
	command                        bson.Doc
}

// shownLocked requires the table's lock.
func (c *openCursor) shownLocked() shownCursor {
	return shownCursor{
		id: c.id, docs: c.docs, batches: c.batches, created: c.created, lastUse: c.lastUse,
		noTimeout: c.spec.NoTimeout, tailable: c.spec.Tailable, awaitData: c.spec.AwaitData, command: c.command,
	}
}

// append writes the cursor into an operation that reads it, or a listing of those that rest.
func (c *shownCursor) append(b *bson.Builder, truncate bool) {
	cmd := c.command
	if truncate {
		cmd = shortCommand(cmd, cmd.Lookup("comment"), maxShownCommand)
	}
	b.OpenDoc("cursor").Int64("cursorId", c.id).Date("createdDate", c.created.UnixMilli()).
		Date("lastAccessDate", c.lastUse.UnixMilli()).Int64("nDocsReturned", c.docs).Int64("nBatchesReturned", c.batches).
		Bool("noCursorTimeout", c.noTimeout).Bool("tailable", c.tailable).Bool("awaitData", c.awaitData).
		Doc("originatingCommand", cmd).Close()
}
