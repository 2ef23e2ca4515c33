package dashboard_test

import (
	"html"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
)

func TestFindingsAreShownByRuleAndLeadToTheirRequests(t *testing.T) {
	b, l := withRequests(t)
	now := time.Now()
	found := func(id, organization, model string, guards ...string) *ledgerv1.Record {
		return &ledgerv1.Record{Id: id, Start: timestamppb.New(now), End: timestamppb.New(now), Key: "key_1", Model: model,
			Organization: organization, Project: "web", Operation: "chat/completions", Status: 200, Outcome: "finished",
			Details: &ledgerv1.Details{Guards: guards}}
	}
	require.NoError(t, l.Record(t.Context(), []*ledgerv1.Record{
		found("one", "mine", "m", "mask personal/contact in the answer: 1", "mask personal/contact in the request: 2"),
		found("two", "mine", "n", "block personal/contact in the request: 1"),
		found("three", "secretcorp", "m", "observe policy secret/tools in the request: 1")}))
	w := b.owner(t)
	p := w.get("/findings?range=1h")
	require.Equal(t, 200, p.status)
	shown := strings.Join(strings.Fields(text(p.body)), " ")
	for _, says := range []string{"Rule Observed Masked Blocked Checker away", "personal/contact 1 3 findings 1",
		"secret/tools policy 1", "Requests with findings per minute"} {
		require.Contains(t, strings.ToLower(shown), strings.ToLower(says))
	}
	require.Contains(t, p.body, `href="/requests/three"`)
	link := regexp.MustCompile(`href="(/requests\?rule=guardrail[^"]*)"`).FindStringSubmatch(p.body)
	require.NotNil(t, link)
	log := w.get(html.UnescapeString(link[1]))
	require.Contains(t, log.body, `/requests/one"`)
	require.Contains(t, log.body, `/requests/two"`)
	require.NotContains(t, log.body, `/requests/three"`)
	require.Contains(t, log.body, `name="rule" value="guardrail personal/contact"`)

	require.NotContains(t, w.get("/findings?model=n").body, "secret/tools")
	p = w.get("/findings?action=none&rule=personal")
	require.Equal(t, 200, p.status)
	require.Contains(t, text(p.body), "Invalid value for 'action'")
	require.Contains(t, p.body, `value="personal"`)
	require.Contains(t, w.get("/findings?rule=nothing").body, "No findings in this time")

	// People of an organization see theirs.
	require.Equal(t, 303, w.post("/organizations", "name", "mine", "display_name", "mine").status)
	w.get("/new/account")
	require.Equal(t, 303, w.post("/accounts", "name", "mia", "role", "ROLE_UNSPECIFIED", "password", goodPassword,
		"memberships", "mine VIEWER").status)
	mia := b.browser(t)
	require.Equal(t, 303, mia.signIn("mia", goodPassword).status)
	p = mia.get("/findings")
	require.Contains(t, p.body, "personal/contact")
	require.NotContains(t, p.body, "secret")
	require.Equal(t, 403, mia.get("/findings?organization=secretcorp").status)
}
