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
)

func TestKeyCreateAsksForWhatTheFlagsSay(t *testing.T) {
	f, c := startFakeAdmin(t), &cli{}
	out, _ := c.run(t, exitOK, "key", "create", "--data", "data", "--name", "N", "--organization", "O", "--project", "P",
		"--models", "echo/*",
		"--rpm", "5", "--tpm", "1000", "--budget-usd-month", "10", "-o", "json")
	require.JSONEq(t, `{"id":"key_new","key":"sk-mg-new"}`, out)
	require.JSONEq(t, `{"display_name":"N","organization":"O","project":"P","models":["echo/*"],
		"limits":[{"domain":"requests","unit":"MINUTE","requests_per_unit":5},{"domain":"tokens","unit":"MINUTE","requests_per_unit":1000}],
		"budgets":[{"unit":"MONTH","usd":"10"}]}`, string(f.body))

	c.run(t, exitOK, "key", "create", "--name", "all", "--models", "a,b", "--models", "c", "--endpoints",
		"chat/completions", "--addresses", "10.0.0.0/8,::1",
		"--metadata", "team=blue;x", "--metadata", "k=v=w", "--rph", "1", "--rpd", "2", "--tpd", "3", "--input-tpm", "4",
		"--output-tpm", "5", "--concurrency", "6",
		"--limit", "tokens:hour:7:ollama/llama3:8b", "--limit", "concurrency::8:m", "--budget-usd-day", "0.5", "--expires",
		"2030-01-31T00:00:00Z")
	var asked adminapi.KeyRequest
	require.NoError(t, json.Unmarshal(f.body, &asked))
	require.Equal(t, []string{"a", "b", "c"}, asked.Models)
	require.Equal(t, []string{"10.0.0.0/8", "::1"}, asked.Addresses)
	require.Equal(t, map[string]string{"team": "blue;x", "k": "v=w"}, asked.Metadata)
	require.Equal(t, []adminapi.Limit{
		{Domain: "requests", Unit: "HOUR", RequestsPerUnit: 1}, {Domain: "requests", Unit: "DAY", RequestsPerUnit: 2},
		{Domain: "tokens", Unit: "DAY", RequestsPerUnit: 3}, {Domain: "input_tokens", Unit: "MINUTE", RequestsPerUnit: 4},
		{Domain: "output_tokens", Unit: "MINUTE", RequestsPerUnit: 5}, {Domain: "concurrency", RequestsPerUnit: 6},
		{Domain: "tokens", Unit: "HOUR", RequestsPerUnit: 7, Model: "ollama/llama3:8b"},
		{Domain: "concurrency", RequestsPerUnit: 8, Model: "m"},
	}, asked.Limits)
	require.Equal(t, []adminapi.Budget{{Unit: "DAY", USD: "0.5"}}, asked.Budgets)

	for want, limit := range map[string]string{"write DOMAIN:UNIT:N": "tokens:5",
		"not a whole number": "tokens:minute:many"} {
		_, errOut := c.run(t, exitUsage, "key", "create", "--name", "x", "--limit", limit)
		require.Contains(t, errOut, want)
	}
}

func TestALimitOfZeroIsNotLeftOut(t *testing.T) {
	f, c := startFakeAdmin(t), &cli{}
	c.run(t, exitOK, "key", "create", "--name", "n", "--rpm", "0", "--concurrency", "0")
	require.JSONEq(t,
		`{"display_name":"n","limits":[{"domain":"requests","unit":"MINUTE","requests_per_unit":0},{"domain":"concurrency","requests_per_unit":0}]}`, string(f.body))
}

func TestWhatIsGivenEmptyIsNotTakenForEverything(t *testing.T) {
	f, c := startFakeAdmin(t), &cli{}
	for command, want := range map[string]string{
		"key create --name n --organization=":                "--organization is empty",
		"key create --name n --models=":                      "--models is empty",
		"key create --name n --models=a --addresses=":        "--addresses is empty",
		"key create --name n --expires=":                     "--expires is empty",
		"org create acme --budget-usd-day=":                  "--budget-usd-day is empty",
		"key list --project=":                                "--project is empty",
		"key revoke key_a --server=":                         "--server is empty",
		"token create --name n --scopes=usage:read --token=": "--token is empty",
	} {
		_, errOut := c.run(t, exitUsage, strings.Fields(command)...)
		require.Contains(t, errOut, want, command)
	}
	for _, args := range [][]string{{"key", "revoke", ""}, {"key", "disable", " "}, {"config", "delete", "key", ""}} {
		_, errOut := c.run(t, exitUsage, args...)
		require.Contains(t, errOut, "is empty", args)
	}
	require.Empty(t, f.asked)
	c.run(t, exitOK, "key", "create", "--name", "n", "--metadata", "note=")
}

