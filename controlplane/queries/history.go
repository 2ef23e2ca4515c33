package queries

import (
	"context"
	"errors"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/audit"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/controlplane/config"
)

// A History answers questions about what objects were.
type History struct{ config *config.Service }

// Versions returns the newest versions of an object, newest first, for those who may see everything.
func (h History) Versions(ctx context.Context, kind configv1.Kind, name string) ([]adminapi.Version, error) {
	if !audit.HasVersions(kind) {
		return nil, nil
	}
	page, err := h.config.Versions(ctx, config.Ref{Kind: kind, Name: name}, 0)
	return page.Items, err
}

// Undoes reports whether a rollback of an object would change anything, if somebody with all rights asked for it.
func (h History) Undoes(ctx context.Context, kind configv1.Kind, name string, revision int64) (bool, error) {
	ctx = authz.WithPrincipal(ctx, authz.Principal{Scopes: []authz.Scope{authz.Everything}})
	plan, err := h.config.RollBackObject(ctx, config.Ref{Kind: kind, Name: name}, revision, true)
	_, refused := errors.AsType[*openai.Error](err)
	_, invalid := errors.AsType[configv1.Errors](err)
	if refused || invalid {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return adminapi.Changing(plan.Changes), nil
}
