package usage

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/controlplane/dashboard/figures"
)

func TestUsageLeadsToItsRequests(t *testing.T) {
	at := time.Date(2026, 5, 20, 12, 0, 0, 0, time.UTC)
	d := usageData{query: query{By: "project", Measure: "cost", Span: figures.Span{Range: "7d", Width: time.Hour},
		Filters: map[string][]string{"model": {"fast"}}}}
	require.Equal(t, "/requests?model=fast&organization=acme&project=web&range=7d", d.Requests("acme/web"))
	require.Equal(t, "/requests?model=fast&range=7d", d.Requests(""))
	require.Equal(t, "/requests?range=7d", usageData{query: query{Span: d.Span}}.Requests(""))
	require.Equal(t, "by=key&measure=cost&model=fast&project=acme%2Fweb", d.Only("acme/web"))
	require.Equal(t, "/usage?by=user&measure=cost&model=fast&range=7d", string(d.Also("user")))
	require.Equal(t, "/requests?from=2026-05-20T12%3A00&model=fast&to=2026-05-20T13%3A00",
		d.Of(adminapi.SummaryHour{Start: at}))
	d.Series.Buckets = []adminapi.SummaryHour{{Start: at, Totals: adminapi.Totals{Requests: 1}},
		{Start: at.Add(time.Hour)},
		{Start: at.Add(2 * time.Hour), Totals: adminapi.Totals{Requests: 2}}}
	require.Equal(t, []adminapi.SummaryHour{d.Series.Buckets[2], d.Series.Buckets[0]}, d.Bars())
	d.Filters["user"] = []string{"a", "b"}
	require.Empty(t, d.Requests(""), "the log takes one user")
	require.Empty(t, d.Of(adminapi.SummaryHour{Start: at}))
	require.Equal(t, []string{"a", "b"}, d.Filters["user"])
}
