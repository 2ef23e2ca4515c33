package main

import (
	"bytes"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/cmd/modelgate/adminflags"
	"github.com/modelgate/modelgate/cmd/modelgate/inspect"
	"github.com/modelgate/modelgate/internal/datadir"
)

func TestStatus(t *testing.T) {
	f, c := startFakeAdmin(t), &cli{}
	f.objects = []configv1.Object{&configv1.Provider{Name: "a"}, &configv1.Provider{Name: "b", Disabled: true},
		&configv1.Model{Name: "m"}}
	f.summary.Providers = []adminapi.NamedTotals{{Name: "a", Totals: adminapi.Totals{Requests: 10, Errors: 4,
		CostUSD: "0.5"}}, {Name: "gone", Totals: adminapi.Totals{Requests: 1}}}
	f.health.Providers = []adminapi.ProviderHealth{{Provider: "a", State: adminapi.ProviderOK}}
	f.metrics = "# HELP modelgate_ledger_backlog_records Records 9\nmodelgate_ledger_backlog_records{a=\"x y\"} 1\nmodelgate_ledger_backlog_records{a=\"b\"} 2\n"
	out, _ := c.run(t, exitOK, "status")
	require.Contains(t, out, "Ledger         ok, 3 records wait")
	require.Contains(t, out, "All is well.")
	f.attention = []adminapi.Attention{{Kind: adminapi.AttentionApprovals, Message: "1 change waits."},
		{Kind: adminapi.AttentionBudget, Object: "Key k", Message: "80 % are spent."}}
	noted, _ := c.run(t, exitOK, "status")
	require.Contains(t, noted, "All is well.\n- 1 change waits.\n- Key k: 80 % are spent.\n")
	f.attention = nil
	require.Regexp(t, `e +envoy +1.40.0 +7 .*ok`, out)
	require.Regexp(t, `a +10 +4 +0.5 +ok +active\nb +0 +0 +- +- +disabled\ngone +1`, out)

	for name, spoil := range map[string]func(){
		"not ready: etcd is away": func() { f.notReady = true },
		"no extproc is connected": func() { f.plane.Clients = f.plane.Clients[:1] },
		"envoy e: refused: bad listener": func() {
			f.plane.Clients[0].Health,
				f.plane.Clients[0].Error = "refused", "bad listener"
		},
		"Provider a: $K is not set": func() { f.errors["Provider a"] = "$K is not set" },
		"Provider a: The provider is failing.": func() {
			f.attention = []adminapi.Attention{{Kind: adminapi.AttentionProviderFailing, Severity: "error",
				Subject: "provider/a", Object: "Provider a", Message: "The provider is failing."}}
		},
		"a fails since 18:52:57 UTC: 3 of 4.": func() {
			f.attention = []adminapi.Attention{{Kind: adminapi.AttentionProviderFailing, Severity: "error",
				Subject: "provider/a", Object: "Provider a", Message: "The provider is failing."}}
			f.incidents = []adminapi.Incident{{Subject: "provider/a", Why: "a fails since 18:52:57 UTC: 3 of 4."}}
		},
		"ledger: The ledger cannot be reached.": func() { f.ledgerAway = true },
		"The spool of x is full.": func() {
			f.attention = []adminapi.Attention{{Kind: adminapi.AttentionBudget, Message: "80 % are spent."},
				{Kind: adminapi.AttentionSpool, Message: "The spool of x is full."}}
		},
		"Guardrail harm: It was not judged.": func() {
			f.attention = []adminapi.Attention{{Kind: adminapi.AttentionCheckerAway, Object: "Guardrail harm",
				Message: "It was not judged."}}
		},
		"x: Redis is away.": func() {
			f.attention = []adminapi.Attention{{Kind: adminapi.AttentionStore, Message: "x: Redis is away."}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			plane := f.plane
			plane.Clients = slices.Clone(f.plane.Clients)
			defer func() {
				f.notReady, f.plane, f.errors, f.ledgerAway, f.summary.Providers[0].Errors = false, plane, map[string]string{},
					false, 4
				f.attention, f.incidents = nil, nil
			}()
			spoil()
			out, errOut := c.run(t, exitFailed, "status", "-o", "json")
			require.Contains(t, errOut, adminflags.ErrUnhealthy.Error())
			var r inspect.StatusReport
			require.NoError(t, json.Unmarshal([]byte(out), &r))
			require.False(t, r.OK)
			require.Contains(t, strings.Join(r.Problems, "\n"), name)
		})
	}
}

func TestStatusOfNoGatewayIsOneLine(t *testing.T) {
	f, c := startFakeAdmin(t), &cli{}
	c.write(t, "data/"+datadir.FileAdmin, "https://127.0.0.1:1\n")
	_, errOut := c.run(t, exitFailed, "status")
	require.Equal(t, 1, strings.Count(errOut, "\n"))
	require.Contains(t, errOut, "is the gateway running?")
	_, errOut = c.run(t, exitFailed, "status", "--server", f.url, "--token", "wrong")
	require.Equal(t, "modelgate: Send an admin token.\n", errOut)
	_, errOut = c.run(t, exitFailed, "status", "--ca", "absent.pem")
	require.Contains(t, errOut, "absent.pem")
}

