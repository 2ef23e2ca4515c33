package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/cmd/modelgate/report"
)

func TestAReportSaysWhoCouldDoWhatWhatChangedAndWhatWasUsed(t *testing.T) {
	f := startFakeAdmin(t)
	past := timestamppb.New(time.Now().Add(-time.Hour))
	f.objects = []configv1.Object{
		&configv1.Account{Name: "ann", Role: configv1.Role_OWNER, ReadBodies: true},
		&configv1.Account{Name: "bob", Memberships: []*configv1.Membership{{Organization: "acme", Project: "web",
			Role: configv1.Role_ADMIN}}, Provisioning: &configv1.Provisioning{Provider: "corp", Inactive: true}},
		&configv1.AdminToken{Name: "adm_1", DisplayName: "ci|cd", Scopes: []string{"config:write"}, ExpiresAt: past},
		&configv1.IdentityProvider{Name: "corp", DefaultRole: configv1.Role_VIEWER, Roles: []*configv1.GroupRole{
			{Group: "ops", Role: configv1.Role_OPERATOR}}},
		&configv1.Key{Name: "key_1", Organization: "acme"},
		&configv1.Key{Name: "key_2", Organization: "acme", ExpiresAt: past},
		&configv1.Key{Name: "key_3", Organization: "acme", Disabled: true}, &configv1.Key{Name: "key_4"},
		&configv1.TokenIssuer{Name: "sso", Bindings: []*configv1.TokenBinding{{Key: "key_1"}, {Key: "key_1"}}},
		&configv1.CertificateIssuer{Name: "off", Disabled: true},
	}
	began := time.Now().Add(-24 * time.Hour)
	f.verified = adminapi.AuditVerification{Intact: true, Head: "abc", Last: 5, FirstAt: &began}
	for _, e := range []adminapi.AuditEntry{{Action: "update", Kind: "Provider", Name: "p"},
		{Action: "update", Kind: "Provider", Name: "q"}, {Action: "create", Kind: "Key", Name: "key_1", Diff: "+secret"}} {
		e.At, e.Actor, e.ID = time.Now(), "ann", e.Name
		f.audit = append(f.audit, e)
	}
	used := adminapi.Totals{Requests: 3, InputTokens: 5, OutputTokens: 7, CostUSD: "0.25"}
	f.series = adminapi.Series{Totals: used, Groups: []adminapi.SeriesGroup{{Name: "m", Totals: used}}}
	c := &cli{}

	out, _ := c.run(t, exitOK, "report", "-o", "json")
	var r report.Report
	require.NoError(t, json.Unmarshal([]byte(out), &r))
	require.Equal(t, report.Person{Name: "ann", Role: "OWNER", ReadBodies: true}, r.People[0])
	require.Equal(t, report.Person{Name: "bob", Memberships: []string{"ADMIN of acme/web"}, Provider: "corp",
		Disabled: true}, r.People[1])
	require.Equal(t, []string{"config:write"}, r.Tokens[0].Scopes)
	require.Equal(t, []report.Group{{Provider: "corp", Group: "*", Role: "VIEWER"},
		{Provider: "corp", Group: "ops", Role: "OPERATOR"}}, r.Groups)
	require.Equal(t, []report.Keys{{Active: 1}, {Organization: "acme", Active: 1, Inactive: 2}}, r.Keys)
	require.Equal(t, []report.Issuer{{Kind: "TokenIssuer", Name: "sso", Keys: []string{"key_1"}}}, r.Issuers)
	require.Equal(t, []report.Changes{{Actor: "ann", Action: "create", Kind: "Key", Count: 1},
		{Actor: "ann", Action: "update", Kind: "Provider", Count: 2}}, r.Changes)
	require.Equal(t, 3, r.AuditLog.Entries, "all pages are read")
	require.Len(t, r.RightsChanged, 1)
	require.Equal(t, report.Usage{Name: "m", Requests: 3, InputTokens: 5, OutputTokens: 7, CostUSD: "0.25"},
		r.ByOrganization[0])
	require.NotContains(t, out, "secret")

	out, _ = c.run(t, exitOK, "report")
	for _, line := range []string{"3 entries in the period. The chain of hashes is intact up to entry 5: `abc`.",
		"What happened before is not in this report.", "| ann | OWNER | - | - | yes | - |",
		`| ci\|cd | adm_1 | config:write |`, "| acme | - | 1 | 2 |", "| ann | update | Provider | 2 |",
		"| m | 3 | 5 | 7 | 0.25 |"} {
		require.Contains(t, out, line)
	}
	f.verified.Intact = false
	out, _ = c.run(t, exitOK, "report", "--since", "1h")
	require.Contains(t, out, "**The chain of hashes is broken:**")
	require.False(t, strings.Contains(out, "not in this report"), "the log is older than the period")
	_, errOut := c.run(t, exitUsage, "report", "--since", "1h", "--until", "2h")
	require.Contains(t, errOut, "begins at or after its end")
}
