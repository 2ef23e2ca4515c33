package configv1_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

func TestValidateAuditSink(t *testing.T) {
	hook := func(url string) *configv1.AuditWebhook { return &configv1.AuditWebhook{Url: url} }
	syslog := func(address string) *configv1.AuditSink {
		return &configv1.AuditSink{Name: "s", Syslog: &configv1.AuditSyslog{Address: address, Tls: true}}
	}
	otlp := func(endpoint string) *configv1.AuditSink {
		return &configv1.AuditSink{Name: "o", Otlp: &configv1.AuditOtlp{Endpoint: endpoint}}
	}
	file := func(path string) *configv1.AuditSink {
		return &configv1.AuditSink{Name: "f", File: &configv1.AuditFile{Path: path}}
	}
	with := func(s *configv1.AuditSink, secret string) *configv1.AuditSink {
		s.Credential = value(secret)
		return s
	}
	const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	for name, c := range map[string]struct {
		s     *configv1.AuditSink
		field string // empty: valid
	}{
		"a webhook":          {with(&configv1.AuditSink{Name: "w", Webhook: hook("https://a.test/")}, secret), ""},
		"a webhook unsigned": {&configv1.AuditSink{Name: "w", Webhook: hook("https://a.test/")}, "credential"},
		"a webhook's bad secret": {with(&configv1.AuditSink{Name: "w", Webhook: hook("https://a.test/")}, "x"),
			"credential.value"},
		"a webhook nowhere": {with(&configv1.AuditSink{Name: "w", Webhook: hook("a.test")}, secret), "webhook.url"},
		"nothing":           {&configv1.AuditSink{Name: "n"}, ""},
		"two": {&configv1.AuditSink{Name: "n", File: &configv1.AuditFile{Path: "/a"},
			Otlp: &configv1.AuditOtlp{Endpoint: "https://a.test"}}, ""},
		"syslog":                   {syslog("logs.example.com:6514"), ""},
		"syslog at an address":     {syslog("[::1]:6514"), ""},
		"syslog without a port":    {syslog("logs.example.com"), "syslog.address"},
		"syslog at port 0":         {syslog("logs.example.com:0"), "syslog.address"},
		"syslog with a credential": {with(syslog("logs.example.com:6514"), secret), "credential"},
		"syslog with a bad ca": {&configv1.AuditSink{Name: "s", Syslog: &configv1.AuditSyslog{Address: "a.test:1", Tls: true,
			Ca: "x"}}, "syslog.ca"},
		"otlp":                   {otlp("https://otel.example.com:4318"), ""},
		"otlp with a credential": {with(otlp("https://otel.example.com:4318/base"), "Bearer x"), ""},
		"otlp with a query":      {otlp("https://otel.example.com:4318?a=b"), "otlp.endpoint"},
		"otlp nowhere":           {otlp("otel.example.com:4318"), "otlp.endpoint"},
		"a file":                 {file("/var/log/modelgate/audit.jsonl"), ""},
		"a relative file":        {file("audit.jsonl"), "file.path"},
		"a file elsewhere":       {file("/var/log/../audit.jsonl"), "file.path"},
		"a folder":               {file("/var/log/"), "file.path"},
		"a file with a secret":   {with(file("/var/log/audit.jsonl"), secret), "credential"},
	} {
		t.Run(name, func(t *testing.T) {
			errs := configv1.Validate(c.s, nil)
			switch {
			case name == "nothing", name == "two":
				require.ErrorContains(t, errs, "exactly one of webhook, syslog, otlp and file")
			case c.field == "":
				require.Empty(t, errs)
			default:
				require.Len(t, errs, 1)
				require.Equal(t, c.field, errs[0].Field)
				require.False(t, strings.Contains(errs[0].Message, secret))
			}
		})
	}
	for kind, s := range map[string]*configv1.AuditSink{"webhook": {Webhook: hook("")}, "syslog": syslog(""),
		"otlp": otlp(""), "file": file("")} {
		require.Equal(t, kind, s.Kind())
	}
}
