package batches

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"gocloud.dev/blob"

	"github.com/modelgate/modelgate/internal/blobstore"
	"github.com/modelgate/modelgate/jobsvc/queue"
	"github.com/modelgate/modelgate/jobsvc/store"
)

// orphaned is for how long after its window a batch is not suspected to have ended without its segments' being
// removed.
const orphaned = 24 * time.Hour

// clean removes the segments of a batch that is over. Until it is done the batch stays in the queue.
func (w *work) clean(ctx context.Context) error {
	return w.s.remove(ctx, segmentsOf(w.rec.ID), func(*blob.ListObject) (bool, error) { return true, nil })
}

// Collect removes segments that a worker wrote after another had ended its batch. It is meant to run now and then, on
// any replica.
func (s *Service) Collect(ctx context.Context) error {
	before := s.Now().Add(-s.Limits.Window - orphaned)
	return s.remove(ctx, segmentsRoot, func(o *blob.ListObject) (bool, error) {
		batch, _, ok := strings.Cut(strings.TrimPrefix(o.Key, segmentsRoot), "/")
		if !ok || !o.ModTime.Before(before) {
			return false, nil
		}
		t := s.Store.Begin()
		t.Require(queue.Absent(kindQueue, batch))
		err := t.Commit(ctx)
		if errors.Is(err, store.ErrConflict) {
			return false, nil
		}
		return err == nil, err
	})
}

// remove removes the blobs with a prefix that are to be.
func (s *Service) remove(ctx context.Context, prefix string, which func(*blob.ListObject) (bool, error)) error {
	for all := s.Bucket.List(&blob.ListOptions{Prefix: prefix}); ; {
		o, err := all.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("list segments: %w", err)
		}
		yes, err := which(o)
		if err != nil {
			return fmt.Errorf("remove %s: %w", o.Key, err)
		}
		if !yes {
			continue
		}
		if err := s.Bucket.Delete(ctx, o.Key); err != nil && !blobstore.IsMissing(err) {
			return fmt.Errorf("remove a segment: %w", err)
		}
	}
}
