package ledger_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
	"github.com/modelgate/modelgate/controlplane/attention"
	"github.com/modelgate/modelgate/controlplane/ledger"
)

func TestWhatProcessesTellOfTheirSpools(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		l := open(t, dsn)
		service := ledger.NewService(l)
		tell := func(process, trouble string, dropped int64) {
			_, err := service.Record(t.Context(), &ledgerv1.RecordRequest{Spool: &ledgerv1.SpoolReport{Process: process,
				Trouble: trouble, Dropped: dropped}})
			require.NoError(t, err)
		}
		known := func() []attention.SpoolTrouble {
			all, err := l.Spools(t.Context())
			require.NoError(t, err)
			for i := range all {
				require.False(t, all[i].Since.IsZero())
				all[i].Since = time.Time{}
				if all[i].Stores == "" {
					all[i].StoresSince = time.Time{}
				}
			}
			return all
		}
		require.Empty(t, known())
		tell("b", "full", 0)
		tell("a", "full", 0)
		tell("b", "full", 3)
		require.Equal(t, []attention.SpoolTrouble{{Process: "a", Trouble: "full"},
			{Process: "b", Trouble: "full", Dropped: 3}}, known())
		_, err := service.Record(t.Context(), &ledgerv1.RecordRequest{Spool: &ledgerv1.SpoolReport{Process: "c",
			Stores: "Redis is away.", StoresSince: timestamppb.New(noon)}})
		require.NoError(t, err)
		require.Equal(t, attention.SpoolTrouble{Process: "c", Stores: "Redis is away.", StoresSince: noon}, known()[2])
		tell("c", "", 0)
		tell("a", "", 0)
		require.Equal(t, []attention.SpoolTrouble{{Process: "b", Trouble: "full", Dropped: 3}}, known())
		l.SetNow(func() time.Time { return noon.Add(16 * time.Minute) })
		require.Empty(t, known(), "it has died, or says it every second")
	})
}
