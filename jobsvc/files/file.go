package files

import (
	"context"
	"errors"
	"fmt"
	"io"

	"gocloud.dev/blob"

	"github.com/modelgate/modelgate/internal/blobstore"
	"github.com/modelgate/modelgate/jobsvc/store"
)

// Purposes of files, by OpenAI's names.
const (
	PurposeAssistants      = "assistants"
	PurposeBatch           = "batch"
	PurposeBatchOutput     = "batch_output"
	PurposeEvals           = "evals"
	PurposeFineTune        = "fine-tune"
	PurposeFineTuneResults = "fine-tune-results"
	PurposeUserData        = "user_data"
	PurposeVision          = "vision"
)

// A File is the record of a file. Its bytes are in the blob that BlobOf names.
type File struct {
	Key       string `json:"key,omitempty"` // name of the Key object that it counts for
	Filename  string `json:"filename"`
	Purpose   string `json:"purpose"`
	Bytes     int64  `json:"bytes"`
	CreatedAt int64  `json:"created_at"`           // Unix time in seconds
	ExpiresAt int64  `json:"expires_at,omitempty"` // 0: never
}

// Kind are files.
var Kind = store.Kind[File]{Name: "files", Prefix: "file-", Counts: countsOfFile}

// index says which files have a record, whoever owns them: it is how Collect knows an orphan by its name alone.
var index = store.Kind[struct{}]{Name: "file-index", Prefix: Kind.Prefix}

func indexOf(id string) *store.Record[struct{}] { return &store.Record[struct{}]{ID: id} }

// blobs is the folder of files' blobs.
const blobs = "files/"

// BlobOf returns the name of a file's blob.
func BlobOf(id string) string { return blobs + id }

// ErrMissing means that a file's bytes are gone although its record is there.
var ErrMissing = errors.New("the content of the file is missing")

// Open reads a file from an offset on.
func Open(ctx context.Context, bucket *blob.Bucket, id string, offset int64) (io.ReadCloser, error) {
	r, err := bucket.NewRangeReader(ctx, BlobOf(id), offset, -1, nil)
	if blobstore.IsMissing(err) {
		return nil, fmt.Errorf("open %s: %w", id, ErrMissing)
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", id, err)
	}
	return r, nil
}

// Add puts a new file, whose blob is there, into a transaction, with its expiry. A blob that has no file 24 hours
// after it was written may be removed.
func Add(t *store.Txn, r *store.Record[File]) {
	Kind.Create(t, r)
	index.Put(t, indexOf(r.ID))
	if r.Value.ExpiresAt != 0 {
		t.ExpireAt(expiryOf(r))
	}
}

// Remove takes a file that nothing uses out in a transaction. Its blob is to be deleted once that is committed.
func Remove(t *store.Txn, r *store.Record[File]) {
	Kind.Delete(t, r)
	index.Drop(t, store.Tenant{}, r.ID)
	t.Unused(r.ID)
	if r.Value.ExpiresAt != 0 {
		t.Keep(expiryOf(r))
	}
}

func expiryOf(r *store.Record[File]) store.Expiry {
	return store.Expiry{Kind: Kind.Name, Tenant: r.Tenant, ID: r.ID, At: r.Value.ExpiresAt}
}
