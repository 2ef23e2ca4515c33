package extproc

import (
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/guard"
)

// Guardrails judge the error of an attempt also if it is sent only after the next one could not be made.
func TestWithoutTheListenerGuardrailsJudgeTheError(t *testing.T) {
	g := startAgain(t)
	rails, err := guard.Compile([]*configv1.Guardrail{{Name: "g", Rules: []*configv1.GuardRule{{Name: "email",
		Mode: configv1.GuardMode_BLOCK, In: []configv1.GuardSide{configv1.GuardSide_ANSWERS},
		Data: []configv1.SensitiveData{configv1.SensitiveData_EMAIL}}}}})
	require.NoError(t, err)
	config := g.server.config.current.Load()
	config.Rails = rails
	config.Models["passes"] = &configv1.Model{Name: "passes", Targets: []*configv1.Target{
		{Provider: "second", Model: "m"}, {Provider: "third", Model: "m", Priority: 1}}}
	g.answers = map[string]http.HandlerFunc{"second": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":"resp_1","object":"response","status":"failed","output":[],`+
			`"error":{"code":"server_error","message":"boom for ann@x.example"}}`)
	}}
	require.NoError(t, os.Remove(g.socket))
	require.NoError(t, os.WriteFile(g.socket, nil, 0o600)) // as a listener that was killed leaves it
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.url+"/v1/responses",
		strings.NewReader(`{"model":"passes","input":"hi"}`))
	require.NoError(t, err)
	r.Header = http.Header{"Authorization": {"Bearer " + g.key}, "Content-Type": {"application/json"}}
	response, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusInternalServerError, response.StatusCode, string(body))
	require.Contains(t, string(body), "g/email")
	require.NotContains(t, string(body), "ann@x.example")
	require.Equal(t, []string{"second"}, g.asked)
}
