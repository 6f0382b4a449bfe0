package bucket

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

const (
	// readAttempts is how often a read is repeated that gets nothing.
	readAttempts = 5
	// readPause is how long the first repetition waits, each other twice as long.
	readPause = time.Second
)

// reader reads an object, and goes on where the connection broke.
type reader struct {
	ctx  context.Context
	b    *Bucket
	name string

	body     io.ReadCloser
	etag     *string // of the object that was opened
	at, size int64
	end      int64 // where what is asked for ends; 0 for the end of the object
	failed   int   // attempts that got nothing
}

// open asks for the object from r.at on.
func (r *reader) open() error {
	in := &s3.GetObjectInput{Bucket: &r.b.bucket, Key: r.b.key(r.name), IfMatch: r.etag}
	switch {
	case r.end > 0:
		in.Range = aws.String(fmt.Sprintf("bytes=%d-%d", r.at, r.end-1))
	case r.at > 0:
		in.Range = aws.String(fmt.Sprintf("bytes=%d-", r.at))
	}
	out, err := r.b.s3.GetObject(r.ctx, in)
	if err != nil {
		return r.b.told("read", r.name, err)
	}
	size := r.at + aws.ToInt64(out.ContentLength)
	if out.ContentLength == nil || r.etag != nil && size != r.size {
		_ = out.Body.Close() // nothing was read
		return fmt.Errorf("%s does not say how long %s is", r.b, r.name)
	}
	r.body, r.etag, r.size = out.Body, out.ETag, size
	return nil
}

// Read implements io.Reader.
func (r *reader) Read(p []byte) (int, error) {
	for {
		var n int
		var err error
		if r.body != nil {
			n, err = r.body.Read(p)
		} else if err = r.open(); err != nil {
			return 0, err // it was repeated
		}
		r.at += int64(n)
		if n > 0 {
			r.failed = 0
			return n, nil // an error comes again
		}
		switch {
		case r.body != nil && err == nil:
			continue
		case r.at == r.size && err == io.EOF:
			return 0, io.EOF
		}
		r.failed++
		_ = r.body.Close() // it has failed
		r.body = nil
		if r.failed == readAttempts {
			return 0, fmt.Errorf("%s has sent only %d of %d bytes of %s: %w", r.b, r.at, r.size, r.name, unexpected(err))
		}
		if err := sleep(r.ctx, readPause<<(r.failed-1)); err != nil {
			return 0, err
		}
	}
}

func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Close implements io.Closer.
func (r *reader) Close() error {
	if r.body == nil {
		return nil
	}
	return r.body.Close()
}

// sleep waits. Errors: the cause of ctx's end, where it ends first.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
