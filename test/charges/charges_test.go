package charges_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/inbound/dialects"
	"github.com/modelgate/modelgate/test/charges"
)

func TestTheTableIsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/limits.md")
	require.NoError(t, err)
	require.True(t, strings.Contains(string(text), charges.Table()), "docs/limits.md lacks this table:\n%s",
		charges.Table())
}

// TestEveryOperationHasAKind fails for a new operation.
func TestEveryOperationHasAKind(t *testing.T) {
	known := map[string]bool{"realtime": true, "route": true, "files": true, "uploads": true, "batches": true,
		"fine_tuning": true, "stored_responses": true, "conversations": true}
	for _, d := range append(dialects.Others(), dialects.Default) {
		for _, op := range d.Operations {
			known[op.Name] = true
			kind, ok := charges.Operations[op.Name]
			require.True(t, ok, "%s has no row in Operations", op.Name)
			require.Equal(t, op.Free, kind == charges.Count, op.Name)
			require.True(t, kind != charges.Text || op.TextAnswer, op.Name)
			require.True(t, op.IsCounted() || kind == charges.Media, op.Name)
		}
	}
	for name := range charges.Operations {
		require.True(t, known[name], "there is no operation %s", name)
	}
}

func TestEveryKindHasRows(t *testing.T) {
	for name, kind := range charges.Operations {
		n := 0
		for _, row := range charges.Rows {
			for _, k := range row.Kinds {
				if k == kind {
					n++
				}
			}
		}
		require.Positive(t, n, name)
	}
	require.False(t, strings.Contains(charges.Table(), "|  |  |"))
}
