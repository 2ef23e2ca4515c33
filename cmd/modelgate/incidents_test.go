package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	adminapi "github.com/modelgate/modelgate/api/admin"
)

func TestIncidentsSayWhatIsWrongAndHowToUndoIt(t *testing.T) {
	f, c := startFakeAdmin(t), &cli{}
	out, _ := c.run(t, exitOK, "incidents")
	require.Equal(t, "No incidents.\n", out)
	at := time.Date(2026, 11, 20, 18, 52, 57, 0, time.UTC)
	f.incidents = []adminapi.Incident{{ID: "inc_1", Kind: "credential_rejected", Subject: "provider/frost", State: "open",
		Severity: "error", Since: at, Why: "frost refuses our credential\x1b[2J", Gateway: "It falls back to echo.",
		Hit: adminapi.IncidentHit{Requests: 50, CostUSD: "0.1", Organizations: []string{"acme"}},
		Change: &adminapi.IncidentChange{At: at.Add(-time.Second), Actor: "ann", Action: "updated", Kind: "Provider",
			Name: "frost", Command: "modelgate config rollback --revision 4 provider frost"},
		AcknowledgedBy: "bob", AcknowledgedAt: &at,
		Transitions: []adminapi.IncidentTransition{{At: at, State: "open", Kind: "provider_failing", Why: "frost fails"}},
		Notes:       []adminapi.IncidentNote{{At: at, Author: "bob", Text: "It comes at noon."}}}}
	out, _ = c.run(t, exitOK, "incidents", "--closed")
	require.Regexp(t, `provider/frost +acknowledged +error +2026-11-20T18:52:57Z +50 +frost refuses.* +inc_1`, out)
	require.NotContains(t, out, "\x1b", "nothing that a terminal obeys")
	require.Contains(t, f.asked[len(f.asked)-1], "closed=true")

	for _, args := range [][]string{{"show", "inc_1"}, {"ack", "inc_1", "--note", "It comes at noon."},
		{"note", "inc_1", "It comes at noon."}} {
		out, _ = c.run(t, exitOK, append([]string{"incidents"}, args...)...)
		for _, part := range []string{"Hit            50 requests, $0.1\n", "Organizations  acme\n",
			"Last change    ann updated Provider frost at 2026-11-20T18:52:56Z\n",
			"Undo           modelgate config rollback --revision 4 provider frost\n",
			"Acknowledged   by bob at 2026-11-20T18:52:57Z\n",
			"2026-11-20T18:52:57Z  open  provider_failing  frost fails\n",
			"2026-11-20T18:52:57Z  bob: It comes at noon.\n"} {
			require.Contains(t, out, part, args)
		}
		require.NotContains(t, out, "\x1b")
	}
	require.JSONEq(t, `{"text":"It comes at noon."}`, string(f.body))
}