func TestKeyListReadsEveryPageAndSendsItsFilters(t *testing.T) {
	f, c := startFakeAdmin(t), &cli{}
	for _, name := range []string{"key_a", "key_b", "key_c", "key_d", "key_e"} {
		f.objects = append(f.objects, &configv1.Key{Name: name, DisplayName: "of\n" + name,
			ExpiresAt: timestamppb.New(time.Unix(1, 0))})
	}
	f.errors["Key key_c"] = "broken\nbadly"
	out, _ := c.run(t, exitOK, "key", "list", "--organization", "acme", "--project", "web", "-q", "of", "-o", "name")
	require.Equal(t, "key_a\nkey_b\nkey_c\nkey_d\nkey_e\n", out)
	for _, want := range []string{"organization=acme", "project=web", "q=of"} {
		require.Contains(t, f.asked[0], want)
	}
	out, _ = c.run(t, exitOK, "key", "list", "-o", "text")
	require.Len(t, strings.Split(strings.TrimSpace(out), "\n"), 6, "a line for each, whatever is in its name")
	require.Regexp(t, `(?m)^of; key_a .*1970-01-01T00:00:01Z +expired +0 +0 +0 +- +never +key_a$`, out)
	require.Regexp(t, `error: broken; badly .* key_c`, out)
	at := time.Unix(60, 0)
	f.traffic = adminapi.KeyTraffic{Items: []adminapi.KeyUse{{Key: "key_b", Requests: 12, Errors: 3, Refused: 240,
		CostUSD: "0.25", LastUsed: &at}}, RejectedLeftOut: 2, Rejected: []adminapi.RejectedKey{
		{Key: "key_b", KeyName: "billing", Refused: 240, Last: &at}, {Hint: "9896", Refused: 106, Last: &at},
		{Refused: 7}, {Key: "key_gone", KeyDeleted: true, Refused: 1}}}
	out, _ = c.run(t, exitOK, "key", "list")
	require.Regexp(t, `(?m)^of; key_b .* expired +12 +3 +240 +0.25 +1970-01-01T00:01:00Z +key_b$`, out)
	require.Regexp(t, `(?m)^REJECTED +REFUSED +LAST +ID\nbilling +240 +1970-01-01T00:01:00Z +key_b\n`+
		`unknown key ...9896 +106 +1970-01-01T00:01:00Z +-\nno key +7 +- +-\nkey_gone \(deleted\) +1 +- +key_gone\n`, out)
	require.Contains(t, out, "2 more keys are refused less often.")
	out, _ = c.run(t, exitOK, "key", "list", "-o", "yaml")
	require.Equal(t, 4, strings.Count(out, "---\n"))
}

func TestKeyVerbs(t *testing.T) {
	f, c := startFakeAdmin(t), &cli{}
	key := &configv1.Key{Name: "key_a", DisplayName: "A"}
	f.objects = []configv1.Object{key}

	out, _ := c.run(t, exitOK, "key", "disable", "key_a")
	require.Equal(t, "Key key_a disabled\n", out)
	require.True(t, f.objects[0].(*configv1.Key).GetDisabled())
	out, _ = c.run(t, exitOK, "key", "get", "key_a")
	require.Equal(t, "kind: Key\nname: key_a\ndisplay_name: A\ndisabled: true\n", out)
	c.run(t, exitOK, "key", "enable", "key_a")
	require.False(t, f.objects[0].(*configv1.Key).GetDisabled())

	out, _ = c.run(t, exitOK, "key", "rotate", "key_a", "--grace", "24h", "-o", "yaml")
	require.Equal(t, "id: key_a\nkey: sk-mg-rotated\n", out)
	require.JSONEq(t, `{"grace_seconds":86400}`, string(f.body))
	_, errOut := c.run(t, exitUsage, "key", "rotate", "key_a", "--grace", "1500ms")
	require.Contains(t, errOut, "whole seconds")
	_, errOut = c.run(t, exitFailed, "key", "disable", "key_x")
	require.Equal(t, "modelgate: keys key_x: no such object\n", errOut)
}

