package incidents

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEachKindIsDocumented holds that the table of docs/incidents.md has each kind. TestEachKindOfIncidentHasAProof of
// test/e2e reads it.
func TestEachKindIsDocumented(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "incidents.md"))
	require.NoError(t, err)
	for _, k := range kinds() {
		require.Regexp(t, "(?m)^\\|[^|]*\\| [^|]*`"+k.kind+"`[^|]* \\| (error|warning)", string(text))
	}
}
