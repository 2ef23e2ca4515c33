package dashboard_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// alarms are the alerts of a control plane. A test sets them before its first request.
type alarms struct {
	all     adminapi.Alerts
	history []adminapi.AlertEvent
	tested  adminapi.AlertTest
}

func (a *alarms) Alerts(context.Context) (adminapi.Alerts, error) { return a.all, nil }

func (a *alarms) History(context.Context) ([]adminapi.AlertEvent, error) { return a.history, nil }

func (a *alarms) Test(context.Context, *configv1.AlertReceiver) adminapi.AlertTest { return a.tested }

func TestThePageOfAlertsSaysWhatFiresAndWhoWasTold(t *testing.T) {
	b := newBench(t)
	at := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	b.alarms.all = adminapi.Alerts{Items: []adminapi.Alert{{Rule: "failing", Subject: "provider/openai",
		State: adminapi.AlertFiring, Since: at, Message: "3 of 4 attempts failed."}},
		Receivers: []adminapi.AlertReceiverStatus{{Name: "ops", Kind: "webhook", Waiting: 2, Error: "status 500"}}}
	b.alarms.history = []adminapi.AlertEvent{{At: at, Type: adminapi.AlertFired, Rule: "failing",
		Subject: "provider/openai", Message: "3 of 4 attempts failed.", Deliveries: []adminapi.AlertDelivery{
			{Receiver: "ops", State: adminapi.DeliveryGivenUp, Error: "status 410"}}}}
	owner := b.owner(t)
	for _, document := range []string{"kind: AlertReceiver\nname: ops\nwebhook: {url: 'https://hooks.example/'}\n" +
		"credential: {value: whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw}\n",
		"kind: AlertRule\nname: failing\ncondition: PROVIDER_FAILING\nreceivers: [ops]\n"} {
		kind := map[bool]string{true: "AlertReceiver", false: "AlertRule"}[document[:19] == "kind: AlertReceiver"]
		require.Equal(t, 303, owner.post("/objects/"+kind, "action", "save", "text", document).status)
	}
	page := text(owner.get("/alerts").body)
	for _, part := range []string{"provider/openai", "3 of 4 attempts failed.", "firing", "failing", "PROVIDER_FAILING",
		"ops", "webhook", "status 500", "given_up", "status 410", "Send a test message"} {
		require.Contains(t, page, part)
	}
	b.alarms.tested = adminapi.AlertTest{Message: "The receiver answered with status 403."}
	require.Contains(t, owner.post("/alerts/ops/test").body,
		`<p class="problem" role="status">ops: The receiver answered with status 403.</p>`)
	b.alarms.tested = adminapi.AlertTest{OK: true, Message: "Delivered."}
	require.Contains(t, owner.post("/alerts/ops/test").body, `<p class="notice" role="status">ops: Delivered.</p>`)

	viewer := b.person(t, owner, "vera", "VIEWER")
	seen := text(viewer.get("/alerts").body)
	require.Contains(t, seen, "3 of 4 attempts failed.")
	require.NotContains(t, seen, "Send a test message")
	require.Equal(t, 403, viewer.post("/alerts/ops/test").status)
}
