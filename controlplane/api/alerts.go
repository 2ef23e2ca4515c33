package api

import (
	"net/http"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/internal/httpapi"
)

// alertHandlers show and test alerts.
type alertHandlers struct{ *server }

func (h alertHandlers) routes() []route {
	return []route{
		{pattern: "GET /admin/v1/alerts", scope: authz.StatusRead, handler: h.withAlerts(h.alerts)},
		{pattern: "GET /admin/v1/alerts/history", scope: authz.StatusRead, handler: h.withAlerts(h.alertHistory)},
		{pattern: "POST /admin/v1/alerts/{receiver}/test", scope: authz.ConfigWrite, handler: h.withAlerts(h.testAlert),
			timeout: 20 * time.Second},
	}
}

// withAlerts has a handler answer only where there are alerts.
func (h alertHandlers) withAlerts(f httpapi.HandlerFunc) httpapi.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) error {
		if h.config.Alerts == nil {
			return openai.CodeNotFound.New("This control plane has no alerts.")
		}
		return f(w, r)
	}
}

func (h alertHandlers) alerts(w http.ResponseWriter, r *http.Request) error {
	all, err := h.config.Alerts.Alerts(r.Context())
	if err != nil {
		return err
	}
	return httpapi.WriteJSON(w, http.StatusOK, all)
}

func (h alertHandlers) alertHistory(w http.ResponseWriter, r *http.Request) error {
	all, err := h.config.Alerts.History(r.Context())
	if err != nil {
		return err
	}
	return httpapi.WriteJSON(w, http.StatusOK, adminapi.AlertHistory{Items: all})
}

// testAlert uses the credential of the receiver, and so takes the scope of those who may change the receiver.
func (h alertHandlers) testAlert(w http.ResponseWriter, r *http.Request) error {
	kind := configv1.KindOf((*configv1.AlertReceiver)(nil))
	entry, err := h.config.Store.Get(r.Context(), kind, r.PathValue("receiver"))
	if err != nil {
		return err
	}
	receiver, ok := entry.Object.(*configv1.AlertReceiver)
	if !ok {
		return httpapi.WriteJSON(w, http.StatusOK, adminapi.AlertTest{Message: "The stored object cannot be read: " +
			entry.Err.Error()})
	}
	return httpapi.WriteJSON(w, http.StatusOK, h.config.Alerts.Test(r.Context(), receiver))
}
