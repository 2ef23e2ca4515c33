package usage_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/usage"
)

func TestAcmeIsBilled(t *testing.T) {
	u := usage.Used{Usage: openai.Usage{CompletionTokens: 10, AcmeTokens: 4}}
	for price, want := range map[string]usage.Nano{"": 10 * 2000, "3": 6*2000 + 4*3000} {
		rates := usage.Compile(&configv1.Price{Output: "2", Acme: price})
		cost, _ := rates.Cost(u)
		require.Equal(t, want, cost)
		require.Equal(t, "anvils", rates.Lines(u)[0].Part)
	}
	u.AcmeTokens = 1 << 50
	require.True(t, usage.Bound(&u.Usage, nil, 1))
	require.EqualValues(t, 10, u.AcmeTokens, "it is a part of the answer")
}
