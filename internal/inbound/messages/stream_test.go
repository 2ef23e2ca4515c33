package messages

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/chat"
)

// written returns the data of the events that a stream writes.
func written(events ...chat.Event) (data []string) {
	w := &stream{asked: chat.Asked{Model: "m"}}
	for _, e := range events {
		w.Put(e)
	}
	for e := range strings.SplitSeq(strings.TrimSuffix(string(w.Take()), "\n\n"), "\n\n") {
		_, d, _ := strings.Cut(e, "\ndata: ")
		data = append(data, d)
	}
	return data
}

// TestCallsFollowOneAnother holds that blocks never overlap, although some vendors send pieces of several calls in
// turns.
func TestCallsFollowOneAnother(t *testing.T) {
	got := written(chat.ToolCall(0, 0, "a", "f"), chat.ToolCall(0, 1, "b", "g"), chat.Arguments(0, 0, `{"x":"}`),
		chat.Arguments(0, 1, `{"y":`), chat.Arguments(0, 0, `\""}`), chat.Arguments(0, 1, `[1]}`),
		chat.ToolCall(0, 2, "c", "h"), chat.Finish(0, "tool_calls"), chat.End())
	var blocks []string
	for _, d := range got {
		switch e := gjson.Parse(d); e.Get("type").Str {
		case "content_block_start":
			blocks = append(blocks, e.Get("content_block.id").Str+" ")
		case "content_block_delta":
			require.EqualValues(t, len(blocks)-1, e.Get("index").Int())
			blocks[len(blocks)-1] += e.Get("delta.partial_json").Str
		}
	}
	require.Equal(t, []string{`a {"x":"}\""}`, `b {"y":[1]}`, `c `}, blocks)
}

func TestBlocksOfAnAnswer(t *testing.T) {
	usage := openai.Usage{PromptTokens: 10, CachedTokens: 3, CacheWriteTokens: 2, CompletionTokens: 4}
	require.Equal(t, []string{
		`{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":0,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":0}}}`,
		`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":""}}`,
		`{"type":"content_block_stop","index":0}`,
		`{"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}`,
		`{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"hello"}}`,
		`{"type":"content_block_stop","index":1}`,
		`{"type":"message_delta","delta":{"stop_reason":"max_tokens","stop_sequence":null},"usage":{"input_tokens":5,"cache_creation_input_tokens":2,"cache_read_input_tokens":3,"output_tokens":4}}`,
		`{"type":"message_stop"}`,
	}, written(chat.Begin("chatcmpl-1"), chat.Role(0), chat.Reasoning(0, "hm"), chat.Text(0, ""), chat.Text(0, "hello"),
		chat.Text(1, "another choice"), chat.Finish(0, "length"), chat.Usage(usage), chat.End()))
	failed := written(chat.Begin("x"), chat.Text(0, "a"), chat.Event{Kind: chat.KindError,
		Error: &openai.Error{Status: 503, Message: "gone"}})
	require.Equal(t, `{"type":"error","error":{"type":"overloaded_error","message":"gone"}}`, failed[len(failed)-1])
}

func TestHeadersOfLimits(t *testing.T) {
	name, value := limitHeader("x-ratelimit-reset-requests", "1m30s", time.Unix(1_700_000_000, 0))
	require.Equal(t, "anthropic-ratelimit-requests-reset 2023-11-14T22:14:50Z", name+" "+value)
	name, value = limitHeader("x-ratelimit-remaining-tokens", "7", time.Unix(1_700_000_000, 0))
	require.Equal(t, "anthropic-ratelimit-tokens-remaining 7", name+" "+value)
}

func BenchmarkChunk(b *testing.B) {
	w := &stream{asked: chat.Asked{Model: "m"}}
	w.Put(chat.Begin("x"))
	b.ReportAllocs()
	for b.Loop() {
		w.Put(chat.Text(0, " token"))
		w.Take()
	}
}
