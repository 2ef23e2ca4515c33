package admin

import (
	"net/http"

	"github.com/go-json-experiment/json"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/config"
	"github.com/modelgate/modelgate/internal/httpapi"
)

// createKey makes a key and stores its hash. Nothing but the answer has the key itself.
func (s *server) createKey(w http.ResponseWriter, r *http.Request) error {
	object, err := s.body(w, r, configv1.KeyKind()) // a KeyRequest has members of a Key
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
	done, key, err := s.changes.CreateKey(r.Context(), asked, missing, dryRun)
	if err != nil {
		return err
	}
	of := config.Ref{Kind: configv1.KeyKind(), Name: asked.GetName()}
	made := adminapi.NewKey{ID: asked.GetName(), Key: key.Reveal()}
	if made.Approval = done.Waits(of); made.Approval != nil && !dryRun {
		made.Pending = true
		return httpapi.WriteJSON(w, http.StatusAccepted, made)
	}
	return s.answerMade(w, r, done, of, dryRun, made)
}

// answerMade answers with what was made, or the changes of a dry run.
func (s *server) answerMade(w http.ResponseWriter, r *http.Request, done *config.Plan, of config.Ref, dryRun bool,
	made any) error {
	if dryRun {
		return writeChanges(w, done)
	}
	if err := s.await(w, r, done); err != nil {
		return err
	}
	w.Header().Set("Location", locationOf(of))
	w.Header().Set("ETag", etag(done.Revision))
	return httpapi.WriteJSON(w, http.StatusCreated, made)
}

// rotateKey puts another key in the place of one. The old one stays good for the time of grace.
func (s *server) rotateKey(w http.ResponseWriter, r *http.Request) error {
	var asked adminapi.RotateRequest
	if err := decodeBody(w, r, &asked); err != nil {
		return err
	}
	dryRun, err := boolOf(r, "dry_run")
	if err != nil {
		return err
	}
	done, key, err := s.changes.RotateKey(r.Context(), r.PathValue("id"), asked.Grace, dryRun, preconditionOf(r))
	if err != nil {
		return err
	}
	if dryRun {
		return writeChanges(w, done)
	}
	if err := s.await(w, r, done); err != nil {
		return err
	}
	w.Header().Set("ETag", etag(done.Revision))
	return httpapi.WriteJSON(w, http.StatusOK, adminapi.NewKey{ID: r.PathValue("id"), Key: key.Reveal()})
}

// decodeBody reads a body with the members of v and no others. An absent body is an empty object.
func decodeBody(w http.ResponseWriter, r *http.Request, v any) error {
	body, err := httpapi.ReadBody(w, r, maxBody)
	if err != nil || len(body) == 0 {
		return err
	}
	if err := json.Unmarshal(body, v, json.RejectUnknownMembers(true)); err != nil {
		return openai.CodeInvalidJSON.New(
			"The body of your request is not a valid JSON object for this operation: %v.", err)
	}
	return nil
}

// createToken makes a token of administration. Nothing but the answer has the token itself.
func (s *server) createToken(w http.ResponseWriter, r *http.Request) error {
	// a TokenRequest has members of an AdminToken
	object, err := s.body(w, r, configv1.KindOf((*configv1.AdminToken)(nil)))
	if err != nil {
		return err
	}
	dryRun, err := boolOf(r, "dry_run")
	if err != nil {
		return err
	}
	asked := object.(*configv1.AdminToken)
	done, token, err := s.changes.CreateToken(r.Context(), asked, dryRun)
	if err != nil {
		return err
	}
	return s.answerMade(w, r, done, config.Ref{Kind: configv1.KindOf(asked), Name: asked.GetName()}, dryRun,
		adminapi.NewToken{ID: asked.GetName(), Token: token.Reveal()})
}
