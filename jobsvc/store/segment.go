package store

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"gocloud.dev/blob"

	"github.com/modelgate/modelgate/internal/blobstore"
	"github.com/modelgate/modelgate/internal/memo"
	"github.com/modelgate/modelgate/jobsvc/memory"
)

const (
	segmentsRoot  = Root + "archive/" // below, keys are like the records', up to the key of a segment's last
	archiveBlobs  = "archive/"
	segmentFormat = "modelgate-archive-1"

	maxRecords = 256     // of a segment
	maxSegment = 1 << 20 // bytes of its records, unless one alone has more
	maxText    = 16 << 20
	inMemory   = 8 // segments in memory, each of maxSegment at most
)

// Errors of reading the archive. Each is in an *ArchiveError, which names the segment.
var (
	ErrArchiveDamaged = errors.New("the segment is missing or damaged")
	ErrArchiveAway    = errors.New("the blob store does not answer")
	// errMoved means that the segment was replaced by others since its name was read.
	errMoved = errors.New("the segment was replaced")
)

// An ArchiveError is why a segment of the archive cannot be read.
type ArchiveError struct {
	Segment string // the name of its blob
	Err     error
}

func (e *ArchiveError) Error() string { return "archive " + e.Segment + ": " + e.Err.Error() }
func (e *ArchiveError) Unwrap() error { return e.Err }

// A Segment is an immutable blob of up to some hundreds of records of one tenant, which sort between the first and the
// last. No two of a tenant and kind overlap. This is what etcd has of it, under the key of its last record, or, of
// parts, their object's line.
type Segment struct {
	Blob    string `json:"blob"`
	First   string `json:"first"` // the part of the key that is the record's own
	Last    string `json:"last"`
	Tenant  Tenant `json:"tenant"`
	Records int    `json:"records"`
	Bytes   int    `json:"bytes"` // of the records, before they are compressed
	Ended   int64  `json:"ended"` // when the last of them ended, as Unix time in seconds
	// Counts is what the records count for while they are here.
	Counts Amounts `json:"counts,omitzero"`

	key      string
	revision int64
}

// A line is one record of a segment, as etcd had it.
type line struct {
	Key    string          `json:"key"` // the part that is its own
	Record json.RawMessage `json:"record"`
	Once   json.RawMessage `json:"once,omitempty"`
	Ended  int64           `json:"ended"`
	// Parts are the segments of its parts, by kind.
	Parts map[string][]*Segment `json:"parts,omitempty"`
}

// segmentSize is about what the name of a segment takes.
const segmentSize = 256

func (l line) size() int {
	n := len(l.Key) + len(l.Record) + len(l.Once)
	for _, segments := range l.Parts {
		n += len(segments) * segmentSize
	}
	return n
}

// An archive is the blobs of the segments.
type archive struct {
	bucket *blob.Bucket
	lines  *memo.Memo[string, []line] // by the blob
}

// Archived returns the store with an archive in a bucket.
func (s *Store) Archived(bucket *blob.Bucket) *Store {
	archived := *s
	archived.archive = &archive{bucket, memo.New[string, []line](inMemory)}
	return &archived
}

func parseSegment(kv *mvccpb.KeyValue) (*Segment, error) {
	s := &Segment{key: string(kv.Key), revision: kv.ModRevision}
	if err := json.Unmarshal(kv.Value, s); err != nil {
		return nil, fmt.Errorf("archive %s: %w", kv.Key, err)
	}
	return s, nil
}

// header begins a segment: it says whose records it has.
func (k Kind[T]) header(t Tenant) string { return segmentFormat + " " + k.Name + " " + t.path() }

// write writes a segment's blob.
func (a *archive) write(ctx context.Context, name, header string, lines []line) error {
	var text bytes.Buffer
	zip := gzip.NewWriter(&text)
	_, err := fmt.Fprintln(zip, header)
	for e := json.NewEncoder(zip); len(lines) > 0 && err == nil; lines = lines[1:] {
		err = e.Encode(lines[0])
	}
	if err = errors.Join(err, zip.Close()); err != nil {
		return fmt.Errorf("archive %s: %w", name, err)
	}
	if err := a.bucket.WriteAll(ctx, name, text.Bytes(),
		&blob.WriterOptions{ContentType: "application/gzip"}); err != nil {
		return &ArchiveError{name, fmt.Errorf("%w: %w", ErrArchiveAway, err)}
	}
	return nil
}

// read returns the records of a segment. They must not be changed.
func (a *archive) read(ctx context.Context, of *Segment, header string) ([]line, error) {
	if lines, ok := a.lines.Find(of.Blob); ok {
		return lines, nil
	}
	if err := memory.Of(ctx).Take(ctx, 2*int64(of.Bytes)); err != nil {
		return nil, err
	}
	packed, err := a.bucket.ReadAll(ctx, of.Blob)
	if blobstore.IsMissing(err) {
		return nil, &ArchiveError{of.Blob, fmt.Errorf("%w: %w", ErrArchiveDamaged, err)}
	}
	if err != nil {
		return nil, &ArchiveError{of.Blob, fmt.Errorf("%w: %w", ErrArchiveAway, err)}
	}
	lines, err := unpack(packed, header)
	if err == nil && (len(lines) != of.Records || lines[0].Key != of.First || lines[len(lines)-1].Key != of.Last) {
		err = errors.New("it does not hold what the index says")
	}
	if err != nil {
		return nil, &ArchiveError{of.Blob, fmt.Errorf("%w: %w", ErrArchiveDamaged, err)}
	}
	return a.lines.Keep(of.Blob, lines), nil
}

func unpack(packed []byte, header string) ([]line, error) {
	zip, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	text := bufio.NewReader(io.LimitReader(zip, maxText))
	first, err := text.ReadString('\n')
	if err != nil || strings.TrimSuffix(first, "\n") != header {
		return nil, errors.Join(err, errors.New("its beginning is another's"))
	}
	var lines []line
	for d := json.NewDecoder(text); ; {
		var l line
		if err := d.Decode(&l); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		lines = append(lines, l)
	}
	if len(lines) == 0 {
		return nil, errors.New("it is empty")
	}
	return lines, nil
}

// orphaned is the age from which a blob that no segment names counts as abandoned, and not as new.
const orphaned = 24 * time.Hour

// old returns the blobs below a prefix that something names by now, or nothing ever will.
func (a *archive) old(ctx context.Context, prefix string, now time.Time) (names []string, err error) {
	for all := a.bucket.List(&blob.ListOptions{Prefix: prefix}); ; {
		o, err := all.Next(ctx)
		if errors.Is(err, io.EOF) {
			return names, nil
		}
		if err != nil {
			return nil, fmt.Errorf("list the archive: %w", err)
		}
		if o.ModTime.Before(now.Add(-orphaned)) {
			names = append(names, o.Key)
		}
	}
}

func (a *archive) remove(ctx context.Context, name string) error {
	if err := a.bucket.Delete(ctx, name); err != nil && !blobstore.IsMissing(err) {
		return fmt.Errorf("remove %s: %w", name, err)
	}
	return nil
}
