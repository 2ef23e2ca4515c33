package admin

import (
	"context"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/configstore"
	"github.com/modelgate/modelgate/internal/httpapi"
)

func (s *server) list(w http.ResponseWriter, r *http.Request) error {
	kind, err := kindOf(r)
	if err != nil {
		return err
	}
	entries, err := s.config.Store.List(r.Context(), kind)
	if err != nil {
		return err
	}
	list := adminapi.List{Items: make([]adminapi.Item, 0, len(entries))}
	for _, e := range entries {
		list.Items = append(list.Items, s.item(e))
	}
	return httpapi.WriteJSON(w, http.StatusOK, list)
}

func (s *server) get(w http.ResponseWriter, r *http.Request) error {
	kind, name, err := objectOf(r)
	if err != nil {
		return err
	}
	entry, err := s.config.Store.Get(r.Context(), kind, name)
	if err != nil {
		return err
	}
	return s.writeEntry(w, http.StatusOK, entry)
}

func (s *server) put(w http.ResponseWriter, r *http.Request) error {
	kind, name, err := objectOf(r)
	if err != nil {
		return err
	}
	body, err := httpapi.ReadBody(w, r, maxBody)
	if err != nil {
		return err
	}
	object, err := kind.ParseJSON(body)
	if err != nil {
		return err
	}
	if object.GetName() != name {
		return openai.BadRequest("name", "invalid_object", "The object's name must be that of the path, %q.", name)
	}
	done, err := s.write(r.Context(), false, func(p *plan) error {
		if err := precondition(r, p.before.Find(kind, name)); err != nil {
			return err
		}
		return p.put(object)
	})
	if err != nil {
		return err
	}
	status := http.StatusOK
	if done.changes[0].Action == adminapi.Created {
		status = http.StatusCreated
	}
	// It is shown as this request stored it, also where another has changed it since.
	return s.writeEntry(w, status, *done.entry(kind, name))
}

func (s *server) delete(w http.ResponseWriter, r *http.Request) error {
	kind, name, err := objectOf(r)
	if err != nil {
		return err
	}
	_, err = s.write(r.Context(), false, func(p *plan) error {
		if err := precondition(r, p.before.Find(kind, name)); err != nil {
			return err
		}
		return p.remove(kind, name)
	})
	if err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// precondition checks If-Match and If-None-Match (RFC 9110, section 13.1) against what is stored, which may be nil.
func precondition(r *http.Request, stored *configstore.Entry) error {
	failed := &openai.Error{Status: http.StatusPreconditionFailed, Type: openai.TypeInvalidRequest, Code: "precondition_failed"}
	if want := r.Header.Get("If-Match"); want != "" && !matches(want, stored) {
		failed.Message = "The object is not what If-Match says: it was changed or deleted in the meantime. Read it again."
		return failed
	}
	if not := r.Header.Get("If-None-Match"); not != "" && matches(not, stored) {
		failed.Message = "The object is already there, and If-None-Match says that it must not be."
		return failed
	}
	return nil
}

func matches(tags string, stored *configstore.Entry) bool {
	if stored == nil {
		return false
	}
	for tag := range strings.SplitSeq(tags, ",") {
		if tag = strings.TrimSpace(tag); tag == "*" || tag == etag(stored.Revision) {
			return true
		}
	}
	return false
}

func etag(revision int64) string { return strconv.Quote(strconv.FormatInt(revision, 10)) }

func (s *server) writeEntry(w http.ResponseWriter, status int, e configstore.Entry) error {
	w.Header().Set("ETag", etag(e.Revision))
	return httpapi.WriteJSON(w, status, s.item(e))
}

// item is what the API shows of what is stored.
func (s *server) item(e configstore.Entry) adminapi.Item {
	item := adminapi.Item{Kind: e.Kind, Name: e.Name, Status: adminapi.Status{Revision: e.Revision}}
	if e.Object != nil {
		item.Object = redacted(e.Object)
	}
	item.Status.Error = s.config.Status.ObjectError(e.Kind.Name, e.Name)
	if e.Err != nil {
		item.Status.Error = e.Err.Error()
	}
	return item
}

// write makes a plan, and carries it out unless it is a dry run. Writers of this process take turns; where one of another
// process came between, the plan is made anew after a pause by lot, which keeps two from meeting again and again.
func (s *server) write(ctx context.Context, dryRun bool, decide func(*plan) error) (*plan, error) {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	const attempts = 10
	for n := 1; ; n++ {
		p, err := s.try(ctx, dryRun, decide)
		if !isConflict(err) || n == attempts {
			return p, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(rand.N(time.Duration(n) * 10 * time.Millisecond)):
		}
	}
}

func (s *server) try(ctx context.Context, dryRun bool, decide func(*plan) error) (*plan, error) {
	before, err := s.config.Store.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	p := &plan{server: s, before: before}
	if err := decide(p); err != nil {
		return nil, err
	}
	if err := p.check(); err != nil {
		return nil, err
	}
	if dryRun || len(p.writes) == 0 {
		return p, nil
	}
	p.revision, err = s.config.Store.Apply(ctx, before.Revision, p.writes)
	return p, err
}
