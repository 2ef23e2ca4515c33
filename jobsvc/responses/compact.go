package responses

import (
	"context"
	"maps"
	"net/http"
	"slices"

	"github.com/modelgate/modelgate/internal/inflight"
	"github.com/modelgate/modelgate/jobsvc/gateway"
	"github.com/modelgate/modelgate/jobsvc/rest"
)

// compact passes a request for a shorter form of a stored conversation, and its answer. Nothing is stored.
func (s *Service) compact(w http.ResponseWriter, r *http.Request, c rest.Caller) error {
	settings, err := s.settings()
	if err != nil {
		return err
	}
	var held inflight.Hold
	defer held.Release()
	if err := s.hold(&held, c, r.ContentLength); err != nil {
		return err
	}
	q, err := parse(w, r)
	if err != nil {
		return err
	}
	t, err := s.resolve(r.Context(), q, c, settings, func(bytes int64) error {
		return s.hold(&held, c, int64(len(q.body))+bytes)
	})
	if err != nil {
		return err
	}
	with := []member{{"model", text(q.model)}}
	for _, name := range slices.Sorted(maps.Keys(q.rest)) {
		with = append(with, member{name, q.rest[name]})
	}
	body := replaced(nil, append(with, member{"input", array(sendable(t.items, t.native))})...)
	ctx, cancel := context.WithTimeout(traced(r), s.Limits.Answer)
	defer cancel()
	answer, err := s.Gateway.Ask(ctx, gateway.Ask{Key: c.Key, Method: http.MethodPost, Path: path + "/compact",
		Header: costOf(r), Body: body})
	if err != nil {
		return unreachable(err)
	}
	defer func() { _ = answer.Body.Close() }() // it was read as far as it matters
	passHeaders(w.Header(), answer.Header)
	return pass(w, answer)
}
