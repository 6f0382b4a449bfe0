package http1

import (
	"errors"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

const (
	// writeBuffer is how much of an answer is collected before it is written, in
	// bytes.
	writeBuffer = 64 << 10
	// What can be a status.
	lowestStatus, highestStatus = 100, 999
)

// response is an answer: kept until the handler returns, or has written more
// than fits into a buffer of a length that it has announced.
type response struct {
	nc      net.Conn
	header  http.Header
	status  int
	out     []byte // what is not written yet
	made    bool   // the header is: in out, or sent
	body    []byte // of an answer whose header has to wait for its end
	waits   bool   // it has: whether the connection goes on is not known yet
	last    bool   // the connection ends with it
	bare    bool   // an answer to HEAD
	written int64
	err     error
}

// begin makes the response ready for the next request; streamed says that its
// body has not been read.
func (w *response) begin(r *http.Request, streamed bool) {
	if w.header == nil {
		w.header = http.Header{}
	}
	clear(w.header)
	w.status, w.made, w.last, w.bare, w.written, w.err = 0, false, r.Close, r.Method == http.MethodHead, 0, nil
	w.out, w.body, w.waits = w.out[:0], w.body[:0], streamed
}

// Header is the header, until the first write that does not fit into the
// buffer.
func (w *response) Header() http.Header { return w.header }

// WriteHeader sets the status; the first one counts.
func (w *response) WriteHeader(status int) {
	if w.status == 0 && status >= lowestStatus && status <= highestStatus {
		w.status = status
	}
}

// Write takes a part of the body. A body longer than the buffer has to have a
// Content-Length.
func (w *response) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if w.err != nil || w.bare || !w.hasBody() {
		return len(b), w.err
	}
	w.written += int64(len(b))
	switch {
	case !w.made && (w.waits || w.header["Content-Length"] == nil):
		w.body = append(w.body, b...)
		return len(b), nil
	case !w.made:
		w.appendHeader()
	}
	if len(w.out)+len(b) <= writeBuffer {
		w.out = append(w.out, b...)
		return len(b), nil
	}
	w.flush()
	if w.err == nil {
		_, w.err = w.nc.Write(b)
	}
	return len(b), w.err
}

// hasBody says whether an answer of the status can have one.
func (w *response) hasBody() bool {
	return w.status >= http.StatusOK && w.status != http.StatusNoContent && w.status != http.StatusNotModified
}

// errLength says that a body is not as long as its header says.
var errLength = errors.New("the body is not as long as announced")

// finish writes what is left. last says that the connection ends.
func (w *response) finish(last bool) error {
	w.WriteHeader(http.StatusOK)
	w.last = w.last || last
	if n := w.header["Content-Length"]; n != nil && !w.bare && w.hasBody() && n[0] != strconv.FormatInt(w.written, 10) && w.err == nil {
		w.err = errLength
	}
	if !w.made {
		w.appendHeader()
		w.out = append(w.out, w.body...)
	}
	w.flush()
	if cap(w.out)+cap(w.body) > 2*writeBuffer {
		w.out, w.body = nil, nil
	}
	return w.err
}

// flush writes what has been collected.
func (w *response) flush() {
	if w.err == nil {
		_, w.err = w.nc.Write(w.out)
	}
	w.out = w.out[:0]
}

// appendHeader makes the header of the answer.
func (w *response) appendHeader() {
	w.made = true
	b := strconv.AppendInt(append(w.out, "HTTP/1.1 "...), int64(w.status), 10)
	b = append(append(append(b, ' '), http.StatusText(w.status)...), "\r\nDate: "...)
	b = append(append(b, date()...), "\r\n"...)
	if w.last {
		b = append(b, "Connection: close\r\n"...)
	}
	known := false
	for name, values := range w.header {
		if name == "Content-Length" {
			if known = true; !w.hasBody() {
				continue
			}
		}
		for _, v := range values {
			b = append(append(b, name...), ": "...)
			if strings.ContainsAny(v, "\r\n") {
				v = breaks.Replace(v)
			}
			b = append(append(b, v...), "\r\n"...)
		}
	}
	if !known && w.hasBody() {
		b = append(strconv.AppendInt(append(b, "Content-Length: "...), int64(len(w.body)), 10), "\r\n"...)
	}
	w.out = append(b, "\r\n"...)
}

// breaks takes line breaks out of a header's value.
var breaks = strings.NewReplacer("\r", " ", "\n", " ")

// second is a second as Date gives it.
type second struct {
	unix int64
	text string
}

var lastSecond atomic.Pointer[second]

// date is the time as the header Date has it.
func date() string {
	now := time.Now()
	s := lastSecond.Load()
	if s == nil || s.unix != now.Unix() {
		s = &second{now.Unix(), now.UTC().Format(http.TimeFormat)}
		lastSecond.Store(s)
	}
	return s.text
}
