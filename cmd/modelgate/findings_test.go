package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	adminapi "github.com/modelgate/modelgate/api/admin"
)

func TestFindingsAreShownByRuleAndAction(t *testing.T) {
	f, c := startFakeAdmin(t), &cli{}
	at := time.Unix(3600, 0).UTC()
	f.findings = adminapi.Findings{CountedFrom: &at, Items: []adminapi.Finding{
		{Kind: "guardrail", Rule: "personal/contact", Action: "mask", Requests: 3, Matches: 7, Last: at,
			Examples: []string{"x1", "x2"}},
		{Kind: "policy", Rule: "office/tools\x1b[2J", Action: "block", Requests: 1, Matches: 1, Last: at}}}
	out, _ := c.run(t, exitOK, "findings", "--since", "7d", "--rule", "personal", "--action", "mask", "--key", "billing")
	for _, part := range []string{"guardrail personal/contact  mask    3         7        1970-01-01T01:00:00Z  x1 x2",
		"policy office/tools", "Only the latest requests are counted, since 1970-01-01T01:00:00Z."} {
		require.Contains(t, out, part)
	}
	require.NotContains(t, out, "\x1b", "nothing that a terminal obeys")
	for _, part := range []string{"start=", "end=", "rule=personal", "action=mask", "key_name=billing"} {
		require.Contains(t, f.asked[0], part)
	}
	out, _ = c.run(t, exitOK, "findings", "-o", "json")
	require.Contains(t, out, `"examples":["x1","x2"]`)
	c.run(t, exitUsage, "findings", "--since", "soon")
	c.run(t, exitOK, "requests", "--rule", "policy office")
	require.Contains(t, f.asked[len(f.asked)-1], "rule=policy+office")
}
