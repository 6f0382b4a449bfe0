package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"strings"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/config"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/wire"
	"github.com/mayflydb/mayfly/internal/wire/stream"
)

// Options are the options of a Conn.
type Options struct {
	// Address is "host:port", or the path of a unix socket.
	Address string
	// Dial opens the connection to Address; nil: the system's.
	Dial func(ctx context.Context, address string) (net.Conn, error)
	// TLS encrypts the connection; nil for none. The default of its ServerName is the
	// host of Address.
	TLS *tls.Config
	// AppName is the client's name in the server's log and currentOp.
	AppName string
	// Login is the user to log in as; nil for none.
	Login *Login
	// Peer says that the other end is to be a part of the same cluster: a build that this one
	// does not understand is an error (protocol.go).
	Peer bool
	// Log gets a line where a member of a Set refuses the login; nil for none.
	Log *slog.Logger
}

// Conn is one connection to a server. It is for one goroutine at a time.
type Conn struct {
	nc     net.Conn
	stream *stream.Stream // nc, if it is one of several on a socket
	reader *wire.Reader
	lastID int32
	hello  bson.Doc
	broken error // why the connection can no longer be used, or nil
}

// Connect opens a connection, sends hello and logs in. Errors are those of the network,
// or *mongoerr.Error from the server: 18 if the login fails, 188 for a Peer of a build that does
// not fit.
func Connect(ctx context.Context, o Options) (*Conn, error) {
	nc, err := dial(ctx, o)
	if err != nil {
		return nil, err
	}
	if o.TLS != nil {
		if nc, err = encrypt(ctx, nc, o); err != nil {
			return nil, err
		}
	}
	c := &Conn{nc: nc, reader: wire.NewReader(nc)}
	if err := c.greet(ctx, o); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// connectOn is Connect on a new stream.
func connectOn(ctx context.Context, m *stream.Stream, o Options) (*Conn, error) {
	c := &Conn{nc: m, stream: m, reader: wire.NewReader(m)}
	if err := c.greet(ctx, o); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// dial opens the socket.
func dial(ctx context.Context, o Options) (net.Conn, error) {
	if o.Dial != nil {
		return o.Dial(ctx, o.Address)
	}
	network := "tcp"
	if strings.HasPrefix(o.Address, "/") {
		network = "unix"
	}
	return new(net.Dialer).DialContext(ctx, network, o.Address)
}

// encrypt does the TLS handshake on nc. It closes nc if that fails.
func encrypt(ctx context.Context, nc net.Conn, o Options) (net.Conn, error) {
	conf := o.TLS.Clone()
	if conf.ServerName == "" {
		host, _, err := net.SplitHostPort(o.Address)
		if err != nil {
			return nil, errors.Join(err, nc.Close())
		}
		conf.ServerName = host
	}
	t := tls.Client(nc, conf)
	if err := t.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(err, nc.Close())
	}
	return t, nil
}

// greet sends hello, and logs in if the options say so.
func (c *Conn) greet(ctx context.Context, o Options) error {
	var b bson.Builder
	b.Int32("hello", 1).OpenDoc("client")
	if o.AppName != "" {
		b.OpenDoc("application").String("name", o.AppName).Close()
	}
	b.OpenDoc("driver").String("name", DriverName).String("version", config.Version).Close().OpenDoc("os").String("type", runtime.GOOS).Close()
	AppendProtocol(&b)
	b.Close()
	if l := o.Login; l != nil && l.Mechanism == "" {
		b.String("saslSupportedMechs", l.source()+"."+l.User)
	}
	var err error
	if c.hello, err = c.Run(ctx, "admin", b.Finish()); err != nil {
		return err
	}
	if o.Peer {
		if err := CheckProtocol(c.hello, o.Address); err != nil {
			return err
		}
	}
	if o.Login == nil {
		return nil
	}
	return c.login(ctx, o.Login)
}

// Hello returns the server's reply to the hello that opened the connection.
func (c *Conn) Hello() bson.Doc { return c.hello }

// Close ends the connection.
func (c *Conn) Close() error {
	c.broken = net.ErrClosed
	return c.nc.Close()
}

// Run runs a command on a database and returns its whole reply, which belongs to
// the caller. body has no $db; sequences are array arguments of the command that
// are sent as document sequences. Errors: a *mongoerr.Error from the server; after any
// other error, and if ctx ends, the connection is broken. Errors of single writes
// (writeErrors) are in the reply.
func (c *Conn) Run(ctx context.Context, db string, body bson.Doc, sequences ...wire.Sequence) (bson.Doc, error) {
	return c.run(ctx, new(bson.Builder).Fields(body).String("$db", db).Finish(), sequences)
}

// run is Run of a body that has $db.
func (c *Conn) run(ctx context.Context, body bson.Doc, sequences []wire.Sequence) (bson.Doc, error) {
	if c.broken != nil {
		return nil, fmt.Errorf("the connection is broken: %w", c.broken)
	}
	c.lastID++
	m := &wire.Message{RequestID: c.lastID, OpCode: wire.OpMsg, Compressor: wire.None, Sequences: sequences, Body: body}
	reply, err := c.exchange(ctx, m)
	if err != nil {
		return nil, err
	}
	return reply, replyError(reply)
}

// longAgo is a deadline in the past.
var longAgo = time.Unix(1, 0)

// exchange sends a message and waits for its reply until ctx ends.
func (c *Conn) exchange(ctx context.Context, m *wire.Message) (reply bson.Doc, err error) {
	if c.stream != nil {
		c.stream.Until(ctx.Done())
		reply, err = c.roundTrip(m)
	} else {
		reply, err = c.roundTripUntil(ctx, m)
	}
	var refused *mongoerr.Error
	switch {
	case err == nil:
		return reply, nil
	case errors.As(err, &refused) && ctx.Err() == nil && c.broken == nil: // too large: nothing was sent
		return nil, err
	}
	return nil, c.breaks(ctx, err)
}

// roundTripUntil is roundTrip on a socket, until ctx ends.
func (c *Conn) roundTripUntil(ctx context.Context, m *wire.Message) (bson.Doc, error) {
	deadline, _ := ctx.Deadline()
	if err := c.nc.SetDeadline(deadline); err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = c.nc.SetDeadline(longAgo) })
	reply, err := c.roundTrip(m)
	if !stop() && err == nil {
		err = context.Cause(ctx) // the deadline of the connection
	}
	return reply, err
}

