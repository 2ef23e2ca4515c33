// Package blobstore opens the store of large immutable values by URL: a folder, or a bucket at S3, Google Cloud
// Storage or Azure. The operations are gocloud.dev/blob's.
//
// A blob exists once its writer is closed without an error. To abort a write, cancel the context of the writer before
// closing it. A writer that is not closed leaks, and its bytes may leak too.
package blobstore

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"gocloud.dev/blob"
	_ "gocloud.dev/blob/azureblob" // azblob://container
	"gocloud.dev/blob/fileblob"    // file:///folder
	_ "gocloud.dev/blob/gcsblob"   // gs://bucket
	_ "gocloud.dev/blob/memblob"   // mem://, for tests
	_ "gocloud.dev/blob/s3blob"    // s3://bucket
	"gocloud.dev/gcerrors"
)

// Open opens a store by its URL: file:///path of a folder, which is made if it is missing; s3://bucket, gs://bucket
// and azblob://container with the parameters that gocloud.dev/blob documents, such as
// s3://bucket?region=eu-central-1&prefix=modelgate/. Credentials are found as the vendors' own SDKs find them.
func Open(ctx context.Context, address string) (*blob.Bucket, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, errors.New("blob store: the address is no URL")
	}
	if u.User != nil {
		return nil, fmt.Errorf("blob store %s: credentials do not belong in the address", u.Redacted())
	}
	if u.Scheme == "file" {
		return openFolder(u)
	}
	b, err := blob.OpenBucket(ctx, address)
	if err != nil {
		return nil, fmt.Errorf("blob store %s: %w", u, err)
	}
	if prefix := u.Query().Get("prefix"); prefix != "" && !strings.HasSuffix(prefix, "/") {
		return nil, errors.Join(fmt.Errorf("blob store %s: the prefix must end in a slash", u), b.Close())
	}
	return b, nil
}

// openFolder keeps temporary files beside the blobs: a rename must not cross file systems.
func openFolder(u *url.URL) (*blob.Bucket, error) {
	dir := filepath.Clean(filepath.FromSlash(u.Path))
	if u.Host != "" || !filepath.IsAbs(dir) {
		return nil, fmt.Errorf("blob store %s: a folder is written file:///path", u)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("blob store: %w", err)
	}
	b, err := fileblob.OpenBucket(dir, &fileblob.Options{NoTempDir: true, Metadata: fileblob.MetadataDontWrite,
		DirFileMode: 0o700})
	if err != nil {
		return nil, fmt.Errorf("blob store %s: %w", u, err)
	}
	return blob.NewBucket(&folder{dir: dir, inner: b}), nil
}

// IsMissing reports whether an error says that there is no such blob.
func IsMissing(err error) bool { return gcerrors.Code(err) == gcerrors.NotFound }

// IsFull reports whether an error says that the store has no room.
func IsFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) ||
		gcerrors.Code(err) == gcerrors.ResourceExhausted
}
