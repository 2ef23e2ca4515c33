package dashboard_test

import (
	"net/url"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestThePageOfApprovals(t *testing.T) {
	b := newBench(t)
	owner := b.owner(t)
	rule := "kind: ApprovalRule\nname: big\nbudget_usd_month: '100'\nkeys: true\n"
	made := owner.post("/objects/ApprovalRule", "action", "save", "text", rule)
	require.Equal(t, 303, made.status, text(made.body))
	olga, ann := b.person(t, owner, "olga", "OPERATOR"), b.person(t, owner, "ann", "ADMIN")
	require.Contains(t, text(ann.get("/approvals").body), "Nothing waits")

	olga.get("/new/organization")
	asked := olga.post("/organizations", "name", "acme", "budget_month", "500")
	require.Equal(t, 303, asked.status, text(asked.body))
	require.Equal(t, "/approvals?done=waiting", asked.header.Get("Location"))
	page := olga.get("/approvals?done=waiting").body
	for _, part := range []string{"Nothing is changed yet", "Organization acme", "up to $500 a month", "asked by olga",
		"Withdraw"} {
		require.Contains(t, text(page), part)
	}
	require.NotContains(t, page, `value="approve"`)

	page = ann.get("/approvals").body
	require.Contains(t, page, `value="approve"`)
	require.Contains(t, text(page), "usd: \"500\"")
	require.NotContains(t, page, `value="withdraw"`)
	path := regexp.MustCompile(`/approvals/apr_[0-9A-Z]+`).FindString(page)
	require.Equal(t, 403, ann.postForm(path, url.Values{"action": {"approve"}, "csrf": {"x"}}).status,
		"a form of elsewhere")
	own := olga.post(path, "action", "approve")
	require.Equal(t, 422, own.status)
	require.Contains(t, text(own.body), "admins:write")
	require.Equal(t, 404, olga.get("/organizations/acme").status)
	done := ann.post(path, "action", "approve")
	require.Equal(t, "/approvals?done=approved", done.header.Get("Location"), text(done.body))
	require.Equal(t, 200, olga.get("/organizations/acme").status)
	late := ann.post(path, "action", "approve")
	require.Equal(t, 422, late.status)
	require.Contains(t, text(late.body), "does not wait")

	olga.get("/new/key")
	key := olga.post("/keys", "display_name", "ci", "organization", "acme")
	require.Equal(t, 200, key.status)
	require.Contains(t, key.body, "sk-mg-")
	require.Contains(t, text(key.body), "The key does not work yet.")
	path = regexp.MustCompile(`/approvals/apr_[0-9A-Z]+`).FindString(ann.get("/approvals").body)
	require.Equal(t, "/approvals?done=rejected", ann.post(path, "action", "reject", "reason",
		"No.").header.Get("Location"))

	viewer := b.person(t, owner, "vera", "VIEWER")
	require.Equal(t, 403, viewer.get("/approvals").status)
	require.NotContains(t, viewer.get("/account").body, `href="/approvals"`)
}
