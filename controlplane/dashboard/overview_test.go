package dashboard_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

func TestTheOverviewOfATenantBeforeAnythingHasHappened(t *testing.T) {
	b := newBench(t)
	owner := b.owner(t)
	b.put(t, &configv1.Organization{Name: "acme"})
	for role, says := range map[string]string{"ADMIN": "Create a key", "VIEWER": "once clients call the gateway"} {
		owner.get("/new/account")
		made := owner.post("/accounts", "name", strings.ToLower(role), "role", "ROLE_UNSPECIFIED", "memberships",
			"acme "+role, "password", goodPassword)
		require.Equal(t, 303, made.status, text(made.body))
		w := b.browser(t)
		require.Equal(t, 303, w.signIn(strings.ToLower(role), goodPassword).status)
		p := w.get("/")
		require.Equal(t, 200, p.status, text(p.body))
		require.Contains(t, text(p.body), says)
		require.NotContains(t, p.body, "/new/provider")
	}
}

// What fails is shown before what is expensive, and what is not shown is counted.
func TestTheOverviewHidesNothingThatIsBroken(t *testing.T) {
	b := newBench(t)
	w := b.owner(t)
	b.ledger.series = func(q url.Values) adminapi.Series {
		s := adminapi.Series{Totals: adminapi.Totals{Requests: 100, Errors: 1}}
		if q.Get("order") == "errors" {
			s.Groups = []adminapi.SeriesGroup{{Name: "the-broken-one", Totals: adminapi.Totals{Requests: 1, Errors: 1}}}
			s.GroupsLeftOut = 12
		}
		return s
	}
	p := w.get("/").body
	for _, by := range []string{"model", "provider"} {
		require.Contains(t, p, `href="/usage?`+by+`=the-broken-one&amp;range=24h"`)
		require.Contains(t, p, `href="/usage?by=`+by+`&amp;measure=errors&amp;range=24h">12 more</a>`)
	}
	b.put(t, &configv1.Organization{Name: "acme"})
	p = w.get("/organizations/acme").body
	require.Contains(t, p, `the-broken-one`)
	require.Regexp(t, `href="/usage\?organization=acme&amp;by=\w+&amp;measure=errors&amp;range=24h">12 more</a>`, p)
}

func TestAFreshInstallationSaysWhatNobodyHasTried(t *testing.T) {
	b := newBench(t)
	w := b.owner(t)
	b.ledger.attention = []adminapi.Attention{}
	b.ledger.health = []adminapi.ProviderHealth{{Provider: "frost", State: adminapi.ProviderUntried},
		{Provider: "old", State: adminapi.ProviderOK, Deleted: true}}
	p := text(w.get("/").body)
	require.Contains(t, p, "Nothing. Budgets have room, and the data plane uses the newest configuration. Not asked yet: frost.")
	b.ledger.health[1].Deleted = false
	require.Contains(t, text(w.get("/").body), "Nothing. Providers answer, budgets have room")
}
