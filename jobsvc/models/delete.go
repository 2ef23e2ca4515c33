package models

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/configstore"
	"github.com/modelgate/modelgate/internal/httpapi"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/timing"
	"github.com/modelgate/modelgate/jobsvc/finetuning"
	"github.com/modelgate/modelgate/jobsvc/rest"
	"github.com/modelgate/modelgate/jobsvc/store"
)

const (
	deleteTimeout = time.Minute
	storeTimeout  = 5 * time.Second
	// pollInterval is the interval at which the gateway is asked whether it still has a model.
	pollInterval = 20 * time.Millisecond
)

type deleted struct {
	ID      string `json:"id"`
	Object  string `json:"object"` // model
	Deleted bool   `json:"deleted"`
}

// delete deletes a fine-tuned model of the caller, first at its provider. If the provider does not answer, nothing
// is deleted. If the caller cannot see the model, the answer is the same as GET's. If the caller can see it but
// does not own it, the answer says so.
func (s *Service) delete(w http.ResponseWriter, r *http.Request, c rest.Caller) error {
	name := r.PathValue("id")
	seen, err := s.Gateway.MayUse(r.Context(), c.Key, name)
	if err != nil {
		return httpapi.WithCause(unavailable("The gateway cannot look up the model at the moment. Please retry."), err)
	}
	if !seen {
		return notFound(name)
	}
	m, revision, err := s.get(r.Context(), name)
	if err != nil {
		return err
	}
	if current := s.Config(); m == nil && current != nil && current.Models[name].GetFineTuned() != nil {
		return notFound(name) // it was deleted just now, and the gateway does not know yet
	}
	if m.GetFineTuned() == nil || c.Tenant != (store.Tenant{Organization: m.GetOrganization(), Project: m.GetProject()}) {
		return openai.CodeInsufficientPermissions.New("You have insufficient permissions for this operation: only fine-tuned models can be deleted, with a key of the project that trained them. '%s' is not one of yours.", name)
	}
	if err := s.unfinished(r.Context(), c.Tenant, m); err != nil {
		return err
	}
	if err := s.deleteAtProvider(r.Context(), m); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), storeTimeout)
	defer cancel()
	_, err = s.Objects.Delete(ctx, configv1.KindOf(m), name, revision)
	switch {
	case errors.Is(err, configstore.ErrConflict): // somebody else changed or deleted it just now
		return store.ErrConflict
	case err != nil:
		return err
	}
	s.awaitRemoval(r.Context(), c.Key, name)
	return httpapi.WriteJSON(w, http.StatusOK, deleted{name, "model", true})
}

// awaitRemoval waits until the gateway does not have a model any more, so that the client that gets the answer cannot
// call it. It gives up after a while, because the model is deleted in any case.
func (s *Service) awaitRemoval(ctx context.Context, key, name string) {
	ctx, cancel := context.WithTimeout(ctx, s.Vanish)
	defer cancel()
	_ = timing.Until(ctx, pollInterval, func() bool {
		known, err := s.Gateway.MayUse(ctx, key, name)
		return err == nil && !known
	})
}

// get returns a Model and its revision, or nil if there is none.
func (s *Service) get(ctx context.Context, name string) (*configv1.Model, int64, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	e, err := s.Objects.Get(ctx, configv1.KindOf((*configv1.Model)(nil)), name)
	if errors.Is(err, configstore.ErrNotFound) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	m, ok := e.Object.(*configv1.Model)
	if !ok {
		return nil, 0, fmt.Errorf("model %s: %w", name, e.Err)
	}
	return m, e.Revision, nil
}

// unfinished refuses to delete a model whose job still creates models, because it would create this one again.
func (s *Service) unfinished(ctx context.Context, t store.Tenant, m *configv1.Model) error {
	job, err := finetuning.Kind.Get(ctx, s.Store, t, m.GetFineTuned().GetJob())
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil
	case err != nil:
		return err
	case !job.Value.Status.Over():
		return unavailable("The fine-tuning job of the model is just being finished. Please retry.")
	}
	return nil
}

// deleteAtProvider deletes a model at its provider, if the provider supports that and no other Model uses it.
func (s *Service) deleteAtProvider(ctx context.Context, m *configv1.Model) error {
	current := s.Config()
	if current == nil {
		return unavailable("The gateway has no configuration yet. Please retry.")
	}
	ctx, cancel := context.WithTimeout(ctx, deleteTimeout)
	defer cancel()
	for _, target := range m.GetTargets() {
		p := current.Providers[target.GetProvider()]
		if p == nil || shared(current.Models, m, target) {
			continue
		}
		deleter, ok := p.Vendor.FineTuning.(provider.ModelDeleter)
		if !ok {
			continue
		}
		err := deleter.DeleteModel(ctx, s.Gateway.Provider(p), target.GetModel())
		if e, ok := errors.AsType[*openai.Error](err); ok && e.Status < http.StatusInternalServerError {
			return err // the client gets the provider's reason
		}
		if err != nil {
			return httpapi.WithCause(
				unavailable(fmt.Sprintf("The provider '%s' does not answer. Nothing was deleted. Please retry.",
					target.GetProvider())), err)
		}
	}
	return nil
}

// shared reports whether another Model has the same target.
func shared(all map[string]*configv1.Model, m *configv1.Model, target *configv1.Target) bool {
	for name, other := range all {
		for _, t := range other.GetTargets() {
			if name != m.GetName() && t.GetProvider() == target.GetProvider() && t.GetModel() == target.GetModel() {
				return true
			}
		}
	}
	return false
}

func notFound(name string) error {
	e := openai.ModelNotFound(name)
	e.Param = "model"
	return e
}

func unavailable(message string) *openai.Error {
	return openai.CodeGatewayUnavailable.New("%s", message).After(time.Second)
}
