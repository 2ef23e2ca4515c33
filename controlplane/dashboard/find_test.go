package dashboard_test

import (
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

func TestTheFinderFindsPagesObjectsAndIDs(t *testing.T) {
	b := newBench(t)
	w := b.owner(t)
	fill(t, b, w)
	for query, path := range map[string]string{
		"rate lim": "/rate-limits", "fast": "/models/team/fast", "acme": "/organizations/acme", "echo": "/providers/echo",
		"ada": "/accounts/ada", "batch_01JD3T9Q8H": "/batches/batch_01JD3T9Q8H",
		"ftjob-01JD3T9Q8H": "/fine-tuning/ftjob-01JD3T9Q8H",
		"01JD3T9Q8H6R5W4Z": "/requests?request_id=01JD3T9Q8H6R5W4Z",
	} {
		p := w.get("/find?q=" + url.QueryEscape(query))
		require.Equal(t, 200, p.status, query)
		require.Contains(t, p.body, `<li><a href="`+path+`">`, query)
	}
	require.Contains(t, w.get("/find?q=no+such+thing").body, "No matches.")

	viewer := b.person(t, w, "vera", configv1.Role_VIEWER.String())
	require.NotContains(t, viewer.get("/find?q=ada").body, "/accounts/ada")
	require.Contains(t, viewer.get("/find?q=echo").body, "/providers/echo")
}
