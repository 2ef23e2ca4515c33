package main

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// TestPoliciesAreTried sends policies of files and stored ones, and prints what they would have done.
func TestPoliciesAreTried(t *testing.T) {
	f, c := startFakeAdmin(t), &cli{}
	f.objects = []configv1.Object{&configv1.Policy{Name: "stored", Rules: []*configv1.PolicyRule{{Name: "r",
		Deny: "true"}}}}
	f.trial = adminapi.PolicyTrial{Policies: []string{"office"}, Requests: 9840, Refused: 312, Served: 300, Unknown: 5,
		Chosen: 42,
		Start:  time.Unix(0, 0), End: time.Unix(86400, 0),
		Rules: []adminapi.PolicyTrialRule{{Rule: "office/large", Refused: 312, Unknown: 5, Missing: []string{"size",
			"tools"},
			Examples: []string{"x1", "x2"}}, {Rule: "office/seen", Observe: true}},
		Keys:   []adminapi.PolicyTrialCount{{Name: "key_1", DisplayName: "ci\x1b[2J", Refused: 300}, {Refused: 12}},
		Models: []adminapi.PolicyTrialCount{{Name: "gpt-5", Refused: 312}}}
	require.NoError(t, os.WriteFile("p.yaml", []byte("kind: Policy\nname: new\nrules: [{name: r, deny: stream}]\n"), 0o600))
	out, _ := c.run(t, exitOK, "policy", "test", "-f", "p.yaml", "stored", "--since", "2026-11-01")
	for _, part := range []string{"office would have refused 312 of 9840 requests from 1970-01-01T00:00:00Z",
		"300 of these were served", "5 more may have been refused",
		"42 would have been for the model", "size, tools", "x1 x2", "observes only", "all others",
		"gpt-5"} {
		require.Contains(t, out, part)
	}
	require.NotContains(t, out, "\x1b", "nothing that a terminal obeys")
	require.Contains(t, string(f.body), `"name":"new"`)
	require.Contains(t, string(f.body), `"name":"stored"`)
	require.Contains(t, f.asked[len(f.asked)-1], "start=1793491200")

	now := time.Unix(3600, 0)
	f.trial.JudgedFrom = &now
	out, _ = c.run(t, exitOK, "policy", "test")
	require.Contains(t, out, "from 1970-01-01T01:00:00Z")
	require.Contains(t, out, "The time was not enough")
	require.Equal(t, "[]", string(f.body), "the stored ones")
	out, _ = c.run(t, exitOK, "policy", "test", "-o", "json")
	require.Contains(t, out, `"refused":312`)

	require.NoError(t, os.WriteFile("o.yaml", []byte("kind: Organization\nname: acme\n"), 0o600))
	_, errOut := c.run(t, exitUsage, "policy", "test", "-f", "o.yaml")
	require.Contains(t, errOut, "no Policy")
	_, errOut = c.run(t, exitFailed, "policy", "test", "nothing")
	require.Contains(t, errOut, "no such object")
}
