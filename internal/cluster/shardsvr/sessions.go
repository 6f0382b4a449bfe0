package shardsvr

import (
	"context"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog/retryable"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

const (
	// sessionBatch is how many session records a recipient gets at once, and sessionBytes
	// bounds the size of the reply. One record has at most 16 MB.
	sessionBatch = 1000
	sessionBytes = 4 << 20
	// clockSlack is how far the clocks of the donor's members may differ.
	clockSlack = time.Minute
)

// sessions answers a recipient. {_shardsvrSessions: ns, since, after} returns what sessions
// have executed since a time of this member's clock, in milliseconds, and where to continue.
// now is the clock's time.
func (r *request) sessions(context.Context) error {
	since, _ := bson.ExactInt64(r.body.Lookup("since"))
	var after []byte
	if v := r.body.Lookup("after"); v.Type == bson.TypeBinary {
		_, after = v.Binary()
	}
	r.reply.Int64("now", time.Now().UnixMilli()).OpenArray("records")
	bytes, n := 0, 0
	for bytes < sessionBytes && n < sessionBatch {
		some, last, err := r.s.cat.ExecutedSince(after, since, 1)
		if err != nil {
			return err
		}
		for _, e := range some {
			value := retryable.AppendValue(nil, e.Record.Term, e.Record.Time, e.Record.AppendBody(nil))
			r.reply.OpenDoc(bson.Index(n)).Binary("session", 0, retryable.AppendSession(nil, e.Session)).Binary("record", 0, value).Close()
			bytes, n = bytes+len(value), n+1
		}
		if after = last; last == nil {
			break
		}
	}
	r.reply.Close()
	if after != nil {
		r.reply.Binary("next", 0, after)
	}
	return nil
}

// mergeSessions imports what the donor's sessions have executed since the last call.
func (d *donor) mergeSessions(ctx context.Context) error {
	next := bson.Value{Type: bson.Missing}
	started := int64(0)
	for {
		b := new(bson.Builder).String("_shardsvrSessions", d.ns.String()).Int64("since", d.read-clockSlack.Milliseconds())
		if !next.IsMissing() {
			b.Value("after", next)
		}
		a, err := d.ask(ctx, "admin", b.Finish())
		if err != nil {
			return err
		}
		if started == 0 {
			started, _ = bson.ExactInt64(a.Reply.Lookup("now"))
		}
		if err := d.adopt(ctx, a.Reply.Lookup("records").Doc()); err != nil {
			return err
		}
		if next = a.Reply.Lookup("next"); next.IsMissing() {
			d.read = started
			return nil
		}
	}
}

// adopt imports a batch of records. Those of one operation come one after the other, and are
// imported together: to import each by itself, all that there is of the operation would be
// read for each.
func (d *donor) adopt(ctx context.Context, records bson.Doc) error {
	var s retryable.Session
	var all retryable.Record // of s
	end := func() error {
		if len(all.Runs) == 0 {
			return nil
		}
		return d.s.node.Dispatcher.Adopt(ctx, s, &all)
	}
	for v := range records.Values() {
		_, session := v.Doc().Lookup("session").Binary()
		_, value := v.Doc().Lookup("record").Binary()
		record, err := retryable.Parse(value)
		if err != nil || len(session) != retryable.SessionLen {
			return mongoerr.New(mongoerr.OperationFailed, "invalid session record from the donor: %v", err)
		}
		var next retryable.Session
		copy(next.ID[:], session)
		copy(next.UID[:], session[len(next.ID):])
		if next == s && record.Txn == all.Txn {
			all.Runs = append(all.Runs, record.Runs...)
			continue
		}
		if err := end(); err != nil {
			return err
		}
		s, all = next, record
	}
	return end()
}
