package responses

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/chat"
	"github.com/modelgate/modelgate/internal/chat/chattest"
)

// Recorded answers are read, and a stream says what the response in its last event says.
func TestRecordedAnswers(t *testing.T) {
	for _, pattern := range []string{"testdata/recorded/*.json", "testdata/recorded/*.sse"} {
		names, err := filepath.Glob(pattern)
		require.NoError(t, err)
		require.NotEmpty(t, names)
		for _, name := range names {
			body, err := os.ReadFile(name)
			require.NoError(t, err)
			t.Run(filepath.Base(name), func(t *testing.T) {
				if filepath.Ext(name) == ".sse" {
					sameAsWhole(t, body)
				} else {
					decode(t, body)
				}
			})
		}
	}
}

func newAnswer() *answer {
	inBand := func(body []byte) *openai.Error { return &openai.Error{Message: string(body)} }
	return &answer{dialect: &Dialect{InBand: inBand}, provider: "p"}
}

func decode(t *testing.T, body []byte) chat.Answer {
	t.Helper()
	var got chat.Answer
	require.NoError(t, newAnswer().Decode(body, chat.Asked{Carrier: chattest.Carrier()}, &got))
	r := gjson.ParseBytes(body)
	require.Equal(t, r.Get("usage.input_tokens").Int(), got.Usage.PromptTokens)
	require.Equal(t, r.Get("usage.output_tokens").Int(), got.Usage.CompletionTokens)
	require.Len(t, got.Choices, 1)
	require.Len(t, got.Choices[0].Calls, len(r.Get(`output.#(type=="function_call")#`).Array()))
	var text strings.Builder
	for _, part := range r.Get("output.#.content|@flatten").Array() {
		if part.Get("type").Str == "output_text" {
			text.WriteString(part.Get("text").Str)
		}
	}
	require.Equal(t, text.String(), got.Choices[0].Text)
	return got
}

func sameAsWhole(t *testing.T, body []byte) {
	var last string
	for line := range strings.Lines(string(body)) {
		if data, ok := strings.CutPrefix(line, "data: "); ok && gjson.Get(data, "response.usage").IsObject() {
			last = gjson.Get(data, "response").Raw
		}
	}
	require.NotEmpty(t, last)
	want := decode(t, []byte(last))
	for _, size := range []int{1, 7, len(body)} {
		var got chat.Answer
		s := newAnswer().Stream(chat.Asked{Carrier: chattest.Carrier()})
		for piece := range slices.Chunk(body, size) {
			require.NoError(t, s.Decode(piece, &got))
		}
		require.NoError(t, s.Close(&got))
		require.Equal(t, want.Usage, got.Usage)
		require.Equal(t, want.Choices[0].Text, got.Choices[0].Text)
		require.Equal(t, want.Choices[0].FinishReason, got.Choices[0].FinishReason)
		require.Equal(t, bare(want.Choices[0].Calls), bare(got.Choices[0].Calls))
		require.Equal(t, want.Choices[0].Reasoning, got.Choices[0].Reasoning)
	}
}

// bare returns calls with ids that carry nothing: the vendor encrypts its reasoning anew in the last event.
func bare(calls []chat.Call) []chat.Call {
	out := slices.Clone(calls)
	for i := range out {
		out[i].ID, _ = chattest.Carrier().Split(out[i].ID)
	}
	return out
}

// Usage is read as everywhere: numbers in any form, and searches only with tokens, because an answer that reports no
// tokens is counted.
func TestUsage(t *testing.T) {
	const call = `{"type":"web_search_call"}`
	for usage, want := range map[string]openai.Usage{
		`"usage":{"input_tokens":"9","output_tokens":2.0}`: {PromptTokens: 9, CompletionTokens: 2, TotalTokens: 11,
			Searches: 2, SearchesKnown: true},
		`"usage":{"input_tokens":9,"output_tokens":2},"tool_usage":{"web_search":{"num_requests":1}}`: {PromptTokens: 9,
			CompletionTokens: 2, TotalTokens: 11, Searches: 1, SearchesKnown: true, SearchesBilled: true},
		`"usage":{"prompt_tokens":9,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":4}}`: {PromptTokens: 9,
			CompletionTokens: 2, TotalTokens: 11, CachedTokens: 4, Searches: 2, SearchesKnown: true},
		`"usage":{}`: {}, `"usage":null`: {}, `"usage":{"input_tokens":0,"output_tokens":0}`: {},
	} {
		var whole, streamed chat.Answer
		body := `{"id":"r","status":"completed","output":[` + call + `,` + call + `],` + usage + `}`
		require.NoError(t, newAnswer().Decode([]byte(body), chat.Asked{}, &whole))
		require.Equal(t, want, whole.Usage, usage)
		s := newAnswer().Stream(chat.Asked{})
		item := "data: {\"type\":\"response.output_item.done\",\"item\":" + call + "}\n\n"
		require.NoError(t, s.Decode([]byte(item+item+"data: {\"type\":\"response.completed\",\"response\":"+body+"}\n\n"), &streamed))
		require.NoError(t, s.Close(&streamed))
		require.Equal(t, want, streamed.Usage, usage)
	}
}
