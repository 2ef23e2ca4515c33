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
	}{
		{configv1.Unit_MONTH, 40 * dollar, 15 * dollar, 7, "63"}, // 2 dollars a day for 11.5 days
		{configv1.Unit_DAY, dollar, 15 * dollar, 7, "2"},         // and for half a day
		{configv1.Unit_MONTH, 40 * dollar, 0, 7, "40"},
		{configv1.Unit_MONTH, 0, 0, 7, "0"},
		{configv1.Unit_MONTH, 3 * dollar, 3 * dollar, 1, "26"}, // 3 dollars in a day and a half
		{configv1.Unit_MONTH, dollar, dollar, 0, "12.5"},       // in half a day, which counts as one
	} {
		use := budgetUse("key/k", &configv1.Budget{Unit: c.unit, Usd: "100"}, c.spent, c.spent, now)
		require.Equal(t, c.want, forecast(use, ledger.Week{Spent: c.week,
			From: now.Truncate(24*time.Hour).AddDate(0, 0, -c.days)}, now).String(), c)
	}
	// On the first of a month the week before tells what is to come.
	first := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	use := budgetUse("key/k", &configv1.Budget{Unit: configv1.Unit_MONTH, Usd: "100"}, 0, 0, first)
	require.Equal(t, "30", forecast(use, ledger.Week{Spent: 7 * dollar,
		From: first.AddDate(0, 0, -7)}, first).String())
}
