package files

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/httpapi"
	"github.com/modelgate/modelgate/jobsvc/rest"
	"github.com/modelgate/modelgate/jobsvc/store"
)

// Limits, as OpenAI has them.
const (
	maxFile      = 512 << 20
	maxBatchFile = 200 << 20
	maxListed    = 10_000

	month        = 30 * 24 * time.Hour
	minExpiresIn = time.Hour
	maxExpiresIn = month
)

// An Object is OpenAI's file object.
type Object struct {
	ID            string  `json:"id"`
	Object        string  `json:"object"` // file
	Bytes         int64   `json:"bytes"`
	CreatedAt     int64   `json:"created_at"`
	ExpiresAt     *int64  `json:"expires_at"`
	Filename      string  `json:"filename"`
	Purpose       string  `json:"purpose"`
	Status        string  `json:"status"` // processed: a file is checked by what uses it
	StatusDetails *string `json:"status_details"`
}

func show(r *store.Record[File]) Object {
	o := Object{
		ID: r.ID, Object: "file", Bytes: r.Value.Bytes, CreatedAt: r.Value.CreatedAt, Filename: r.Value.Filename,
		Purpose: r.Value.Purpose, Status: "processed",
	}
	if r.Value.ExpiresAt != 0 {
		o.ExpiresAt = &r.Value.ExpiresAt
	}
	return o
}

// uploadable are the purposes that a client may give a file.
func uploadable() []string {
	return []string{PurposeAssistants, PurposeBatch, PurposeFineTune, PurposeVision, PurposeUserData, PurposeEvals}
}

// checkPurpose refuses a purpose that no client may give, and a name that does not suit it.
func checkPurpose(purpose, filename string) error {
	if !slices.Contains(uploadable(), purpose) {
		return openai.CodeInvalidValue.On("purpose", "Invalid value: '%s'. Supported values are: '%s'.",
			shortened(purpose), strings.Join(uploadable(), "', '"))
	}
	if strings.HasSuffix(strings.ToLower(filename), ".jsonl") {
		return nil
	}
	switch purpose {
	case PurposeBatch:
		return openai.BadRequest("", "Invalid file format for Batch API. Must be .jsonl")
	case PurposeFineTune:
		return openai.BadRequest("", "Invalid file format for Fine-Tuning API. Must be .jsonl")
	}
	return nil
}

// checkExpiry returns how many seconds after its creation a file expires: 0 for never.
func checkExpiry(purpose, anchor string, seconds int64) (int64, error) {
	switch {
	case anchor == "" && seconds == 0:
		if purpose == PurposeBatch {
			return int64(month / time.Second), nil
		}
		return 0, nil
	case anchor == "":
		return 0, missing("expires_after[anchor]")
	case anchor != "created_at":
		return 0, openai.CodeInvalidValue.On("expires_after[anchor]",
			"Invalid value: '%s'. Supported values are: 'created_at'.", shortened(anchor))
	case seconds == 0:
		return 0, missing("expires_after[seconds]")
	case seconds < int64(minExpiresIn/time.Second) || seconds > int64(maxExpiresIn/time.Second):
		return 0, openai.CodeInvalidValue.On("expires_after[seconds]",
			"Invalid 'expires_after[seconds]': expected a value from %d to %d, but got %d instead.",
			minExpiresIn/time.Second, maxExpiresIn/time.Second, seconds)
	}
	return seconds, nil
}

func missing(param string) error {
	return openai.CodeMissingRequiredParameter.On(param, "Missing required parameter: '%s'.", param)
}

// A fileForm is the form that creates a file.
type fileForm struct {
	intake
	expiresIn int64 // seconds; 0: never
}

func newFileForm(r *http.Request) *fileForm {
	f := &fileForm{intake: intake{content: "file", known: []string{"purpose", "expires_after[anchor]",
		"expires_after[seconds]"}}}
	f.check = f.checkFields
	f.idempotent(r)
	return f
}

func (f *fileForm) checkFields(in *intake) error {
	purpose, known := in.fields["purpose"]
	if in.limit = maxFile; purpose == PurposeBatch {
		in.limit = maxBatchFile
	}
	switch {
	case in.began && in.filename == "":
		return openai.CodeInvalidType.On("file",
			"Invalid type for 'file': expected a file with a filename, but got a field instead.")
	case in.bytes > in.limit:
		return tooLarge("file", in.limit)
	case in.whole && !in.began:
		return missing("file")
	case in.whole && !known:
		return missing("purpose")
	case in.whole && in.bytes == 0:
		return openai.CodeEmptyFile.On("file", "The file is empty.")
	}
	if known {
		name := in.filename
		if !in.began {
			name = ".jsonl" // not known yet
		}
		if err := checkPurpose(purpose, name); err != nil {
			return err
		}
	}
	return f.checkExpiry(purpose)
}

