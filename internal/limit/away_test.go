package limit_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/limit"
)

func TestASpentBudgetIsSpentWhileTheStoreIsAway(t *testing.T) {
	client, err := limit.OpenRedis("redis://127.0.0.1:1/0")
	require.NoError(t, err)
	defer client.Close()
	r := limit.NewRedis(client, limit.RedisOptions{FailOpen: true, Share: 0.5})
	defer func() { _ = r.Close(t.Context()) }()
	d := limit.Demand{ID: "1", Rules: []limit.Rule{{Counter: "b", Measure: limit.Cost, Window: limit.CalendarMonth,
		Limit: 1000}}, Amounts: limit.Amounts{limit.Cost: 10}}
	require.Error(t, r.Raise(t.Context(), "b", limit.CalendarMonth, time.Now(), 990)) // 10 is left, half of it is ours
	decided, err := r.Reserve(t.Context(), d)
	require.NoError(t, err)
	require.Equal(t, 0, decided.Refused)
	d.Amounts[limit.Cost] = 5
	decided, err = r.Reserve(t.Context(), d)
	require.NoError(t, err)
	require.Equal(t, -1, decided.Refused)
}
