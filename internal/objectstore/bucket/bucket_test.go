package bucket

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/mayflydb/mayfly/internal/objectstore"
)

// pipes is a listener without a network, so that time can be synctest's.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { close(p.done); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }
func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.conns <- there:
		return here, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// fault answers a request, or leaves it to the store: then it returns false.
type fault func(w http.ResponseWriter, r *http.Request) bool

// start starts a store, whose requests a fault sees first, and returns a bucket of it and a
// function that ends it.
func start(t *testing.T, f fault) (*Bucket, func()) {
	t.Helper()
	memory := s3mem.New()
	if err := memory.CreateBucket("kept"); err != nil {
		t.Fatal(err)
	}
	store := gofakes3.New(memory).Server()
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if f == nil || !f(w, r) {
			store.ServeHTTP(w, r)
		}
	})}
	listener := &pipes{make(chan net.Conn), make(chan struct{})}
	go func() { _ = server.Serve(listener) }()
	b, err := New(t.Context(), "s3://kept/some/where?endpoint=http://store&pathStyle=true&region=here",
		config.WithHTTPClient(httpClient(listener.dial)), config.WithCredentialsProvider(credentials.NewStaticCredentialsProvider("id", "secret", "")))
	if err != nil {
		t.Fatal(err)
	}
	return b, func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		time.Sleep(10 * stillFor) // of synctest: what handlers and connections wait for ends
	}
}

func put(ctx context.Context, t *testing.T, s objectstore.Store, name string, content []byte) error {
	t.Helper()
	f, err := s.Temp(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = f.Close()
		_ = os.Remove(f.Name())
	}()
	if _, err := f.Write(content); err != nil {
		t.Fatal(err)
	}
	return s.Put(ctx, name, f)
}

func get(ctx context.Context, s objectstore.Store, name string) ([]byte, error) {
	f, err := s.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(f)
	return b, errors.Join(err, f.Close())
}

func content(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
	return b
}

// TestStore asks the same of a directory and of a bucket.
func TestStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, end := start(t, nil)
		defer end()
		b.partBytes = 1 << 20
		for _, s := range []objectstore.Store{b, objectstore.NewDirectory(filepath.Join(t.TempDir(), "new"))} {
			ctx := t.Context()
			if list, err := s.List(ctx, ""); len(list) > 0 || err != nil {
				t.Errorf("%s has %v: %v", s, list, err)
			}
			files := map[string][]byte{"a/b": content(100), "a/c/d e+f": nil, "ab": content(5 << 20), "c": content(1 << 20)}
			for name, content := range files {
				if err := put(ctx, t, s, name, content); err != nil {
					t.Fatal(err)
				}
				if err := put(ctx, t, s, name, content); err != nil {
					t.Errorf("a second time: %v", err)
				}
			}
			for name, content := range files {
				if got, err := get(ctx, s, name); err != nil || !bytes.Equal(got, content) {
					t.Errorf("%s: %s has %d bytes, not %d: %v", s, name, len(got), len(content), err)
				}
			}
			for below, want := range map[string]string{"": "[{a/b 100} {a/c/d e+f 0} {ab 5242880} {c 1048576}]", "a": "[{a/b 100} {a/c/d e+f 0}]", "ab": "[{ab 5242880}]", "x": "[]"} {
				if list, err := s.List(ctx, below); fmt.Sprint(list) != want || err != nil {
					t.Errorf("%s: below %q are %v: %v", s, below, list, err)
				}
			}
			if err := s.Move(ctx, "a/c/d e+f", "z/y"); err != nil {
				t.Error(err)
			}
			if err := errors.Join(s.Remove(ctx, "a/b"), s.Remove(ctx, "a/b")); err != nil {
				t.Error(err)
			}
			if list, err := s.List(ctx, ""); fmt.Sprint(list) != "[{ab 5242880} {c 1048576} {z/y 0}]" || err != nil {
				t.Errorf("%s has %v: %v", s, list, err)
			}
			if _, err := get(ctx, s, "a/b"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s: what was removed is there: %v", s, err)
			}
			if err := s.Move(ctx, "a/b", "q"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s: what was removed is moved: %v", s, err)
			}
		}
	})
}

func answer(status int, code string) fault {
	return func(w http.ResponseWriter, r *http.Request) bool {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(status)
		if r.Method != http.MethodHead && code != "" {
			fmt.Fprintf(w, `<?xml version="1.0"?><Error><Code>%s</Code><Message>as it is said</Message></Error>`, code)
		}
		return true
	}
}

// first leaves all but the first n requests to the store.
func first(n int, f fault) fault {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if n--; n < 0 {
			return false
		}
		return f(w, r)
	}
}

func drop(w http.ResponseWriter, r *http.Request) bool { panic(http.ErrAbortHandler) }

func still(http.ResponseWriter, *http.Request) bool {
	time.Sleep(5 * stillFor)
	return true
}

