package files_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/stretchr/testify/require"
	"gocloud.dev/blob"
	"gocloud.dev/blob/driver"
	"gocloud.dev/blob/memblob"
	"gocloud.dev/gcerrors"

	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/internal/blobstore"
)

// A faulty store keeps blobs in memory, and fails if it is told to.
type faulty struct {
	driver.Bucket
	inner *blob.Bucket
	full  atomic.Bool                   // no room after the first byte
	bad   atomic.Bool                   // reads break off after the first byte
	stuck atomic.Bool                   // deletes fail
	held  atomic.Pointer[chan struct{}] // reads say so here, and wait for the end of their context
}

// As implements [driver.Bucket].
func (*faulty) As(any) bool { return false }

func (f *faulty) ErrorCode(err error) gcerrors.ErrorCode { return gcerrors.Code(err) }

func (f *faulty) NewTypedWriter(ctx context.Context, key, _ string, _ *driver.WriterOptions) (driver.Writer, error) {
	w, err := f.inner.NewWriter(ctx, key, nil)
	return &faultyWriter{w, f}, err
}

type faultyWriter struct {
	*blob.Writer
	store *faulty
}

func (w *faultyWriter) Write(p []byte) (int, error) {
	if w.store.full.Load() {
		return 0, syscall.ENOSPC
	}
	return w.Writer.Write(p)
}

func (f *faulty) NewRangeReader(ctx context.Context, key string, offset, length int64,
	_ *driver.ReaderOptions) (driver.Reader, error) {
	r, err := f.inner.NewRangeReader(ctx, key, offset, length, nil)
	return &faultyReader{ctx, r, f, false}, err
}

type faultyReader struct {
	ctx context.Context
	*blob.Reader
	store *faulty
	began bool
}

func (r *faultyReader) Attributes() *driver.ReaderAttributes {
	return &driver.ReaderAttributes{Size: r.Size(), ModTime: r.ModTime()}
}

func (r *faultyReader) Read(p []byte) (int, error) {
	if held := r.store.held.Load(); held != nil {
		close(*held)
		<-r.ctx.Done()
		return 0, r.ctx.Err()
	}
	if r.store.bad.Load() {
		if r.began {
			return 0, errors.New("the disk is bad")
		}
		p = p[:1]
	}
	r.began = true
	return r.Reader.Read(p)
}

func (f *faulty) Attributes(ctx context.Context, key string) (*driver.Attributes, error) {
	a, err := f.inner.Attributes(ctx, key)
	if err != nil {
		return nil, err
	}
	return &driver.Attributes{Size: a.Size, ModTime: a.ModTime}, nil
}

func (f *faulty) Delete(ctx context.Context, key string, _ *driver.DeleteOptions) error {
	if f.stuck.Load() {
		return errors.New("the disk is bad")
	}
	return f.inner.Delete(ctx, key)
}

func (f *faulty) names(t *testing.T) []string {
	names := []string{}
	for list := f.inner.List(nil); ; {
		o, err := list.Next(t.Context())
		if errors.Is(err, io.EOF) {
			return names
		}
		require.NoError(t, err)
		names = append(names, o.Key)
	}
}

func TestAStoreThatFails(t *testing.T) {
	f := &faulty{inner: memblob.OpenBucket(nil)}
	w := newWorldOn(t, blob.NewBucket(f))
	c := w.as(alice)
	purpose, file := field{"purpose", "", "user_data"}, field{"file", "a", "abcdef"}
	up := c.createUpload(6, "user_data")
	part := c.addPart(up, "abcdef")
	stored := f.names(t)

	f.full.Store(true)
	for _, a := range []answer{
		c.form("/v1/files", purpose, file),
		c.form("/v1/uploads/"+up+"/parts", field{"data", "x", "y"}),
		c.complete(up, part),
	} {
		a.refused(507, "", "storage_full", "Nothing was kept of it")
		require.Equal(t, "false", a.header.Get("X-Should-Retry"))
	}
	f.full.Store(false)
	require.Equal(t, stored, f.names(t))
	require.Empty(t, c.get("/v1/files").ids())

	f.bad.Store(true)
	c.complete(up, part).refused(500, "", "internal_error", "")
	require.Equal(t, stored, f.names(t))
	f.bad.Store(false)
	id := c.complete(up, part).ok().object()["file"].(map[string]any)["id"].(string)

	f.bad.Store(true)
	response := c.begin(t.Context(), http.MethodGet, "/v1/files/"+id+"/content", "")
	_, err := io.Copy(&bytes.Buffer{}, response.Body)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF, "who downloads can tell that it is not all")
	require.NoError(t, response.Body.Close())
	require.Equal(t, 1, w.logs.FilterMessageSnippet("could not be read to its end").Len())
	f.bad.Store(false)

	f.stuck.Store(true)
	c.delete("/v1/files/" + id).ok()
	c.get("/v1/files/"+id).refused(404, "id", "", "No such File object")
	require.Equal(t, 1, w.logs.FilterMessageSnippet("collected later").Len())

	up = c.createUpload(6, "user_data")
	part = c.addPart(up, "abcdef")
	require.NoError(t, f.inner.Delete(t.Context(), "uploads/"+up+"."+part))
	c.complete(up, part).refused(500, "", "part_content_missing", "begin a new one")
}

