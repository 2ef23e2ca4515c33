package files

import (
	"bufio"
	"context"
	"crypto/md5" //nolint:gosec // OpenAI's API has the client send it; it guards against accidents only
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"strings"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/blobstore"
	"github.com/modelgate/modelgate/internal/httpapi"
	"github.com/modelgate/modelgate/jobsvc/rest"
	"github.com/modelgate/modelgate/jobsvc/store"
)

// A completion is what completes an upload.
type completion struct {
	PartIDs []string
	MD5     string // in hexadecimal; empty: not to be checked
}

// hashParts tells one list of parts from another.
func hashParts(ids []string) string {
	sum := sha256.Sum256([]byte(strings.Join(ids, ",")))
	return hex.EncodeToString(sum[:])
}

// parseCompletion reads the body that completes an upload.
func parseCompletion(o *rest.Object) (*completion, error) {
	q := &completion{MD5: o.Text("md5", maxField)}
	for i, id := range o.Array("part_ids", maxParts) {
		q.PartIDs = append(q.PartIDs, o.TextOf(fmt.Sprintf("part_ids[%d]", i), id, 1, maxField))
	}
	if len(q.PartIDs) == 0 {
		o.Missing("part_ids")
	}
	if err := o.Err(); err != nil {
		return nil, err
	}
	if _, err := hex.DecodeString(q.MD5); q.MD5 != "" && (err != nil || len(q.MD5) != 2*md5.Size) {
		return nil, openai.CodeInvalidValue.On("md5", "Invalid 'md5': expected %d hexadecimal digits.",
			2*md5.Size)
	}
	seen := map[string]bool{}
	for _, id := range q.PartIDs {
		if seen[id] {
			return nil, openai.CodeInvalidValue.On("part_ids", "The part '%s' is named more than once.",
				shortened(id))
		}
		seen[id] = true
	}
	return q, nil
}

// complete makes a file of an upload's parts. Each request that comes copies them into a blob of its own; the
// transaction decides which one becomes the file, and the others answer with that one.
func (s *Service) complete(w http.ResponseWriter, r *http.Request, c rest.Caller) error {
	o, _, err := rest.ReadObject(w, r, maxJSON)
	if err != nil {
		return err
	}
	q, err := parseCompletion(o)
	if err != nil {
		return err
	}
	u, err := s.findUpload(r, c)
	if err != nil {
		return err
	}
	done, err := s.alone(r.Context(), u.ID)
	if err != nil {
		return err
	}
	defer done()
	if u, err = s.findUpload(r, c); err != nil {
		return err
	}
	f := &store.Record[File]{Tenant: c.Tenant, ID: Kind.NewID()}
	if u.Value.Status == uploadPending {
		if err := s.pending(u, "complete"); err != nil {
			return err
		}
		if err = s.join(r.Context(), u, q, BlobOf(f.ID)); err == nil {
			u, err = s.adopt(r, c, u, q, f)
		} else {
			u, err = s.overtaken(r, c, err)
		}
		if err != nil {
			return err
		}
	}
	if u.Value.Status != uploadCompleted {
		return s.pending(u, "complete")
	}
	if u.Value.CompletedWith != hashParts(q.PartIDs) {
		return &openai.Error{Status: http.StatusConflict, Type: openai.TypeInvalidRequest, Param: "part_ids", NoRetry: true,
			Message: "The upload was completed with other parts. Create a new upload for another file."}
	}
	return httpapi.WriteJSON(w, http.StatusOK, showUpload(u))
}

// join writes the parts that are asked for, in that order, into a blob, which is there only if all was right. It
// takes as long as it takes: an upload may have gigabytes.
func (s *Service) join(ctx context.Context, u *store.Record[upload], q *completion, name string) error {
	if err := s.checkParts(ctx, u, q); err != nil {
		return err
	}
	ctx, giveUp := context.WithCancel(ctx)
	defer giveUp()
	if err := s.hold(ctx, &intake{most: u.Value.Bytes}); err != nil {
		return err
	}
	w, err := s.writer(ctx, name)
	if err != nil {
		return fmt.Errorf("write file: %w", err)
	}
	var sum hash.Hash
	if q.MD5 != "" {
		sum = md5.New() //nolint:gosec // see its import
	}
	to := bufio.NewWriterSize(struct{ io.Writer }{w}, buffer)
	for _, id := range q.PartIDs {
		if err = s.copyPart(ctx, to, sum, partBlob(u.ID, id)); err != nil {
			break
		}
	}
	if err == nil {
		err = to.Flush()
	}
	if err == nil && sum != nil {
		err = checkSum(hex.EncodeToString(sum.Sum(nil)), q.MD5)
	}
	if err != nil {
		giveUp()
		_ = w.Close() // it says that it was given up
		return err
	}
	return w.Close()
}

func checkSum(actual, wanted string) error {
	if strings.EqualFold(actual, wanted) {
		return nil
	}
	return openai.CodeChecksumMismatch.On("md5",
		"The parts have the MD5 checksum %s together, in this order, and not %s. The upload is still pending.", actual,
		wanted)
}

