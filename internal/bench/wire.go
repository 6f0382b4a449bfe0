package bench

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os/exec"
	"strconv"
	"syscall"
	"time"
)

// echo is a process that reads a request of a given size and writes an answer
// of a given size, as plainly as Go can: what any server pays for the socket.
type echo struct {
	process  *process
	port     int
	sent     int64 // bytes of a request
	received int64 // bytes of an answer
}

const (
	// echoHeader is what an exchange has in front: the request's and the
	// answer's size, four bytes each.
	echoHeader = 8
	// maxEcho bounds a request and an answer, in bytes.
	maxEcho = 48_000_000
	// echoBuffer is the buffer of a connection.
	echoBuffer = 4 << 10
)

func startEcho(ctx context.Context, dir, binary string) (*echo, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	e := &echo{port: port}
	if e.process, err = startProcess(exec.Command(binary, "-wire-server", strconv.Itoa(port)), dir, "wire"); err != nil {
		return nil, err
	}
	if err := e.process.listening(ctx, port); err != nil {
		return nil, errors.Join(err, e.close())
	}
	return e, nil
}

// ServeWire is the process: it answers on the port until it is killed.
func ServeWire(port int) error {
	return serveEach(port, answer)
}

func answer(c net.Conn) error {
	r := bufio.NewReaderSize(c, echoBuffer)
	var header [echoHeader]byte
	var request, reply []byte
	for {
		if _, err := io.ReadFull(r, header[:]); err != nil {
			return err
		}
		in, out := int(binary.LittleEndian.Uint32(header[:])), int(binary.LittleEndian.Uint32(header[4:]))
		if in > maxEcho || out > maxEcho {
			return fmt.Errorf("an exchange of %d and %d bytes", in, out)
		}
		request, reply = sized(request, in), sized(reply, out)
		if _, err := io.ReadFull(r, request); err != nil {
			return err
		}
		if _, err := c.Write(reply); err != nil {
			return err
		}
	}
}

// sized returns b with n bytes.
func sized(b []byte, n int) []byte {
	if cap(b) < n {
		return make([]byte, n)
	}
	return b[:n]
}

func (e *echo) close() error { return e.process.stop(syscall.SIGKILL) }

func (e *echo) cpu() (time.Duration, error) { return e.process.cpu() }

func (e *echo) reset(context.Context, layout) error { return nil }

func (e *echo) worker(context.Context) (worker, error) {
	c, err := net.Dial("tcp", local(e.port))
	if err != nil {
		return nil, err
	}
	w := &echoWorker{conn: c, request: make([]byte, max(e.sent, echoHeader)), reply: make([]byte, e.received)}
	binary.LittleEndian.PutUint32(w.request, uint32(len(w.request)-echoHeader))
	binary.LittleEndian.PutUint32(w.request[4:], uint32(e.received))
	return w, nil
}

// echoWorker has no operations but the exchange.
type echoWorker struct {
	worker
	conn           net.Conn
	request, reply []byte
}

func (w *echoWorker) close() error { return w.conn.Close() }

// exchange is the one row of an echo.
var exchange = row{name: "exchange", run: func(_ context.Context, w worker, _ *dataset, _ *rand.Rand) error {
	e := w.(*echoWorker)
	if _, err := e.conn.Write(e.request); err != nil {
		return err
	}
	_, err := io.ReadFull(e.conn, e.reply)
	return err
}}