// begin asks, and leaves the body of the answer to the caller. It returns nil if ctx ended first.
func (c *client) begin(ctx context.Context, method, path, body string) *http.Response {
	c.t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, c.url+path, strings.NewReader(body))
	require.NoError(c.t, err)
	r.Header.Set(envoy.HeaderKey, "key")
	r.Header.Set(envoy.HeaderOrganization, c.organization)
	r.Header.Set(envoy.HeaderProject, c.project)
	response, err := http.DefaultClient.Do(r)
	if ctx.Err() != nil {
		return nil
	}
	require.NoError(c.t, err)
	return response
}

func TestACompletionThatBrokeOffCanBeRepeated(t *testing.T) {
	f := &faulty{inner: memblob.OpenBucket(nil)}
	w := newWorldOn(t, blob.NewBucket(f))
	c := w.as(alice)
	up := c.createUpload(6, "user_data")
	part := c.addPart(up, "abcdef")
	stored, keys := f.names(t), w.keys()

	held := make(chan struct{})
	f.held.Store(&held)
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan struct{})
	go func() {
		defer close(left)
		c.begin(ctx, http.MethodPost, "/v1/uploads/"+up+"/complete", fmt.Sprintf(`{"part_ids":[%q]}`, part))
	}()
	<-held // it is copying
	leave()
	<-left
	f.held.Store(nil)
	require.Equal(t, stored, f.names(t))
	require.Equal(t, keys, w.keys())

	id := c.complete(up, part).ok().object()["file"].(map[string]any)["id"].(string)
	require.Equal(t, []string{id}, c.get("/v1/files").ids())
	require.Equal(t, []string{"files/" + id}, f.names(t))
}

func TestTheSameOverS3(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "test")
	backend := s3mem.New()
	require.NoError(t, backend.CreateBucket("bucket"))
	server := httptest.NewServer(gofakes3.New(backend).Server())
	t.Cleanup(server.Close)
	bucket, err := blobstore.Open(t.Context(), "s3://bucket?region=us-east-1&use_path_style=true&prefix=jobs/&endpoint="+
		server.URL)
	require.NoError(t, err)
	t.Cleanup(func() { _ = bucket.Close() })
	w := newWorldOn(t, bucket)
	c := w.as(alice)

	const size = 20 << 20 // in three parts of S3's
	body, length, contentType, _ := large(t, size, []field{{"purpose", "", "user_data"}}, nil)
	id := c.send("/v1/files", body, length, contentType).ok().text("id")
	require.Equal(t, make([]byte, size), c.get("/v1/files/"+id+"/content").ok().body)
	ranged := c.with("Range", "bytes=-10").get("/v1/files/" + id + "/content")
	require.Equal(t, http.StatusPartialContent, ranged.status)
	require.Len(t, ranged.body, 10)

	up := c.createUpload(6, "user_data")
	second, first := c.addPart(up, "def"), c.addPart(up, "abc")
	joined := c.complete(up, first, second).ok().object()["file"].(map[string]any)["id"].(string)
	require.Equal(t, "abcdef", string(c.get("/v1/files/"+joined+"/content").ok().body))

	require.NoError(t, bucket.WriteAll(t.Context(), "files/file-01ARZ3NDEKTSV4RRFFQ69G5FAV", []byte("x"), nil))
	w.pass(25 * time.Hour)
	w.collect()
	c.delete("/v1/files/" + joined).ok()
	page, _, err := bucket.ListPage(t.Context(), blob.FirstPageToken, 10, &blob.ListOptions{Prefix: "files/"})
	require.NoError(t, err)
	require.Len(t, page, 1)
	require.Equal(t, "files/"+id, page[0].Key)
	require.NoError(t, bucket.Delete(t.Context(), "files/"+id))
	c.get("/v1/files/"+id+"/content").refused(410, "id", "file_content_missing", "")
}
