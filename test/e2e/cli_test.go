package e2e

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/test/harness"
)

// TestCommandLine is what an operator does with a gateway that runs: make a key, look at it, explain a request, limit
// and revoke the key, and ask how the gateway is.
func TestCommandLine(t *testing.T) {
	g := startRun(t, t.TempDir())
	line := func(args ...string) string { return harness.Must(t, "", append(args, "--data", g.Dir)...) }

	made := line("key", "create", "--create-missing", "--name", "N", "--organization", "O", "--project", "P", "--models",
		"echo/*", "--rpm", "5", "--tpm", "1000",
		"--budget-usd-month", "10", "-o", "json")
	id, key := gjson.Get(made, "id").Str, gjson.Get(made, "key").Str
	harness.Eventually(t, "the key works", func() error { return g.accepts(key) })
	require.Contains(t, line("key", "list", "--organization", "O", "-o", "name"), id)
	_, err := harness.Command(t, "", "key", "list", "--organization", "other", "-o", "name", "--data", g.Dir)
	require.ErrorContains(t, err, "exit status 2", "there is no such organization")
	require.Contains(t, line("key", "get", id), "requests_per_unit: \"1000\"")

	chat := `{"model":"echo/echo","messages":[{"role":"user","content":"hi"}]}`
	explained := harness.Must(t, chat, "explain", "--data", g.Dir, "--key-id", id, "-o", "json", "-")
	require.Equal(t, "echo", gjson.Get(explained, "targets.0.provider").Str, explained)
	require.Equal(t, "5", gjson.Get(explained, `limits.#(counter=="key/`+id+`/requests/minute").limit`).Str, explained)
	refused, err := harness.Command(t, strings.Replace(chat, "echo/echo", "other/model", 1), "explain", "--data", g.Dir,
		"--key-id", id, "-o", "json", "-")
	require.ErrorContains(t, err, "exit status 3")
	require.Equal(t, "model_not_found", gjson.Get(refused, "refused.body.error.code").Str)

	explainPaths(t, g, id)
	for range 5 {
		status, body, err := g.post("/v1/chat/completions", key, chat)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, status, body)
	}
	harness.Eventually(t, "the requests are in the ledger", func() error {
		if !strings.Contains(line("key", "usage", id, "-o", "json"), `"limit":5,"used":5`) {
			return errStill
		}
		return nil
	})
	require.Equal(t, int64(5), gjson.Get(line("usage", "--by", "key", "-o", "json"), `#(name=="`+id+`").requests`).Int())
	status, asked, err := g.post("/v1/chat/completions", key, chat)
	require.NoError(t, err)
	refused, err = harness.Command(t, chat, "explain", "--data", g.Dir, "--key-id", id, "-o", "json", "-")
	require.ErrorContains(t, err, "exit status 3")
	require.Equal(t, int64(status), gjson.Get(refused, "refused.status").Int(), "as the gateway itself: %s", refused)
	for _, member := range []string{"type", "code"} {
		require.Equal(t, gjson.Get(asked, "error."+member).Str, gjson.Get(refused, "refused.body.error."+member).Str)
	}

	rotated := gjson.Get(line("key", "rotate", id, "--grace", "1h", "-o", "json"), "key").Str
	harness.Eventually(t, "the new key works", func() error { return g.accepts(rotated) })
	require.NoError(t, g.accepts(key), "the old one is good for an hour")
	line("key", "disable", id)
	harness.Eventually(t, "a disabled key is refused", func() error { return g.refuses(rotated) })
	line("key", "enable", id)
	harness.Eventually(t, "an enabled key works", func() error { return g.accepts(rotated) })
	line("key", "revoke", id)
	harness.Eventually(t, "a revoked key is refused", func() error { return g.refuses(rotated) })

	report := line("status", "-o", "json")
	require.True(t, gjson.Get(report, "ok").Bool(), report)
	require.ElementsMatch(t, []string{"envoy", "extproc", "jobs"}, roles(report), report)
	require.Contains(t, line("audit", "--kind", "key"), id)
	verified := line("audit", "verify", "-o", "json")
	require.True(t, gjson.Get(verified, "intact").Bool(), verified)
	require.Equal(t, gjson.Get(verified, "head_sequence").Int(), gjson.Get(verified, "chained").Int(), verified)
	line("audit", "verify", "--head", gjson.Get(verified, "head").String())

	found, _ := harness.Command(t, "", "doctor", "--data", g.Dir, "-o", "json")
	for _, check := range []string{"gateway", "ready", "store", "clock", "certificate", "permissions", "data plane",
		"versions", "ledger", "spool"} {
		require.False(t, gjson.Get(found, `findings.#(check=="`+check+`")`).Exists(), "%s: %s", check, found)
	}
	g.Stop(t)
	found, err = harness.Command(t, "", "doctor", "--data", g.Dir, "-o", "json")
	require.Error(t, err)
	require.True(t, gjson.Get(found, `findings.#(check=="gateway")`).Exists(), found)
}

// explainPaths explains requests by the paths that clients of other dialects use.
func explainPaths(t *testing.T, g *gateway, key string) {
	t.Helper()
	for path, body := range map[string]string{
		"/v1/messages": `{"model":"echo/echo","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`,
		"/v1beta/models/echo%2Fecho:streamGenerateContent?alt=sse": `{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}`,
	} {
		got := harness.Must(t, body, "explain", "--data", g.Dir, "--key-id", key, "--operation", path, "-o", "json", "-")
		require.Equal(t, "echo", gjson.Get(got, "targets.0.provider").Str, "%s: %s", path, got)
		require.False(t, gjson.Get(got, "refused").Exists(), "%s: %s", path, got)
	}
}

func roles(status string) []string {
	var all []string
	for _, c := range gjson.Get(status, "clients.#.role").Array() {
		all = append(all, c.Str)
	}
	return all
}

// refuses is the reverse of accepts.
func (g *gateway) refuses(key string) error {
	status, err := g.get("/v1/models", key)
	if err == nil && status != http.StatusUnauthorized {
		err = errStill
	}
	return err
}
