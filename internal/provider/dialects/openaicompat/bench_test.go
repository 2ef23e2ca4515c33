package openaicompat

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/chat/chattest"
	"github.com/modelgate/modelgate/internal/provider"
)

// recordedChunk is an event as OpenAI sends it to a request with include_usage.
func recordedChunk(delta string) string {
	return `data: {"id":"chatcmpl-D7mVuXauQqcmOCb3XP6IL6yHwJaAL","object":"chat.completion.chunk","created":1770747154,"model":"gpt-4.1-2025-04-14","service_tier":"default","system_fingerprint":"fp_8b22347a3e","choices":[{"index":0,"delta":` + delta + `,"logprobs":null,"finish_reason":null}],"usage":null,"obfuscation":"OXJHANtgvy"}` + "\n\n"
}

func BenchmarkEncode(b *testing.B) {
	for name, body := range map[string]string{
		"200 bytes":          `{"model":"openai/gpt-4o-mini","messages":[{"role":"system","content":"You are a helpful assistant that answers briefly."},{"role":"user","content":"What is the capital of France?"}],"temperature":0.7}`,
		"200 bytes streamed": `{"model":"openai/gpt-4o-mini","messages":[{"role":"system","content":"You are a helpful assistant that answers briefly."},{"role":"user","content":"What is the capital of France?"}],"stream":true}`,
		"1 MB": `{"model":"openai/gpt-4o-mini","messages":[{"role":"user","content":"` +
			strings.Repeat("What is the capital? ", 50_000) + `"}]}`,
		"60 KB": `{"model":"openai/gpt-4o-mini","messages":[{"role":"user","content":"` +
			strings.Repeat("What is the capital? ", 3000) + `"}]}`,
	} {
		b.Run(name, func(b *testing.B) {
			c := New(Dialect{AsReceived: true})
			r := parse(b, body)
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				_, _, err := c.Encode(r, provider.Target{Model: "gpt-4o-mini"})
				require.NoError(b, err)
			}
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	for name, asReceived := range map[string]bool{"as received": true, "put right": false} {
		for length, text := range map[string]string{"short": "Paris.", "60 KB": strings.Repeat("A line of it.\\n", 4200)} {
			b.Run(name+", "+length, func(b *testing.B) {
				body := []byte(`{"id":"chatcmpl-BDpZplWguNLn40wA5mIpCR3OIzvYP","object":"chat.completion","created":1742636225,"model":"gpt-4o-mini-2024-07-18","choices":[{"index":0,"message":{"role":"assistant","content":"` + text + `","refusal":null,"annotations":[]},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":27,"completion_tokens":7,"total_tokens":34,"prompt_tokens_details":{"cached_tokens":0,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":0,"audio_tokens":0,"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}},"service_tier":"default","system_fingerprint":"fp_3"}`)
				a := &answer{dialect: &Dialect{}, shape: &chatShape, choices: 1, asReceived: asReceived, renamed: true}
				b.SetBytes(int64(len(body)))
				b.ReportAllocs()
				for b.Loop() {
					_, _, err := chattest.Decode(a, body, "openai/gpt-4o-mini", 1)
					require.NoError(b, err)
				}
			})
		}
	}
}

func BenchmarkStream(b *testing.B) {
	for name, asReceived := range map[string]bool{"as received": true, "put right": false} {
		for asked, includeUsage := range map[string]bool{"usage not asked for": false, "usage asked for": true} {
			b.Run(name+", "+asked, func(b *testing.B) {
				w := chattest.NewStream("openai/gpt-4.1", 1, includeUsage)
				s := (&answer{dialect: &Dialect{}, shape: &chatShape, choices: 1, asReceived: asReceived, renamed: true,
					forced: !includeUsage}).Stream(w.Asked)
				require.NoError(b, s.Decode([]byte(recordedChunk(`{"role":"assistant","content":""}`)), w))
				piece := []byte(recordedChunk(`{"content":" word"}`))
				b.SetBytes(int64(len(piece)))
				b.ReportAllocs()
				for b.Loop() {
					if err := s.Decode(piece, w); err != nil {
						b.Fatal(err)
					}
					w.Take()
				}
			})
		}
	}
}
