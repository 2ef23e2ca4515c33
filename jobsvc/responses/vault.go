package responses

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"gocloud.dev/blob"
	"golang.org/x/sync/errgroup"

	"github.com/modelgate/modelgate/internal/blobstore"
	"github.com/modelgate/modelgate/internal/secret"
)

// A vault stores documents as sealed blobs. The name of a blob begins with the day on which it expires, so that one
// whose record is lost is found and removed by its name alone.
type vault struct {
	bucket *blob.Bucket
	now    func() time.Time
}

const (
	blobs     = "responses/"
	dayLayout = "2006-01-02"
)

// errMissing means that a document is gone although its record is there.
var errMissing = errors.New("a stored document is missing or damaged")

// folder is where the documents of an object are that expires at a time.
func folder(id string, expires int64) string {
	return blobs + time.Unix(expires, 0).UTC().Format(dayLayout) + "/" + id + "/"
}

// write seals a document and returns the size of its blob. A document with the name is replaced.
func (v *vault) write(ctx context.Context, s *secret.Sealer, name string, plain []byte) error {
	sealed := s.SealBytes("Response", name, "", plain)
	err := v.bucket.WriteAll(ctx, name, sealed, &blob.WriterOptions{ContentType: "application/octet-stream"})
	if err != nil {
		return fmt.Errorf("store %s: %w", name, err)
	}
	return nil
}

// read returns a document. The error is errMissing if it does not exist or cannot be opened.
func (v *vault) read(ctx context.Context, s *secret.Sealer, name string) ([]byte, error) {
	sealed, err := v.bucket.ReadAll(ctx, name)
	if blobstore.IsMissing(err) {
		return nil, fmt.Errorf("%s: %w", name, errMissing)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	plain, err := s.OpenBytes("Response", name, "", sealed)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", name, errMissing, err)
	}
	return plain, nil
}

// removing bounds how long blobs of one object are deleted.
const removing = 30 * time.Second

// remove deletes all documents with a prefix, also for a client who has gone. The caller logs the error: what remains
// is collected on its day.
func (v *vault) remove(ctx context.Context, prefix string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removing)
	defer cancel()
	var g errgroup.Group
	g.SetLimit(16)
	for all := v.bucket.List(&blob.ListOptions{Prefix: prefix}); ; {
		o, err := all.Next(ctx)
		if errors.Is(err, io.EOF) {
			return g.Wait()
		}
		if err != nil {
			return errors.Join(fmt.Errorf("list %s: %w", prefix, err), g.Wait())
		}
		g.Go(func() error { return v.drop(ctx, o.Key) })
	}
}

// drop deletes one blob.
func (v *vault) drop(ctx context.Context, name string) error {
	if err := v.bucket.Delete(ctx, name); err != nil && !blobstore.IsMissing(err) {
		return fmt.Errorf("delete %s: %w", name, err)
	}
	return nil
}

// collect deletes the blobs of past days, which are listed first. An object that expires today may still be there.
func (v *vault) collect(ctx context.Context) error {
	today := folder("", v.now().Unix())
	for all := v.bucket.List(&blob.ListOptions{Prefix: blobs}); ; {
		o, err := all.Next(ctx)
		if errors.Is(err, io.EOF) || err == nil && o.Key >= today {
			return nil
		}
		if err != nil {
			return fmt.Errorf("list stored responses: %w", err)
		}
		if err := v.drop(ctx, o.Key); err != nil {
			return err
		}
	}
}
