package responses

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"gocloud.dev/blob"
	"golang.org/x/sync/errgroup"

	"github.com/modelgate/modelgate/internal/blobstore"
	"github.com/modelgate/modelgate/internal/secret"
	"github.com/modelgate/modelgate/jobsvc/items"
	"github.com/modelgate/modelgate/jobsvc/memory"
)

// A vault stores documents as sealed blobs. The name of a blob begins with the day on which it expires, so that one
// whose record is lost is found and removed by its name alone.
//
// A document is sealed in frames, so that it can be passed on without being in memory as a whole. Before each frame is
// its length.
type vault struct {
	bucket *blob.Bucket
	now    func() time.Time
}

const (
	// frame is how many bytes of a document are sealed together.
	frame = 128 << 10
	// around is the most that a seal adds to them.
	around = 1 << 10
)

// errMissing means that a document is gone although its record is there.
var errMissing = items.ErrMissing

// folder is where the documents of an object are that expires at a time.
func folder(id string, expires int64) string { return items.Folder(id, expires) }

// field tells frames apart: by their number, and the last one.
func field(number int, last bool) string { return fmt.Sprintf("%d %v", number, last) }

// write seals a document. A document with the name is replaced.
func (v *vault) write(ctx context.Context, s *secret.Sealer, name string, plain []byte) error {
	ctx, giveUp := context.WithCancel(ctx)
	defer giveUp()
	w, err := v.bucket.NewWriter(ctx, name, &blob.WriterOptions{ContentType: "application/octet-stream",
		DisableContentTypeDetection: true, BufferSize: 5 << 20, MaxConcurrency: 1})
	for i := 0; err == nil; i++ {
		part := plain[:min(frame, len(plain))]
		plain = plain[len(part):]
		sealed := s.SealBytes("Response", name, field(i, len(plain) == 0), part)
		_, err = w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(sealed))), sealed...)) //nolint:gosec // small
		if len(plain) == 0 {
			break
		}
	}
	if err == nil {
		err = w.Close()
	} else if w != nil {
		giveUp()
		_ = w.Close() // it says that it was given up
	}
	if err != nil {
		return fmt.Errorf("store %s: %w", name, err)
	}
	return nil
}

// read returns a document. The error is errMissing if it does not exist or cannot be opened. Its bytes, twice, count
// for the hold of the context.
func (v *vault) read(ctx context.Context, s *secret.Sealer, name string) ([]byte, error) {
	var text bytes.Buffer
	err := v.pass(ctx, s, name, func(size int64) error {
		if err := memory.Of(ctx).Take(ctx, copiesRead*size); err != nil {
			return err
		}
		text.Grow(int(size))
		return nil
	}, &text)
	return text.Bytes(), err
}

// copiesRead is how often a document is in memory while it is read and passed on.
const copiesRead = 2

// pass writes a document to a client or a buffer, frame by frame, after it has called begin with a size that the
// document does not exceed. The first frame is good then.
func (v *vault) pass(ctx context.Context, s *secret.Sealer, name string, begin func(size int64) error,
	to io.Writer) error {
	from, err := v.bucket.NewReader(ctx, name, nil)
	if blobstore.IsMissing(err) {
		return fmt.Errorf("%s: %w", name, errMissing)
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	defer func() { _ = from.Close() }() // it was only read
	sealed := make([]byte, 4+frame+around)
	for i, last := 0, false; !last; i++ {
		var plain []byte
		if plain, last, err = v.next(from, s, name, i, sealed); err != nil {
			return err
		}
		if i == 0 {
			if err := begin(from.Size()); err != nil {
				return err
			}
		}
		if _, err := to.Write(plain); err != nil {
			return err
		}
	}
	return nil
}

// next reads a frame and reports whether it is the last one.
func (v *vault) next(from io.Reader, s *secret.Sealer, name string, number int, buffer []byte) ([]byte, bool, error) {
	damaged := func(err error) error { return fmt.Errorf("%s: %w: %w", name, errMissing, err) }
	read := func(p []byte) error {
		_, err := io.ReadFull(from, p)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return damaged(err)
		}
		return err
	}
	if err := read(buffer[:4]); err != nil {
		return nil, false, err
	}
	size := binary.BigEndian.Uint32(buffer)
	if size > frame+around {
		return nil, false, damaged(errors.New("a frame is too large"))
	}
	sealed := buffer[4 : 4+size]
	if err := read(sealed); err != nil {
		return nil, false, err
	}
	plain, err := s.OpenBytes("Response", name, field(number, false), sealed)
	if err == nil {
		return plain, false, nil
	}
	if plain, err = s.OpenBytes("Response", name, field(number, true), sealed); err != nil {
		return nil, false, damaged(err)
	}
	return plain, true, nil
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
		g.Go(func() error { return v.delete(ctx, o.Key) })
	}
}

// drop is remove for documents by their names.
func (v *vault) drop(ctx context.Context, names []string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removing)
	defer cancel()
	var g errgroup.Group
	g.SetLimit(16)
	for _, name := range names {
		g.Go(func() error { return v.delete(ctx, name) })
	}
	return g.Wait()
}

// delete deletes one blob.
func (v *vault) delete(ctx context.Context, name string) error {
	if err := v.bucket.Delete(ctx, name); err != nil && !blobstore.IsMissing(err) {
		return fmt.Errorf("delete %s: %w", name, err)
	}
	return nil
}

// collect deletes the blobs of past days, which are listed first. An object that expires today may still be there.
func (v *vault) collect(ctx context.Context) error {
	today := folder("", v.now().Unix())
	for all := v.bucket.List(&blob.ListOptions{Prefix: items.Root}); ; {
		o, err := all.Next(ctx)
		if errors.Is(err, io.EOF) || err == nil && o.Key >= today {
			return nil
		}
		if err != nil {
			return fmt.Errorf("list stored responses: %w", err)
		}
		if err := v.delete(ctx, o.Key); err != nil {
			return err
		}
	}
}
