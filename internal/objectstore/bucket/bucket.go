package bucket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/mayflydb/mayfly/internal/objectstore"
)

const (
	scheme = "s3://"
	// defaultRegion is signed where nobody says one. Stores other than Amazon's ignore it.
	defaultRegion = "us-east-1"
	// staleUpload is the age of an upload in parts that nobody completes any more.
	staleUpload = 24 * time.Hour
)

// Bucket is an objectstore.Store: what begins with a prefix in a bucket.
type Bucket struct {
	s3             *s3.Client
	bucket, prefix string // the prefix is "", or ends with a slash
	partBytes      int64
	// Owns reports whether a name is one that this program stores; nil for none. Uploads of such
	// names, and no others, are ended.
	Owns func(name string) bool
	// sweep ends, once, uploads that writers that died have left.
	sweep sync.Once
}

// Is reports whether a place is a bucket.
func Is(place string) bool { return strings.HasPrefix(place, scheme) }

// New returns the store at s3://BUCKET/PREFIX. It may say more: ?endpoint=URL of another store
// than Amazon's, pathStyle=true for one whose buckets are no names of hosts, region=NAME.
// Credentials, and what is not said, are those of other tools: of the environment
// (AWS_ACCESS_KEY_ID, AWS_PROFILE, …), of ~/.aws, or of the machine. Nothing is asked of the store.
func New(ctx context.Context, place string, options ...func(*config.LoadOptions) error) (*Bucket, error) {
	at, err := parsePlace(place)
	if err != nil {
		return nil, err
	}
	b := &Bucket{bucket: at.bucket, prefix: at.prefix, partBytes: partBytes}
	options = append([]func(*config.LoadOptions) error{
		config.WithHTTPClient(httpClient(nil)), config.WithRetryer(retryer), config.WithDefaultRegion(defaultRegion),
		config.WithRequestChecksumCalculation(aws.RequestChecksumCalculationWhenRequired),
		config.WithResponseChecksumValidation(aws.ResponseChecksumValidationWhenRequired), // names have the sums of the content
	}, options...)
	if at.region != "" {
		options = append(options, config.WithRegion(at.region))
	}
	c, err := config.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return nil, err
	}
	b.s3 = s3.NewFromConfig(c, func(o *s3.Options) {
		o.UsePathStyle = at.pathStyle
		if at.endpoint != "" {
			o.BaseEndpoint = aws.String(at.endpoint)
		}
	})
	return b, nil
}

// Valid checks a place as New does.
func Valid(place string) error {
	_, err := parsePlace(place)
	return err
}

// parsed is what a place says.
type parsed struct {
	bucket, prefix, endpoint, region string // the prefix ends in a slash, or is empty
	pathStyle                        bool
}

func parsePlace(place string) (p parsed, err error) {
	u, err := url.Parse(place)
	if err != nil || u.Scheme+"://" != scheme || u.Host == "" || u.User != nil || u.Fragment != "" {
		return p, errors.New("a place in a bucket is as s3://BUCKET/PREFIX?endpoint=URL&pathStyle=true&region=NAME; credentials are in the environment or in ~/.aws") // what was given may have some
	}
	p.bucket = u.Host
	if at := strings.Trim(u.Path, "/"); at != "" {
		p.prefix = at + "/"
	}
	if p.prefix != "" && path.Clean(p.prefix)+"/" != p.prefix {
		return p, fmt.Errorf("the prefix %q: it has no empty parts and no dots", p.prefix)
	}
	asked, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return p, fmt.Errorf("what a place in a bucket says behind ? is not encoded as in a URL: %w", err)
	}
	for name, values := range asked {
		value := values[len(values)-1]
		switch name {
		case "endpoint":
			if e, err := url.Parse(value); err != nil || e.Scheme != "https" && e.Scheme != "http" || e.Host == "" || e.User != nil {
				return p, errors.New("an endpoint is as https://HOST")
			}
			p.endpoint = value
		case "pathStyle":
			if p.pathStyle, err = strconv.ParseBool(value); err != nil {
				return p, fmt.Errorf("pathStyle is true or false, not %q", value)
			}
		case "region":
			p.region = value
		default:
			return p, fmt.Errorf("%s is not known of a bucket: endpoint, pathStyle, region", name)
		}
	}
	return p, nil
}

// String implements objectstore.Store.
func (b *Bucket) String() string { return strings.TrimSuffix(scheme+b.bucket+"/"+b.prefix, "/") }

func (b *Bucket) key(name string) *string { return aws.String(b.prefix + name) }

// Temp implements objectstore.Store. The file is on this machine.
func (b *Bucket) Temp(ctx context.Context) (*os.File, error) {
	b.sweep.Do(func() { b.endUploads(ctx) })
	return os.CreateTemp("", "mayfly-object-")
}

// Get implements objectstore.Store.
func (b *Bucket) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	r := &reader{ctx: ctx, b: b, name: name}
	if err := r.open(); err != nil {
		return nil, err
	}
	return r, nil
}

// GetRange implements objectstore.Store.
func (b *Bucket) GetRange(ctx context.Context, name string, from, bytes int64) (io.ReadCloser, error) {
	r := &reader{ctx: ctx, b: b, name: name, at: from, end: from + bytes}
	if err := r.open(); err != nil {
		return nil, err
	}
	return r, nil
}

// object is one of the store.
type object struct {
	objectstore.StoredFile
	modified time.Time // by the clock of the store
}

func (b *Bucket) list(ctx context.Context, below string) (all []object, err error) {
	pages := s3.NewListObjectsV2Paginator(b.s3, &s3.ListObjectsV2Input{Bucket: &b.bucket, Prefix: b.key(below)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, b.told("list", below, err)
		}
		for _, o := range page.Contents {
			name := strings.TrimPrefix(aws.ToString(o.Key), b.prefix)
			if below == "" || name == below || strings.HasPrefix(name, below+"/") {
				all = append(all, object{objectstore.StoredFile{Name: name, Size: aws.ToInt64(o.Size)}, aws.ToTime(o.LastModified)})
			}
		}
	}
	slices.SortFunc(all, func(a, b object) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// List implements objectstore.Store.
func (b *Bucket) List(ctx context.Context, below string) (all []objectstore.StoredFile, err error) {
	objects, err := b.list(ctx, below)
	for _, o := range objects {
		all = append(all, o.StoredFile)
	}
	return all, err
}

// Remove implements objectstore.Store.
func (b *Bucket) Remove(ctx context.Context, name string) error {
	_, err := b.s3.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &b.bucket, Key: b.key(name)})
	if err = b.told("remove", name, err); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Move implements objectstore.Store. Interrupted, it leaves both.
func (b *Bucket) Move(ctx context.Context, from, to string) error {
	source := strings.ReplaceAll((&url.URL{Path: b.bucket + "/" + b.prefix + from}).EscapedPath(), "+", "%2B") // some read + as a space
	if _, err := b.s3.CopyObject(ctx, &s3.CopyObjectInput{Bucket: &b.bucket, Key: b.key(to), CopySource: &source}); err != nil {
		return b.told("copy", from, err)
	}
	return b.Remove(ctx, from)
}
