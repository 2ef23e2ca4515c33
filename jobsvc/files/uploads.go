package files

import (
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"time"

	"go.uber.org/zap"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/jobsvc/rest"
	"github.com/modelgate/modelgate/jobsvc/store"
)

// Limits of uploads, as OpenAI has them.
const (
	maxUpload = 8 << 30
	maxPart   = 64 << 20
	maxParts  = 1000

	uploadLives = time.Hour
	// uploadKept is how long an upload that is over answers repeated requests.
	uploadKept = 24 * time.Hour
)

// States of an upload. It is over in all but the first; no state is left for another then.
const (
	uploadPending   = "pending"
	uploadCompleted = "completed"
	uploadCancelled = "cancelled"
	uploadExpired   = "expired"
)

// An upload is the record of a file that comes in parts.
type upload struct {
	Key           string `json:"key,omitempty"` // name of the Key object that it counts for
	Filename      string `json:"filename"`
	Purpose       string `json:"purpose"`
	Bytes         int64  `json:"bytes"` // as announced
	CreatedAt     int64  `json:"created_at"`
	ExpiresAt     int64  `json:"expires_at"`
	FileExpiresIn int64  `json:"file_expires_in,omitempty"` // seconds; 0: never
	Status        string `json:"status"`
	Parts         int    `json:"parts"` // how many there are
	// Stored are the bytes of the parts, and Receiving those that parts may have which are being received.
	Stored    int64 `json:"stored,omitempty"`
	Receiving int64 `json:"receiving,omitempty"`
	// Of a completed one: the parts that it was completed with, as hashParts has them, and the file as it was then.
	CompletedWith string `json:"completed_with,omitempty"`
	FileID        string `json:"file_id,omitempty"`
	File          *File  `json:"file,omitempty"`
}

// A part is the record of a part. Its bytes are in the blob that partBlob names.
type part struct {
	Bytes     int64 `json:"bytes"`
	CreatedAt int64 `json:"created_at"`
}

var (
	uploads = store.Kind[upload]{Name: "uploads", Prefix: "upload_", Counts: countsOfUpload}
	parts   = store.Kind[part]{Name: "upload-parts", Prefix: "part_"}
)

// partBlobs is the folder of parts' blobs.
const partBlobs = "uploads/"

// partBlob keeps all parts in one folder: nobody would remove one for each upload.
func partBlob(upload, part string) string { return partBlobs + upload + "." + part }

// An uploadObject is OpenAI's upload object.
type uploadObject struct {
	ID        string  `json:"id"`
	Object    string  `json:"object"` // upload
	Bytes     int64   `json:"bytes"`
	CreatedAt int64   `json:"created_at"`
	Filename  string  `json:"filename"`
	Purpose   string  `json:"purpose"`
	Status    string  `json:"status"`
	ExpiresAt int64   `json:"expires_at"`
	File      *Object `json:"file"`
}

func showUpload(u *store.Record[upload]) uploadObject {
	o := uploadObject{
		ID: u.ID, Object: "upload", Bytes: u.Value.Bytes, CreatedAt: u.Value.CreatedAt, Filename: u.Value.Filename,
		Purpose: u.Value.Purpose, Status: u.Value.Status, ExpiresAt: u.Value.ExpiresAt,
	}
	if u.Value.File != nil {
		file := show(&store.Record[File]{ID: u.Value.FileID, Value: *u.Value.File})
		o.File = &file
	}
	return o
}

const maxJSON = 1 << 20 // of a body, in bytes

// parseUpload reads the body that creates an upload.
func parseUpload(o *rest.Object) (upload, error) {
	u := upload{
		Bytes:    int64(o.RequiredNumber("bytes", rest.Span{Low: 1, High: maxUpload, Whole: true})),
		Filename: o.Required("filename", maxField), Purpose: o.Required("purpose", maxField), Status: uploadPending,
	}
	mimeType := o.Required("mime_type", maxField)
	var anchor string
	var seconds int64
	if e := o.Object("expires_after"); e != nil {
		if anchor = e.Text("anchor", maxField); anchor == "" && e.Err() == nil {
			return u, missing("expires_after[anchor]")
		}
		if v, ok := e.Take("seconds"); ok {
			seconds = int64(e.Number(e.Path+"seconds", v, rest.Span{Low: 1, High: 1 << 53, Whole: true}))
		}
	}
	if err := o.Err(); err != nil {
		return u, err
	}
	if _, _, err := mime.ParseMediaType(mimeType); err != nil {
		return u, openai.CodeInvalidValue.On("mime_type",
			"Invalid value: '%s'. Expected a MIME type, such as 'text/jsonl'.", shortened(mimeType))
	}
	if err := checkPurpose(u.Purpose, u.Filename); err != nil {
		return u, err
	}
	if u.Purpose == PurposeBatch && u.Bytes > maxBatchFile {
		return u, openai.CodeIntegerAboveMaxValue.On("bytes",
			"Invalid 'bytes': integer above maximum value. Expected a value <= %d, but got %d instead.", maxBatchFile, u.Bytes)
	}
	var err error
	u.FileExpiresIn, err = checkExpiry(u.Purpose, anchor, seconds)
	return u, err
}