func TestKeyUsage(t *testing.T) {
	f, c := startFakeAdmin(t), &cli{}
	used := int64(4)
	f.consumption["key_a"] = adminapi.Consumption{
		Limits: []adminapi.LimitUse{{Scope: "key/key_a", Domain: "requests", Unit: "minute", Limit: 5, Used: &used},
			{Scope: "organization/o", Domain: "concurrency", Limit: 3}},
		Budgets: []adminapi.BudgetUse{{Scope: "key/key_a", Unit: "month", USD: "10", Spent: "9.5", Resets: time.Unix(0, 0)}},
	}
	out, _ := c.run(t, exitOK, "key", "usage", "key_a")
	require.Contains(t, out, "Last used: never")
	require.Regexp(t, `key/key_a +requests/minute +- +4 +5`, out)
	require.Regexp(t, `organization/o +concurrency +- +\? +3`, out)
	require.Regexp(t, `key/key_a +USD/month +- +9.5 +10 +1970-01-01T00:00:00Z`, out)
	out, _ = c.run(t, exitOK, "key", "usage", "key_b")
	require.Contains(t, out, "no limits and no budgets")
}

func TestOrganizationsProjectsAccountsAndTokens(t *testing.T) {
	f, c := startFakeAdmin(t), &cli{}
	f.objects = []configv1.Object{&configv1.Organization{Name: "old",
		Limits: []*configv1.Limit{{Domain: "tokens", Unit: configv1.Unit_HOUR, RequestsPerUnit: 9}}}}
	_, errOut := c.run(t, exitFailed, "org", "create", "old")
	require.Contains(t, errOut, "already exists")
	c.run(t, exitOK, "org", "create", "acme", "--rpm", "9", "--budget-usd-day", "2")
	require.JSONEq(t,
		`{"kind":"Organization","name":"acme","limits":[{"domain":"requests","unit":"MINUTE","requests_per_unit":"9"}],"budgets":[{"unit":"DAY","usd":"2"}]}`, string(f.body))
	_, errOut = c.run(t, exitUsage, "org", "create", "acme", "--limit", "tokens:week:1")
	require.Contains(t, errOut, `no unit "week"`)
	_, errOut = c.run(t, exitUsage, "project", "create", "web")
	require.Contains(t, errOut, "ORGANIZATION/PROJECT")
	c.run(t, exitOK, "project", "create", "acme/web")
	require.Contains(t, f.asked[len(f.asked)-1], "/projects/acme/web")
	out, _ := c.run(t, exitOK, "org", "list")
	require.Regexp(t, `old +- +9 tokens per hour +- +active`, out)

	c.stdin(t, "correct horse battery\n")
	c.run(t, exitOK, "account", "create", "ann@example.com", "--role", "owner", "--password-stdin")
	require.JSONEq(t, `{"kind":"Account","name":"ann@example.com","role":"OWNER","password":"correct horse battery"}`,
		string(f.body))
	c.stdin(t, "x\n")
	_, errOut = c.run(t, exitFailed, "account", "create", "bob", "--role", "viewer")
	require.Contains(t, errOut, "--password-stdin", "there is no terminal")
	f.objects = append(f.objects, &configv1.Account{Name: "ann", Role: configv1.Role_OWNER})
	c.stdin(t, "another one, longer")
	c.run(t, exitOK, "account", "password", "ann", "--password-stdin")
	require.Contains(t, string(f.body), `"password":"another one, longer"`)

	out, _ = c.run(t, exitOK, "token", "create", "--name", "ci", "--scopes", "usage:read,status:read", "-o", "json")
	require.JSONEq(t, `{"id":"adm_new","token":"mgadm"}`, out)
	require.JSONEq(t, `{"display_name":"ci","scopes":["usage:read","status:read"]}`, string(f.body))
	out, _ = c.run(t, exitOK, "dashboard", "link")
	require.Contains(t, out, "https://gw/sign-in/first?token=T\n")
}
