package admin

import (
	"context"
	"net/http"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/httpapi"
)

// Alerts are what fires, and who is told. It must be safe for concurrent use.
type Alerts interface {
	// Alerts returns all alerts, and how the receivers are.
	Alerts(ctx context.Context) (adminapi.Alerts, error)
	// History returns the newest events, the newest first.
	History(ctx context.Context) ([]adminapi.AlertEvent, error)
	// Test sends a test message to a receiver and returns what came of it.
	Test(ctx context.Context, r *configv1.AlertReceiver) adminapi.AlertTest
}

// withAlerts has a handler answer only where there are alerts.
func (s *server) withAlerts(f httpapi.HandlerFunc) httpapi.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) error {
		if s.config.Alerts == nil {
			return openai.CodeNotFound.New("This control plane has no alerts.")
		}
		return f(w, r)
	}
}

func (s *server) alerts(w http.ResponseWriter, r *http.Request) error {
	all, err := s.config.Alerts.Alerts(r.Context())
	if err != nil {
		return err
	}
	return httpapi.WriteJSON(w, http.StatusOK, all)
}

func (s *server) alertHistory(w http.ResponseWriter, r *http.Request) error {
	all, err := s.config.Alerts.History(r.Context())
	if err != nil {
		return err
	}
	return httpapi.WriteJSON(w, http.StatusOK, adminapi.AlertHistory{Items: all})
}

// testAlert uses the credential of the receiver, and so takes the scope of those who may change the receiver.
func (s *server) testAlert(w http.ResponseWriter, r *http.Request) error {
	kind := configv1.KindOf((*configv1.AlertReceiver)(nil))
	entry, err := s.config.Store.Get(r.Context(), kind, r.PathValue("receiver"))
	if err != nil {
		return err
	}
	receiver, ok := entry.Object.(*configv1.AlertReceiver)
	if !ok {
		return httpapi.WriteJSON(w, http.StatusOK, adminapi.AlertTest{Message: "The stored object cannot be read: " +
			entry.Err.Error()})
	}
	return httpapi.WriteJSON(w, http.StatusOK, s.config.Alerts.Test(r.Context(), receiver))
}
