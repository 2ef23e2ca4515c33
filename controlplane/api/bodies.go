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
		{operation: onBodies(h.readBodies), scope: authz.BodiesRead},
		{operation: onDeleteBodiesOfRequest(h.deleteBodiesOf), scope: authz.BodiesDelete},
		{operation: onDeleteBodies(h.deleteBodies), scope: authz.BodiesDelete, timeout: applyTimeout},
		{operation: onEraseUser(h.eraseUser), scope: authz.Everything, needs: h.hasLedger, timeout: applyTimeout},
	}
}

// readBodies shows the bodies of an exchange to those who may see them. Nobody sees any that is not in the audit log.
func (h bodyHandlers) readBodies(ctx context.Context, id string) (answer adminapi.Bodies, err error) {
	if h.config.Bodies == nil {
		return answer, noBodies()
	}
	found, err := h.config.Bodies.Read(ctx, id)
	if errors.Is(err, bodies.ErrNone) {
		return answer, noBodies()
	}
	if err != nil {
		return answer, bodiesError(err)
	}
	about := authz.Within(found.GetOrganization(), found.GetProject())
	if err := h.note(ctx, actionLook, kindBodies, id, "", about...); err != nil {
		return answer, err
	}
	return adminapi.Bodies{
		ID: found.GetId(), Start: found.GetStart().AsTime(), Key: found.GetKey(), Organization: found.GetOrganization(),
		Project: found.GetProject(), Expires: found.GetStart().AsTime().Add(found.GetRetention().AsDuration()),
		Request: bodyOf(found.GetRequest()), Answer: bodyOf(found.GetAnswer()),
	}, nil
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
func (h bodyHandlers) deleteBodiesOf(ctx context.Context, id string) (adminapi.DeletedBodies, error) {
	return h.erase(ctx, "exchange="+id, ledger.BodiesQuery{ID: id})
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
	deleted, err := h.erase(r.Context(), query.Encode(), q)
	if err != nil {
		return err
	}
	return httpapi.WriteJSON(w, http.StatusOK, deleted)
}

// erase deletes bodies. The audit log says it first, so that there is no deletion without an entry.
func (h bodyHandlers) erase(ctx context.Context, name string,
	q ledger.BodiesQuery) (deleted adminapi.DeletedBodies, err error) {
	about, err := h.tenantsOfBodies(ctx, q)
	if err != nil {
		return deleted, err
	}
	if err := h.note(ctx, actionDelete, kindBodies, name, "", about...); err != nil {
		return deleted, err
	}
	if h.config.Bodies != nil {
		if deleted.Deleted, err = h.config.Bodies.Erase(ctx, q); err != nil {
			return deleted, bodiesError(err)
		}
	}
	return deleted, nil
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
func (h bodyHandlers) eraseUser(ctx context.Context, asked adminapi.ErasureRequest,
	dryRun bool) (erasure adminapi.Erasure, err error) {
	if asked.User == "" || len(asked.User) > maxUser {
		return erasure, openai.CodeInvalidValue.On("user", "The member user must be a text of 1 to %d bytes.", maxUser)
	}
	if dryRun {
		erasure.UserData, err = fromLedger(h.config.Ledger.UserData(ctx, asked.User))
		return erasure, err
	}
	erasure.ID = id.New("era")
	if err := h.note(ctx, "erase", "UserData", erasure.ID, ""); err != nil {
		return erasure, err
	}
	var bodies int64
	if h.config.Bodies != nil {
		if bodies, err = h.config.Bodies.Erase(ctx, ledger.BodiesQuery{User: asked.User}); err != nil {
			return erasure, bodiesError(err)
		}
	}
	erasure.UserData, err = fromLedger(h.config.Ledger.EraseUser(ctx, asked.User))
	erasure.Bodies = bodies
	return erasure, err
}
