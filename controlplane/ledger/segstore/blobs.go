package segstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"gocloud.dev/blob"

	"github.com/modelgate/modelgate/controlplane/ledger/segment"
	"github.com/modelgate/modelgate/internal/blobstore"
)

const (
	// Prefix begins the names of blobs. A name has the day on which its rows began, UTC, as engines read partitions.
	Prefix = "requests/day="
	// blobRows is how many rows a blob has at most. They are in memory once, while it is made.
	blobRows = 4 * segment.GroupRows
	// blobAfter is how old segments of a day that is over are before they become a blob, however few rows they have.
	blobAfter = time.Hour
	// strayAfter is the age at which a blob that no segment names is deleted. Until then it may be one that is written.
	strayAfter = time.Hour
	// blobTimeout bounds a read of a part of a blob.
	blobTimeout = 30 * time.Second
)

// errNoStore is returned for a blob if there is no blob store.
var errNoStore = errors.New("its rows are in the blob store, and none is given")

// Use sets the blob store that large segments go to. Without one, they stay in the database. The owner names the
// database: it begins the names of its blobs, and no blob of another is deleted. It is called before anything else.
func (s *Store) Use(bucket *blob.Bucket, owner func(context.Context) (string, error)) {
	s.bucket, s.owner = bucket, owner
}

// A blobReader reads parts of a blob.
type blobReader struct {
	bucket *blob.Bucket
	name   string
}

// ReadAt implements [io.ReaderAt].
func (b blobReader) ReadAt(to []byte, at int64) (n int, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), blobTimeout)
	defer cancel()
	r, err := b.bucket.NewRangeReader(ctx, b.name, at, int64(len(to)), nil)
	if blobstore.IsMissing(err) {
		return 0, errGone
	}
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	return io.ReadFull(r, to)
}

// openBlob opens a segment whose rows are in the blob store.
func (s *Store) openBlob(name string, size int64) (*segment.File, error) {
	if s.bucket == nil {
		return nil, fmt.Errorf("segment %s: %w", name, errNoStore)
	}
	return segment.Open(name, blobReader{s.bucket, name}, size)
}

// writeBlob writes a segment, and returns its name.
func (s *Store) writeBlob(ctx context.Context, id string, body []byte, summary *segment.Summary) (string, error) {
	owner, err := s.owner(ctx)
	if err != nil {
		return "", err
	}
	day := time.UnixMicro(summary.From).UTC().Format(time.DateOnly)
	name := Prefix + day + "/" + owner + "-" + id + ".parquet"
	return name, s.bucket.WriteAll(ctx, name, body, &blob.WriterOptions{ContentType: "application/vnd.apache.parquet"})
}

// ReadBlob returns a blob of a segment.
func (s *Store) ReadBlob(ctx context.Context, name string) ([]byte, error) {
	if s.bucket == nil {
		return nil, fmt.Errorf("segment %s: %w", name, errNoStore)
	}
	return s.bucket.ReadAll(ctx, name)
}

// deleteBlobs deletes the blobs of segments that are not in the database. What it does not reach, Sweep does.
func (s *Store) deleteBlobs(ctx context.Context, all []listed) {
	for _, x := range all {
		if s.bucket != nil && x.blob != "" {
			_ = s.bucket.Delete(context.WithoutCancel(ctx), x.blob)
		}
	}
}

// ToBlobs makes blobs of segments in the database: of a day that has enough rows for one, and of a day that is over.
// It returns how many blobs it has made.
func (s *Store) ToBlobs(ctx context.Context) (made int, err error) {
	if s.bucket == nil {
		return 0, nil
	}
	for {
		all, err := s.list(ctx)
		if err != nil {
			return made, err
		}
		some := forBlob(all, s.db.Now())
		if some == nil {
			return made, nil
		}
		done, err := s.toBlob(ctx, some)
		if err != nil {
			return made, err
		}
		if done {
			made++
		}
	}
}

// forBlob returns segments that are to become a blob, or nil. Their rows began on one day, or from it on, and all of
// them are tallied or none.
func forBlob(all []listed, now time.Time) []listed {
	type kind struct {
		day     int64
		tallied bool
	}
	waiting, rows := map[kind][]listed{}, map[kind]int{}
	for _, x := range all {
		if x.blob != "" {
			continue
		}
		k := kind{x.summary.From / dayMicros, x.tallied}
		if rows[k]+x.summary.Rows > blobRows {
			return waiting[k]
		}
		waiting[k], rows[k] = append(waiting[k], x), rows[k]+x.summary.Rows
	}
	for k, some := range waiting {
		over := time.UnixMicro((k.day + 1) * dayMicros).Add(blobAfter)
		if now.After(over) && now.Sub(some[len(some)-1].made()) > blobAfter {
			return some
		}
	}
	return nil
}

// toBlob makes a blob of the rows of segments that began on the first day, and a segment in the database of the rest.
// It returns false, and does nothing, if one of them is gone.
func (s *Store) toBlob(ctx context.Context, some []listed) (done bool, err error) {
	rows, err := s.rowsOf(ctx, some)
	if errors.Is(err, errGone) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	end := (some[0].summary.From/dayMicros + 1) * dayMicros
	var first, rest []segment.Row
	for i := range rows {
		if rows[i].StartedAt < end {
			first = append(first, rows[i])
		} else {
			rest = append(rest, rows[i])
		}
	}
	return s.swap(ctx, some, rewritten{first, true}, rewritten{rest, false})
}

// Sweep deletes blobs of this database that no segment names: of a process that was killed before it had the name in
// the database, or before it had deleted the blob.
func (s *Store) Sweep(ctx context.Context) error {
	if s.bucket == nil {
		return nil
	}
	owner, err := s.owner(ctx)
	if err != nil {
		return err
	}
	var old []string
	for it := s.bucket.List(&blob.ListOptions{Prefix: Prefix}); ; {
		o, err := it.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if s.db.Now().Sub(o.ModTime) > strayAfter && strings.HasPrefix(path.Base(o.Key), owner+"-") {
			old = append(old, o.Key)
		}
	}
	all, err := s.list(ctx) // after the blobs: one that has its name since is not deleted
	if err != nil {
		return err
	}
	named := map[string]bool{}
	for _, x := range all {
		named[x.blob] = true
	}
	for _, name := range old {
		if named[name] {
			continue
		}
		if err := s.bucket.Delete(ctx, name); err != nil && !blobstore.IsMissing(err) {
			return err
		}
	}
	return nil
}
