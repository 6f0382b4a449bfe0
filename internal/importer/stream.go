package importer

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

const (
	// streamWait is how long the source waits for an event before it tells where the stream is.
	streamWait = 500 * time.Millisecond
	// streamBatch is the most events of a batch, which has 16 MB at the most.
	streamBatch = 1000
)

// stream reads what happens in all of the source.
type stream struct {
	e       *end
	conn    *client.Conn // nil while it is closed
	cursor  int64
	token   bson.Doc   // behind the last event that was returned whole
	pending []bson.Doc // the fragments of an event whose last one has not come
}

// open opens the stream behind its token, or at now if it has none.
func (s *stream) open(ctx context.Context) error {
	b := new(bson.Builder).Int32("aggregate", 1).OpenArray("pipeline").OpenDoc("0").OpenDoc("$changeStream").
		Bool("allChangesForCluster", true).Bool("showExpandedEvents", true).String("fullDocument", "updateLookup")
	if s.token != nil {
		b.Doc("resumeAfter", s.token)
	}
	b.Close().Close().OpenDoc("1").OpenDoc("$changeStreamSplitLargeEvent").Close().Close().Close().OpenDoc("cursor").Int32("batchSize", 0).Close()
	c, err := s.e.take(ctx)
	if err != nil {
		return err
	}
	reply, err := c.Run(ctx, "admin", b.Finish())
	if err != nil {
		s.e.drop(c)
		return err
	}
	s.conn, s.pending = c, nil
	cursor := reply.Lookup("cursor").Doc()
	s.cursor = cursor.Lookup("id").Int64()
	if v := cursor.Lookup("postBatchResumeToken"); s.token == nil && v.Type == bson.TypeDocument {
		s.token = v.Doc().Clone()
	}
	if s.token == nil {
		return lasting{errors.New("the source does not say where its change stream is")}
	}
	return nil
}

// close closes the stream's connection, and with it the cursor in time.
func (s *stream) close() {
	if s.conn != nil {
		s.e.drop(s.conn)
		s.conn = nil
	}
}

// read returns the next events, none if none has come for a while. They belong to the caller; the
// token is behind them. It opens the stream anew where its connection is lost.
func (s *stream) read(ctx context.Context) ([]bson.Doc, error) {
	var since time.Time
	for {
		events, err := s.next(ctx)
		if err == nil {
			return events, nil
		}
		s.close()
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case mongoerr.Is(err, mongoerr.ChangeStreamHistoryLost, mongoerr.ChangeStreamFatalError):
			return nil, fmt.Errorf("the source's log does not reach back any more to what was not applied yet: the import has to begin anew: %w", err)
		case !passing(err) && !mongoerr.Is(err, mongoerr.CursorNotFound, mongoerr.CursorKilled, mongoerr.QueryPlanKilled):
			return nil, err
		}
		if since.IsZero() {
			since = time.Now()
		} else if time.Since(since) > patience {
			return nil, fmt.Errorf("the source's change stream: %w", err)
		}
		if err := client.Sleep(ctx, retryPause); err != nil {
			return nil, err
		}
	}
}

// next reads one batch.
func (s *stream) next(ctx context.Context) (events []bson.Doc, err error) {
	if s.conn == nil {
		if err := s.open(ctx); err != nil {
			return nil, err
		}
	}
	reply, err := s.conn.Run(ctx, "admin", new(bson.Builder).Int64("getMore", s.cursor).String("collection", "$cmd.aggregate").
		Int32("batchSize", streamBatch).Int64("maxTimeMS", streamWait.Milliseconds()).Finish())
	if err != nil {
		return nil, err
	}
	cursor := reply.Lookup("cursor").Doc()
	if cursor.Lookup("id").Int64() == 0 {
		return nil, lasting{errors.New("the source has closed the change stream")}
	}
	for v := range cursor.Lookup("nextBatch").Doc().Values() {
		event := s.whole(v.Doc())
		if event != nil {
			events = append(events, event)
			s.token = event.Lookup("_id").Doc()
		}
	}
	if v := cursor.Lookup("postBatchResumeToken"); len(s.pending) == 0 && v.Type == bson.TypeDocument {
		s.token = v.Doc().Clone()
	}
	return events, nil
}

// whole returns an event, of the last fragment the event of all of them, and nil of the others.
func (s *stream) whole(d bson.Doc) bson.Doc {
	split := d.Lookup("splitEvent")
	if split.Type != bson.TypeDocument {
		return d
	}
	s.pending = append(s.pending, d)
	if bson.ClampToInt64(split.Doc().Lookup("fragment")) < bson.ClampToInt64(split.Doc().Lookup("of")) {
		return nil
	}
	b := new(bson.Builder).Value("_id", d.Lookup("_id"))
	for _, part := range s.pending {
		for name, v := range part.All() {
			if name != "_id" && name != "splitEvent" {
				b.Value(name, v)
			}
		}
	}
	s.pending = nil
	return b.Finish()
}

