package hostile

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/test/harness"
)

// TestPoint7WindowsSurviveRestarts uses up a limit of a day and one of an hour, kills the gateway, and asks again.
func TestPoint7WindowsSurviveRestarts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	g := harness.Run(t, dir)
	day := &configv1.Limit{Domain: "requests", Unit: configv1.Unit_DAY, RequestsPerUnit: 4}
	hour := &configv1.Limit{Domain: "tokens", Unit: configv1.Unit_HOUR, RequestsPerUnit: 600}
	g.Apply(t, &configv1.Organization{Name: "days", Limits: []*configv1.Limit{day}},
		&configv1.Organization{Name: "hours", Limits: []*configv1.Limit{hour}},
		&configv1.Organization{Name: "free", Limits: []*configv1.Limit{day}})
	keys := map[string]string{}
	for _, name := range []string{"days", "hours", "free"} {
		_, keys[name] = g.CreateKey(t, name, "")
	}
	ask := func(of string) int {
		body := `{"model":"echo/echo","messages":[{"role":"user","content":"` + strings.Repeat("word ", 100) +
			`"}],"max_tokens":150}`
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.URL+"/v1/chat/completions",
			strings.NewReader(body))
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer "+keys[of])
		r.Header.Set("Content-Type", "application/json")
		response, err := g.Client.Do(r)
		require.NoError(t, err)
		defer response.Body.Close()
		_, _ = io.Copy(io.Discard, response.Body)
		return response.StatusCode
	}
	harness.Eventually(t, "the key is known", func() error {
		if ask("free") == http.StatusUnauthorized {
			return io.EOF
		}
		return nil
	})
	for _, of := range []string{"days", "hours"} {
		n := 0
		for ; n < 6 && ask(of) == http.StatusOK; n++ {
		}
		require.Less(t, n, 6, of)
		require.Positive(t, n, of)
	}
	g.Kill() // at once: what has ended is in the spool, and not in the ledger yet
	begun := time.Now()
	g = harness.Run(t, dir)
	figure(t, "killed until ready, with windows of the ledger", "%s", time.Since(begun).Round(10*time.Millisecond))
	require.Equal(t, http.StatusTooManyRequests, ask("days"))
	require.Equal(t, http.StatusTooManyRequests, ask("hours"))
	require.Equal(t, http.StatusOK, ask("free"), "the others go on")
}
