package provider

import (
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/api/openai"
)

func TestCounts(t *testing.T) {
	for in, want := range map[string]int64{
		`3`: 3, `3.0`: 3, `3.9`: 3, `3e2`: 300, `"3"`: 3, `"3.0"`: 3, `0`: 0,
		`-1`: 0, `"-1.5"`: 0, `1e300`: openai.MaxTokens, `99999999999999999999`: openai.MaxTokens, `"Inf"`: openai.MaxTokens,
		`"NaN"`: 0,
		`null`:  0, `true`: 0, `"many"`: 0, `""`: 0, `[1]`: 0, `{"n":1}`: 0,
	} {
		var c struct {
			N Count `json:"n"`
		}
		require.NoError(t, json.Unmarshal([]byte(`{"n":`+in+`}`), &c), in)
		require.Equal(t, want, int64(c.N), in)
	}
}