func (f *fileForm) checkExpiry(purpose string) error {
	anchor, anchored := f.fields["expires_after[anchor]"]
	text, timed := f.fields["expires_after[seconds]"]
	var seconds int64
	if timed {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n == 0 {
			return openai.CodeInvalidType.On("expires_after[seconds]",
				"Invalid type for 'expires_after[seconds]': expected an integer above 0, but got '%s' instead.", shortened(text))
		}
		seconds = n
	}
	if anchored != timed && !f.whole {
		return nil // the other may come yet
	}
	var err error
	f.expiresIn, err = checkExpiry(purpose, anchor, seconds)
	return err
}

func (s *Service) create(w http.ResponseWriter, r *http.Request, c rest.Caller) error {
	f := &store.Record[File]{Tenant: c.Tenant, ID: Kind.NewID(), Value: File{Key: c.Key, CreatedAt: s.Now().Unix()}}
	err := s.admit(r, c, func(t *store.Txn, bytes int64) {
		_, more := countsOfFile(&File{Bytes: bytes})
		t.Count(c.Owner(), more)
	})
	if err != nil {
		return err
	}
	form := newFileForm(r)
	held := &hold{s: s, c: c}
	form.reserve = func(total int64) error { return held.reserve(r.Context(), total) }
	made := false
	defer func() {
		if !made {
			held.release(r.Context())
		}
	}()
	if err := s.receive(r, BlobOf(f.ID), &form.intake); err != nil {
		return err
	}
	f.Value.Filename, f.Value.Purpose, f.Value.Bytes = form.filename, form.fields["purpose"], form.bytes
	if form.expiresIn != 0 {
		f.Value.ExpiresAt = f.Value.CreatedAt + form.expiresIn
	}
	same, err := rest.Idempotency(r, c, f.Value.Filename, f.Value.Purpose, strconv.FormatInt(form.expiresIn, 10),
		form.sum())
	if err != nil {
		return err
	}
	made, err = s.commit(w, r, c, BlobOf(f.ID), same, nil, func(t *store.Txn) (any, error) {
		held.spend(t)
		Add(t, f)
		return show(f), nil
	})
	return err
}

// commit creates what names a blob, and deletes the blob if nothing does. After a conflict it asks again, where
// that is not nil, whether to try once more.
func (s *Service) commit(w http.ResponseWriter, r *http.Request, c rest.Caller, name string, same *store.Idempotency,
	again func() error, fill func(*store.Txn) (any, error)) (made bool, err error) {
	for {
		unsure := false // whether etcd has been asked to name the blob
		made, err = rest.Create(w, r, c, s.Store, same, s.Now(), func(t *store.Txn) (any, error) {
			unsure = true
			return fill(t)
		})
		if errors.Is(err, store.ErrConflict) && again != nil {
			if err = again(); err == nil {
				continue
			}
			unsure = false
		}
		if !made && (!unsure || err == nil || certain(err)) {
			s.deleteBlobs(r.Context(), name)
		}
		return made, err
	}
}

func (s *Service) list(w http.ResponseWriter, r *http.Request, c rest.Caller) error {
	page, err := rest.PageOf(r, maxListed, maxListed, true)
	if err != nil {
		return err
	}
	var keep func(*store.Record[File]) bool
	if purpose := r.URL.Query().Get("purpose"); purpose != "" {
		keep = func(f *store.Record[File]) bool { return f.Value.Purpose == purpose }
	}
	found, more, err := Kind.List(r.Context(), s.Store, c.Tenant, page, keep)
	if err != nil {
		return rest.Cursor(err, page.After)
	}
	return httpapi.WriteJSON(w, http.StatusOK, rest.ListOf(found, more, show))
}

// find returns the caller's file that the path names.
func (s *Service) find(r *http.Request, c rest.Caller) (*store.Record[File], error) {
	id := r.PathValue("id")
	f, err := Kind.Get(r.Context(), s.Store, c.Tenant, id)
	if errors.Is(err, store.ErrNotFound) {
		return nil, &openai.Error{Status: http.StatusNotFound, Type: openai.TypeInvalidRequest, Param: "id",
			Message: fmt.Sprintf("No such File object: %s", id)}
	}
	return f, err
}

func (s *Service) retrieve(w http.ResponseWriter, r *http.Request, c rest.Caller) error {
	f, err := s.find(r, c)
	if err != nil {
		return err
	}
	return httpapi.WriteJSON(w, http.StatusOK, show(f))
}

func (s *Service) remove(w http.ResponseWriter, r *http.Request, c rest.Caller) error {
	f, err := s.find(r, c)
	if err != nil {
		return err
	}
	if err := s.drop(r.Context(), f); errors.Is(err, store.ErrConflict) {
		if _, err := s.find(r, c); err != nil { // another request has removed it
			return err
		}
		return openai.CodeFileInUse.On("id", "The file %s is used by a job that has not ended. Cancel the job, or wait for its end, before you delete the file.", f.ID).Final()
	} else if err != nil {
		return err
	}
	return httpapi.WriteJSON(w, http.StatusOK, struct {
		ID      string `json:"id"`
		Object  string `json:"object"`
		Deleted bool   `json:"deleted"`
	}{f.ID, "file", true})
}
