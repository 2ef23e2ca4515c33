package responses

import (
	"context"
	"net/http"

	"github.com/modelgate/modelgate/jobsvc/gateway"
	"github.com/modelgate/modelgate/jobsvc/rest"
)

// compact passes a request for a shorter form of a stored conversation, and its answer. Nothing is stored.
func (s *Service) compact(w http.ResponseWriter, r *http.Request, c rest.Caller) error {
	t, err := s.receive(w, r, c)
	if err != nil {
		return err
	}
	body := t.with(t.items, t.native, set("model", text(t.model)))
	ctx, cancel := context.WithTimeout(traced(r), s.Limits.Answer)
	defer cancel()
	answer, err := s.Gateway.Ask(ctx, gateway.Ask{Key: c.Key, Project: c.Tenant.Project, Method: http.MethodPost,
		Path: path + "/compact", Header: costOf(r), Body: body})
	if err != nil {
		return unreachable(err)
	}
	defer func() { _ = answer.Body.Close() }() // it was read as far as it matters
	passHeaders(w.Header(), answer.Header)
	return pass(ctx, w, answer)
}
