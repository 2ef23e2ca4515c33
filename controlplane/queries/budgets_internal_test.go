package queries

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/ledger"
	"github.com/modelgate/modelgate/internal/usage"
)

func TestForecastGoesOnAsInTheLastWeek(t *testing.T) {
	const dollar = usage.Nano(1e9)
	now := time.Date(2026, 5, 20, 12, 0, 0, 0, time.UTC) // 7.5 days after the 13th
	for _, c := range []struct {
		unit        configv1.Unit
		spent, week usage.Nano
		days        int // that there were before today
		want        string
		until       string // when all is spent; empty: it is not
	}{
		{configv1.Unit_MONTH, 40 * dollar, 15 * dollar, 7, "63", ""}, // 2 dollars a day for 11.5 days
		{configv1.Unit_DAY, dollar, 15 * dollar, 7, "2", ""},         // and for half a day
		{configv1.Unit_MONTH, 40 * dollar, 0, 7, "40", ""},
		{configv1.Unit_MONTH, 0, 0, 7, "0", ""},
		{configv1.Unit_MONTH, 3 * dollar, 3 * dollar, 1, "26", ""}, // 3 dollars in a day and a half
		{configv1.Unit_MONTH, dollar, dollar, 0, "12.5", ""},       // in half a day, which counts as one
		{configv1.Unit_MONTH, 90 * dollar, 15 * dollar, 7, "113", "2026-05-25T12:00:00Z"},
		{configv1.Unit_MONTH, 100 * dollar, 15 * dollar, 7, "123", ""}, // it is spent
	} {
		use := budgetUse("key/k", &configv1.Budget{Unit: c.unit, Usd: "100"}, c.spent, c.spent, now)
		foresee(&use, ledger.Week{Spent: c.week, From: now.Truncate(24*time.Hour).AddDate(0, 0, -c.days)}, now)
		require.Equal(t, c.want, use.Forecast, c)
		if require.Equal(t, c.until != "", use.SpentAt != nil, c); use.SpentAt != nil {
			require.Equal(t, c.until, use.SpentAt.Format(time.RFC3339), c)
		}
	}
	// On the first of a month the week before tells what is to come.
	first := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	use := budgetUse("key/k", &configv1.Budget{Unit: configv1.Unit_MONTH, Usd: "100"}, 0, 0, first)
	foresee(&use, ledger.Week{Spent: 7 * dollar, From: first.AddDate(0, 0, -7)}, first)
	require.Equal(t, "30", use.Forecast)
}
