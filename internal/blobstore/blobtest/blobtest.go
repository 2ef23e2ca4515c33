// Package blobtest has a blob store in memory that counts the bytes that are read and written, for tests. It counts
// what is asked for, not what a client of an object store reads ahead.
package blobtest

import (
	"context"
	"sync/atomic"
	"testing"

	"gocloud.dev/blob"
	"gocloud.dev/blob/driver"
	"gocloud.dev/blob/memblob"
	"gocloud.dev/gcerrors"
)

// A Bucket is a store with its counts.
type Bucket struct {
	Blobs         *blob.Bucket
	read, written atomic.Int64
}

// New returns an empty store, which is closed at the end of the test.
func New(t testing.TB) *Bucket {
	c := &Bucket{}
	inner := memblob.OpenBucket(nil)
	c.Blobs = blob.NewBucket(&counted{inner: inner, count: c})
	t.Cleanup(func() { _, _ = c.Blobs.Close(), inner.Close() }) // it is in memory
	return c
}

// Read returns how many bytes were read.
func (c *Bucket) Read() int64 { return c.read.Load() }

// Written returns how many bytes were written.
func (c *Bucket) Written() int64 { return c.written.Load() }

// Reset begins to count anew.
func (c *Bucket) Reset() {
	c.read.Store(0)
	c.written.Store(0)
}

type counted struct {
	driver.Bucket
	inner *blob.Bucket
	count *Bucket
}

// NewTypedWriter implements [driver.Bucket].
func (c *counted) NewTypedWriter(ctx context.Context, key, contentType string, _ *driver.WriterOptions) (driver.Writer,
	error) {
	w, err := c.inner.NewWriter(ctx, key, &blob.WriterOptions{ContentType: contentType,
		DisableContentTypeDetection: true})
	return writer{w, c.count}, err
}

type writer struct {
	*blob.Writer
	count *Bucket
}

// Write implements [driver.Writer].
func (w writer) Write(p []byte) (int, error) {
	w.count.written.Add(int64(len(p)))
	return w.Writer.Write(p)
}

// NewRangeReader implements [driver.Bucket].
func (c *counted) NewRangeReader(ctx context.Context, key string, offset, length int64,
	_ *driver.ReaderOptions) (driver.Reader, error) {
	r, err := c.inner.NewRangeReader(ctx, key, offset, length, nil)
	if err != nil {
		return nil, err
	}
	return reader{r, c.count}, nil
}

type reader struct {
	*blob.Reader
	count *Bucket
}

// Read implements [driver.Reader].
func (r reader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.count.read.Add(int64(n))
	return n, err
}

// Attributes implements [driver.Reader].
func (r reader) Attributes() *driver.ReaderAttributes {
	return &driver.ReaderAttributes{ContentType: r.ContentType(), ModTime: r.ModTime(), Size: r.Size()}
}

// ListPaged implements [driver.Bucket]: all blobs are one page.
func (c *counted) ListPaged(ctx context.Context, o *driver.ListOptions) (*driver.ListPage, error) {
	page := &driver.ListPage{}
	for all := c.inner.List(&blob.ListOptions{Prefix: o.Prefix}); ; {
		object, err := all.Next(ctx)
		if err != nil {
			return page, nil //nolint:nilerr // a list in memory only ends
		}
		page.Objects = append(page.Objects, &driver.ListObject{Key: object.Key, ModTime: object.ModTime,
			Size: object.Size})
	}
}

// Delete implements [driver.Bucket].
func (c *counted) Delete(ctx context.Context, key string, _ *driver.DeleteOptions) error {
	return c.inner.Delete(ctx, key)
}

// As implements [driver.Bucket].
func (c *counted) As(any) bool { return false }

// ErrorCode implements [driver.Bucket].
func (c *counted) ErrorCode(err error) gcerrors.ErrorCode { return gcerrors.Code(err) }

// ErrorAs implements [driver.Bucket].
func (c *counted) ErrorAs(err error, i any) bool { return c.inner.ErrorAs(err, i) }

// Close implements [driver.Bucket].
func (c *counted) Close() error { return nil }
