package api

import (
	"net/http"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/controlplane/config"
	"github.com/modelgate/modelgate/internal/httpapi"
)

// keyHandlers make keys and tokens.
type keyHandlers struct{ *server }

func (h keyHandlers) routes() []route {
	return []route{
		{operation: onCreateKey(h.createKey), scope: authz.KeysWrite, tenants: checked},
		{operation: onRotateKey(h.rotateKey), scope: authz.KeysWrite, tenants: checked},
		{operation: onKeyConsumption(h.queries.Consumption), scope: authz.KeysRead, needs: h.hasLedger, tenants: checked},
		{operation: onCreateToken(h.createToken), scope: authz.AdminsWrite},
	}
}

// createKey makes a key and stores its hash. Nothing but the answer has the key itself.
func (h keyHandlers) createKey(w http.ResponseWriter, r *http.Request) error {
	object, err := h.body(w, r, configv1.KeyKind()) // a KeyRequest has members of a Key
	if err != nil {
		return err
	}
	missing, err := boolOf(r, "create_missing")
	if err != nil {
		return err
	}
	dryRun, err := boolOf(r, "dry_run")
	if err != nil {
		return err
	}
	asked := object.(*configv1.Key)
	done, key, err := h.changes.CreateKey(r.Context(), asked, missing, dryRun)
	if err != nil {
		return err
	}
	of := config.Ref{Kind: configv1.KeyKind(), Name: asked.GetName()}
	made := adminapi.NewKey{ID: asked.GetName(), Key: key.Reveal()}
	if made.Approval = done.Waits(of); made.Approval != nil && !dryRun {
		made.Pending = true
		return httpapi.WriteJSON(w, http.StatusAccepted, made)
	}
	return h.answerMade(w, r, done, of, dryRun, made)
}

// rotateKey puts another key in the place of one. The old one stays good for the time of grace.
func (h keyHandlers) rotateKey(w http.ResponseWriter, r *http.Request) error {
	var asked adminapi.RotateRequest
	if err := decodeBody(w, r, &asked); err != nil {
		return err
	}
	dryRun, err := boolOf(r, "dry_run")
	if err != nil {
		return err
	}
	done, key, err := h.changes.RotateKey(r.Context(), r.PathValue("id"), asked.Grace, dryRun, preconditionOf(r))
	if err != nil {
		return err
	}
	if dryRun {
		return writeChanges(w, done)
	}
	if err := h.await(w, r, done); err != nil {
		return err
	}
	w.Header().Set("ETag", etag(done.Revision))
	return httpapi.WriteJSON(w, http.StatusOK, adminapi.NewKey{ID: r.PathValue("id"), Key: key.Reveal()})
}

// createToken makes a token of administration. Nothing but the answer has the token itself.
func (h keyHandlers) createToken(w http.ResponseWriter, r *http.Request) error {
	// a TokenRequest has members of an AdminToken
	object, err := h.body(w, r, configv1.KindOf((*configv1.AdminToken)(nil)))
	if err != nil {
		return err
	}
	dryRun, err := boolOf(r, "dry_run")
	if err != nil {
		return err
	}
	asked := object.(*configv1.AdminToken)
	done, token, err := h.changes.CreateToken(r.Context(), asked, dryRun)
	if err != nil {
		return err
	}
	return h.answerMade(w, r, done, config.Ref{Kind: configv1.KindOf(asked), Name: asked.GetName()}, dryRun,
		adminapi.NewToken{ID: asked.GetName(), Token: token.Reveal()})
}
