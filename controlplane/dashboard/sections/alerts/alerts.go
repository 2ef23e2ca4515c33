// Package alerts is the page of alerts, their rules and their receivers.
//
// A test message goes to the real receiver.
package alerts

import (
	"embed"
	"net/http"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/controlplane/dashboard/page"
)

//go:embed *.html
var templates embed.FS

// Section returns the page.
func Section() page.Section {
	return page.Section{
		Place: 30,
		Lines: []page.Line{
			{Group: page.GroupOverview, Path: "/alerts", Name: "Alerts", Scope: authz.StatusRead},
		},
		Routes: []page.Route{
			page.Get("/alerts", authz.StatusRead, show),
			page.Post("/alerts/{receiver}/test", authz.ConfigWrite, test),
		},
		Templates: templates,
	}
}

// An alertData is what the page of alerts shows.
type alertData struct {
	adminapi.Alerts
	History []adminapi.AlertEvent
	Older   bool // whether there are events that are not shown
	Rules   []*configv1.AlertRule
	// Tested is the receiver that was sent a test message, and Test what came of it.
	Tested string
	Test   *adminapi.AlertTest
	Away   string
}

// shownEvents is how many events the page shows.
const shownEvents = 50

func show(v *page.Visit, w http.ResponseWriter, r *http.Request) error {
	data, err := read(v, r)
	if err != nil {
		return err
	}
	return v.Render(w, "alerts", "Alerts", data)
}

// test sends a test message and shows what came of it.
func test(v *page.Visit, w http.ResponseWriter, r *http.Request) error {
	sent, err := v.API.TestAlert(r.Context(), r.PathValue("receiver"))
	if message, ok := page.Refused(err); ok {
		sent, err = adminapi.AlertTest{Message: message}, nil
	}
	if err != nil {
		return err
	}
	data, err := read(v, r)
	if err != nil {
		return err
	}
	data.Tested, data.Test = r.PathValue("receiver"), &sent
	return v.Render(w, "alerts", "Alerts", data)
}

func read(v *page.Visit, r *http.Request) (data alertData, err error) {
	if data.Alerts, err = v.API.Alerts(r.Context()); err == nil {
		var history adminapi.AlertHistory
		history, err = v.API.AlertHistory(r.Context())
		data.History = history.Items[:min(len(history.Items), shownEvents)]
		data.Older = len(history.Items) > shownEvents
	}
	if data.Away, err = page.Unavailable(err); err != nil || !v.Principal.May(authz.ConfigRead) {
		return data, err
	}
	items, err := v.API.List(r.Context(), configv1.KindOf((*configv1.AlertRule)(nil)))
	for _, item := range items {
		if rule, ok := item.Object.(*configv1.AlertRule); ok {
			data.Rules = append(data.Rules, rule)
		}
	}
	return data, err
}
