package responses

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"

	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/httpapi"
	"github.com/modelgate/modelgate/internal/secret"
	"github.com/modelgate/modelgate/jobsvc/job"
	"github.com/modelgate/modelgate/jobsvc/queue"
	"github.com/modelgate/modelgate/jobsvc/rest"
	"github.com/modelgate/modelgate/jobsvc/store"
)

// A summary is a response as a list shows it.
type summary struct {
	ID         string             `json:"id"`
	Object     string             `json:"object"` // response
	CreatedAt  int64              `json:"created_at"`
	ExpiresAt  int64              `json:"expires_at"`
	Status     job.ResponseStatus `json:"status"`
	Model      string             `json:"model"`
	Background bool               `json:"background"`
	Previous   *string            `json:"previous_response_id"`
}

func summaryOf(r *store.Record[Response]) summary {
	v := &r.Value
	s := summary{ID: r.ID, Object: "response", CreatedAt: v.CreatedAt, ExpiresAt: v.ExpiresAt, Status: v.Status,
		Model: v.Model, Background: v.Background}
	if v.Previous != "" {
		s.Previous = &v.Previous
	}
	return s
}

// list answers with a page of the tenant's responses. OpenAI's API has no such operation.
func (s *Service) list(w http.ResponseWriter, r *http.Request, c rest.Caller) error {
	p, err := rest.PageOf(r, 20, 100, true)
	if err != nil {
		return err
	}
	now := s.Now().Unix()
	page, more, err := Kind.List(r.Context(), s.Store, c.Tenant, p, func(r *store.Record[Response]) bool {
		return r.Value.ExpiresAt > now
	})
	if err != nil {
		return rest.Cursor(err, p.After)
	}
	return httpapi.WriteJSON(w, http.StatusOK, rest.ListOf(page, more, summaryOf))
}

// named returns the response that a request names, and what opens its documents.
func (s *Service) named(r *http.Request, c rest.Caller) (*store.Record[Response], *secret.Sealer, error) {
	settings, err := s.settings()
	if err != nil {
		return nil, nil, err
	}
	found, err := s.findResponse(r.Context(), c.Tenant, r.PathValue("id"))
	return found, settings.Sealer, err
}

func (s *Service) retrieve(w http.ResponseWriter, r *http.Request, c rest.Caller) error {
	found, sealer, err := s.named(r, c)
	if err != nil {
		return err
	}
	if wantsStream(r) {
		return s.resume(w, r, found, sealer)
	}
	return s.writeObject(w, r, found, sealer)
}

// writeObject answers with a response object. One that has ended is passed on as it is read.
func (s *Service) writeObject(w http.ResponseWriter, r *http.Request, found *store.Record[Response],
	sealer *secret.Sealer) error {
	if found.Value.Answer == "" {
		object, err := s.object(r.Context(), found, sealer)
		if err != nil {
			return err
		}
		rest.WriteBody(w, object)
		return nil
	}
	begun := false
	err := s.vault.pass(r.Context(), sealer, folderOf(found)+found.Value.Answer, func(int64) error {
		w.Header().Set("Content-Type", "application/json")
		begun = true
		return nil
	}, w)
	if err != nil && begun {
		panic(http.ErrAbortHandler) // the client sees that the answer is cut off
	}
	if err != nil {
		return lost(err, "response", found.ID)
	}
	return nil
}

// maxGetBody bounds the body of a GET, which says whether to stream.
const maxGetBody = 1 << 10

// wantsStream reports whether a client wants the events. OpenAI's SDK for Go says so in a body.
func wantsStream(r *http.Request) bool {
	if r.URL.Query().Get("stream") == "true" {
		return true
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxGetBody))
	return err == nil && gjson.GetBytes(body, "stream").Bool()
}

// object returns the response object as it is now.
func (s *Service) object(ctx context.Context, r *store.Record[Response], sealer *secret.Sealer) ([]byte, error) {
	document := r.Value.Answer
	if document == "" {
		document = docPending
	}
	object, err := s.vault.read(ctx, sealer, folderOf(r)+document)
	if err != nil {
		return nil, lost(err, "response", r.ID)
	}
	if r.Value.Answer == "" {
		object = replaced(object, set("status", text(string(r.Value.Status))))
	}
	return object, nil
}

// resume passes the events of a background response after the one that the client has seen last.
func (s *Service) resume(w http.ResponseWriter, r *http.Request, found *store.Record[Response],
	sealer *secret.Sealer) error {
	if !found.Value.Streamed {
		return openai.CodeInvalidValue.On("stream",
			"Only a response that was created with 'background' and 'stream' can be streamed again.")
	}
	after := int64(-1)
	if text := r.URL.Query().Get("starting_after"); text != "" {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 {
			return openai.CodeInvalidType.On("starting_after",
				"Invalid type for 'starting_after': expected the number of an event, but got '%s' instead.", text)
		}
		after = n
	}
	return s.follow(w, r, found, sealer, after+1)
}

func (s *Service) inputItems(w http.ResponseWriter, r *http.Request, c rest.Caller) error {
	found, sealer, err := s.named(r, c)
	if err != nil {
		return err
	}
	at := s.itemsOf(found.ID, sealer)
	list, err := at.Open(r.Context(), folderOf(found)+docInput)
	if err == nil {
		err = writePage(w, r, at, list)
	}
	return lost(err, "response", found.ID)
}

func (s *Service) remove(w http.ResponseWriter, r *http.Request, c rest.Caller) error {
	for try := 1; ; try++ {
		found, err := s.findResponse(r.Context(), c.Tenant, r.PathValue("id"))
		if err == nil {
			err = s.dropResponse(r.Context(), found)
		}
		switch {
		case errors.Is(err, store.ErrConflict) && try < conflicts: // a worker has gone on with it
		case err != nil:
			return err
		default:
			return httpapi.WriteJSON(w, http.StatusOK, struct {
				ID      string `json:"id"`
				Object  string `json:"object"`
				Deleted bool   `json:"deleted"`
			}{found.ID, "response", true})
		}
	}
}

// cancel ends a background response. One that has ended is returned as it is.
func (s *Service) cancel(w http.ResponseWriter, r *http.Request, c rest.Caller) error {
	settings, err := s.settings()
	if err != nil {
		return err
	}
	for try := 1; ; try++ {
		found, err := s.findResponse(r.Context(), c.Tenant, r.PathValue("id"))
		if err != nil {
			return err
		}
		if !found.Value.Background {
			return openai.CodeInvalidValue.New(
				"Only a response that was created with 'background' can be cancelled.")
		}
		if err := s.end(r.Context(), found); errors.Is(err, store.ErrConflict) && try < conflicts {
			continue // a worker has gone on with it
		} else if err != nil {
			return err
		}
		return s.writeObject(w, r, found, settings.Sealer)
	}
}

// end cancels a response that has not ended.
func (s *Service) end(ctx context.Context, r *store.Record[Response]) error {
	status, ok := r.Value.Status.Next(job.ResponseCancel)
	if !ok {
		return nil
	}
	r.Value.Status = status
	t := s.Store.Begin()
	Kind.Update(t, r)
	t.Do(queue.Remove(queueKind, r.ID))
	return t.Commit(ctx)
}
