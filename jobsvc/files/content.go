package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"go.uber.org/zap"
	"gocloud.dev/blob"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/blobstore"
	"github.com/modelgate/modelgate/jobsvc/rest"
	"github.com/modelgate/modelgate/jobsvc/store"
)

// content answers with the bytes of a file, whatever its purpose. OpenAI refuses some purposes because it hands files
// to products of its own; here they are the tenant's own bytes.
func (s *Service) content(w http.ResponseWriter, r *http.Request, c rest.Caller) error {
	f, err := s.find(r, c)
	if err != nil {
		return err
	}
	stat, err := s.Bucket.Attributes(r.Context(), BlobOf(f.ID))
	if blobstore.IsMissing(err) || err == nil && stat.Size != f.Value.Bytes {
		return s.lost(r, c, f)
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", f.ID, err)
	}
	if strings.Contains(r.Header.Get("Range"), ",") {
		r.Header.Del("Range") // several ranges would be many reads; the whole is an answer to them too
	}
	body := &seeker{ctx: r.Context(), bucket: s.Bucket, id: f.ID, size: f.Value.Bytes}
	defer body.Close()
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", disposition(f.Value.Filename))
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("ETag", `"`+f.ID+`"`) // a file never changes
	checked := &rangeWriter{ResponseWriter: w}
	http.ServeContent(checked, r, "", time.Unix(f.Value.CreatedAt, 0), body)
	if body.failed != nil && r.Context().Err() == nil { // the client sees an answer that is shorter than it was to be
		s.Log.Error("the content of a file could not be read to its end", zap.String("file", f.ID), zap.Error(body.failed))
	}
	if checked.refused {
		h.Del("Content-Disposition")
		return openai.CodeInvalidRange.New("The header Range does not name bytes of the file, which has %d.", f.Value.Bytes)
	}
	return nil
}

// lost explains that a file has no bytes: with 410, because the file is known and its content will not come back. Only
// the operator can do something about it, so that it is logged as well.
func (s *Service) lost(r *http.Request, c rest.Caller, f *store.Record[File]) error {
	if _, err := s.find(r, c); err != nil { // it was deleted just now
		return err
	}
	s.Log.Error("the content of a file is missing from the blob store, or is not whole", zap.String("file", f.ID),
		zap.String("blob", BlobOf(f.ID)))
	return openai.CodeFileContentMissing.On("id",
		"The content of the file %s is missing from the gateway's storage. Delete the file and upload it again.", f.ID)
}

// disposition names the file twice where its name is more than plain ASCII: as such, and as RFC 6266 has it.
func disposition(filename string) string {
	plain := strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' || strings.ContainsRune(`"\/%`, r) {
			return '_'
		}
		return r
	}, filename)
	if plain == filename {
		return `attachment; filename="` + plain + `"`
	}
	return `attachment; filename="` + plain + `"; filename*=UTF-8''` + strings.ReplaceAll(url.QueryEscape(filename), "+",
		"%20")
}

// A seeker reads a file from any offset. It opens the blob when it is read.
type seeker struct {
	ctx    context.Context // of the one request that reads
	bucket *blob.Bucket
	id     string
	size   int64
	at     int64
	open   io.ReadCloser // at at; nil if nothing was read there yet
	failed error
}

// Seek implements io.Seeker.
func (s *seeker) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += s.at
	case io.SeekEnd:
		offset += s.size
	}
	if offset < 0 {
		return 0, errors.New("seek before the beginning")
	}
	if offset != s.at {
		s.Close()
		s.at = offset
	}
	return offset, nil
}

// Read implements io.Reader.
func (s *seeker) Read(p []byte) (n int, err error) {
	if s.open == nil {
		if s.open, err = Open(s.ctx, s.bucket, s.id, s.at); err != nil {
			s.failed = err
			return 0, err
		}
	}
	n, err = s.open.Read(p)
	s.at += int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		s.failed = err
	}
	return n, err
}

// Close gives up what is open.
func (s *seeker) Close() {
	if s.open != nil {
		_ = s.open.Close() // of what was read
		s.open = nil
	}
}

// A rangeWriter takes back the answer that net/http writes to a range that is none, which is not JSON.
type rangeWriter struct {
	http.ResponseWriter
	refused bool
}

// WriteHeader implements http.ResponseWriter.
func (w *rangeWriter) WriteHeader(status int) {
	if w.refused = status == http.StatusRequestedRangeNotSatisfiable; !w.refused {
		w.ResponseWriter.WriteHeader(status)
	}
}

// Write implements http.ResponseWriter.
func (w *rangeWriter) Write(p []byte) (int, error) {
	if w.refused {
		return len(p), nil
	}
	return w.ResponseWriter.Write(p)
}
