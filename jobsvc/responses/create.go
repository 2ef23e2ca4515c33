package responses

import (
	"context"
	"errors"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/inflight"
	"github.com/modelgate/modelgate/jobsvc/rest"
	"github.com/modelgate/modelgate/jobsvc/store"
)

// copies is how often a body is in memory while it is read, joined with its conversation, and sent.
const copies = 4

func (s *Service) create(w http.ResponseWriter, r *http.Request, c rest.Caller) error {
	var held inflight.Hold
	defer held.Release()
	t, err := s.receive(w, r, c, &held)
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
func (s *Service) receive(w http.ResponseWriter, r *http.Request, c rest.Caller, held *inflight.Hold) (*turn, error) {
	settings, err := s.settings()
	if err != nil {
		return nil, err
	}
	if err := s.hold(held, c, r.ContentLength); err != nil {
		return nil, err
	}
	q, err := parse(w, r)
	if err != nil {
		return nil, err
	}
	return s.resolve(r.Context(), q, c, settings, func(bytes int64) error {
		return s.hold(held, c, int64(len(q.body))+bytes)
	})
}

// hold takes room in memory for a body, or returns the error for the client.
func (s *Service) hold(h *inflight.Hold, c rest.Caller, bytes int64) error {
	if err := h.Grow(s.room, c.Key, copies*bytes); err != nil {
		return &openai.Error{Status: http.StatusServiceUnavailable, Type: openai.TypeServer,
			Code:    openai.CodeServerIsOverloaded,
			Message: "There is no memory left for this at the moment. Please try again later.", RetryAfter: time.Second}
	}
	return nil
}

// admit refuses, before a provider is asked, a response that could not be stored. A response that the client has not
// asked to store is then made without it, unless a quota refuses it.
func (s *Service) admit(ctx context.Context, t *turn) error {
	if !t.store {
		return nil
	}
	txn := s.Store.BeginCreation()
	txn.Within(t.caller.Bounds)
	txn.Count(t.caller.Owner(), amounts(size(t.items)))
	err := txn.Fits(ctx)
	if _, over := errors.AsType[*store.QuotaError](err); over || err == nil || t.explicit {
		return err
	}
	s.Log.Warn("a response is not stored", zap.Error(err))
	t.store = false
	return nil
}