func (s *Service) createUpload(w http.ResponseWriter, r *http.Request, c rest.Caller) error {
	o, body, err := rest.ReadObject(w, r, maxJSON)
	if err != nil {
		return err
	}
	asked, err := parseUpload(o)
	if err != nil {
		return err
	}
	same, err := rest.Idempotency(r, c, string(body))
	if err != nil {
		return err
	}
	now := s.Now()
	asked.Key, asked.CreatedAt, asked.ExpiresAt = c.Key, now.Unix(), now.Add(uploadLives).Unix()
	u := &store.Record[upload]{Tenant: c.Tenant, ID: uploads.NewID(), Value: asked}
	_, err = rest.Create(w, r, c, s.Store, same, now, func(t *store.Txn) (any, error) {
		uploads.Create(t, u)
		t.ExpireAt(uploadExpiry(u))
		return showUpload(u), nil
	})
	return err
}

func uploadExpiry(u *store.Record[upload]) store.Expiry {
	return store.Expiry{Kind: uploads.Name, Tenant: u.Tenant, ID: u.ID, At: u.Value.ExpiresAt}
}

// findUpload returns the caller's upload that the path names.
func (s *Service) findUpload(r *http.Request, c rest.Caller) (*store.Record[upload], error) {
	id := r.PathValue("id")
	u, err := uploads.Get(r.Context(), s.Store, c.Tenant, id)
	if errors.Is(err, store.ErrNotFound) {
		return nil, &openai.Error{Status: http.StatusNotFound, Type: openai.TypeInvalidRequest, Param: "id",
			Message: fmt.Sprintf("No such Upload object: %s", id)}
	}
	return u, err
}

// pending refuses what only a pending upload can do.
func (s *Service) pending(u *store.Record[upload], verb string) error {
	status := u.Value.Status
	if status == uploadPending && s.Now().Unix() >= u.Value.ExpiresAt {
		status = uploadExpired
	}
	if status == uploadPending {
		return nil
	}
	return &openai.Error{Status: http.StatusConflict, Type: openai.TypeInvalidRequest, NoRetry: true,
		Message: fmt.Sprintf("Cannot %s an upload with status '%s'. Create a new upload.", verb, status)}
}

// A partObject is OpenAI's part object.
type partObject struct {
	ID        string `json:"id"`
	Object    string `json:"object"` // upload.part
	CreatedAt int64  `json:"created_at"`
	UploadID  string `json:"upload_id"`
}

func (s *Service) addPart(w http.ResponseWriter, r *http.Request, c rest.Caller) error {
	u, err := s.findUpload(r, c)
	if err != nil {
		return err
	}
	if err := s.takesParts(u); err != nil {
		return err
	}
	err = s.admit(r, c, func(t *store.Txn, bytes int64) {
		changed := *u
		changed.Value.Parts++
		changed.Value.Receiving += bytes
		uploads.Update(t, &changed)
	})
	if err != nil {
		return err
	}
	p := &store.Record[part]{Tenant: c.Tenant, ID: parts.NewID(), Value: part{CreatedAt: s.Now().Unix()}}
	form := &intake{content: "data", check: checkPart}
	form.reserve = func(total int64) error {
		changed, err := s.receiving(r.Context(), u, total-form.reserved, c.Bounds)
		if err == nil {
			u = changed
		}
		return err
	}
	held := true // whether what is reserved may still be the part's
	defer func() {
		if form.reserved > 0 && held && c.Bounds != nil {
			s.unreceive(r.Context(), u, form.reserved)
		}
	}()
	form.idempotent(r)
	if err := s.receive(r, partBlob(u.ID, p.ID), form); err != nil {
		return err
	}
	p.Value.Bytes = form.bytes
	same, err := rest.Idempotency(r, c, strconv.FormatInt(form.bytes, 10), form.sum())
	if err != nil {
		return err
	}
	again := func() error { // another part came at the same time, or the upload is over
		if u, err = s.findUpload(r, c); err != nil {
			return err
		}
		return s.takesParts(u)
	}
	made, err := s.commit(w, r, c, partBlob(u.ID, p.ID), same, again, func(t *store.Txn) (any, error) {
		changed := *u
		changed.Value.Parts++
		changed.Value.Stored += form.bytes
		changed.Value.Receiving = max(0, changed.Value.Receiving-form.reserved)
		uploads.Update(t, &changed)
		parts.Under(u.ID).Create(t, p)
		return partObject{ID: p.ID, Object: "upload.part", CreatedAt: p.Value.CreatedAt, UploadID: u.ID}, nil
	})
	held = !made && (err == nil || certain(err))
	return err
}

// unreceive takes back what was reserved for a part that did not become one. If that fails it is taken back when
// the upload ends.
func (s *Service) unreceive(ctx context.Context, u *store.Record[upload], bytes int64) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	now, err := uploads.Get(ctx, s.Store, u.Tenant, u.ID)
	if err == nil && now.Value.Status == uploadPending {
		_, err = s.receiving(ctx, now, -bytes, nil)
	}
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		s.Log.Warn("what was reserved for a part is given back with its upload", zap.Error(err))
	}
}

func (s *Service) takesParts(u *store.Record[upload]) error {
	if err := s.pending(u, "add a part to"); err != nil {
		return err
	}
	if u.Value.Parts >= maxParts {
		return openai.CodeTooManyParts.New(
			"The upload has %d parts, which is as many as there can be. Create a new one with larger parts: each may have %d MB.", maxParts, maxPart>>20)
	}
	return nil
}

func checkPart(in *intake) error {
	in.limit = maxPart
	switch {
	case in.whole && !in.began:
		return missing("data")
	case in.whole && in.bytes == 0:
		return openai.CodeEmptyPart.On("data", "The part is empty.")
	}
	return nil
}
