package accountimport

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/mayflydb/mayfly/internal/client"
)

const (
	// restVersion is the newest version of the protocol that both ends have to speak.
	restVersion = "2020-07-15"
	// pageItems is how many items a page has at most.
	pageItems = 100
	// maxReply bounds a reply, in bytes: the service's pages have 4 MB.
	maxReply = 32 << 20
	// patience is for how long a request is repeated that is throttled, or not answered.
	patience = 2 * time.Minute
	// retryPause is the time between two attempts where the reply does not say it.
	retryPause = 200 * time.Millisecond
	// requestTimeout bounds an attempt.
	requestTimeout = time.Minute
)

// Account is one end of an import.
type Account struct {
	name string // "the source" or "the target"
	base string // without a / at its end
	key  []byte
	http *http.Client
}

// OpenAccount makes the requests to an account: its URL, and its key in base64.
func OpenAccount(name, address, key string) (*Account, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
		return nil, fmt.Errorf("%s: %q is no address of an account: https://NAME.documents.azure.com/", name, address)
	}
	raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(key))
	if err != nil || len(raw) == 0 {
		return nil, fmt.Errorf("%s: the key of an account is base64", name)
	}
	return &Account{name: name, base: u.Scheme + "://" + u.Host, key: raw, http: &http.Client{Timeout: requestTimeout}}, nil
}

// failure is a reply that is none of success.
type failure struct {
	status  int
	message string
}

func (f *failure) Error() string { return fmt.Sprintf("status %d: %s", f.status, f.message) }

// hasStatus reports whether an error is a reply with one of the statuses.
func hasStatus(err error, statuses ...int) bool {
	var f *failure
	if !errors.As(err, &f) {
		return false
	}
	for _, s := range statuses {
		if f.status == s {
			return true
		}
	}
	return false
}

// request is one.
type request struct {
	method string
	kind   string   // of the resource: dbs, colls, docs, pkranges
	path   []string // its ids: dbs, NAME, colls, …
	feed   bool     // path is that of the parent
	header map[string]string
	body   []byte
}

// do sends a request until it is answered. Errors: *failure.
func (a *Account) do(ctx context.Context, r request) (reply []byte, header http.Header, err error) {
	for end := time.Now().Add(patience); ; {
		var pause time.Duration
		reply, header, pause, err = a.try(ctx, r)
		if err == nil || !temporary(err) {
			return reply, header, err
		}
		if ctx.Err() != nil {
			return nil, nil, context.Cause(ctx)
		}
		if time.Now().After(end) {
			return nil, nil, fmt.Errorf("%s: %w", a.name, err)
		}
		if err := client.Sleep(ctx, max(pause, retryPause)); err != nil {
			return nil, nil, err
		}
	}
}

// temporary reports whether an error may be none for the same request, later: a server that is busy, or
// that was not reached. It is not where the certificate is not trusted, no host has the name, or https
// is not what is spoken there.
func temporary(err error) bool {
	if errors.As(err, new(*failure)) {
		return hasStatus(err, http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusRequestTimeout, 449)
	}
	var dns *net.DNSError
	return !errors.As(err, new(*tls.CertificateVerificationError)) && !errors.Is(err, http.ErrSchemeMismatch) && !(errors.As(err, &dns) && dns.IsNotFound)
}

// try sends a request once. pause is how long the server asks to wait.
func (a *Account) try(ctx context.Context, r request) (body []byte, header http.Header, pause time.Duration, err error) {
	link := strings.Join(r.path, "/")
	target := a.base
	for _, part := range r.path {
		target += "/" + url.PathEscape(part)
	}
	if r.feed {
		target += "/" + r.kind
	}
	q, err := http.NewRequestWithContext(ctx, r.method, target, bytes.NewReader(r.body))
	if err != nil {
		return nil, nil, 0, err
	}
	date := time.Now().UTC().Format(http.TimeFormat)
	q.Header.Set("Authorization", a.sign(r.method, r.kind, link, date))
	q.Header.Set("X-Ms-Date", date)
	q.Header.Set("X-Ms-Version", restVersion)
	q.Header.Set("Content-Type", "application/json")
	for name, value := range r.header {
		q.Header.Set(name, value)
	}
	reply, err := a.http.Do(q)
	if err != nil {
		return nil, nil, 0, err
	}
	defer reply.Body.Close()
	body, err = io.ReadAll(io.LimitReader(reply.Body, maxReply+1))
	if err != nil {
		return nil, nil, 0, err
	}
	if len(body) > maxReply {
		return nil, nil, 0, &failure{reply.StatusCode, fmt.Sprintf("a reply of more than %d bytes", maxReply)}
	}
	if reply.StatusCode >= 300 {
		ms, _ := strconv.Atoi(reply.Header.Get("X-Ms-Retry-After-Ms")) // 0 if it does not say
		var said struct{ Message string }
		_ = json.Unmarshal(body, &said) // it may have none
		message, _, _ := strings.Cut(said.Message, "\n")
		return nil, nil, time.Duration(ms) * time.Millisecond, &failure{reply.StatusCode, message}
	}
	return body, reply.Header, 0, nil
}

// sign makes the header with which the account's key signs a request. (Reference: "Access control
// on Azure Cosmos DB resources".)
func (a *Account) sign(method, kind, link, date string) string {
	h := hmac.New(sha256.New, a.key)
	fmt.Fprintf(h, "%s\n%s\n%s\n%s\n\n", strings.ToLower(method), kind, link, strings.ToLower(date))
	return url.QueryEscape("type=master&ver=1.0&sig=" + base64.StdEncoding.EncodeToString(h.Sum(nil)))
}

// get reads a resource into v.
func (a *Account) get(ctx context.Context, kind string, v any, path ...string) error {
	body, _, err := a.do(ctx, request{method: http.MethodGet, kind: kind, path: path})
	if err == nil {
		err = json.Unmarshal(body, v)
	}
	return err
}

// each calls f with the resources of a feed, a page at a time. in is the name of their array.
func (a *Account) each(ctx context.Context, kind, in string, header map[string]string, f func(page []json.RawMessage) error, path ...string) error {
	for continuation := ""; ; {
		h := map[string]string{"X-Ms-Max-Item-Count": strconv.Itoa(pageItems)}
		for name, value := range header {
			h[name] = value
		}
		if continuation != "" {
			h["X-Ms-Continuation"] = continuation
		}
		body, reply, err := a.do(ctx, request{method: http.MethodGet, kind: kind, path: path, feed: true, header: h})
		if err != nil {
			return err
		}
		var page map[string]json.RawMessage
		var all []json.RawMessage
		if err := json.Unmarshal(body, &page); err != nil {
			return fmt.Errorf("%s: %w", a.name, err)
		}
		if err := json.Unmarshal(page[in], &all); err != nil {
			return fmt.Errorf("%s: a reply without %s: %w", a.name, in, err)
		}
		if err := f(all); err != nil {
			return err
		}
		if continuation = reply.Get("X-Ms-Continuation"); continuation == "" {
			return nil
		}
	}
}

// ids lists the ids of a feed.
func (a *Account) ids(ctx context.Context, kind, in string, path ...string) (ids []string, err error) {
	err = a.each(ctx, kind, in, nil, func(page []json.RawMessage) error {
		for _, raw := range page {
			var resource struct{ ID string }
			if err := json.Unmarshal(raw, &resource); err != nil {
				return err
			}
			ids = append(ids, resource.ID)
		}
		return nil
	}, path...)
	return ids, err
}