// tokenTime is the cluster time of a resume token, which its first bytes have.
func tokenTime(token bson.Doc) uint64 {
	v := token.Lookup("_data")
	if v.Type != bson.TypeString {
		return 0
	}
	const tag, digits = 2, 16
	text := v.Str()
	if len(text) < tag+digits || !strings.HasPrefix(text, "82") {
		return 0
	}
	b, err := hex.DecodeString(text[tag : tag+digits])
	if err != nil {
		return 0
	}
	return binary.BigEndian.Uint64(b)
}

// reached reports whether all that happened until a time was read, with what the last read returned.
// What one transaction did has one time, and may come in several batches.
func (s *stream) reached(events []bson.Doc, until uint64) bool {
	at := tokenTime(s.token)
	return at > until || at == until && len(events) == 0 && len(s.pending) == 0
}

// now is a time of the source that is not before anything that was acknowledged there, and behind
// which the stream's mark comes soon.
func (im *Importer) now(ctx context.Context) (uint64, error) {
	reply, err := im.from.run(ctx, "admin", new(bson.Builder).Int32("appendOplogNote", 1).OpenDoc("data").String("msg", "mayfly import").Close().Finish())
	if err != nil && im.from.router { // what a ping says need not be behind what other routers have written
		return 0, fmt.Errorf("the source does not let this user write to its log (a role that may is clusterManager): %w", err)
	}
	if err != nil && !passing(err) { // it needs a privilege; else the mark comes by itself, if later
		reply, err = im.from.run(ctx, "admin", new(bson.Builder).Int32("ping", 1).Finish())
	}
	if err != nil {
		return 0, err
	}
	v := reply.Lookup("operationTime")
	if v.Type != bson.TypeTimestamp {
		return 0, errors.New("the source does not say its time")
	}
	return v.Timestamp(), nil
}

// listTries is how often the source's collections are listed, until none of them is made, dropped
// or renamed meanwhile.
const listTries = 100

// listAtToken lists the source's collections as they are at the time of a token, behind which the
// stream is read: rows are those of that time, and so each event behind it is to be applied.
func (im *Importer) listAtToken(ctx context.Context) ([]*definition, error) {
	for range listTries {
		s := &stream{e: im.from}
		err := im.from.again(ctx, func(*client.Conn) error { return s.open(ctx) })
		if err != nil {
			return nil, err
		}
		token := s.token
		all, quiet, err := im.listQuiet(ctx, s)
		s.close()
		if err != nil {
			return nil, err
		}
		if quiet {
			im.state.token = token
			return all, nil
		}
	}
	return nil, errors.New("collections are made, dropped or renamed at the source all the time: the import cannot begin")
}

// keeps are the events of DDL behind which there are the same collections with the same names: what
// they change is read again when they are applied.
var keeps = map[string]bool{"createIndexes": true, "dropIndexes": true, "modify": true, "shardCollection": true, "refineCollectionShardKey": true}

// listQuiet lists, and reports whether no collection was made, dropped or renamed from the beginning
// of a stream until then.
func (im *Importer) listQuiet(ctx context.Context, s *stream) (all []*definition, quiet bool, err error) {
	if all, err = list(ctx, im.from); err != nil {
		return nil, false, err
	}
	t, err := im.now(ctx)
	if err != nil {
		return nil, false, err
	}
	for reached := false; !reached; {
		events, err := s.read(ctx)
		if err != nil {
			return nil, false, err
		}
		reached = s.reached(events, t)
		if slices.ContainsFunc(events, func(d bson.Doc) bool { return !writes[kindOf(d)] && !keeps[kindOf(d)] && !ownDatabase(d) }) {
			return nil, false, nil
		}
	}
	return all, true, nil
}

// writes are the events of documents.
var writes = map[string]bool{"insert": true, "update": true, "replace": true, "delete": true}

func kindOf(event bson.Doc) string {
	if v := event.Lookup("operationType"); v.Type == bson.TypeString {
		return v.Str()
	}
	return ""
}

// ownDatabase reports whether an event is of a database that is not copied.
func ownDatabase(event bson.Doc) bool {
	db, coll := nsOf(event.Lookup("ns"))
	return slices.Contains(ownDatabases, db) || strings.HasPrefix(coll, "system.")
}

func nsOf(v bson.Value) (db, coll string) {
	if v.Type != bson.TypeDocument {
		return "", ""
	}
	if x := v.Doc().Lookup("db"); x.Type == bson.TypeString {
		db = x.Str()
	}
	if x := v.Doc().Lookup("coll"); x.Type == bson.TypeString {
		coll = x.Str()
	}
	return db, coll
}
