package messages

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/api/openai"

	"github.com/modelgate/modelgate/internal/chat/chattest"
	"github.com/modelgate/modelgate/internal/provider"
)

// agentRequest is a request of an agent, of about size bytes: system text, tools, and turns with calls and results.
func agentRequest(size int) string {
	var tools, turns strings.Builder
	for i := range max(1, size>>10) {
		fmt.Fprintf(&tools,
			`,{"type":"function","function":{"name":"tool_%d","description":"Looks something up.","parameters":{"type":"object","properties":{"query":{"type":"string","description":"what to look up"},"limit":{"type":"integer","minimum":1}},"required":["query"]}}}`, i)
		fmt.Fprintf(&turns,
			`,{"role":"assistant","content":"Let me look.","tool_calls":[{"id":"call_%d","type":"function","function":{"name":"tool_0","arguments":"{\"query\":\"what is the weather like\",\"limit\":3}"}}]},{"role":"tool","tool_call_id":"call_%d","content":"%s"},{"role":"user","content":"And what then?"}`, i, i, strings.Repeat("It is sunny. ", 20))
	}
	return `"temperature":0.7,"max_tokens":1000,"tools":[` + tools.String()[1:] +
		`],"messages":[{"role":"system","content":"You are a helpful assistant."},{"role":"user","content":"What is the weather like in Paris?"}` + turns.String() + `]`
}

func BenchmarkEncode(b *testing.B) {
	for name, members := range map[string]string{
		"2KB": agentRequest(2 << 10), "1MB": agentRequest(1 << 20),
		"1MBText":   `"messages":[{"role":"user","content":"` + strings.Repeat("What is the capital? ", 50_000) + `"}]`,
		"2KBStrict": strings.ReplaceAll(agentRequest(2<<10), `"description":"Looks`, `"strict":true,"description":"Looks`),
	} {
		b.Run(name, func(b *testing.B) {
			r, err := openai.ParseChatRequest([]byte(`{"model":"m",` + members + `}`))
			require.NoError(b, err)
			_, err = r.Chat() // it is decoded once for all attempts
			require.NoError(b, err)
			t := target(nil, middle)
			b.SetBytes(int64(len(members)))
			b.ReportAllocs()
			for b.Loop() {
				out, _, err := Encode("acme", r, t)
				require.NoError(b, err)
				_, err = out.JSON()
				require.NoError(b, err)
			}
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	body := []byte(`{"type":"message","id":"m","content":[{"type":"text","text":"` +
		strings.Repeat("A few words. ", 150) + `"}],"stop_reason":"end_turn","usage":{"input_tokens":5,"output_tokens":9}}`)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		_, _, err := chattest.Decode((&Answer{}), body, "m", 1)
		require.NoError(b, err)
	}
}

// BenchmarkStream is of one chunk of text.
func BenchmarkStream(b *testing.B) {
	w := chattest.NewStream("anthropic/claude", 1, true)
	s := (&Answer{}).Stream(w.Asked)
	feed := func(data string) {
		require.NoError(b, s.Decode([]byte("event: x\ndata: "+data+"\n\n"), w))
	}
	feed(started)
	feed(`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`)
	piece := []byte("event: content_block_delta\ndata: " +
		`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" and a few words"}     }` + "\n\n")
	b.ReportAllocs()
	b.SetBytes(int64(len(piece)))
	for b.Loop() {
		if err := s.Decode(piece, w); err != nil {
			b.Fatal(err)
		}
		w.Take()
	}
}

func TestMemoryOfAChunkInProportion(t *testing.T) {
	w := chattest.NewStream("client/m", 1, false)
	for name, s := range map[string]provider.Stream{
		"translated": (&Answer{}).Stream(w.Asked), "native": (&NativeAnswer{}).Stream(w.Asked),
	} {
		require.NoError(t, s.Decode([]byte("data: "+started+"\n\n"+`data: {"type":"content_block_start","index":0,`+
			`"content_block":{"type":"text","text":""}}`+"\n\n"), w), name)
		w.Take()
		piece := []byte("event: content_block_delta\n" + `data: {"type":"content_block_delta","index":0,` +
			`"delta":{"type":"text_delta","text":" word"}}` + "\n\n")
		require.Zero(t, testing.AllocsPerRun(100, func() {
			_ = s.Decode(piece, w)
			w.Take()
		}), name)
	}
}
