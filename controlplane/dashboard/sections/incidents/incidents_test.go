package incidents_test

import (
	"encoding/json"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/dashboard/page/pagetest"
	"github.com/modelgate/modelgate/controlplane/dashboard/sections/incidents"
	"github.com/modelgate/modelgate/internal/httpapi"
)

// text returns the words of a page.
func text(page string) string {
	plain := regexp.MustCompile(`<[^>]*>`).ReplaceAllString(page, " ")
	return html.UnescapeString(strings.Join(strings.Fields(plain), " "))
}

func TestAnIncidentIsShownWithItsUndoAndTakesNotes(t *testing.T) {
	at := time.Date(2026, 11, 20, 18, 52, 57, 0, time.UTC)
	one := adminapi.Incident{ID: "inc_1", Kind: "credential_rejected", Subject: "provider/frost",
		Object: "Provider frost", Severity: "error", State: "open", Since: at,
		Why: "frost refuses our credential <b>.", Path: "/providers/frost",
		Requests: "/requests?outcome=error&provider=frost", Gateway: "It falls back to echo for smart.",
		Hit: adminapi.IncidentHit{Requests: 50, CostUSD: "0.25", Organizations: []string{"acme"},
			Keys: []string{"ci"}, Models: []string{"smart"}, Batches: []string{"batch_1"}},
		Change: &adminapi.IncidentChange{At: at.Add(-time.Second), Actor: "ann", Action: "updated", Kind: "Provider",
			Name: "frost", Undo: "/rollback/providers/frost?revision=4", Command: "modelgate config rollback"},
		Transitions: []adminapi.IncidentTransition{{At: at, State: "open", Kind: "provider_failing", Why: "frost fails"}},
		Notes:       []adminapi.IncidentNote{{At: at, Author: "bob", Text: "It comes at noon."}}}
	was := one
	was.ID, was.State, was.Until = "inc_0", "closed", &at
	var said adminapi.IncidentNoteRequest
	api := http.NewServeMux()
	api.HandleFunc("GET /admin/v1/incidents", func(w http.ResponseWriter, _ *http.Request) {
		_ = httpapi.WriteJSON(w, http.StatusOK, adminapi.Incidents{Items: []adminapi.Incident{one, was}})
	})
	api.HandleFunc("GET /admin/v1/incidents/inc_1", func(w http.ResponseWriter, _ *http.Request) {
		_ = httpapi.WriteJSON(w, http.StatusOK, one)
	})
	api.HandleFunc("POST /admin/v1/incidents/inc_1", func(w http.ResponseWriter, r *http.Request) {
		require.NoError(t, json.NewDecoder(r.Body).Decode(&said))
		_ = httpapi.WriteJSON(w, http.StatusOK, one)
	})
	b := pagetest.New(incidents.Section(), api, &configv1.Account{Name: "bob", Role: configv1.Role_OWNER})

	listed := b.Get("/incidents")
	require.Equal(t, http.StatusOK, listed.Code)
	require.Contains(t, listed.Body.String(), `href="/incidents/inc_1"`)
	require.Contains(t, text(listed.Body.String()), "50 requests")
	shown := b.Get("/incidents/inc_1").Body.String()
	for _, part := range []string{"frost refuses our credential <b>.", "It falls back to echo for smart.",
		"Organizations acme", "Keys ci", "Models smart",
		"Batches batch_1", "ann: updated Provider frost", "provider_failing frost fails",
		"It comes at noon. bob"} {
		require.Contains(t, text(shown), part)
	}
	require.NotContains(t, shown, "<b>")
	for _, link := range []string{"/rollback/providers/frost?revision=4", "/requests?outcome=error&amp;provider=frost",
		"/providers/frost", "/batches/batch_1"} {
		require.Contains(t, shown, `href="`+link+`"`)
	}
	require.Equal(t, http.StatusSeeOther, b.Post("/incidents/inc_1", url.Values{"action": {"acknowledge"},
		"text": {" I restart it. "}}).Code)
	require.Equal(t, adminapi.IncidentNoteRequest{Text: "I restart it.", Acknowledge: true}, said)

	viewer := pagetest.New(incidents.Section(), api, &configv1.Account{Name: "eve", Role: configv1.Role_VIEWER})
	seen := viewer.Get("/incidents/inc_1").Body.String()
	require.NotContains(t, seen, `name="text"`)
	require.NotContains(t, seen, "/rollback/")
	require.Equal(t, http.StatusForbidden, viewer.Post("/incidents/inc_1", url.Values{}).Code)
}
