package api

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
	"github.com/modelgate/modelgate/internal/id"
)

const (
	kindBodies   = "Bodies"
	actionLook   = "look"
	actionDelete = "delete"
)

// bodyHandlers show and erase what is kept of people.
type bodyHandlers struct{ *server }

func (h bodyHandlers) routes() []route {
	return []route{
		{pattern: "GET /admin/v1/requests/{id}/bodies", scope: authz.BodiesRead, handler: h.readBodies},
		{pattern: "DELETE /admin/v1/requests/{id}/bodies", scope: authz.BodiesDelete, handler: h.deleteBodiesOf},
		{pattern: "DELETE /admin/v1/bodies", scope: authz.BodiesDelete, handler: h.deleteBodies, timeout: applyTimeout},
		{pattern: "POST /admin/v1/erasures", scope: authz.Everything, handler: h.requireLedger(h.eraseUser),
			timeout: applyTimeout},
	}
}

// readBodies shows the bodies of an exchange to those who may see them. Nobody sees any that is not in the audit log.
func (h bodyHandlers) readBodies(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	if h.config.Bodies == nil {
		return noBodies()
	}
	found, err := h.config.Bodies.Read(r.Context(), id)
	if errors.Is(err, bodies.ErrNone) {
		return noBodies()
	}
	if err != nil {
		return bodiesError(err)
	}
	about := authz.Within(found.GetOrganization(), found.GetProject())
	if err := h.note(r.Context(), actionLook, kindBodies, id, "", about...); err != nil {
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
func (h bodyHandlers) deleteBodiesOf(w http.ResponseWriter, r *http.Request) error {
	return h.erase(w, r, "exchange="+r.PathValue("id"), ledger.BodiesQuery{ID: r.PathValue("id")})
}

// deleteBodies erases the bodies of a key, an organization or a project.
func (h bodyHandlers) deleteBodies(w http.ResponseWriter, r *http.Request) error {
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
	return h.erase(w, r, query.Encode(), q)
}

// erase deletes bodies. The audit log says it first, so that there is no deletion without an entry.
func (h bodyHandlers) erase(w http.ResponseWriter, r *http.Request, name string, q ledger.BodiesQuery) error {
	about, err := h.tenantsOfBodies(r.Context(), q)
	if err != nil {
		return err
	}
	if err := h.note(r.Context(), actionDelete, kindBodies, name, "", about...); err != nil {
		return err
	}
	deleted := adminapi.DeletedBodies{}
	if h.config.Bodies != nil {
		if deleted.Deleted, err = h.config.Bodies.Erase(r.Context(), q); err != nil {
			return bodiesError(err)
		}
	}
	return httpapi.WriteJSON(w, http.StatusOK, deleted)
}

// tenantsOfBodies returns the tenants that have the bodies of a query.
func (h bodyHandlers) tenantsOfBodies(ctx context.Context, q ledger.BodiesQuery) ([]authz.Tenant, error) {
	switch {
	case q.Organization != "":
		return authz.Within(q.Organization, q.Project), nil
	case q.Key != "":
		_, keys := h.config.Plane.Keys()
		return authz.SeersOf(keys[q.Key]), nil
	case h.config.Ledger == nil:
		return nil, nil
	}
	e, _, err := h.config.Ledger.Exchange(ctx, q.ID)
	if err != nil {
		return nil, ledger.Unavailable(err)
	}
	return authz.Within(e.Organization, e.Project), nil
}

// maxUser bounds the name of a user, in bytes.
const maxUser = 512

// eraseUser erases what is recorded of a user. The audit log says it first, so that there is no erasure without an
// entry, and does not name the user, who would be in it for as long as it is kept. Who asks again erases what has come
// since.
func (h bodyHandlers) eraseUser(w http.ResponseWriter, r *http.Request) error {
	var asked adminapi.ErasureRequest
	if err := decodeBody(w, r, &asked); err != nil {
		return err
	}
	if asked.User == "" || len(asked.User) > maxUser {
		return openai.CodeInvalidValue.On("user", "The member user must be a text of 1 to %d bytes.", maxUser)
	}
	ctx := r.Context()
	dryRun, err := boolOf(r, "dry_run")
	if err != nil {
		return err
	}
	if dryRun {
		found, err := h.config.Ledger.UserData(ctx, asked.User)
		if err != nil {
			return ledger.Unavailable(err)
		}
		return httpapi.WriteJSON(w, http.StatusOK, adminapi.Erasure{UserData: found})
	}
	erasure := adminapi.Erasure{ID: id.New("era")}
	if err := h.note(ctx, "erase", "UserData", erasure.ID, ""); err != nil {
		return err
	}
	var bodies int64
	if h.config.Bodies != nil {
		if bodies, err = h.config.Bodies.Erase(ctx, ledger.BodiesQuery{User: asked.User}); err != nil {
			return bodiesError(err)
		}
	}
	erased, err := h.config.Ledger.EraseUser(ctx, asked.User)
	if err != nil {
		return ledger.Unavailable(err)
	}
	erasure.UserData = erased
	erasure.Bodies = bodies
	return httpapi.WriteJSON(w, http.StatusOK, erasure)
}
