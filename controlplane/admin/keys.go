package admin

import (
	"context"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"
	"google.golang.org/protobuf/types/known/timestamppb"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/auth"
	"github.com/modelgate/modelgate/internal/httpapi"
	"github.com/modelgate/modelgate/internal/id"
	"github.com/modelgate/modelgate/internal/secret"
)

func (s *server) createKey(w http.ResponseWriter, r *http.Request) error {
	body, err := httpapi.ReadBody(w, r, maxBody)
	if err != nil {
		return err
	}
	var asked adminapi.KeyRequest
	if err := json.Unmarshal(body, &asked, json.RejectUnknownMembers(true)); err != nil {
		return openai.BadRequest("", "invalid_json", "The body of your request is not a JSON object as it is needed here: %v.", err)
	}
	name, key, err := s.newKey(r.Context(), asked)
	if err != nil {
		return err
	}
	return httpapi.WriteJSON(w, http.StatusCreated, adminapi.NewKey{ID: name, Key: key.Reveal()})
}

// newKey makes a key and stores its hash. Nothing but the caller has the key itself.
func (s *server) newKey(ctx context.Context, asked adminapi.KeyRequest) (name string, key secret.Value, err error) {
	switch now := time.Now(); {
	case asked.DisplayName == "":
		return "", key, openai.BadRequest("display_name", "missing", "Give the key a display_name, by which people recognise it.")
	case asked.ExpiresAt != nil && !asked.ExpiresAt.After(now):
		return "", key, openai.BadRequest("expires_at", "invalid_value", "The key would already be expired: expires_at must be in the future.")
	}
	key = auth.Generate()
	hash := s.config.Hasher.Hash(key.Reveal())
	object := &configv1.Key{
		Name:         id.New("key"),
		DisplayName:  asked.DisplayName,
		Hash:         hash[:],
		Hint:         auth.Hint(key),
		Organization: asked.Organization,
		Project:      asked.Project,
		Models:       asked.Models,
		CreatedAt:    timestamppb.New(time.Now().Truncate(time.Second)),
	}
	if asked.ExpiresAt != nil {
		object.ExpiresAt = timestamppb.New(*asked.ExpiresAt)
	}
	if errs := configv1.Validate(object, s.config.Vendors); len(errs) > 0 {
		return "", key, errs
	}
	if _, err := s.config.Store.Put(ctx, object, 0); err != nil {
		return "", key, err
	}
	return object.GetName(), key, nil
}