func TestUsage(t *testing.T) {
	f, c := startFakeAdmin(t), &cli{}
	for i := range 3 {
		f.series.Buckets = append(f.series.Buckets, adminapi.SummaryHour{
			Start:  time.Date(2026, 11, 20, 22+i, 0, 0, 0, time.UTC),
			Totals: adminapi.Totals{Requests: 1, CostUSD: "0.1"}})
	}
	out, _ := c.run(t, exitOK, "usage", "-o", "csv", "--organization", "acme", "--since", "7d")
	require.Equal(t, "day,requests,input_tokens,output_tokens,cost_usd\n2026-11-20,2,0,0,0.2\n2026-11-21,1,0,0,0.1\n",
		out)
	require.Contains(t, f.asked[0], "organization=acme")
	require.Contains(t, f.asked[0], "by=&")
	require.Contains(t, f.asked[0], "width=1h")
	f.series.Totals = adminapi.Totals{Requests: 9, InputTokens: 90, OutputTokens: 9, CostUSD: "1"}
	f.series.Groups = []adminapi.SeriesGroup{{Name: "=cmd()", Totals: adminapi.Totals{Requests: 4, InputTokens: 40,
		OutputTokens: 4, CostUSD: "0.9"}}}
	out, _ = c.run(t, exitOK, "usage", "--by", "provider", "-o", "csv")
	require.Contains(t, out, "\n'=cmd(),4,40,4,0.9\n", "a spreadsheet takes it for text")
	require.NotContains(t, out, "others")
	f.series.GroupsLeftOut = 2
	out, _ = c.run(t, exitOK, "usage", "--by", "provider")
	require.Regexp(t, `=cmd\(\) +4 +40 +4 +0.9\n\(others\) +5 +50 +5 +0.1\n`, out)
	f.objects = []configv1.Object{&configv1.Key{Name: "key_1", DisplayName: "ci"}}
	f.asked = nil
	out, _ = c.run(t, exitOK, "usage", "--by", "user", "--key", "ci", "--model", "m", "-o", "json")
	require.Contains(t, out, `{"name":"=cmd()","requests":4,"input_tokens":40,"output_tokens":4,"cost_usd":"0.9"}`)
	asked := f.asked[len(f.asked)-1]
	require.Contains(t, asked, "key=key_1", "report 15: by its name")
	for _, part := range []string{"by=user", "model=m", "width=1d"} {
		require.Contains(t, asked, part)
	}
	// The period is the same by whatever it is grouped, so that the sums are.
	for _, since := range []string{"24h", "40d"} {
		widths := map[string]bool{}
		for _, by := range []string{"day", "model", "provider", "key", "project", "organization", "user"} {
			c.run(t, exitOK, "usage", "--by", by, "--since", since)
			asked, err := url.ParseQuery(f.asked[len(f.asked)-1][strings.Index(f.asked[len(f.asked)-1], "?")+1:])
			require.NoError(t, err)
			widths[asked.Get("width")] = true
		}
		require.Len(t, widths, 1, since)
	}
	_, errOut := c.run(t, exitUsage, "usage", "--since", "yesterday")
	require.Contains(t, errOut, "--since is neither")
	f.ledgerAway = true
	_, errOut = c.run(t, exitFailed, "usage")
	require.Equal(t, "modelgate: The ledger cannot be reached.\n", errOut)
}

func TestAudit(t *testing.T) {
	f, c := startFakeAdmin(t), &cli{}
	for _, name := range []string{"a", "b", "c"} {
		f.audit = append(f.audit, adminapi.AuditEntry{ID: name, At: time.Unix(0, 0), Actor: "ann", Address: "::1",
			Action: "update", Kind: "Key", Name: name + "\x1b[2J", Diff: "-old\n+new\n"})
	}
	out, _ := c.run(t, exitOK, "audit", "--kind", "keys", "--limit", "3")
	require.Equal(t, 4, strings.Count(out, "\n"), "over two pages")
	require.NotContains(t, out, "\x1b", "nothing that a terminal obeys")
	require.Contains(t, f.asked[0], "kind=Key")
	out, _ = c.run(t, exitOK, "audit", "--limit", "1", "--diff")
	require.Contains(t, out, "update Key a")
	require.Contains(t, out, "-old\n+new\n")
	out, _ = c.run(t, exitOK, "audit", "-o", "json", "--since", "2026-11-01")
	require.Equal(t, int64(3), int64(strings.Count(out, `"actor":"ann"`)))
}

func TestCompletion(t *testing.T) {
	f, _ := startFakeAdmin(t), &cli{}
	f.objects = []configv1.Object{&configv1.Key{Name: "key_a"}, &configv1.Model{Name: "smart"}}
	for line, want := range map[string]string{
		"modelgate key ro":                        "rotate\n",
		"modelgate key revoke ke":                 "key_a\n",
		"modelgate config get mod":                "model\nmodels\n",
		"modelgate config get models s":           "smart\n",
		"modelgate key list -o js":                "json\n",
		"modelgate key revoke --data elsewhere k": "",
	} {
		t.Run(line, func(t *testing.T) {
			t.Setenv("COMP_LINE", line)
			var stdout, stderr bytes.Buffer
			require.Equal(t, exitOK, execute(t.Context(), nil, &stdout, &stderr))
			require.Equal(t, want, stdout.String())
			require.Empty(t, stderr.String())
		})
	}
	c := &cli{}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		out, _ := c.run(t, exitOK, "completion", shell)
		require.Contains(t, out, "modelgate")
	}
	c.run(t, exitUsage, "completion", "csh")
}

func TestEveryFormOfEveryReport(t *testing.T) {
	f, c := startFakeAdmin(t), &cli{}
	f.objects = []configv1.Object{&configv1.Provider{Name: "a", Vendor: "echo"}}
	for _, line := range []string{"config list providers", "config get provider a", "status", "usage", "audit",
		"requests", "key usage key_k", "key list", "account list", "token list", "dashboard link"} {
		for _, form := range []string{"text", "json", "yaml"} {
			out, _ := c.run(t, exitOK, append(strings.Fields(line), "-o", form)...)
			if form == "json" && out != "" {
				require.True(t, json.Valid([]byte(out)), "%s: %s", line, out)
			}
		}
	}
}
