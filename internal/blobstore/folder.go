package blobstore

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"gocloud.dev/blob"
	"gocloud.dev/blob/driver"
	"gocloud.dev/gcerrors"
)

// A folder is fileblob's bucket with additions. A blob is on the disk before its writer's Close returns, so that it
// is there after a power cut. Lists are whole; a file that is still being written is in none, and one that a killed
// process has left is removed when a list comes across it.
type folder struct {
	dir   string
	inner *blob.Bucket
}

// temporary is how fileblob names what it writes until it is whole.
var temporary = regexp.MustCompile(`\.[0-9a-f]{15,16}\.tmp$`)

// abandoned is the age at which nobody writes to a temporary file any more.
const abandoned = 24 * time.Hour

// NewTypedWriter implements [driver.Bucket].
func (f *folder) NewTypedWriter(ctx context.Context, key, contentType string, o *driver.WriterOptions) (driver.Writer,
	error) {
	ctx, cancel := context.WithCancel(ctx)
	w := &folderWriter{ctx: ctx, cancel: cancel, root: f.dir}
	inner, err := f.inner.NewWriter(ctx, key, &blob.WriterOptions{
		ContentType: contentType, DisableContentTypeDetection: true, IfNotExist: o.IfNotExist,
		BeforeWrite: func(as func(any) bool) error {
			if !as(&w.file) {
				return errors.New("fileblob does not tell its file")
			}
			if o.BeforeWrite != nil {
				return o.BeforeWrite(as)
			}
			return nil
		},
	})
	if err != nil {
		cancel()
		return nil, err
	}
	w.inner = inner
	return w, nil
}

type folderWriter struct {
	ctx    context.Context // of this writer alone: its end, before Close, gives the blob up
	cancel context.CancelFunc
	root   string
	file   *os.File
	inner  *blob.Writer
	failed error // of the first write that failed: what is there is not whole
}

// Write implements [driver.Writer]. What else lives on the disk, such as etcd, ends where it has no room at all: blobs
// leave some of it.
func (w *folderWriter) Write(p []byte) (n int, err error) {
	if err = leavesRoom(w.root, len(p)); err == nil {
		n, err = w.inner.Write(p)
	}
	if err != nil && w.failed == nil {
		w.failed = err
	}
	return n, err
}

// Close implements [driver.Writer]: content first, then its name, then the folders on the way to it, which may be new.
func (w *folderWriter) Close() error {
	defer w.cancel()
	if w.failed == nil && w.ctx.Err() == nil {
		w.failed = w.file.Sync()
	}
	if w.failed != nil {
		w.cancel()
	}
	if err := w.inner.Close(); w.failed != nil || err != nil {
		return errors.Join(w.failed, err)
	}
	for dir := filepath.Dir(w.file.Name()); ; dir = filepath.Dir(dir) {
		if err := syncFolder(dir); err != nil || len(dir) <= len(w.root) {
			return err
		}
	}
}

func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// ListPaged implements [driver.Bucket], without delimiters. fileblob's loses blobs between pages, where the name of
// one folder is the beginning of another's, and fails if a file goes while it looks.
func (f *folder) ListPaged(ctx context.Context, o *driver.ListOptions) (*driver.ListPage, error) {
	if o.Delimiter != "" {
		return nil, errors.ErrUnsupported
	}
	names, err := f.names(ctx, o.Prefix)
	if err != nil {
		return nil, err
	}
	page := &driver.ListPage{}
	from, found := slices.BinarySearch(names, string(o.PageToken))
	if found {
		from++
	}
	for _, name := range names[from:] {
		if o.PageSize > 0 && len(page.Objects) == o.PageSize {
			page.NextPageToken = []byte(page.Objects[o.PageSize-1].Key)
			break
		}
		path := filepath.Join(f.dir, filepath.FromSlash(name))
		info, err := os.Stat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return nil, err
		case !temporary.MatchString(name):
			page.Objects = append(page.Objects, &driver.ListObject{Key: name, ModTime: info.ModTime(), Size: info.Size()})
		case time.Since(info.ModTime()) > abandoned:
			_ = os.Remove(path) // the next list comes across it again
		}
	}
	return page, nil
}

// names returns the names of all blobs, and temporary files, with a prefix, sorted.
func (f *folder) names(ctx context.Context, prefix string) ([]string, error) {
	top := filepath.FromSlash(prefix[:strings.LastIndex(prefix, "/")+1])
	if top != "" && !filepath.IsLocal(top) {
		return nil, nil
	}
	var names []string
	err := filepath.WalkDir(filepath.Join(f.dir, top), func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // it has gone since
		}
		if err != nil || d.IsDir() {
			return errors.Join(err, ctx.Err())
		}
		name, err := filepath.Rel(f.dir, path)
		if name = filepath.ToSlash(name); strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
		return err
	})
	slices.Sort(names)
	return names, err
}

// NewRangeReader implements [driver.Bucket].
func (f *folder) NewRangeReader(ctx context.Context, key string, offset, length int64,
	_ *driver.ReaderOptions) (driver.Reader, error) {
	r, err := f.inner.NewRangeReader(ctx, key, offset, length, nil)
	if err != nil {
		return nil, err
	}
	return folderReader{r}, nil
}

type folderReader struct{ *blob.Reader }

// Attributes implements [driver.Reader].
func (r folderReader) Attributes() *driver.ReaderAttributes {
	return &driver.ReaderAttributes{ContentType: r.ContentType(), ModTime: r.ModTime(), Size: r.Size()}
}

// Attributes implements [driver.Bucket].
func (f *folder) Attributes(ctx context.Context, key string) (*driver.Attributes, error) {
	a, err := f.inner.Attributes(ctx, key)
	if err != nil {
		return nil, err
	}
	return &driver.Attributes{ContentType: a.ContentType, ModTime: a.ModTime, Size: a.Size, ETag: a.ETag}, nil
}

// Delete implements [driver.Bucket].
func (f *folder) Delete(ctx context.Context, key string, _ *driver.DeleteOptions) error {
	return f.inner.Delete(ctx, key)
}

// Copy implements [driver.Bucket].
func (f *folder) Copy(context.Context, string, string, *driver.CopyOptions) error {
	return errors.ErrUnsupported
}

// SignedURL implements [driver.Bucket].
func (f *folder) SignedURL(context.Context, string, *driver.SignedURLOptions) (string, error) {
	return "", errors.ErrUnsupported
}

// ErrorCode implements [driver.Bucket].
func (f *folder) ErrorCode(err error) gcerrors.ErrorCode { return gcerrors.Code(err) }

// ErrorAs implements [driver.Bucket].
func (f *folder) ErrorAs(err error, i any) bool { return f.inner.ErrorAs(err, i) }

// As implements [driver.Bucket].
func (f *folder) As(i any) bool {
	if is, ok := i.(*isFolder); ok {
		*is = true
		return true
	}
	return f.inner.As(i)
}

type isFolder bool

// IsFolder reports whether a store is a folder, whose writers buffer nothing.
func IsFolder(b *blob.Bucket) bool { return b.As(new(isFolder)) }

// Close implements [driver.Bucket].
func (f *folder) Close() error { return f.inner.Close() }
