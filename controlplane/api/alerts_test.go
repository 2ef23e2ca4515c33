package api_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// alarms are alerts of which one is firing, or an error.
type alarms struct{ err error }

func (a *alarms) Alerts(context.Context) (adminapi.Alerts, error) {
	return adminapi.Alerts{Items: []adminapi.Alert{{Rule: "r", Subject: "provider/a"}}}, a.err
}

func (a *alarms) History(context.Context) ([]adminapi.AlertEvent, error) {
	return []adminapi.AlertEvent{{ID: "e"}}, a.err
}

func (a *alarms) Test(_ context.Context, r *configv1.AlertReceiver) adminapi.AlertTest {
	return adminapi.AlertTest{OK: true, Message: "told " + r.GetWebhook().GetUrl()}
}

func TestAlertsAreReadAndReceiversTested(t *testing.T) {
	b := newBench(t)
	known := &alarms{}
	b.config.Alerts = known
	all, err := b.client.Alerts(t.Context())
	require.NoError(t, err)
	require.Equal(t, "provider/a", all.Items[0].Subject)
	history, err := b.client.AlertHistory(t.Context())
	require.NoError(t, err)
	require.Equal(t, "e", history.Items[0].ID)

	_, err = b.client.TestAlert(t.Context(), "ops")
	require.ErrorContains(t, err, "AlertReceiver ops")
	require.Equal(t, 201, b.do(t, "PUT", "/admin/v1/alertreceivers/ops",
		`{"name":"ops","webhook":{"url":"https://hooks.example/"},"credential":{"value":"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}}`).status)
	test, err := b.client.TestAlert(t.Context(), "ops")
	require.NoError(t, err)
	require.Equal(t, adminapi.AlertTest{OK: true, Message: "told https://hooks.example/"}, test)
	_, err = b.etcd.Put(t.Context(), "/modelgate/v1/alertreceivers/broken", "x")
	require.NoError(t, err)
	test, err = b.client.TestAlert(t.Context(), "broken")
	require.NoError(t, err)
	require.False(t, test.OK)
	require.Contains(t, test.Message, "cannot be read")

	known.err = errors.New("away")
	require.Equal(t, 500, b.do(t, "GET", "/admin/v1/alerts", "").status)
}
