package limit

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// spend admits requests one after the other until one is refused, or so many are.
func spend(t *testing.T, l Limiter, most int, rules ...Rule) (n int64) {
	t.Helper()
	for range most {
		d := reserve(t, l, Amounts{Requests: 1, Cost: 1}, rules...)
		if d.Refused >= 0 {
			break
		}
		d.Reservation.Settle(Amounts{Requests: 1, Cost: 1})
		n++
	}
	return n
}

func TestRegionsDivideARate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rule := Rule{Counter: "r", Measure: Requests, Window: Hour, Limit: 21}
		total := int64(0)
		for _, part := range []float64{0.3, 0.7} {
			total += spend(t, Divide(NewMemory(Options{}), Division{Part: part}), 100, rule)
		}
		require.EqualValues(t, 6+14, total, "a part is rounded down")
		rule.Limit = 1
		require.EqualValues(t, 1, spend(t, Divide(NewMemory(Options{}), Division{Part: 0.3}), 100, rule), "but not to 0")
		rule.Limit = 0
		require.Zero(t, spend(t, Divide(NewMemory(Options{}), Division{Part: 0.3}), 100, rule))
	})
}

// TestRegionsDivideWhatIsLeftOfABudget: a region that hears what all have spent may spend the rest, whoever spent it.
// One that is cut off spends its part of what was left then.
func TestRegionsDivideWhatIsLeftOfABudget(t *testing.T) {
	const budget = 1000
	rule := Rule{Counter: "b", Measure: Cost, Window: CalendarMonth, Limit: budget}
	start := func() (all [2]Limiter) {
		for i, part := range []float64{0.4, 0.6} {
			all[i] = Divide(NewMemory(Options{}), Division{Part: part, OneLedger: true})
		}
		return all
	}
	tell := func(t *testing.T, l Limiter, spent int64) {
		t.Helper()
		require.NoError(t, l.Raise(t.Context(), "b", CalendarMonth, time.Now(), spent))
	}
	synctest.Test(t, func(t *testing.T) {
		regions := start()
		spent := spend(t, regions[0], budget, rule)
		require.EqualValues(t, 400, spent, "before it has heard anything")
		for spent < budget {
			tell(t, regions[0], spent)
			n := spend(t, regions[0], 90, rule)
			require.Positive(t, n, "%d are spent", spent)
			spent += n
		}
		require.EqualValues(t, budget, spent)
		tell(t, regions[1], spent)
		require.Zero(t, spend(t, regions[1], 1, rule), "the other hears of it")
		time.Sleep(32 * 24 * time.Hour)
		require.EqualValues(t, 600, spend(t, regions[1], budget, rule), "the next month")
		tell(t, regions[1], 700)
		require.EqualValues(t, 180, spend(t, regions[1], budget, rule))
	})
	synctest.Test(t, func(t *testing.T) {
		regions, spent := start(), int64(500)
		tell(t, regions[0], spent)
		tell(t, regions[1], spent)
		alone := spend(t, regions[1], budget, rule) // cut off
		require.EqualValues(t, 300, alone)
		for more := int64(1); more > 0; spent += more {
			tell(t, regions[0], spent)
			more = spend(t, regions[0], 50, rule)
		}
		require.EqualValues(t, budget, spent)
		require.LessOrEqual(t, spent+alone, int64(budget+300), "what was left for the region that was cut off")
	})
}

func TestAPartOfTheUsageOfAllCountsAfterAStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rule := Rule{Counter: "h", Measure: Requests, Window: Hour, Limit: 100}
		for ledger, want := range map[bool]int64{true: 25, false: 0} {
			l := Divide(NewMemory(Options{}), Division{Part: 0.5, OneLedger: ledger})
			require.NoError(t, l.Seed(t.Context(), []Past{{"h", Hour, time.Now(), 50}}))
			require.Equal(t, want, spend(t, l, 100, rule))
		}
	})
}
