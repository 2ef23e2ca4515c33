package figures

import (
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	adminapi "github.com/modelgate/modelgate/api/admin"
)

func instant(t *testing.T, text string) time.Time {
	t.Helper()
	v, err := time.Parse(time.RFC3339, text)
	require.NoError(t, err)
	return v
}

func TestSpanOfAnAddress(t *testing.T) {
	now := instant(t, "2026-05-20T14:37:21Z")
	for _, c := range []struct {
		query, from, to string
		width           time.Duration
		buckets         int
	}{
		{"range=15m", "2026-05-20T14:23:00Z", "2026-05-20T14:38:00Z", time.Minute, 15},
		{"range=1h", "2026-05-20T13:38:00Z", "2026-05-20T14:38:00Z", time.Minute, 60},
		{"range=6h", "2026-05-20T08:40:00Z", "2026-05-20T14:40:00Z", 5 * time.Minute, 72},
		{"", "2026-05-19T15:00:00Z", "2026-05-20T15:00:00Z", time.Hour, 24},
		{"range=24h", "2026-05-19T15:00:00Z", "2026-05-20T15:00:00Z", time.Hour, 24},
		{"range=7d", "2026-05-13T15:00:00Z", "2026-05-20T15:00:00Z", time.Hour, 168},
		{"range=30d", "2026-04-21T00:00:00Z", "2026-05-21T00:00:00Z", 24 * time.Hour, 30},
		{"range=90d", "2026-02-20T00:00:00Z", "2026-05-21T00:00:00Z", 24 * time.Hour, 90},
		// One of a chart that was dragged over.
		{"range=custom&from=2026-05-20T10:00&to=2026-05-20T10:30", "2026-05-20T10:00:00Z", "2026-05-20T10:30:00Z",
			time.Minute, 30},
		{"range=custom&from=2026-05-20T07:01&to=2026-05-20T11:02", "2026-05-20T07:00:00Z", "2026-05-20T11:05:00Z",
			5 * time.Minute, 49},
		// Older than sums by minute are kept.
		{"range=custom&from=2026-05-10T10:10&to=2026-05-10T10:30", "2026-05-10T10:00:00Z", "2026-05-10T11:00:00Z",
			time.Hour, 1},
		// Days, of which the last counts.
		{"from=2026-03-01&to=2026-03-31", "2026-03-01T00:00:00Z", "2026-04-01T00:00:00Z", 24 * time.Hour, 31},
		{"range=custom&from=2026-05-19T12:00:00Z", "2026-05-19T12:00:00Z", "2026-05-20T15:00:00Z", time.Hour, 27},
		{"range=custom&from=2026-05-20T14:00&to=2027-01-01", "2026-05-20T14:00:00Z", "2026-05-20T14:38:00Z", time.Minute, 38},
	} {
		t.Run(c.query, func(t *testing.T) {
			q, err := url.ParseQuery(c.query)
			require.NoError(t, err)
			s := spanIn(q, now)
			require.Empty(t, s.Problem)
			require.Equal(t, c.from+" "+c.to, s.From.Format(time.RFC3339)+" "+s.To.Format(time.RFC3339))
			require.Equal(t, c.width, s.Width)
			require.Len(t, s.Buckets(), c.buckets)
			require.Len(t, s.Previous().Buckets(), c.buckets)
			require.Equal(t, s.From, s.Previous().To)
			require.NotEqual(t, "", s.Unit()+s.Name())

			// A link leads to the same time.
			q, err = url.ParseQuery(string(s.Query()))
			require.NoError(t, err)
			require.Equal(t, s, spanIn(q, now))
		})
	}
}

func TestOnlyARangeThatGoesOnHasABucketUnderWay(t *testing.T) {
	now := instant(t, "2026-05-20T14:37:21Z")
	for query, open := range map[string]bool{
		"":                                   true,
		"range=90d":                          true,
		"range=custom&from=2026-05-20T14:00": true,
		"range=custom&from=2026-05-19&to=2026-05-19":                 false,
		"range=custom&from=2026-05-20T10:00&to=2026-05-20T10:30":     false,
		"range=custom&from=2026-05-20T14:00&to=2026-05-20T14:37":     false,
		"range=custom&from=2026-05-20T14:00&to=2026-05-20T14:37:10Z": true,
	} {
		q, err := url.ParseQuery(query)
		require.NoError(t, err)
		s := spanIn(q, now)
		require.Equal(t, open, s.Open, query)
		require.Equal(t, open, TimeChart("Requests", "", s).Open, query)
		require.False(t, s.Previous().Open)
	}
}

