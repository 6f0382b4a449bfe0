package bucket

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"
)

const (
	// maxAttempts and maxBackoff bound how often a request is sent: for about two minutes.
	maxAttempts = 8
	maxBackoff  = 20 * time.Second
	// stillFor is how long a connection may stand still.
	stillFor = time.Minute
)

func retryer() aws.Retryer {
	return retry.AddWithErrorCodes(retry.NewStandard(func(o *retry.StandardOptions) {
		o.MaxAttempts, o.MaxBackoff, o.RateLimiter = maxAttempts, maxBackoff, ratelimit.None
	}), "ConditionalRequestConflict", "BadDigest", "XAmzContentChecksumMismatch")
}

// dialing makes a connection.
type dialing func(ctx context.Context, network, address string) (net.Conn, error)

// httpClient returns a client whose connections do not stand still. dial is nil for the usual one.
func httpClient(dial dialing) *awshttp.BuildableClient {
	return awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
		if dial == nil {
			dial = t.DialContext
		}
		t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := dial(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return &moving{Conn: c}, nil
		}
	})
}

// moving is a connection that fails when it stands still: what moves one way extends the other.
type moving struct {
	net.Conn
	still atomic.Bool
}

// errStill is the error of a connection that stood still, both ways.
var errStill = fmt.Errorf("the connection has stood still for %v", stillFor)

// Read implements net.Conn.
func (m *moving) Read(b []byte) (int, error) { return m.move(m.Conn.Read, b) }

// Write implements net.Conn.
func (m *moving) Write(b []byte) (int, error) { return m.move(m.Conn.Write, b) }

func (m *moving) move(do func([]byte) (int, error), b []byte) (n int, err error) {
	if err = m.SetDeadline(time.Now().Add(stillFor)); err == nil {
		n, err = do(b)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		m.still.Store(true)
	}
	if err != nil && m.still.Load() {
		err = errStill
	}
	return n, err
}

// meant says what errors of the store mean, where that is not plain.
var meant = map[string]string{
	"NoSuchBucket":          "the bucket does not exist: make it before",
	"AccessDenied":          "the credentials do not allow it",
	"ExpiredToken":          "the credentials have expired",
	"ExpiredTokenException": "the credentials have expired",
	"InvalidAccessKeyId":    "the store does not know the access key",
	"SignatureDoesNotMatch": "the secret key is wrong",
	"RequestTimeTooSkewed":  "the clock of this machine is wrong",
	"NotImplemented":        "the store lacks what a repository needs (conditional writes)",
}

// told returns an error that says where and what; fs.ErrNotExist of an object that is not there.
func (b *Bucket) told(do, name string, err error) error {
	if err == nil {
		return nil
	}
	if name != "" {
		name = " " + name
	}
	var api smithy.APIError
	if errors.As(err, &api) {
		code := api.ErrorCode()
		if code == "NoSuchKey" { // other answers of 404 may be a gateway's
			return fmt.Errorf("%s has no%s: %w", b, name, fs.ErrNotExist)
		}
		if says, ok := meant[code]; ok {
			return fmt.Errorf("%s: cannot %s%s: %s (%w)", b, do, name, says, err)
		}
	}
	return fmt.Errorf("%s: cannot %s%s: %w", b, do, name, err)
}

// isExisting reports whether an object was not stored because there is one of its name.
func isExisting(err error) bool {
	var api smithy.APIError
	return errors.As(err, &api) && api.ErrorCode() == "PreconditionFailed"
}
