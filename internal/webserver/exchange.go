package webserver

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/valyala/fasthttp"
)

// exchange is a request as the handler sees it, and the answer to it. It is an
// http.ResponseWriter. A connection has one, for one request after the other.
type exchange struct {
	fast    *fasthttp.RequestCtx
	request *http.Request
	url     url.URL
	header  http.Header
	values  []string // of header, one each
	body    memoryBody
	stream  streamBody
	answer  http.Header
	status  int
}

// begin makes e the exchange of a request; false if its URI is none.
func (e *exchange) begin(ctx *fasthttp.RequestCtx) bool {
	e.fast, e.status, e.values = ctx, 0, e.values[:0]
	clear(e.header)
	clear(e.answer)
	in := &ctx.Request
	for name, value := range in.Header.All() {
		e.values = append(e.values, string(value))
		key, n := nameOf(name), len(e.values)
		if have := e.header[key]; have != nil {
			e.header[key] = append(have, e.values[n-1])
		} else {
			e.header[key] = e.values[n-1 : n : n]
		}
	}
	uri := string(in.Header.RequestURI())
	u, err := url.ParseRequestURI(uri)
	if err != nil {
		return false
	}
	e.url = *u
	r := e.request
	r.Method, r.URL, r.RequestURI, r.Host, r.Header = nameOf(in.Header.Method()), &e.url, uri, string(in.Header.Host()), e.header
	if r.TLS == nil {
		r.TLS = stateOfTLS(ctx.Conn())
	}
	r.ContentLength = int64(in.Header.ContentLength())
	e.stream = streamBody{r: ctx.RequestBodyStream()}
	if e.stream.r != nil {
		r.Body = &e.stream
	} else {
		e.body = memoryBody{b: in.Body()}
		r.Body = &e.body
	}
	return true
}

// Header is the header of the answer, until the handler returns.
func (e *exchange) Header() http.Header { return e.answer }

// WriteHeader sets the status; the first one counts.
func (e *exchange) WriteHeader(status int) {
	if e.status == 0 {
		e.status = status
	}
}

// Write takes a part of the body.
func (e *exchange) Write(b []byte) (int, error) {
	e.WriteHeader(http.StatusOK)
	return e.fast.Write(b)
}

// finish hands the answer over. Its length is that of what was written.
func (e *exchange) finish() {
	if e.stream.r != nil {
		_, _ = io.CopyN(io.Discard, &e.stream, maxDrained)
		if !e.stream.ended {
			// What is left of the body must not be taken for the next request.
			e.fast.SetConnectionClose()
		}
	}
	e.WriteHeader(http.StatusOK)
	out := &e.fast.Response
	out.SetStatusCode(e.status)
	for name, values := range e.answer {
		if name == "Content-Length" {
			continue
		}
		for _, v := range values {
			if strings.ContainsAny(v, "\r\n") {
				v = breaks.Replace(v)
			}
			out.Header.Add(name, v)
		}
	}
}

// breaks takes line breaks out of a header's value, which fasthttp leaves there.
var breaks = strings.NewReplacer("\r", " ", "\n", " ")

// maxDrained bounds how much of an unread body is read to keep the
// connection, in bytes.
const maxDrained = 256 << 10

// maxNames bounds the table of names, maxName those in it, in bytes.
const (
	maxNames = 1024
	maxName  = 64
)

// names are names of headers and methods, as strings that are made once.
var names struct {
	sync.RWMutex
	all map[string]string
}

func nameOf(b []byte) string {
	if len(b) > maxName {
		return string(b)
	}
	names.RLock()
	s, ok := names.all[string(b)]
	names.RUnlock()
	if ok {
		return s
	}
	names.Lock()
	defer names.Unlock()
	if names.all == nil || len(names.all) >= maxNames {
		names.all = map[string]string{}
	}
	s = string(b)
	names.all[s] = s
	return s
}

// memoryBody is a body that has been read.
type memoryBody struct {
	b  []byte
	at int
}

// Read is io.Reader's.
func (m *memoryBody) Read(p []byte) (int, error) {
	if m.at == len(m.b) {
		return 0, io.EOF
	}
	n := copy(p, m.b[m.at:])
	m.at += n
	return n, nil
}

// Close has nothing to do.
func (m *memoryBody) Close() error { return nil }

// Bytes is all of the body, until the handler returns.
func (m *memoryBody) Bytes() []byte { return m.b }

// streamBody is a body that is read as the handler asks for it. At its end it
// asks the connection no more: what follows there is another request.
type streamBody struct {
	r     io.Reader
	ended bool
}

// Read is io.Reader's.
func (s *streamBody) Read(p []byte) (int, error) {
	if s.ended {
		return 0, io.EOF
	}
	n, err := s.r.Read(p)
	s.ended = err == io.EOF
	return n, err
}

// Close has nothing to do.
func (s *streamBody) Close() error { return nil }
