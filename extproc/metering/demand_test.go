package metering

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/inbound"
	"github.com/modelgate/modelgate/internal/inbound/dialects"
)

// TestOnlyAPositiveNumberBoundsTheAnswer: vendors take 0 and negative numbers for no bound, or for their own.
func TestOnlyAPositiveNumberBoundsTheAnswer(t *testing.T) {
	for settings, want := range map[string]int64{`"max_tokens":7`: 7, `"max_tokens":0`: -1, `"max_tokens":-1`: -1,
		`"max_completion_tokens":0`: -1, `"max_tokens":0,"n_predict":0`: -1, `"max_tokens":0,"n_predict":9`: 9} {
		body := []byte(`{"model":"m","messages":[{"role":"user","content":"hi"}],` + settings + `}`)
		op := dialects.Find("/v1/chat/completions", "")
		parsed, err := op.Parse(inbound.Head{}, body)
		require.NoError(t, err)
		require.Equal(t, want, DemandOf(op, &parsed, body, nil).Output, settings)
	}
}