// TestFaults stores an object, and reads one, in a store that fails.
func TestFaults(t *testing.T) {
	large := content(300_000)
	for _, c := range []struct {
		name  string
		f     fault
		fails string // what both say; "" if it goes well in the end
	}{
		{"500 a few times", first(3, answer(500, "InternalError")), ""},
		{"503 a few times", first(3, answer(503, "SlowDown")), ""},
		{"dropped a few times", first(3, drop), ""},
		{"still once", first(1, still), ""},
		{"500", answer(500, "InternalError"), "InternalError"},
		{"503", answer(503, "SlowDown"), "SlowDown"},
		{"dropped", drop, "request send failed"},
		{"still", still, "has stood still"},
		{"expired", answer(400, "ExpiredToken"), "the credentials have expired"},
		{"denied", answer(403, "AccessDenied"), "the credentials do not allow it"},
		{"no bucket", answer(404, "NoSuchBucket"), "the bucket does not exist"},
		{"no page", answer(502, ""), "502"},
		{"nothing", answer(404, ""), "404"},
	} {
		for _, method := range []string{http.MethodPut, http.MethodGet} {
			t.Run(method+" "+c.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var f fault
					b, end := start(t, func(w http.ResponseWriter, r *http.Request) bool {
						return f != nil && r.Method == method && strings.HasSuffix(r.URL.Path, "object") && f(w, r)
					})
					defer end()
					began := time.Now()
					var err error
					if method == http.MethodPut {
						f = c.f
						err = put(t.Context(), t, b, "object", large)
					} else {
						if err := put(t.Context(), t, b, "object", large); err != nil {
							t.Fatal(err)
						}
						f = c.f
						_, err = get(t.Context(), b, "object")
					}
					if c.fails == "" && err != nil || c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails) || !strings.Contains(err.Error(), b.String()) || errors.Is(err, fs.ErrNotExist)) {
						t.Errorf("the error is %v", err)
					}
					if took := time.Since(began); took > 15*time.Minute {
						t.Errorf("it took %v", took)
					}
					f = nil
					if got, err := get(t.Context(), b, "object"); c.fails == "" && (err != nil || !bytes.Equal(got, large)) ||
						method == http.MethodPut && c.fails != "" && !errors.Is(err, fs.ErrNotExist) {
						t.Errorf("%d of %d bytes are there: %v", len(got), len(large), err)
					}
				})
			})
		}
	}
}

// cut answers with so much of what the store does, and drops the connection.
type cut struct {
	http.ResponseWriter
	left int
}

func (c *cut) Write(b []byte) (int, error) {
	if c.left < len(b) {
		_, _ = c.ResponseWriter.Write(b[:c.left])
		_ = http.NewResponseController(c.ResponseWriter).Flush()
		panic(http.ErrAbortHandler)
	}
	c.left -= len(b)
	return c.ResponseWriter.Write(b)
}

// TestCut reads an object whose connections break in the middle.
func TestCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		large := content(300_000)
		memory, left := s3mem.New(), 100_000
		if err := memory.CreateBucket("kept"); err != nil {
			t.Fatal(err)
		}
		store := gofakes3.New(memory).Server()
		b, end := start(t, func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodGet {
				w = &cut{w, left}
			}
			store.ServeHTTP(w, r)
			return true
		})
		defer end()
		if err := put(t.Context(), t, b, "object", large); err != nil {
			t.Fatal(err)
		}
		if got, err := get(t.Context(), b, "object"); err != nil || !bytes.Equal(got, large) {
			t.Errorf("%d of %d bytes were read: %v", len(got), len(large), err)
		}
		left = 0
		if _, err := get(t.Context(), b, "object"); err == nil || !strings.Contains(err.Error(), "only 0 of 300000 bytes") {
			t.Errorf("nothing is sent, and the error is %v", err)
		}
	})
}

// TestSum sends to a store that gets other bytes.
func TestSum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		times := 0
		b, end := start(t, func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodPut || !strings.HasSuffix(r.URL.Path, "object") {
				return false
			}
			times++
			_, _ = io.Copy(io.Discard, r.Body)
			if r.Header.Get("X-Amz-Checksum-Sha256") == "" || r.Header.Get("If-None-Match") != "*" {
				t.Errorf("no sum, or no condition, was sent: %v", r.Header)
			}
			w.Header().Set("X-Amz-Checksum-Sha256", "b3RoZXI=")
			return true
		})
		defer end()
		if err := put(t.Context(), t, b, "object", content(100)); !errors.Is(err, errSum) {
			t.Errorf("the error is %v, after %d times", err, times)
		}
	})
}

