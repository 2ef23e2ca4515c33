package files

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/modelgate/modelgate/internal/etcdtest"
	"github.com/modelgate/modelgate/jobsvc/rest"
	"github.com/modelgate/modelgate/jobsvc/store"
)

// TestAReservationThatGrowsWithinASecondExpires holds that nothing stays reserved for ever where a replica is killed
// that receives a file: neither what was reserved once, nor what has grown, within the second or later.
func TestAReservationThatGrowsWithinASecondExpires(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	st := store.New(etcdtest.Start(t)).Counting(Counted()...)
	s := &Service{Options: Options{Store: st, Now: func() time.Time { return now }, Log: zap.NewNop()}}
	for _, pauses := range [][]time.Duration{{0}, {0, 0}, {0, time.Second}, {0, time.Second, 0}} {
		h := &hold{s: s, c: rest.Caller{Tenant: store.Tenant{Organization: "org"}, Bounds: store.Bounds{}}}
		for i, pause := range pauses {
			now = now.Add(pause)
			require.NoError(t, h.reserve(t.Context(), int64(100*(i+1))))
		}
		now = now.Add(reserved + time.Second)
		require.NoError(t, st.Reap(t.Context(), now,
			map[string]func(context.Context, store.Expiry) error{reservations.Name: s.expireReservation}))
		_, err := reservations.Get(t.Context(), st, h.on.Tenant, h.on.ID)
		require.ErrorIs(t, err, store.ErrNotFound, "%v", pauses)
	}
}
