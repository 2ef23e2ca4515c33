package queries

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/internal/usage"
)

func TestAnExchangeHasEachKindOfUsage(t *testing.T) {
	all, detail := map[string]any{"batch": true}, map[string]any{}
	for k, f := range usage.Fields {
		if usage.Kind(k) < usage.Kinds {
			all[f.Column] = k + 1
		} else {
			detail[f.Column] = k + 1
		}
	}
	all["detail"] = detail
	text, err := json.Marshal(all)
	require.NoError(t, err)
	var e adminapi.Exchange
	require.NoError(t, json.Unmarshal(text, &e))
	used, err := usedBy(&e)
	require.NoError(t, err)
	for k, f := range usage.Fields {
		require.EqualValues(t, k+1, *used.At(usage.Kind(k)), f.Column)
	}
	require.True(t, used.Batch)
}