func TestErrorsArePartsOfTheBarsOfRequests(t *testing.T) {
	s := spanIn(url.Values{"range": {"1h"}}, instant(t, "2026-05-20T14:37:21Z"))
	bucket := func(requests, errors int64) []adminapi.SummaryHour {
		return []adminapi.SummaryHour{{Start: s.From, Totals: adminapi.Totals{Requests: requests, Errors: errors}}}
	}
	found := adminapi.Series{Buckets: bucket(12, 4), Groups: []adminapi.SeriesGroup{{Name: "gpt", Buckets: bucket(9, 3)}}}
	c := Stack("Requests", "requests", found, s)
	require.Equal(t, "Requests. gpt: 9 in total, highest 9, 3 errors. others: 3 in total, highest 3, 1 errors.", c.Summary())
	require.Equal(t, 3.0, *c.Series[0].Errors[0])
	rows := c.Rows()
	require.Equal(t, []string{"9, 3 errors", "3, 1 errors"}, rows[len(rows)-1].Cells)
	require.Nil(t, Stack("Tokens", "tokens", found, s).Series[0].Errors)
}

func TestSpanThatIsWrongIsTheLastDayAndSaysWhy(t *testing.T) {
	now := instant(t, "2026-05-20T14:37:21Z")
	for query, problem := range map[string]string{
		"range=2h":                                      `There is no time range "2h".`,
		"range=custom":                                  "The begin of the time range must be a date",
		"range=custom&from=yesterday":                   "The begin of the time range must be a date",
		"range=custom&from=2026-05-01&to=x":             "The end of the time range must be a date",
		"range=custom&from=2026-05-02&to=2026-04-30":    "must begin before it ends",
		"range=custom&from=2026-05-20T15:00":            "must begin before it ends, and before now",
		"range=custom&from=1970-01-01&to=2026-05-20":    "must not be longer than 400 days",
		"range=custom&from=0001-01-01&to=2026-05-20":    "must not be longer than 400 days",
		"range=custom&from=-9999-01-01&to=99999-05-20":  "must be a date",
		"range=custom&from=2026-05-20T1&to=2026-05-200": "must be a date",
	} {
		q, err := url.ParseQuery(query)
		require.NoError(t, err)
		s := spanIn(q, now)
		require.Contains(t, s.Problem, problem, query)
		require.Equal(t, "24h", s.Range)
		require.Len(t, s.Buckets(), 24)
	}
}

func TestChartOfATimePutsValuesIntoTheirBuckets(t *testing.T) {
	now := instant(t, "2026-05-20T14:37:21Z")
	s := spanIn(url.Values{"range": {"6h"}}, now)
	c := TimeChart("Requests", "", s)
	c.Put(0, "gpt", s.From, 1)
	c.Put(0, "gpt", s.From.Add(4*time.Minute+59*time.Second), 2)
	c.Put(1, "sonnet", s.To.Add(-time.Second), 7)
	c.Put(1, "sonnet", s.To, 100)
	c.Put(1, "sonnet", s.From.Add(-time.Second), 100)
	c.before([]float64{4, 5})
	require.Equal(t, 3.0, *c.Series[0].Values[0])
	require.Equal(t, 7.0, *c.Series[1].Values[71])
	require.Equal(t, "Requests. gpt: 3 in total, highest 3. sonnet: 7 in total, highest 7. Previous period: 9 in total, highest 5.",
		c.Summary())
	rows := c.Rows()
	require.Len(t, rows, 3, "buckets without values are left out")
	require.Equal(t, []string{"0", "7", "0"}, rows[0].Cells)
	require.Equal(t, []string{"0", "0", "5"}, rows[1].Cells)
	require.Equal(t, []string{"3", "0", "4"}, rows[2].Cells)
	require.Equal(t, s.From, rows[2].At)

	c.Gap(s.From)
	require.Nil(t, c.Series[0].Values[0])
	require.Len(t, c.Rows(), 2)
}
