package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// TestNamesTakeThePlaceOfIds has the name of a key wherever a command says something about one.
func TestNamesTakeThePlaceOfIds(t *testing.T) {
	f, c := startFakeAdmin(t), &cli{}
	f.objects = []configv1.Object{&configv1.Key{Name: "key_1", DisplayName: "ci"},
		&configv1.AdminToken{Name: "adm_1", DisplayName: "terraform"}}
	at := time.Unix(0, 0)
	f.alerts.Items = []adminapi.Alert{{Rule: "spend", Subject: "key/key_1", Message: "key_1 spends"}}
	f.attention = []adminapi.Attention{{Kind: adminapi.AttentionKeyExpires, Object: "Key key_1", Message: "It expires."}}
	f.audit = []adminapi.AuditEntry{{At: at, Actor: "adm_1", Action: "update", Kind: "Key", Name: "key_1"}}
	f.approvals = []adminapi.Approval{{ID: "apr_1", Kind: "Key", Name: "key_1", AskedBy: "adm_1"}}
	f.quotas.Items = []adminapi.TenantQuotas{{Key: "key_1",
		Quotas: []adminapi.QuotaUse{{Name: "files", Used: 1, Limit: 2}}}}
	f.consumption["key_1"] = adminapi.Consumption{Limits: []adminapi.LimitUse{{Scope: "key/key_1", Limit: 5}}}
	f.requests = []adminapi.Exchange{{ID: "x1", RequestID: "r1", Key: "key_1", KeyName: "ci",
		RefusedBy: "key/key_1 limit requests per minute", Detail: &adminapi.ExchangeDetail{
			Limits: []adminapi.LimitHeld{{Rule: "key/key_1 limit requests per minute"}}}}}
	f.incidents = []adminapi.Incident{{ID: "inc_1", Subject: "key/key_1", Why: "key_1 is abused",
		Change: &adminapi.IncidentChange{Actor: "adm_1", Kind: "Key", Name: "key_1"}}}
	f.series.Groups = []adminapi.SeriesGroup{{Name: "key_1", DisplayName: "ci"}}
	for _, args := range [][]string{{"alerts"}, {"status"}, {"audit"}, {"audit", "--diff"}, {"approval"},
		{"approval", "show", "apr_1"}, {"quotas"}, {"key", "usage", "ci"}, {"requests"}, {"requests", "r1"},
		{"usage", "--by", "key"}, {"incidents"}, {"incidents", "show", "inc_1"}} {
		out, _ := c.run(t, exitOK, args...)
		require.Regexp(t, `\bci\b`, out, "%v", args)
		require.NotRegexp(t, `key_1|adm_1`, out, "%v", args)
	}
	out, _ := c.run(t, exitOK, "key", "disable", "ci")
	require.Equal(t, "Key ci disabled\n", out)

	f.objects, f.asked = nil, nil
	out, _ = c.run(t, exitOK, "alerts")
	require.Contains(t, out, "key_1 spends", "of what was deleted only the id is known")
}
