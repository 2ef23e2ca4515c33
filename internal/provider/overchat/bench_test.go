package overchat_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/chat/chattest"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/overchat"
)

func BenchmarkEncode(b *testing.B) {
	for name, size := range map[string]int{"2KB": 2 << 10, "1MB": 1 << 20} {
		b.Run(name, func(b *testing.B) {
			body := []byte(`{"model":"public/name","max_tokens":9,"prompt":"` + strings.Repeat("a line\\n", size/8) + `"}`)
			r, err := openai.ParseCompletionRequest(body)
			require.NoError(b, err)
			codec := overchat.Completion(acme().Chat, "acme")
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				_, _, err := codec.Encode(r, provider.Target{Model: "acme-1"})
				require.NoError(b, err)
			}
		})
	}
}

func BenchmarkStream(b *testing.B) {
	r, err := openai.ParseCompletionRequest([]byte(`{"model":"public/name","prompt":"x","stream":true}`))
	require.NoError(b, err)
	_, answer, err := overchat.Completion(acme().Chat, "acme").Encode(r, provider.Target{Model: "acme-1"})
	require.NoError(b, err)
	chunk := func(delta string) []byte {
		return []byte(
			`data: {"id":"c1","object":"chat.completion.chunk","created":7,"model":"m","choices":[{"index":0,"delta":` + delta +
				`,"logprobs":null,"finish_reason":null}]}` + "\n\n")
	}
	w := chattest.NewStream("public/name", 7, false)
	stream := answer.Stream(w.Asked)
	require.NoError(b, stream.Decode(chunk(`{"role":"assistant","content":""}`), w))
	piece := chunk(`{"content":" word"}`)
	b.SetBytes(int64(len(piece)))
	b.ReportAllocs()
	for b.Loop() {
		require.NoError(b, stream.Decode(piece, w))
		w.Take()
	}
}
