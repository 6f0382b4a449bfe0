package importer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/wire"
)

const (
	// patience is for how long a request is repeated while its server cannot be reached, or has
	// no primary.
	patience = 60 * time.Second
	// retryPause is the time between two attempts.
	retryPause = 100 * time.Millisecond
	// maxIdle bounds the idle connections to an end: as many as workers use.
	maxIdle = 16
)

// end is the source or the target: connections to it.
type end struct {
	name string // "the source" or "the target"
	uri  *client.URI
	idle chan *client.Conn
	// What its hello says.
	set    string // the name of the replica set; "" for a standalone
	router bool
	mayfly bool
	wire   int64         // maxWireVersion
	ahead  time.Duration // how far its clock is ahead of this machine's
}

// replicated reports whether it is a set or a cluster.
func (e *end) replicated() bool { return e.set != "" || e.router }

// bypassWire is the maxWireVersion of servers that know bypassEmptyTsReplacement: 8.0.
const bypassWire = 25

func openEnd(ctx context.Context, name string, uri *client.URI) (*end, error) {
	uri.Read = client.Primary
	e := &end{name: name, uri: uri, idle: make(chan *client.Conn, maxIdle)}
	began := time.Now()
	c, _, err := uri.Connect(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	took := time.Since(began)
	hello := c.Hello()
	if v := hello.Lookup("setName"); v.Type == bson.TypeString {
		e.set = strings.Clone(v.Str())
	}
	if v := hello.Lookup("localTime"); v.Type == bson.TypeDate {
		e.ahead = time.UnixMilli(v.Date()).Sub(began.Add(took / 2))
	}
	e.router = hello.Lookup("msg").Type == bson.TypeString && hello.Lookup("msg").Str() == "isdbgrid"
	e.mayfly = client.SaysProtocol(hello)
	e.wire = bson.ClampToInt64(hello.Lookup("maxWireVersion"))
	e.give(c)
	return e, nil
}

// take returns a connection to the primary, for exclusive use until give.
func (e *end) take(ctx context.Context) (*client.Conn, error) {
	select {
	case c := <-e.idle:
		return c, nil
	default:
	}
	c, _, err := e.uri.Connect(ctx)
	return c, err
}

// give takes a connection back that is whole.
func (e *end) give(c *client.Conn) {
	select {
	case e.idle <- c:
	default:
		_ = c.Close()
	}
}

// drop closes a connection that has failed, and the idle ones, which most likely have as well.
func (e *end) drop(c *client.Conn) {
	if c != nil {
		_ = c.Close()
	}
	e.close()
}

// close closes the idle connections.
func (e *end) close() {
	for {
		select {
		case c := <-e.idle:
			_ = c.Close()
		default:
			return
		}
	}
}

// lasting is an error that another connection does not mend.
type lasting struct{ error }

func (e lasting) Unwrap() error { return e.error }

// passing reports whether an error may be gone with another connection: the network's, and those
// of a server that is no primary any more.
func passing(err error) bool {
	var refused *mongoerr.Error
	if errors.As(err, new(lasting)) {
		return false
	}
	if !errors.As(err, &refused) {
		return true
	}
	if slices.Contains(refused.Labels, "RetryableWriteError") {
		return true
	}
	switch refused.Code {
	case mongoerr.NotWritablePrimary, mongoerr.NotPrimaryNoSecondaryOk, mongoerr.NotPrimaryOrSecondary, mongoerr.PrimarySteppedDown,
		mongoerr.InterruptedDueToReplStateChange, mongoerr.InterruptedAtShutdown, mongoerr.ShutdownInProgress, mongoerr.WriteConflict,
		mongoerr.HostUnreachable, mongoerr.FailedToSatisfyReadPreference:
		return true
	}
	return false
}

// again calls do with a connection until it succeeds or fails for good.
func (e *end) again(ctx context.Context, do func(c *client.Conn) error) error {
	var since time.Time
	for {
		c, err := e.take(ctx)
		if err == nil {
			if err = do(c); err == nil {
				e.give(c)
				return nil
			}
		}
		if ctx.Err() != nil {
			e.drop(c)
			return context.Cause(ctx)
		}
		if !passing(err) {
			if c != nil {
				e.give(c)
			}
			return err
		}
		e.drop(c)
		if since.IsZero() {
			since = time.Now()
		} else if time.Since(since) > patience {
			return fmt.Errorf("%s: %w", e.name, err)
		}
		if err := client.Sleep(ctx, retryPause); err != nil {
			return err
		}
	}
}

// run runs a command that can be executed twice. Errors: the server's; the cause of ctx; the
// network's after patience.
func (e *end) run(ctx context.Context, db string, body bson.Doc, sequences ...wire.Sequence) (reply bson.Doc, err error) {
	err = e.again(ctx, func(c *client.Conn) error {
		reply, err = c.Run(ctx, db, body, sequences...)
		return err
	})
	return reply, err
}

// all returns the documents of a command that returns a cursor, for lists.
func (e *end) all(ctx context.Context, db string, body bson.Doc) (docs []bson.Doc, err error) {
	err = e.again(ctx, func(c *client.Conn) error {
		docs = nil
		return each(ctx, c, db, body, func(d bson.Doc) error {
			docs = append(docs, d.Clone())
			return nil
		})
	})
	return docs, err
}

// each calls do with the documents of a command that returns a cursor.
func each(ctx context.Context, c *client.Conn, db string, body bson.Doc, do func(bson.Doc) error) error {
	cur, err := c.Open(ctx, db, body)
	if err != nil {
		return err
	}
	for {
		d, err := cur.Next(ctx)
		if d == nil || err != nil {
			return err
		}
		if err := do(d); err != nil {
			return errors.Join(err, cur.Close(ctx))
		}
	}
}

// majority is the writeConcern of all writes.
func majority(b *bson.Builder) *bson.Builder {
	return b.OpenDoc("writeConcern").String("w", "majority").Close()
}

// ddl runs a command that has no session, and of which the caller knows that twice does no harm.
func (e *end) ddl(ctx context.Context, db string, body bson.Doc) (bson.Doc, error) {
	reply, err := e.run(ctx, db, majority(new(bson.Builder).Fields(body)).Finish())
	if err == nil {
		err = unconfirmed(reply)
	}
	return reply, err
}

// unconfirmed is the error of a write that the majority may not have.
func unconfirmed(reply bson.Doc) error {
	if v := reply.Lookup("writeConcernError"); v.Type == bson.TypeDocument {
		return fmt.Errorf("what was written is not with the set's majority: %s", v)
	}
	return nil
}

// writer writes to the target in a logical session of its own. One write at a time.
type writer struct {
	to     *end
	hold   *hold
	id     bson.UUID
	mu     sync.Mutex // guards number, and is held for a write
	number int64      // of the last write: retryable writes with rising numbers (invariant one-importer)
}

// errOvertaken ends an importer whose target another one has claimed.
var errOvertaken = errors.New("another importer has claimed the target; this one has ended, and does no harm")

// write runs a write. Errors of single statements are in the reply.
func (w *writer) write(ctx context.Context, db string, body bson.Doc, sequences ...wire.Sequence) (bson.Doc, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.number++
	b := new(bson.Builder).Fields(body).OpenDoc("lsid").Binary("id", 4, w.id[:]).Close().Int64("txnNumber", w.number)
	reply, err := w.hold.run(ctx, w.to, db, b.Finish(), sequences...)
	if mongoerr.Is(err, mongoerr.TransactionTooOld) {
		return nil, errOvertaken
	}
	return reply, err
}

// writeError is one of the errors of single statements in a reply.
type writeError struct {
	index int
	doc   bson.Doc
	*mongoerr.Error
}

// writeErrors returns the errors of single statements.
func writeErrors(reply bson.Doc) (all []writeError) {
	v := reply.Lookup("writeErrors")
	if v.Type != bson.TypeArray {
		return nil
	}
	for e := range v.Doc().Values() {
		d := e.Doc()
		text := ""
		if m := d.Lookup("errmsg"); m.Type == bson.TypeString {
			text = m.Str()
		}
		code := mongoerr.Code(bson.ClampToInt64(d.Lookup("code")))
		all = append(all, writeError{int(bson.ClampToInt64(d.Lookup("index"))), d, mongoerr.New(code, "%s", text)})
	}
	return all
}

// set updates one document of the import's own by its _id, and makes it if there is none.
func (w *writer) set(ctx context.Context, coll string, id bson.Value, fields bson.Doc) error {
	u := new(bson.Builder).OpenDoc("q").Value("_id", id).Close().OpenDoc("u").Doc("$set", fields).Close().Bool("upsert", true).Finish()
	reply, err := w.write(ctx, ownDB, new(bson.Builder).String("update", coll).Finish(), wire.NewSequence("updates", u))
	if err != nil {
		return err
	}
	for _, e := range writeErrors(reply) {
		return e.Error
	}
	return nil
}
