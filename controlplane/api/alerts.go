package api

import (
	"context"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/authz"
)

// alertHandlers show and test alerts.
type alertHandlers struct{ *server }

func (h alertHandlers) routes() []route {
	return []route{
		{operation: onAlerts(h.alerts), scope: authz.StatusRead, needs: h.hasAlerts},
		{operation: onAlertHistory(h.alertHistory), scope: authz.StatusRead, needs: h.hasAlerts},
		{operation: onTestAlert(h.testAlert), scope: authz.ConfigWrite, needs: h.hasAlerts, timeout: 20 * time.Second},
	}
}

// hasAlerts returns an error if there are no alerts.
func (h alertHandlers) hasAlerts() error {
	if h.config.Alerts == nil {
		return openai.CodeNotFound.New("This control plane has no alerts.")
	}
	return nil
}

func (h alertHandlers) alerts(ctx context.Context) (adminapi.Alerts, error) {
	return h.config.Alerts.Alerts(ctx)
}

func (h alertHandlers) alertHistory(ctx context.Context) (adminapi.AlertHistory, error) {
	all, err := h.config.Alerts.History(ctx)
	return adminapi.AlertHistory{Items: all}, err
}

// testAlert uses the credential of the receiver, and so takes the scope of those who may change the receiver.
func (h alertHandlers) testAlert(ctx context.Context, name string) (adminapi.AlertTest, error) {
	entry, err := h.config.Store.Get(ctx, configv1.KindOf((*configv1.AlertReceiver)(nil)), name)
	if err != nil {
		return adminapi.AlertTest{}, err
	}
	receiver, ok := entry.Object.(*configv1.AlertReceiver)
	if !ok {
		return adminapi.AlertTest{Message: unreadable(entry)}, nil
	}
	return h.config.Alerts.Test(ctx, receiver), nil
}