// TestLock takes locks of two processes.
func TestLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		deaf := false
		b, end := start(t, func(w http.ResponseWriter, r *http.Request) bool {
			return deaf && answer(503, "SlowDown")(w, r)
		})
		defer end()
		take := func(alone bool) (context.Context, objectstore.Lock, error) {
			return b.Lock(t.Context(), "of/it", alone)
		}
		_, one, err := take(false)
		if err != nil {
			t.Fatal(err)
		}
		_, two, err := take(false)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour) // they are renewed
		if _, _, err := take(true); err == nil || !strings.Contains(err.Error(), "in use by another") {
			t.Errorf("somebody else is alone: %v", err)
		}
		if err := errors.Join(one.Check(t.Context()), two.Check(t.Context()), one.Unlock(), two.Unlock()); err != nil {
			t.Error(err)
		}
		held, three, err := take(true)
		if err != nil {
			t.Fatal(err)
		}
		for _, alone := range []bool{false, true} {
			if _, _, err := take(alone); err == nil {
				t.Error("nobody is alone")
			}
		}
		time.Sleep(time.Hour)
		deaf = true
		time.Sleep(2 * lockLife)
		synctest.Wait()
		if held.Err() == nil {
			t.Error("a lock that cannot be renewed is held")
		}
		deaf = false
		if err := three.Unlock(); err == nil {
			t.Error("a lock that was lost is unlocked")
		}
		// One that dies leaves its lock.
		_, dead, err := take(true)
		if err != nil {
			t.Fatal(err)
		}
		dead.(*lock).end(nil)
		time.Sleep(lockLife)
		if _, _, err := take(false); err == nil {
			t.Error("it is held no longer")
		}
		time.Sleep(2 * time.Second)
		_, four, err := take(false)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * lockLife)
		if err := four.Unlock(); err != nil {
			t.Error(err)
		}
		if err := dead.Check(t.Context()); err == nil { // it slept
			t.Error("it has its lock")
		}
		if list, err := b.List(t.Context(), ""); len(list) > 0 || err != nil {
			t.Errorf("%v is left: %v", list, err)
		}
	})
}

// TestLockStill holds a lock of a store whose connections stand still: once, and for good, when
// what it protects has to end before somebody else may take it.
func TestLockStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f fault
		b, end := start(t, func(w http.ResponseWriter, r *http.Request) bool { return f != nil && f(w, r) })
		defer end()
		held, one, err := b.Lock(t.Context(), "of/it", false)
		if err != nil {
			t.Fatal(err)
		}
		f = first(1, still)
		time.Sleep(time.Hour)
		if held.Err() != nil {
			t.Fatalf("it was lost by one request: %v", context.Cause(held))
		}
		f = still
		began := time.Now()
		<-held.Done()
		if took := time.Since(began); took > lockLife {
			t.Errorf("what it protects goes on for %v", took)
		}
		f = nil
		if one.Check(t.Context()) == nil || one.Unlock() == nil {
			t.Error("a lock that was lost is held")
		}
		f = still
		began = time.Now()
		if _, _, err := b.Lock(t.Context(), "of/it", false); err == nil || time.Since(began) > 2*lockLife {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}

// TestEndUploads holds that old uploads of the repository are ended, and no others of the bucket.
func TestEndUploads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, end := start(t, nil)
		defer end()
		b.prefix = ""
		sum := strings.Repeat("5a", 32)
		b.Owns = func(name string) bool {
			return strings.HasPrefix(name, "files/"+sum) || strings.HasPrefix(name, "log/")
		}
		begin := func(name string) {
			if _, err := b.s3.CreateMultipartUpload(t.Context(), &s3.CreateMultipartUploadInput{Bucket: &b.bucket, Key: &name}); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range []string{"files/" + sum, "files/film.mp4", "log/0/1-" + sum, "other/" + sum} {
			begin(name)
		}
		time.Sleep(staleUpload + time.Minute)
		begin("files/" + sum)
		b.endUploads(t.Context())
		all, err := b.s3.ListMultipartUploads(t.Context(), &s3.ListMultipartUploadsInput{Bucket: &b.bucket})
		if err != nil {
			t.Fatal(err)
		}
		var left []string
		for _, u := range all.Uploads {
			left = append(left, *u.Key)
		}
		slices.Sort(left)
		if want := []string{"files/" + sum, "files/film.mp4", "other/" + sum}; !slices.Equal(left, want) {
			t.Errorf("%q are left, want %q", left, want)
		}
	})
}

// TestPlaces has places that are none.
func TestPlaces(t *testing.T) {
	for place, says := range map[string]string{
		"s3://":                                    "is as s3://",
		"s3:///prefix":                             "is as s3://",
		"s3://id:secret@bucket":                    "is as s3://",
		"s3://id:secret@bucket%":                   "is as s3://",
		"s3://bucket/a/../b":                       "it has no",
		"s3://bucket/a//b":                         "it has no",
		"s3://bucket?endpoint=store":               "an endpoint is",
		"s3://bucket?endpoint=https://i:secret@st": "an endpoint is",
		"s3://bucket?pathStyle=perhaps":            "true or false",
		"s3://bucket?key=secret":                   "key is not known",
		"s3://bucket?key=secret%":                  "not encoded",
	} {
		if _, err := New(t.Context(), place); err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", place, err)
		}
	}
}