// breaks marks the connection as broken. It returns the error of ctx if that is the cause.
func (c *Conn) breaks(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	} else if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		err = context.DeadlineExceeded // the connection's deadline came before ctx's
	}
	c.broken = err
	_ = c.nc.Close()
	return err
}

// roundTrip sends a message and reads its reply.
func (c *Conn) roundTrip(m *wire.Message) (bson.Doc, error) {
	if _, err := wire.Write(c.nc, m); err != nil {
		return nil, err
	}
	f, err := c.reader.Next()
	if err != nil {
		return nil, lost(err)
	}
	answer, err := wire.ParseReply(f)
	if err != nil {
		return nil, lost(err)
	}
	if answer.OpCode != wire.OpMsg || answer.ResponseTo != m.RequestID || answer.Flags&wire.MoreToCome != 0 {
		return nil, fmt.Errorf("got a reply with opcode %d to message %d, expected one to message %d", answer.OpCode, answer.ResponseTo, m.RequestID)
	}
	return answer.Body, nil
}

// lost is an error of reading from the connection. It never counts as an error from the
// server, whatever its cause.
func lost(err error) error { return errors.New("reading the answer: " + err.Error()) }

// replyError returns the error in a reply, or nil.
func replyError(reply bson.Doc) error {
	if reply.Lookup("ok").Truthy() {
		return nil
	}
	e := &mongoerr.Error{Code: mongoerr.UnknownError, Message: "the server reported a failure without a message"}
	var extra bson.Builder
	for name, v := range reply.All() {
		switch {
		case name == "code" && v.IsNumber():
			e.Code = mongoerr.Code(bson.ClampToInt64(v))
		case name == "errmsg" && v.Type == bson.TypeString:
			e.Message = v.Str()
		case name == "errInfo" && v.Type == bson.TypeDocument:
			e.Info = v.Doc()
		case name == "errorLabels" && v.Type == bson.TypeArray:
			for l := range v.Doc().Values() {
				if l.Type == bson.TypeString {
					e.Labels = append(e.Labels, l.Str())
				}
			}
		case name == "ok", name == "codeName", name == "operationTime", name == "topologyVersion", strings.HasPrefix(name, "$"):
		default:
			extra.Value(name, v)
		}
	}
	if d := extra.Finish(); !d.IsEmpty() {
		e.Extra = d
	}
	return e
}
