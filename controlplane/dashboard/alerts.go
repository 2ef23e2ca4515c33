package dashboard

import (
	"net/http"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/admin"
)

// An alertData is what the page of alerts shows.
type alertData struct {
	adminapi.Alerts
	History []adminapi.AlertEvent
	Rules   []*configv1.AlertRule
	// Tested is the receiver that was sent a test message, and Test what came of it.
	Tested string
	Test   *adminapi.AlertTest
	Away   string
}

// shownEvents is how many events the page shows.
const shownEvents = 50

func (v *visit) alerts(w http.ResponseWriter, r *http.Request) error {
	data, err := v.alertData(r)
	if err != nil {
		return err
	}
	return v.render(w, "alerts", "Alerts", data)
}

// testAlert sends a test message and shows what came of it.
func (v *visit) testAlert(w http.ResponseWriter, r *http.Request) error {
	test, err := v.api.TestAlert(r.Context(), r.PathValue("receiver"))
	if message, ok := refused(err); ok {
		test, err = adminapi.AlertTest{Message: message}, nil
	}
	if err != nil {
		return err
	}
	data, err := v.alertData(r)
	if err != nil {
		return err
	}
	data.Tested, data.Test = r.PathValue("receiver"), &test
	return v.render(w, "alerts", "Alerts", data)
}

func (v *visit) alertData(r *http.Request) (data alertData, err error) {
	if data.Alerts, err = v.api.Alerts(r.Context()); err == nil {
		var history adminapi.AlertHistory
		history, err = v.api.AlertHistory(r.Context())
		data.History = history.Items[:min(len(history.Items), shownEvents)]
	}
	if data.Away, err = away(err); err != nil || !v.principal.May(admin.ConfigRead) {
		return data, err
	}
	items, err := v.api.List(r.Context(), kindNamed("alertrules"))
	for _, item := range items {
		if rule, ok := item.Object.(*configv1.AlertRule); ok {
			data.Rules = append(data.Rules, rule)
		}
	}
	return data, err
}
