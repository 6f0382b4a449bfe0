package http1

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// pipes is a listener whose connections are in memory.
type pipes struct {
	accepted chan net.Conn
	closed   chan struct{}
}

func newPipes() *pipes { return &pipes{make(chan net.Conn), make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.accepted:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	close(p.closed)
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{} }

func (p *pipes) dial() net.Conn {
	client, server := net.Pipe()
	p.accepted <- server
	return client
}

// echo answers with what it was asked.
func echo(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/panic":
		panic("asked for")
	case "/none":
		w.WriteHeader(http.StatusNoContent)
		return
	case "/unread":
		w.WriteHeader(http.StatusRequestEntityTooLarge)
		return
	case "/long":
		w.Header().Set("Content-Length", "200000")
		for range 20 {
			io.WriteString(w, strings.Repeat("x", 10000))
		}
		return
	case "/wait":
		<-r.Context().Done()
		return
	case "/slow":
		time.Sleep(3 * time.Second)
	}
	b, err := io.ReadAll(r.Body)
	w.Header().Set("X-Split", "a\r\nb")
	fmt.Fprintf(w, "%s %s %q %v", r.Method, r.RequestURI, b, err)
}

// serving runs f with a server's listener, under virtual time.
func serving(t *testing.T, f func(t *testing.T, s *Server, p *pipes)) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{
			Handler: http.HandlerFunc(echo), HeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeader: 4 << 10, MaxBody: 100,
			Log: slog.New(slog.DiscardHandler),
		}
		p := newPipes()
		ended := make(chan error)
		go func() { ended <- s.Serve(t.Context(), p) }()
		synctest.Wait()
		f(t, s, p)
		if err := s.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if err := <-ended; err != http.ErrServerClosed {
			t.Error(err)
		}
	})
}

// exchange writes requests as they are and reads so many answers.
func exchange(t *testing.T, p *pipes, requests string, answers ...string) {
	t.Helper()
	c := p.dial()
	defer c.Close()
	go io.WriteString(c, requests)
	r := bufio.NewReader(c)
	for i, want := range answers {
		method := "GET"
		if strings.HasPrefix(requests, "HEAD") {
			method = "HEAD"
		}
		a, err := http.ReadResponse(r, &http.Request{Method: method})
		if err != nil {
			t.Fatalf("answer %d: %v", i, err)
		}
		b, err := io.ReadAll(a.Body)
		if got := fmt.Sprintf("%d %s", a.StatusCode, b); err != nil || got != want {
			t.Fatalf("answer %d: %v %.200s, want %.200s", i, err, got, want)
		}
		if a.Header.Get("Date") == "" || a.Header.Get("X-Split") != "" && a.Header.Get("X-Split") != "a  b" {
			t.Fatalf("answer %d: %v", i, a.Header)
		}
	}
}

func TestServer(t *testing.T) {
	long := strings.Repeat("y", 300)
	for name, c := range map[string]struct {
		requests string
		answers  []string
	}{
		"two at once": {"GET /a HTTP/1.1\r\nHost: h\r\n\r\nPOST /b HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nhi", []string{`200 GET /a "" <nil>`, `200 POST /b "hi" <nil>`}},
		"chunked": {"POST /b HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n1\r\n!\r\n0\r\n\r\nGET /a HTTP/1.1\r\nHost: h\r\n\r\n",
			[]string{`200 POST /b "hi!" <nil>`, `200 GET /a "" <nil>`}},
		"body above the bound": {"POST /b HTTP/1.1\r\nHost: h\r\nContent-Length: 300\r\n\r\n" + long, []string{`200 POST /b "` + long + `" <nil>`}},
		"unread":               {"POST /unread HTTP/1.1\r\nHost: h\r\nContent-Length: 300\r\n\r\n" + long + "GET /a HTTP/1.1\r\nHost: h\r\n\r\n", []string{"413 ", `200 GET /a "" <nil>`}},
		"head":                 {"HEAD /a HTTP/1.1\r\nHost: h\r\n\r\n", []string{"200 "}},
		"no body":              {"GET /none HTTP/1.1\r\nHost: h\r\n\r\nGET /a HTTP/1.1\r\nHost: h\r\n\r\n", []string{"204 ", `200 GET /a "" <nil>`}},
		"long answer":          {"GET /long HTTP/1.1\r\nHost: h\r\n\r\n", []string{"200 " + strings.Repeat("x", 200000)}},
		"old":                  {"GET /a HTTP/1.0\r\n\r\n", []string{`200 GET /a "" <nil>`}},
		"longer header":        {"GET /a HTTP/1.1\r\nHost: h\r\nA: " + strings.Repeat("z", 3000) + "\r\nB: ä\r\n\r\n", []string{`200 GET /a "" <nil>`}},
	} {
		t.Run(name, func(t *testing.T) {
			serving(t, func(t *testing.T, s *Server, p *pipes) { exchange(t, p, c.requests, c.answers...) })
		})
	}
}

