package mistral

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
)

// BenchmarkEncode measures the codec alone: what it costs to read the client's request is not the vendor's.
func BenchmarkEncode(b *testing.B) {
	for name, turns := range map[string]int{"2KB": 10, "1MB": 6000} {
		b.Run(name, func(b *testing.B) {
			body := `{"model":"m","tools":[{"type":"function","function":{"name":"weather","parameters":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}}}],"messages":[` +
				strings.Repeat(`{"role":"user","content":"What is the weather in Paris today?\nAnd what was it \"yesterday\"?"},{"role":"assistant","content":"It is sunny, with 21 degrees."},`, turns) + `{"role":"user","content":"Thanks."}]}`
			r, err := openai.ParseChatRequest([]byte(body))
			require.NoError(b, err)
			_, err = r.Chat()
			require.NoError(b, err)
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				_, _, err := chatCodec{}.Encode(r, provider.Target{Model: "mistral-small-latest"})
				require.NoError(b, err)
			}
		})
	}
}
