package ledger_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
)

// Names come from clients. PostgreSQL gets those of all records in one array.
func TestATextIsKeptAsItIs(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		l := open(t, dsn)
		texts := []string{`"`, `\`, `\"`, `a"b\`, "{a,b}", "NULL", "", " ", ",", "'); --", "ünï\n\t€", "{}"}
		var records []*ledgerv1.Record
		for i, text := range texts {
			records = append(records, rec(fmt.Sprint("r", i), func(r *ledgerv1.Record) {
				r.User, r.Model, r.InputTokens = text, text, int64(i)<<30
			}))
		}
		keep(t, l, records...)
		for i, text := range texts {
			e, found, err := l.Exchange(t.Context(), fmt.Sprint("r", i))
			require.NoError(t, err)
			require.True(t, found)
			require.Equal(t, text, e.User)
			require.Equal(t, text, e.Model)
			require.Equal(t, int64(i)<<30, e.InputTokens)
		}
	})
}
