package metering

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/api/openai"
)

func TestWatches(t *testing.T) {
	long := strings.Repeat(`\"usage\":{\"input_tokens\":9},\\`, 3000)
	for _, c := range []struct {
		name, body       string
		events           bool
		usage            openai.Usage
		complete, failed bool
	}{
		{"a response",
			`{"id":"r","error":null,"output":[{"usage":{"input_tokens":7}}],"usage" : {"input_tokens":3,"input_tokens_details":{"cached_tokens":1},"output_tokens":5,"output_tokens_details":{"reasoning_tokens":2},"total_tokens":8},"user":null}`, false,
			openai.Usage{PromptTokens: 3, CompletionTokens: 5, TotalTokens: 8, CachedTokens: 1, ReasoningTokens: 2}, true,
			false},
		{"an image that is large", `{"data":[{"b64_json":"` + long + `"}],"usage":{"input_tokens":3,"output_tokens":5}}`,
			false, openai.Usage{PromptTokens: 3, CompletionTokens: 5, TotalTokens: 8}, true, false},
		{"a transcription",
			`{"text":"\"usage\":{}","usage":{"type":"tokens","input_tokens":14,"input_token_details":{"text_tokens":0,"audio_tokens":14},"output_tokens":4,"total_tokens":18}}`, false,
			openai.Usage{PromptTokens: 14, CompletionTokens: 4, TotalTokens: 18, PromptAudio: 14}, true, false},
		{"a transcription that is paid by time", `{"usage":{"type":"duration","seconds":9}}`, false, openai.Usage{}, true,
			false},
		{"a moderation", `{"results":[{"flagged":true}]}`, false, openai.Usage{}, true, false},
		{"a response that failed", `{"status":"failed","error":{"code":"server_error","message":"x"}}`, false,
			openai.Usage{}, true, true},
		{"cut", `{"results":[{"flagged":true}]`, false, openai.Usage{}, false, false},
		{"nothing", ``, false, openai.Usage{}, false, false},
		{"too many brackets", `{}}]]]{`, false, openai.Usage{}, false, false},

		{"a stream of a response",
			"event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"usage\":null,\"id\":\"x\"}}\n\n" +
				"event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"" + long +
				"\"}\n\n" +
				"event: response.completed\r\ndata:{\"type\":\"response.completed\",\"response\":{\"output\":[[{}]],\"usage\":{\"input_tokens\":3,\"output_tokens\":5}}}\r\n\r\n", true,
			openai.Usage{PromptTokens: 3, CompletionTokens: 5, TotalTokens: 8}, true, false},
		{"without its end", "data: {\"type\":\"response.created\",\"response\":{}}\n\n", true, openai.Usage{}, false, false},
		{"cut within its end", "data: {\"type\":\"response.created\",\"response\":{}}\n\ndata: {\"response\":{\"id\":", true,
			openai.Usage{}, false, false},
		{"that failed", "data: {\"type\":\"response.failed\",\"response\":{\"error\":{}}}\n\n", true, openai.Usage{}, true,
			true},
		{"with an error",
			"data: {\"type\":\"response.created\"}\n\nevent: error\ndata: {\"type\":\"error\",\"message\":\"x\"}\n\n", true,
			openai.Usage{}, false, true},
		{"with an error of a server in between", "data: {\"error\":{\"message\":\"" + strings.Repeat("x", 5000) + "\"}}\n\n",
			true, openai.Usage{}, true, true},
		{"of an image",
			": hi\n\ndata: {\"type\":\"image_generation.partial_image\"}\n\ndata: {\"usage\":{\"input_tokens\":1,\"output_tokens\":2},\"type\":\"image_generation.completed\"}", true, openai.Usage{PromptTokens: 1, CompletionTokens: 2, TotalTokens: 3}, true, false},
		{"of something else", "data: [1,{\"type\":2}]\n\ndata: [DONE]\n\n", true, openai.Usage{}, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			for size := range 40 {
				var w Watch = &DocumentWatch{}
				if c.events {
					w = &EventWatch{}
				}
				var got []byte
				for rest := c.body; rest != ""; {
					n := len(rest)
					if size > 0 {
						n = min(n, 1+rand.N(size*size*10))
					}
					out, changed := w.Feed([]byte(rest[:n]))
					require.True(t, changed || string(out) == rest[:n])
					require.True(t, !c.events || len(c.body) > maxPartial || endsEvent(out), "half an event: %q", out)
					got = append(got, out...)
					rest = rest[n:]
				}
				rest, complete, failed := w.End()
				require.Equal(t, c.body, string(append(got, rest...)), "nothing is lost")
				require.Equal(t, c.complete, complete, "complete")
				require.Equal(t, c.failed, failed, "failed")
				require.Equal(t, c.usage, w.Report().Used)
			}
		})
	}
}

func FuzzWatch(f *testing.F) {
	f.Add([]byte("data: {\"type\":\"response.created\",\"response\":{\"usage\":{}}}\n\n"), 3)
	f.Fuzz(func(t *testing.T, body []byte, cut int) {
		for _, pair := range [][2]Watch{{&DocumentWatch{}, &DocumentWatch{}}, {&EventWatch{}, &EventWatch{}}} {
			pair[0].Feed(body)
			n := min(max(cut, 0), len(body))
			pair[1].Feed(body[:n])
			pair[1].Feed(body[n:])
			_, c0, f0 := pair[0].End()
			_, c1, f1 := pair[1].End()
			require.Equal(t, []bool{c0, f0}, []bool{c1, f1})
			require.Equal(t, pair[0].Report(), pair[1].Report())
		}
	})
}

func BenchmarkWatch(b *testing.B) {
	piece := []byte(strings.Repeat("a", 16<<10))
	w := &DocumentWatch{}
	w.Feed([]byte(`{"data":[{"b64_json":"`))
	b.SetBytes(int64(len(piece)))
	for b.Loop() {
		w.Feed(piece)
	}
}

func endsEvent(out []byte) bool {
	return strings.HasSuffix(string(out), "\n\n") || strings.HasSuffix(string(out), "\n\r\n") ||
		strings.Trim(string(out), "\r\n") == ""
}
