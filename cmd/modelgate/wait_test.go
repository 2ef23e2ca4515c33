package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/cmd/modelgate/adminflags"
	"github.com/modelgate/modelgate/internal/datadir"
)

func TestAChangeThatIsNotInForceSaysSo(t *testing.T) {
	f, c := startFakeAdmin(t), &cli{}
	f.objects = []configv1.Object{&configv1.Key{Name: "key_a", DisplayName: "A"}}
	c.write(t, "gw.yaml", files)
	commands := []string{
		"key create --name n", "key rotate key_a", "key disable key_a", "key enable key_a", "key revoke key_a",
		"config apply gw.yaml", "config delete key key_a",
		"org create acme", "project create acme/web",
	}
	for _, command := range commands {
		f.asked, f.pending = nil, ""
		c.run(t, exitOK, append(strings.Fields(command), "--tenant", "acme")...)
		require.Contains(t, f.asked[len(f.asked)-1], "wait=10", command)
		require.Equal(t, "acme", f.tenant, "a change acts for the tenant, as a query does: %s", command)
		f.pending = "extproc far"
		_, errOut := c.run(t, exitRefused, append(strings.Fields(command), "--timeout", "3s")...)
		require.Contains(t, errOut, "the change is stored, but not yet active everywhere after 3s: waiting for extproc far", command)
		require.Contains(t, f.asked[len(f.asked)-1], "wait=3", command)
		f.pending = ""
		c.run(t, exitOK, append(strings.Fields(command), "--no-wait")...)
		require.Contains(t, f.asked[len(f.asked)-1], "wait=0", command)
	}
	f.pending = "extproc far"
	out, _ := c.run(t, exitRefused, "key", "create", "--name", "n", "-o", "json")
	require.JSONEq(t, `{"id":"key_new","key":"sk-mg-new"}`, out, "the key is printed all the same")
	_, errOut := c.run(t, exitUsage, "key", "revoke", "key_a", "--timeout", "2m")
	require.Contains(t, errOut, "between 1s and 60s")
}

func TestApplyListsWhatHasNoEffect(t *testing.T) {
	f, c := startFakeAdmin(t), &cli{}
	c.write(t, "gw.yaml", files)
	f.applied = adminapi.ApplyAnswer{Revision: 5, Changes: []adminapi.Change{
		{Kind: "Provider", Name: "mine", Action: "created", Error: "it is\nbroken"},
		{Kind: "Model", Name: "team/best", Action: "created"},
	}}
	out, errOut := c.run(t, exitRefused, "config", "apply", "gw.yaml")
	require.Equal(t, "Provider mine created\nModel team/best created\n", out)
	require.Contains(t, errOut, "\n  Provider mine has no effect: it is; broken\n")
	require.NotContains(t, errOut, "team/best")
	c.run(t, exitOK, "config", "apply", "gw.yaml", "--no-wait")
}

func TestAKeyWorksWhenItsCommandReturns(t *testing.T) {
	t.Parallel()
	r := startRun(t, t.TempDir())
	secure, err := adminflags.AdminFlags{Data: r.data}.TLS()
	require.NoError(t, err)
	var stdout, stderr bytes.Buffer
	do := func(args ...string) string {
		stdout.Reset()
		require.Equal(t, exitOK, execute(t.Context(), append(args, "--data", r.data), &stdout, &stderr), stderr.String())
		return stdout.String()
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: secure, DisableKeepAlives: true,
		ForceAttemptHTTP2: true}}
	ask := func(key string) int {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
			r.file(t, datadir.FileURL)+"/v1/chat/completions",
			strings.NewReader(`{"model":"echo/echo","messages":[{"role":"user","content":"Hello"}]}`))
		require.NoError(t, err)
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Authorization", "Bearer "+key)
		answer, err := client.Do(request)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		return answer.StatusCode
	}
	for range 20 {
		var made, next adminapi.NewKey
		require.NoError(t, json.Unmarshal([]byte(do("key", "create", "--name", "n", "-o", "json")), &made))
		require.Equal(t, 200, ask(made.Key))
		require.NoError(t, json.Unmarshal([]byte(do("key", "rotate", made.ID, "-o", "json")), &next))
		require.Equal(t, []int{401, 200}, []int{ask(made.Key), ask(next.Key)})
		do("key", "disable", made.ID)
		require.NotEqual(t, 200, ask(next.Key))
		do("key", "enable", made.ID)
		require.Equal(t, 200, ask(next.Key))
		do("key", "revoke", made.ID)
		require.Equal(t, 401, ask(next.Key))
	}
}
