package responses

import (
	"context"
	"errors"
	"net/http"

	"go.uber.org/zap"

	"github.com/modelgate/modelgate/jobsvc/items"
	"github.com/modelgate/modelgate/jobsvc/rest"
	"github.com/modelgate/modelgate/jobsvc/store"
)

// storedCopies is how often the stored part of a conversation is in memory: as it was read, and in the request to the
// provider.
const storedCopies = 2

func (s *Service) create(w http.ResponseWriter, r *http.Request, c rest.Caller) error {
	t, err := s.receive(w, r, c)
	if err != nil {
		return err
	}
	if err := s.admit(r.Context(), t); err != nil {
		return err
	}
	if t.background {
		return s.enqueue(w, r, t)
	}
	return s.relay(w, r, t)
}

// receive reads a request and what it refers to, as far as there is room for it in memory.
func (s *Service) receive(w http.ResponseWriter, r *http.Request, c rest.Caller) (*turn, error) {
	settings, err := s.settings()
	if err != nil {
		return nil, err
	}
	q, err := parse(w, r)
	if err != nil {
		return nil, err
	}
	return s.resolve(r.Context(), q, c, settings)
}

// admit refuses, before a provider is asked, a response that could not be stored. A response that the client has not
// asked to store is then made without it, unless a quota refuses it.
func (s *Service) admit(ctx context.Context, t *turn) error {
	if !t.store {
		return nil
	}
	txn := s.Store.BeginCreation()
	txn.Within(t.caller.Bounds)
	txn.Count(t.caller.Owner(), amounts(items.Size(t.items)))
	err := txn.Fits(ctx)
	if _, over := errors.AsType[*store.QuotaError](err); over || err == nil || t.explicit {
		return err
	}
	s.Log.Warn("a response is not stored", zap.Error(err))
	t.store = false
	return nil
}
