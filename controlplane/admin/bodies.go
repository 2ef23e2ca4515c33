package admin

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	adminapi "github.com/modelgate/modelgate/api/admin"
	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/controlplane/bodies"
	"github.com/modelgate/modelgate/controlplane/ledger"
	"github.com/modelgate/modelgate/internal/httpapi"
)

// Bodies are the kept bodies of exchanges.
type Bodies interface {
	// Read returns those of an exchange, or [bodies.ErrNone].
	Read(ctx context.Context, id string) (*ledgerv1.KeptBodies, error)
	// Erase deletes those that a query selects, and returns of how many exchanges.
	Erase(ctx context.Context, q ledger.BodiesQuery) (int64, error)
}

const (
	kindBodies   = "Bodies"
	actionLook   = "look"
	actionDelete = "delete"
)

// readBodies shows the bodies of an exchange to those who may see them. Nobody sees any that is not in the audit log.
func (s *server) readBodies(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	if s.config.Bodies == nil {
		return noBodies()
	}
	found, err := s.config.Bodies.Read(r.Context(), id)
	if errors.Is(err, bodies.ErrNone) {
		return noBodies()
	}
	if err != nil {
		return bodiesError(err)
	}
	about := authz.Within(found.GetOrganization(), found.GetProject())
	if err := s.note(r.Context(), actionLook, kindBodies, id, "", about...); err != nil {
		return err
	}
	w.Header().Set("Cache-Control", "no-store")
	return httpapi.WriteJSON(w, http.StatusOK, adminapi.Bodies{
		ID: found.GetId(), Start: found.GetStart().AsTime(), Key: found.GetKey(), Organization: found.GetOrganization(),
		Project: found.GetProject(), Expires: found.GetStart().AsTime().Add(found.GetRetention().AsDuration()),
		Request: bodyOf(found.GetRequest()), Answer: bodyOf(found.GetAnswer()),
	})
}

func bodyOf(b *ledgerv1.KeptBody) adminapi.Body {
	return adminapi.Body{ContentType: b.GetContentType(), Bytes: b.GetBytes(), Text: b.GetText(), Cut: b.GetCut(),
		Omitted: b.GetOmitted(), Redacted: b.GetRedacted()}
}

func noBodies() error {
	return openai.CodeNotFound.New("No bodies of this exchange are kept. They may not have been in the share that is kept, or they have expired.")
}

func bodiesError(err error) error {
	return httpapi.WithCause(openai.CodeBodiesUnavailable.New("The kept bodies are unreachable. Try again."), err)
}

// deleteBodiesOf erases the bodies of one exchange.
func (s *server) deleteBodiesOf(w http.ResponseWriter, r *http.Request) error {
	return s.erase(w, r, "exchange="+r.PathValue("id"), ledger.BodiesQuery{ID: r.PathValue("id")})
}

// deleteBodies erases the bodies of a key, an organization or a project.
func (s *server) deleteBodies(w http.ResponseWriter, r *http.Request) error {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return badQuery(err)
	}
	q := ledger.BodiesQuery{}
	for name, values := range query {
		to := map[string]*string{"key": &q.Key, "organization": &q.Organization, "project": &q.Project}[name]
		switch {
		case to == nil:
			return openai.CodeInvalidValue.On(name,
				"The parameter %.64q is unknown. Give key, or organization and project.", name)
		case len(values) != 1:
			return givenTwice(name)
		}
		*to = values[0]
	}
	switch {
	case q == (ledger.BodiesQuery{}):
		return openai.CodeInvalidValue.On("key",
			"Say whose bodies are to be deleted: key, or organization, or organization and project.")
	case q.Project != "" && q.Organization == "":
		return openai.CodeInvalidValue.On("organization",
			"A project needs its organization: two organizations may have projects of one name.")
	}
	return s.erase(w, r, query.Encode(), q)
}

// erase deletes bodies. The audit log says it first, so that there is no deletion without an entry.
func (s *server) erase(w http.ResponseWriter, r *http.Request, name string, q ledger.BodiesQuery) error {
	about, err := s.tenantsOfBodies(r.Context(), q)
	if err != nil {
		return err
	}
	if err := s.note(r.Context(), actionDelete, kindBodies, name, "", about...); err != nil {
		return err
	}
	deleted := adminapi.DeletedBodies{}
	if s.config.Bodies != nil {
		if deleted.Deleted, err = s.config.Bodies.Erase(r.Context(), q); err != nil {
			return bodiesError(err)
		}
	}
	return httpapi.WriteJSON(w, http.StatusOK, deleted)
}

// tenantsOfBodies returns the tenants that have the bodies of a query.
func (s *server) tenantsOfBodies(ctx context.Context, q ledger.BodiesQuery) ([]authz.Tenant, error) {
	switch {
	case q.Organization != "":
		return authz.Within(q.Organization, q.Project), nil
	case q.Key != "":
		_, keys := s.config.Plane.Keys()
		return authz.SeersOf(keys[q.Key]), nil
	case s.config.Ledger == nil:
		return nil, nil
	}
	e, _, err := s.config.Ledger.Exchange(ctx, q.ID)
	if err != nil {
		return nil, ledger.Unavailable(err)
	}
	return authz.Within(e.Organization, e.Project), nil
}
