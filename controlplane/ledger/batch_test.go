package ledger_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	adminapi "github.com/modelgate/modelgate/api/admin"
	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
)

func TestTheCostOfABatch(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		l := open(t, dsn)
		unpriced := func(r *ledgerv1.Record) { r.Priced, r.CostNanoUsd = false, 0 }
		keep(t, l, rec("batch_1/1"), rec("batch_1/2"), rec("batch_1/3", unpriced), rec("batch_10/1"), rec("other"),
			rec("batch_1/4", func(r *ledgerv1.Record) { r.Key = "key_2" }))
		cost, err := l.BatchCost(t.Context(), "batch_1", "key_1", noon)
		require.NoError(t, err)
		require.Equal(t, adminapi.BatchCost{Requests: 3, Unpriced: 1, USD: "0.000002"}, cost)
	})
}
