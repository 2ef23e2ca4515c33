package hold

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhatSpeaks(t *testing.T) {
	chunk := func(choice string) string {
		return `data: {"id":"c","object":"chat.completion.chunk","choices":[` + choice + `],"usage":null}` + "\n\n"
	}
	for events, want := range map[string]bool{
		"": false, ": OPENROUTER PROCESSING\n\n": false, "\r\n\r\n": false, "event: ping\nid: 1\nretry: 3\n\n": false,
		chunk(`{"index":0,"delta":{"role":"assistant","content":"","refusal":null},"logprobs":null,"finish_reason":null}`): false,
		chunk(``): false,
		`data: {"choices":[],"prompt_filter_results":[{"prompt_index":0}]}` + "\n\n":                               false,
		chunk(`{"index":0,"delta":{"role":"assistant"}},{"index":1,"delta":{"role":"assistant","tool_calls":[]}}`): false,
		chunk(`{"index":0,"text":"","logprobs":null,"finish_reason":null}`):                                        false,
		chunk(`{"index":0,"delta":{"role":"assistant"}},{"index":1,"delta":{"role":"assistant","content":" "}}`):   true,
		chunk(`{"index":0,"delta":{"content":"x"}}`):                                                               true,
		chunk(`{"index":0,"delta":{"reasoning_content":"x"}}`):                                                     true,
		chunk(`{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":""}}]}}`):                      true,
		chunk(`{"index":0,"delta":{},"finish_reason":"stop"}`):                                                     true,
		chunk(`{"index":0,"text":"x"}`):                                                                            true,
		strings.ReplaceAll(chunk(`{"index":0,"delta":{"role":"assistant"}}`), "\n", "\r"):                          false,
		chunk(`{"index":0,"delta":{"role":"assistant"}}`) + chunk(`{"index":0,"delta":{"content":"x"}}`):           true,
		"data:\n\n": false, "data:[DONE]\n\n": true, "data: {\n\n": false, "data: what\n\n": true,
	} {
		require.Equal(t, want, speaks([]byte(events)), events)
	}
}

func TestAGateKeepsTheBeginning(t *testing.T) {
	role, text := `data: {"choices":[{"delta":{"role":"assistant"}}]}`+"\n\n", `data: {"choices":[{"delta":{"content":"x"}}]}`+"\n\n"
	var g Gate
	buffer := []byte(role)
	require.Empty(t, g.Pass(buffer))
	clear(buffer) // it is the writer's
	require.Empty(t, g.Pass([]byte(": ping\n\n")))
	require.False(t, g.IsOpen())
	require.Equal(t, role+": ping\n\n"+text, string(g.Pass([]byte(text))))
	require.True(t, g.IsOpen())
	require.Equal(t, role, string(g.Pass([]byte(role))), "once it is open everything passes")

	g = Gate{}
	require.Empty(t, g.Pass([]byte(role)))
	require.Equal(t, role, string(g.Open()))
	require.Empty(t, g.Open())
}

func TestWhatIsKeptIsBounded(t *testing.T) {
	var g Gate
	ping, sent := []byte(strings.Repeat(":", 1000)+"\n\n"), 0
	for !g.IsOpen() {
		sent += len(ping)
		require.LessOrEqual(t, sent, 2*most)
		if out := g.Pass(ping); g.IsOpen() {
			require.Len(t, out, sent, "nothing is lost")
		}
	}
}

func FuzzSpeaks(f *testing.F) {
	f.Add([]byte("data: {\"choices\":[{\"delta\":{\"role\":\"assistant\"}}]}\n\n"))
	f.Fuzz(func(t *testing.T, events []byte) {
		var g Gate
		out := g.Pass(events)
		require.Equal(t, string(events), string(out)+string(g.Open()))
	})
}

func BenchmarkPass(b *testing.B) {
	role := []byte(`data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]}` + "\n\n")
	text := []byte(`data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"Hello"},"logprobs":null,"finish_reason":null}]}` + "\n\n")
	b.ReportAllocs()
	for b.Loop() {
		var g Gate
		g.Pass(role)
		g.Pass(text)
	}
}
