package configv1_test

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

func TestValidateAlertRule(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*configv1.AlertRule)
		field  string
	}{
		"minimal":              {func(*configv1.AlertRule) {}, ""},
		"no condition":         {func(r *configv1.AlertRule) { r.Condition = 0 }, "condition"},
		"a threshold too high": {func(r *configv1.AlertRule) { r.Threshold = proto.Float64(1001) }, "threshold"},
		"a threshold of no use": {func(r *configv1.AlertRule) {
			r.Condition, r.Threshold = configv1.AlertCondition_PROVIDER_FAILING, proto.Float64(1)
		}, "threshold"},
		"a scope of no use": {func(r *configv1.AlertRule) { r.Provider = "openai" }, "provider"},
		"incidents": {func(r *configv1.AlertRule) {
			r.Condition, r.Severity = configv1.AlertCondition_INCIDENT, "error"
		}, ""},
		"another severity": {func(r *configv1.AlertRule) {
			r.Condition, r.Severity = configv1.AlertCondition_INCIDENT, "fatal"
		}, "severity"},
		"a severity of no use": {func(r *configv1.AlertRule) { r.Severity = "error" }, "severity"},
		"a project alone":      {func(r *configv1.AlertRule) { r.Project = "web" }, "project"},
		"at once":              {func(r *configv1.AlertRule) { r.For = durationpb.New(0) }, ""},
		"a negative delay":     {func(r *configv1.AlertRule) { r.ClearAfter = durationpb.New(-time.Second) }, "clear_after"},
		"a receiver twice":     {func(r *configv1.AlertRule) { r.Receivers = []string{"a", "a"} }, "receivers[1]"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &configv1.AlertRule{Name: "r", Condition: configv1.AlertCondition_BUDGET_SPENT}
			c.change(r)
			requireField(t, r, c.field)
		})
	}
}

func TestValidateAlertReceiver(t *testing.T) {
	email := func(change func(*configv1.AlertEmail)) *configv1.AlertReceiver {
		e := &configv1.AlertEmail{Host: "smtp.example.com", From: "a@example.com", To: []string{"b@example.com"}}
		change(e)
		return &configv1.AlertReceiver{Name: "m", Email: e}
	}
	slack := &configv1.AlertSlack{}
	for name, c := range map[string]struct {
		r     *configv1.AlertReceiver
		field string
	}{
		"a webhook": {&configv1.AlertReceiver{Name: "w", Webhook: &configv1.AlertWebhook{Url: "https://a.test/"},
			Credential: value(webhookSecret(32))}, ""},
		"a webhook without a secret": {&configv1.AlertReceiver{Name: "w",
			Webhook: &configv1.AlertWebhook{Url: "https://a.test/"}}, "credential"},
		"Slack": {&configv1.AlertReceiver{Name: "s", Slack: slack,
			Credential: value("https://hooks.slack.com/services/x")}, ""},
		"a URL elsewhere": {&configv1.AlertReceiver{Name: "s", Slack: slack,
			Credential: value("https://example.com/services/x")}, "credential.value"},
		"e-mail": {email(func(*configv1.AlertEmail) {}), ""},
		"a header in a name": {email(func(e *configv1.AlertEmail) {
			e.From = "a@example.com\r\nBcc: c@example.com"
		}), "email.from"},
		"no recipient": {email(func(e *configv1.AlertEmail) { e.To = nil }), "email.to"},
		"a name alone": {email(func(e *configv1.AlertEmail) { e.Username = "ops" }), "credential"},
	} {
		t.Run(name, func(t *testing.T) { requireField(t, c.r, c.field) })
	}
}
