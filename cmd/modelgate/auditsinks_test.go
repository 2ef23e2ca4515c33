package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	adminapi "github.com/modelgate/modelgate/api/admin"
)

func TestAuditSinks(t *testing.T) {
	f, c := startFakeAdmin(t), &cli{}
	at := time.Unix(0, 0)
	f.sinks = adminapi.AuditSinks{Items: []adminapi.AuditSinkStatus{
		{Name: "disk", Kind: "file", Disabled: true},
		{Name: "ops", Kind: "webhook", Sequence: 12, DeliveredAt: &at},
		{Name: "siem", Kind: "syslog", Backlog: 7, Missing: 2, Error: "it cannot\nbe reached", FailingSince: &at},
	}}
	out, _ := c.run(t, exitOK, "audit", "sinks")
	require.Regexp(t, `(?m)^SINK +KIND +STATE +SEQUENCE +DELIVERED +BACKLOG +MISSING +ERROR$`, out)
	require.Regexp(t, `(?m)^disk +file +disabled +0 +never +0 +0 +-$`, out)
	require.Regexp(t, `(?m)^ops +webhook +ok +12 +1970-01-01T00:00:00Z +0 +0 +-$`, out)
	require.Regexp(t, `(?m)^siem +syslog +failing since 1970-01-01T00:00:00Z +0 +never +7 +2 +it cannot; be reached$`, out)
	require.Equal(t, []string{"GET /admin/v1/audit/sinks"}, f.asked)
	out, _ = c.run(t, exitOK, "audit", "sinks", "-o", "json")
	require.Contains(t, out, `"failing_since":"1970-01-01T00:00:00Z"`)
}
