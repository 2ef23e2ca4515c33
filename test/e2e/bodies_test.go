package e2e

import (
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/test/harness"
)

// TestBodies is what an operator does who wants to see what a tenant asked: keep it, look at it, and delete it. What
// is kept is nowhere in clear text.
func TestBodies(t *testing.T) {
	g := startRun(t, t.TempDir())
	line := func(args ...string) string { return harness.Must(t, "", append(args, "--data", g.Dir)...) }
	apply := func(text string) (string, error) {
		return harness.Command(t, text, "config", "apply", "--data", g.Dir, "-")
	}
	said, err := apply("kind: Organization\nname: acme\nbodies: {share: 1, patterns: [{name: broken, pattern: '('}]}\n")
	require.Error(t, err)
	require.Contains(t, said, "bodies.patterns[0].pattern")
	_, err = apply("kind: Organization\nname: acme\nbodies: {share: 1, patterns: [{name: ticket, pattern: 'ACME-[0-9]+'}]}\n")
	require.NoError(t, err)
	key := func(organization string) string {
		return gjson.Get(line("key", "create", "--create-missing", "--name", organization, "--organization", organization,
			"-o", "json"), "key").Str
	}
	ask := func(key, text string, stream bool) {
		body := `{"model":"echo/echo","messages":[{"role":"user","content":"` + text + `"}]`
		if stream {
			body += `,"stream":true`
		}
		status, answer, err := g.post("/v1/chat/completions", key, body+"}")
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, status, answer)
	}
	const text = "The albatross of ann@example.com has ACME-17 and 4111 1111 1111 1111"
	kept, other := key("acme"), key("other")
	ask(kept, text, false)
	ask(kept, text, true)
	ask(other, text, false)

	reader := gjson.Get(line("token", "create", "--name", "reader", "--scopes", "bodies:read", "-o", "json"), "token").Str
	list := func(organization string) []gjson.Result {
		_, found := g.adminGet(t, "/admin/v1/requests?organization="+organization)
		return gjson.Get(found, "items.#.id").Array()
	}
	harness.Eventually(t, "the requests are in the ledger", func() error {
		if len(list("acme")) != 2 || len(list("other")) != 1 {
			return errStill
		}
		return nil
	})
	show := func(id string) (string, error) {
		return harness.Command(t, "", "bodies", "show", id, "--data", g.Dir, "--token", reader, "-o", "json")
	}
	for _, id := range list("acme") {
		var shown string
		harness.Eventually(t, "the bodies are kept", func() (err error) {
			shown, err = show(id.Str)
			return err
		})
		for _, part := range []string{"request", "answer"} {
			require.Contains(t, gjson.Get(shown, part+".text").Str, "The albatross of [email] has [ticket] and [card]", shown)
		}
		_, err := harness.Command(t, "", "bodies", "show", id.Str, "--data", g.Dir)
		require.ErrorContains(t, err, "exit status 1", "the token of the data folder does not show them")
		require.Contains(t, line("audit", "--action", "look"), id.Str)
	}
	_, err = show(list("other")[0].Str)
	require.ErrorContains(t, err, "exit status 1", "nothing is kept of others")
	status, _, err := g.post("/admin/v1/requests/"+list("acme")[0].Str+"/bodies", kept, "")
	require.NoError(t, err)
	require.Equal(t, http.StatusNotFound, status, "a client's key shows nothing")

	require.NoError(t, filepath.WalkDir(g.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil //nolint:nilerr // a file that has just been replaced
		}
		content, _ := os.ReadFile(path)
		require.NotContains(t, string(content), "albatross", path)
		return nil
	}))
	require.Equal(t, 2, countFiles(t, filepath.Join(g.Dir, "blobs", "bodies")))
	require.Contains(t, line("bodies", "delete", "--organization", "acme"), "2 exchanges")
	require.Zero(t, countFiles(t, filepath.Join(g.Dir, "blobs", "bodies")))
	_, err = show(list("acme")[0].Str)
	require.Error(t, err)
}

func countFiles(t *testing.T, dir string) (n int) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && !strings.HasPrefix(d.Name(), ".") {
			n++
		}
		return nil
	}))
	return n
}
