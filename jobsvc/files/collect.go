package files

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.uber.org/zap"
	"gocloud.dev/blob"

	"github.com/modelgate/modelgate/internal/blobstore"
	"github.com/modelgate/modelgate/internal/id"
	"github.com/modelgate/modelgate/jobsvc/store"
)

// orphaned is the age from which a blob without a record counts as abandoned, and not as new.
const orphaned = 24 * time.Hour

// Collect deletes blobs of files and of parts that have no record. It is meant to run now and then, on any replica.
// Uploads that were given up half-way are in no list of S3's: a bucket needs a lifecycle rule that aborts them.
func (s *Service) Collect(ctx context.Context) error {
	if err := s.Own(ctx); err != nil {
		return fmt.Errorf("blobs without a record are kept: %w", err)
	}
	if err := s.collect(ctx, blobs, s.fileGone); err != nil {
		return err
	}
	gone := func(context.Context, string) (bool, error) { return true, nil }
	return s.collect(ctx, partBlobs, gone)
}

// ErrOwner means that the blobs belong to the records in another etcd.
var ErrOwner = errors.New("the blob store belongs to another gateway, or to this one before its etcd was replaced; give each a bucket, a folder or a prefix of its own")

// ownerBlob names the etcd whose records the blobs have. The same name is in that etcd, in the one record of owners.
const ownerBlob = "owner"

var owners = store.Kind[string]{Name: "blob-owner"}

// Own makes sure that what has no record here has none elsewhere. A store that nobody owns is taken. The error is
// ErrOwner if another has it: its Collect would remove what is written here.
func (s *Service) Own(ctx context.Context) error {
	only := id.Derived(time.UnixMilli(0), ownerBlob)
	there, err := s.Bucket.ReadAll(ctx, ownerBlob)
	unowned := blobstore.IsMissing(err)
	if err != nil && !unowned {
		return err
	}
	here, err := owners.Get(ctx, s.Store, store.Tenant{}, only)
	if unowned && errors.Is(err, store.ErrNotFound) {
		here = &store.Record[string]{ID: only, Value: id.Bare()}
		t := s.Store.Begin()
		owners.Create(t, here)
		err = t.Commit(ctx)
	}
	switch {
	case errors.Is(err, store.ErrNotFound):
		return ErrOwner
	case err != nil:
		return err
	case unowned:
		return s.Bucket.WriteAll(ctx, ownerBlob, []byte(here.Value), &blob.WriterOptions{ContentType: "text/plain",
			IfNotExist: true})
	case string(there) != here.Value:
		return ErrOwner
	}
	return nil
}

func (s *Service) fileGone(ctx context.Context, name string) (bool, error) {
	_, err := index.Get(ctx, s.Store, store.Tenant{}, strings.TrimPrefix(name, blobs))
	if errors.Is(err, store.ErrNotFound) {
		return true, nil
	}
	return false, err
}

func (s *Service) collect(ctx context.Context, folder string, gone func(context.Context, string) (bool, error)) error {
	before := s.Now().Add(-orphaned)
	deleted := 0
	for token := blob.FirstPageToken; token != nil; {
		var page []*blob.ListObject
		var err error
		page, token, err = s.Bucket.ListPage(ctx, token, 1000, &blob.ListOptions{Prefix: folder})
		if err != nil {
			return fmt.Errorf("collect %s: %w", folder, err)
		}
		for _, object := range page {
			if !object.ModTime.Before(before) {
				continue
			}
			if yes, err := gone(ctx, object.Key); err != nil || !yes {
				if err != nil {
					return fmt.Errorf("collect %s: %w", object.Key, err)
				}
				continue
			}
			if err := s.Bucket.Delete(ctx, object.Key); err != nil && !blobstore.IsMissing(err) {
				return fmt.Errorf("collect %s: %w", object.Key, err)
			}
			deleted++
		}
	}
	if deleted > 0 {
		s.Log.Info("blobs without a record were deleted", zap.String("folder", folder), zap.Int("blobs", deleted))
	}
	return nil
}