// TestRefusals has requests that are none answered so, and the connection end.
func TestRefusals(t *testing.T) {
	for request, want := range map[string]string{
		"GET / HTTP/1.1\r\n\r\n": "HTTP/1.1 400",
		"no request\r\n\r\n":     "HTTP/1.1 400",
		"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n":        "HTTP/1.1 400",
		"GET / HTTP/1.1\r\nHost: h\r\nA: " + strings.Repeat("z", 20000) + "\r\n\r\n":         "HTTP/1.1 431",
		"GET /panic HTTP/1.1\r\nHost: h\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n":            "",
		"POST /b HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\nhi": "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200",
	} {
		serving(t, func(t *testing.T, s *Server, p *pipes) {
			c := p.dial()
			go io.WriteString(c, request)
			c.SetReadDeadline(time.Now().Add(5 * time.Second))
			b, _ := io.ReadAll(c)
			if !bytes.HasPrefix(b, []byte(want)) || want == "" && len(b) > 0 {
				t.Errorf("%.100q: %q", request, b)
			}
			c.Close()
		})
	}
}

// TestWaits is who waits for how long: a header that does not come, a client
// that is gone while its request runs, a handler that takes long.
func TestWaits(t *testing.T) {
	ended := func(t *testing.T, c net.Conn, after time.Duration) {
		t.Helper()
		begun := time.Now()
		_, err := io.ReadAll(c)
		if took := time.Since(begun); err != nil || took < after-time.Second || took > after+time.Second {
			t.Errorf("ended after %v: %v", took, err)
		}
	}
	serving(t, func(t *testing.T, s *Server, p *pipes) {
		ended(t, p.dial(), s.IdleTimeout)
		c := p.dial()
		io.WriteString(c, "GET / HT")
		ended(t, c, s.HeaderTimeout)
		exchange(t, p, "GET /slow HTTP/1.1\r\nHost: h\r\n\r\nGET /slow HTTP/1.1\r\nHost: h\r\n\r\nGET /a HTTP/1.1\r\nHost: h\r\n\r\n",
			`200 GET /slow "" <nil>`, `200 GET /slow "" <nil>`, `200 GET /a "" <nil>`)
		c = p.dial()
		io.WriteString(c, "GET /wait HTTP/1.1\r\nHost: h\r\n\r\n")
		c.Close()
		s.running.Wait() // until somebody has looked
	})
}

// TestShutdown waits for a request, and cuts off one that does not end.
func TestShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{Handler: http.HandlerFunc(echo), HeaderTimeout: time.Second, IdleTimeout: time.Minute, MaxHeader: 1000, MaxBody: 100, Log: slog.New(slog.DiscardHandler)}
		p := newPipes()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ended := make(chan error, 1)
		go func() { ended <- s.Serve(ctx, p) }()
		slow, waits := p.dial(), p.dial()
		io.WriteString(slow, "GET /slow HTTP/1.1\r\nHost: h\r\n\r\n")
		io.WriteString(waits, "GET /wait HTTP/1.1\r\nHost: h\r\n\r\n")
		synctest.Wait()
		answer := make(chan []byte)
		go func() {
			b, _ := io.ReadAll(slow)
			answer <- b
		}()
		limit, stop := context.WithTimeout(t.Context(), 5*time.Second)
		defer stop()
		if err := s.Shutdown(limit); err != context.DeadlineExceeded {
			t.Error(err)
		}
		if b := <-answer; !bytes.HasPrefix(b, []byte("HTTP/1.1 200")) {
			t.Errorf("%q", b)
		}
		if err := <-ended; err != http.ErrServerClosed {
			t.Error(err)
		}
	})
}
