package server

import (
	"errors"
	"fmt"
	"io"
	"net"
	"runtime/debug"
	"time"

	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/invariant"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/wire"
)

// errInterrupted is the cause for operations that a shutdown interrupts.
var errInterrupted = mongoerr.New(mongoerr.InterruptedAtShutdown, "interrupted at shutdown")

// errDisconnected is the cause for operations whose client has disconnected.
var errDisconnected = mongoerr.New(mongoerr.ClientDisconnect, "operation was interrupted because the client disconnected")

// connection is one client of MongoDB's protocol. Its goroutine runs serve.
type connection struct {
	*link
	reader    *wire.Reader
	arriving  arriving
	requestID int32 // of the last reply
	// Memory of the current request and its reply, empty between two.
	message, answer wire.Message
	request         command.Request
	sequences       [wire.MaxSequences]command.Sequence
	greeted         bool // its metadata has been logged
}

// newConnection makes the connection of a link, which reads from in.
func newConnection(l *link, in io.Reader) *connection {
	c := &connection{link: l, reader: wire.NewReader(in)}
	c.arriving.c = c
	c.arriving.taken.Open(l.server.memory)
	c.reader.Ask(&c.arriving)
	return c
}

// serve runs the connection to its end.
func (c *connection) serve() {
	defer c.contain()
	defer c.arriving.taken.Release()
	for !c.server.stopping.Load() {
		f, err := c.reader.Next()
		if err == nil {
			err = c.arriving.arrived(f)
		}
		goesOn := false
		switch {
		case err == nil:
			c.server.stats.requests.Add(1)
			goesOn = c.handle(f)
		case f != nil: // the error requires a reply
			goesOn = c.refuse(f.Refused(), err)
		default:
			c.receiveFailed(err)
			return
		}
		c.arriving.taken.Release()
		c.forget()
		if !goesOn {
			return
		}
	}
}

// maxKeptDocs bounds the documents of a section for which memory is kept for the
// next request.
const maxKeptDocs = 1 << 10

// forget drops the current request and its reply, and keeps the memory.
func (c *connection) forget() {
	c.message.Clear()
	c.answer, c.request = wire.Message{}, command.Request{}
	for i := range c.sequences {
		s := &c.sequences[i]
		if cap(s.Docs) > maxKeptDocs {
			s.Docs = nil
		}
		clear(s.Docs)
		*s = command.Sequence{Docs: s.Docs[:0]}
	}
}

// contain recovers from a panic, so that a bug ends only this connection. The build
// with assertions does not recover.
func (c *connection) contain() {
	if p := recover(); p != nil {
		c.log.Error("Connection ended by a bug in the server", "id", logPanic, "error", fmt.Sprint(p), "stack", string(debug.Stack()))
		if invariant.Enabled {
			panic(p)
		}
	}
}

// handle replies to one message, several times in an exhaust stream. It returns false
// if the connection must be closed.
func (c *connection) handle(f wire.Frame) bool {
	m, err := wire.ParseInto(&c.message, f)
	if err != nil {
		return c.refuse(m, err)
	}
	req := &c.request
	*req = command.Request{
		Client: c.client, DB: m.Database(), Body: m.Body, Sequences: c.sequencesOf(m),
		ExhaustAllowed: m.Flags&wire.ExhaustAllowed != 0, Legacy: m.OpCode == wire.OpQuery,
	}
	for {
		r := c.dispatch(req)
		if r.Body == nil {
			return false
		}
		if !m.WantsAnswer() {
			r.Release()
			return !r.Close
		}
		c.requestID++
		a := m.AnswerInto(&c.answer, c.requestID, r.Body)
		if r.Next != nil {
			a.Flags |= wire.MoreToCome
		}
		sent := c.send(a)
		r.Release()
		if !sent || r.Close {
			return false
		}
		if r.Next == nil {
			return true
		}
		if c.server.stopping.Load() {
			return false
		}
		// The next reply of the stream answers this one.
		m.RequestID = a.RequestID
		req.Body, req.Sequences = r.Next, nil
	}
}

// sequencesOf returns the document sequences of a message.
func (c *connection) sequencesOf(m *wire.Message) []command.Sequence {
	for i, s := range m.Sequences {
		c.sequences[i] = command.Sequence{ID: s.Name, Docs: s.AppendDocs(c.sequences[i].Docs)}
	}
	return c.sequences[:len(m.Sequences)]
}

// dispatch runs one request, and counts it.
func (c *connection) dispatch(req *command.Request) command.Response {
	req.Start = time.Now()
	c.begin(req.Start, req.ExhaustAllowed)
	r := c.server.app.Dispatcher.Dispatch(c.ctx, req)
	c.end(r.Took)
	if !c.greeted {
		c.greet()
	}
	return r
}

// greet logs the client's metadata once it has sent them.
func (c *connection) greet() {
	m := c.client.Metadata()
	if m == nil {
		return
	}
	c.greeted = true
	if !c.server.log.Quiet() {
		c.log.Info("client metadata", "id", logClientMetadata, "remote", c.client.Remote, "client", c.name, "doc", m.Document)
	}
}

// refuse reacts to an invalid message as its error requires.
func (c *connection) refuse(m *wire.Message, err error) bool {
	var e *wire.Error
	if !errors.As(err, &e) {
		e = &wire.Error{Cause: mongoerr.From(err), Reaction: wire.Close}
	}
	switch {
	case e.Reaction == wire.Close || e.Reaction == wire.AnswerAndClose:
		c.log.Info("Error receiving request from client. Ending connection from remote", "id", logReceiveFailed,
			"error", e.Cause, "remote", c.client.Remote, "connectionId", c.client.ConnectionID)
	default:
		c.log.Debug("Assertion while parsing command", "c", "COMMAND", "id", logParseFailed, "error", e.Cause)
	}
	if e.Reaction <= wire.AnswerAndClose && m != nil && m.WantsAnswer() {
		c.requestID++
		if !c.send(m.AnswerError(c.requestID, e.Cause)) {
			return false
		}
	}
	return e.Reaction == wire.Answer || e.Reaction == wire.Ignore
}

// send writes a reply, or logs why it cannot.
func (c *connection) send(m *wire.Message) bool {
	n, err := wire.Write(c.plain, m)
	var user *mongoerr.Error
	if errors.As(err, &user) {
		// The reply is too large for a message; the client gets an error instead.
		m.Body = command.ErrorReply(user)
		n, err = wire.Write(c.plain, m)
	}
	c.server.stats.bytesOut.Add(n)
	if err != nil {
		c.log.Debug("Error sending response to client. Ending connection from remote", "id", logSendFailed,
			"error", err, "remote", c.client.Remote, "connectionId", c.client.ConnectionID)
	}
	return err == nil
}

// receiveFailed logs why reading a request failed, unless the client has disconnected.
func (c *connection) receiveFailed(err error) {
	var e *wire.Error
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed), c.server.stopping.Load():
	case errors.As(err, &e):
		c.log.Info("Error receiving request from client. Ending connection from remote", "id", logReceiveFailed,
			"error", e.Cause, "remote", c.client.Remote, "connectionId", c.client.ConnectionID)
	default:
		c.log.Debug("Error receiving request from client. Ending connection from remote", "id", logReceiveFailed,
			"error", err, "remote", c.client.Remote, "connectionId", c.client.ConnectionID)
	}
}