// copyPart copies a part, and adds it to the sum if that is not nil.
func (s *Service) copyPart(ctx context.Context, to *bufio.Writer, sum hash.Hash, name string) error {
	from, err := s.Bucket.NewReader(ctx, name, nil)
	if err != nil {
		return fmt.Errorf("read part: %w", err)
	}
	defer func() { _ = from.Close() }() // of what was read
	var content io.Reader = from
	if sum != nil {
		content = io.TeeReader(from, sum)
	}
	if _, err := to.ReadFrom(content); err != nil {
		return fmt.Errorf("copy part: %w", err)
	}
	return nil
}

// checkParts refuses parts that are not the upload's, or not all of it.
func (s *Service) checkParts(ctx context.Context, u *store.Record[upload], q *completion) error {
	all, _, err := parts.Under(u.ID).List(ctx, s.Store, u.Tenant, store.Page{Limit: maxParts}, nil)
	if err != nil {
		return err
	}
	size := map[string]int64{}
	for _, p := range all {
		size[p.ID] = p.Value.Bytes
	}
	var sum int64
	for _, id := range q.PartIDs {
		n, ok := size[id]
		if !ok {
			return openai.CodeInvalidValue.On("part_ids", "The upload has no part '%s'.", shortened(id))
		}
		sum += n
	}
	if sum != u.Value.Bytes {
		return openai.CodeSizeMismatch.On("part_ids",
			"The parts have %d bytes together, but the upload was created for %d. The upload is still pending.", sum,
			u.Value.Bytes)
	}
	return nil
}

// adopt makes a blob the upload's file, or deletes it if the upload is over meanwhile. It returns the upload as it
// is then.
func (s *Service) adopt(r *http.Request, c rest.Caller, u *store.Record[upload], q *completion,
	f *store.Record[File]) (*store.Record[upload], error) {
	for u.Value.Status == uploadPending {
		f.Value = File{Key: u.Value.Key, Filename: u.Value.Filename, Purpose: u.Value.Purpose, Bytes: u.Value.Bytes,
			CreatedAt: s.Now().Unix()}
		if u.Value.FileExpiresIn != 0 {
			f.Value.ExpiresAt = f.Value.CreatedAt + u.Value.FileExpiresIn
		}
		u.Value.Status, u.Value.CompletedWith, u.Value.FileID, u.Value.File = uploadCompleted, hashParts(q.PartIDs), f.ID,
			&f.Value
		err := s.end(r.Context(), u, func(t *store.Txn) { Add(t, f) })
		if err == nil {
			return u, nil
		}
		if !errors.Is(err, store.ErrConflict) {
			return nil, err
		}
		if u, err = s.findUpload(r, c); err != nil {
			s.deleteBlobs(r.Context(), BlobOf(f.ID))
			return nil, err
		}
	}
	s.deleteBlobs(r.Context(), BlobOf(f.ID))
	return u, nil
}

// overtaken returns the upload if it is over meanwhile, for then its parts are gone, and else what the cause is to
// the client.
func (s *Service) overtaken(r *http.Request, c rest.Caller, cause error) (*store.Record[upload], error) {
	u, err := s.findUpload(r, c)
	switch {
	case err != nil:
		return nil, err
	case u.Value.Status != uploadPending:
		return u, nil
	case blobstore.IsMissing(cause):
		return nil, httpapi.WithCause(openai.CodePartContentMissing.New("The content of a part is missing from the gateway's storage. Cancel the upload and begin a new one.").Final(),
			cause)
	}
	return nil, cause
}

func (s *Service) cancel(w http.ResponseWriter, r *http.Request, c rest.Caller) error {
	for {
		u, err := s.findUpload(r, c)
		if err != nil {
			return err
		}
		if u.Value.Status != uploadCancelled {
			if err := s.pending(u, "cancel"); err != nil {
				return err
			}
			u.Value.Status = uploadCancelled
			if err := s.end(r.Context(), u, nil); errors.Is(err, store.ErrConflict) {
				continue
			} else if err != nil {
				return err
			}
		}
		return httpapi.WriteJSON(w, http.StatusOK, showUpload(u))
	}
}

// expireUpload ends an upload whose time has come, and removes one that is over.
func (s *Service) expireUpload(ctx context.Context, e store.Expiry) error {
	u, err := uploads.Get(ctx, s.Store, e.Tenant, e.ID)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if u.Value.Status != uploadPending {
		t := s.Store.Begin()
		uploads.Delete(t, u)
		return t.Commit(ctx)
	}
	u.Value.Status = uploadExpired
	return s.end(ctx, u, nil)
}

// end writes an upload that is over, with what more adds, and removes its parts. The error is store.ErrConflict if
// it was changed, such as by another part.
func (s *Service) end(ctx context.Context, u *store.Record[upload], more func(*store.Txn)) error {
	left, _, err := parts.Under(u.ID).List(ctx, s.Store, u.Tenant, store.Page{Limit: maxParts}, nil)
	if err != nil {
		return err
	}
	t := s.Store.Begin()
	uploads.Update(t, u)
	parts.Under(u.ID).DeleteAll(t, u.Tenant)
	t.Keep(uploadExpiry(u))
	t.ExpireAt(store.Expiry{Kind: uploads.Name, Tenant: u.Tenant, ID: u.ID, At: s.Now().Add(uploadKept).Unix()})
	if more != nil {
		more(t)
	}
	if err := t.Commit(ctx); err != nil {
		return err
	}
	names := make([]string, len(left))
	for i, p := range left {
		names[i] = partBlob(u.ID, p.ID)
	}
	s.deleteBlobs(ctx, names...)
	return nil
}
