package bucket

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"golang.org/x/sync/errgroup"
)

const (
	// partBytes is the size of a part of a large object.
	partBytes = 64 << 20
	// partsAtOnce is how many are sent at once.
	partsAtOnce = 4
	// endPatience bounds what is done after a failure.
	endPatience = 30 * time.Second
)

// Put implements objectstore.Store. The store checks the SHA-256 of what it gets.
func (b *Bucket) Put(ctx context.Context, name string, temp *os.File) error {
	info, err := temp.Stat()
	if err != nil {
		return err
	}
	if info.Size() > b.partBytes {
		err = b.putParts(ctx, name, temp, info.Size())
	} else {
		err = b.putWhole(ctx, name, io.NewSectionReader(temp, 0, info.Size()))
	}
	if isExisting(err) {
		return nil
	}
	if err := b.told("store", name, err); err != nil {
		return err
	}
	is, err := b.s3.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &b.bucket, Key: b.key(name)})
	if err != nil {
		return b.told("look at", name, err)
	}
	if got := aws.ToInt64(is.ContentLength); got != info.Size() {
		return fmt.Errorf("%s has stored %d of the %d bytes of %s", b, got, info.Size(), name)
	}
	return nil
}

func sumOf(r io.ReadSeeker) (string, error) {
	h := sha256.New()
	if _, err := io.Copy(h, r); err != nil {
		return "", err
	}
	_, err := r.Seek(0, io.SeekStart)
	return base64.StdEncoding.EncodeToString(h.Sum(nil)), err
}

// onlyNew is the condition that there is no object of the name.
const onlyNew = "*"

func (b *Bucket) putWhole(ctx context.Context, name string, body *io.SectionReader) error {
	sum, err := sumOf(body)
	if err != nil {
		return err
	}
	out, err := b.s3.PutObject(ctx, &s3.PutObjectInput{
		Bucket: &b.bucket, Key: b.key(name), Body: body, ContentLength: aws.Int64(body.Size()), ChecksumSHA256: &sum, IfNoneMatch: aws.String(onlyNew),
	})
	if err == nil && out.ChecksumSHA256 != nil && *out.ChecksumSHA256 != sum {
		err = errSum
	}
	return err
}

// errSum says that the store has got something else.
var errSum = errors.New("the store has other bytes than were sent")

func (b *Bucket) putParts(ctx context.Context, name string, temp *os.File, size int64) (err error) {
	begun, err := b.s3.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{Bucket: &b.bucket, Key: b.key(name), ChecksumAlgorithm: types.ChecksumAlgorithmSha256})
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endPatience)
			defer cancel()
			_, _ = b.s3.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{Bucket: &b.bucket, Key: b.key(name), UploadId: begun.UploadId}) // else endUploads does
		}
	}()
	parts := make([]types.CompletedPart, (size+b.partBytes-1)/b.partBytes)
	sending, within := errgroup.WithContext(ctx)
	sending.SetLimit(partsAtOnce)
	for i := range parts {
		sending.Go(func() error {
			from := int64(i) * b.partBytes
			body := io.NewSectionReader(temp, from, min(b.partBytes, size-from))
			sum, err := sumOf(body)
			if err != nil {
				return err
			}
			number := aws.Int32(int32(i + 1))
			out, err := b.s3.UploadPart(within, &s3.UploadPartInput{
				Bucket: &b.bucket, Key: b.key(name), UploadId: begun.UploadId, PartNumber: number,
				Body: body, ContentLength: aws.Int64(body.Size()), ChecksumSHA256: &sum,
			})
			if err != nil {
				return err
			}
			if out.ChecksumSHA256 != nil && *out.ChecksumSHA256 != sum {
				return errSum
			}
			parts[i] = types.CompletedPart{PartNumber: number, ETag: out.ETag, ChecksumSHA256: out.ChecksumSHA256}
			return nil
		})
	}
	if err := sending.Wait(); err != nil {
		return err
	}
	_, err = b.s3.CompleteMultipartUpload(ctx, &s3.CompleteMultipartUploadInput{
		Bucket: &b.bucket, Key: b.key(name), UploadId: begun.UploadId, IfNoneMatch: aws.String(onlyNew),
		MultipartUpload: &types.CompletedMultipartUpload{Parts: parts},
	})
	return err
}

// endUploads ends uploads that writers that died have left: they cost money. Others in the bucket
// are left alone. The next one tries what fails.
func (b *Bucket) endUploads(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, endPatience)
	defer cancel()
	pages := s3.NewListMultipartUploadsPaginator(b.s3, &s3.ListMultipartUploadsInput{Bucket: &b.bucket, Prefix: &b.prefix})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return
		}
		for _, u := range page.Uploads {
			name := strings.TrimPrefix(aws.ToString(u.Key), b.prefix)
			if b.Owns != nil && b.Owns(name) && time.Since(aws.ToTime(u.Initiated)) > staleUpload {
				_, _ = b.s3.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{Bucket: &b.bucket, Key: u.Key, UploadId: u.UploadId})
			}
		}
	}
}
