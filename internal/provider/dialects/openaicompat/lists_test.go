package openaicompat

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/chat/chattest"
	"github.com/modelgate/modelgate/internal/provider"
)

func chunk(choices string) string {
	return `{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[` + choices + `]}`
}

func eventsOf(chunks ...string) string {
	return "data: " + strings.Join(append(chunks, "[DONE]"), "\n\ndata: ") + "\n\n"
}

// decodePieces has a stream in pieces of a few bytes decoded.
func decodePieces(t *testing.T, d Dialect, client, in string) string {
	t.Helper()
	a := d.answer(&chatShape, client, provider.Target{Model: "m", Config: &configv1.Provider{}}, false)
	w := chattest.NewStream(client, 1, false)
	s := a.Stream(w.Asked)
	out := ""
	for from := 0; from < len(in); from += 7 {
		require.NoError(t, s.Decode([]byte(in[from:min(from+7, len(in))]), w))
		out += string(w.Take())
	}
	require.NoError(t, s.Close(w))
	return out + string(w.Take())
}

// The lists of every choice are given whole, by themselves, before it ends. (report 9)
func TestListsOfDeltasAreGivenWhole(t *testing.T) {
	text := chunk(`{"index":0,"delta":{"role":"assistant","content":"x"},"finish_reason":null}`)
	other := chunk(`{"index":1,"delta":{"annotations":[{"c":3}]},"finish_reason":null}`)
	in := eventsOf(text,
		chunk(`{"index":0,"delta":{"annotations":[{"a":[1]}],"content":"y"},"finish_reason":null}`), other,
		chunk(`{"index":0,"delta":{"annotations":[ {"b":2} ]},"finish_reason":"stop"}`),
		chunk(`{"index":1,"delta":{},"finish_reason":"stop"}`))
	list := func(i, elements string) string {
		return chunk(`{"index":` + i + `,"delta":{"annotations":[` + elements + `]},"logprobs":null,"finish_reason":null}`)
	}
	want := eventsOf(text,
		chunk(`{"index":0,"delta":{"content":"y"},"finish_reason":null}`),
		chunk(`{"index":1,"delta":{},"finish_reason":null}`),
		list("0", `{"a":[1]},{"b":2}`), chunk(`{"index":0,"delta":{},"finish_reason":"stop"}`),
		list("1", `{"c":3}`), chunk(`{"index":1,"delta":{},"finish_reason":"stop"}`))
	require.Equal(t, want, decodePieces(t, Dialect{AsReceived: true}, "m", in))
	require.Equal(t, strings.ReplaceAll(want, `"m"`, `"mine"`), decodePieces(t, Dialect{AsReceived: true}, "mine", in))

	mended := decodePieces(t, Dialect{}, "m", in)
	require.Equal(t, 2, strings.Count(mended, "annotations"), mended)
	require.Contains(t, mended, "data: "+list("0", `{"a":[1]},{"b":2}`)+"\n\n")
	require.Contains(t, mended, "data: "+list("1", `{"c":3}`)+"\n\n")
}

// What comes after the end of its choice cannot be given before that, and passes as it comes.
func TestListsAfterTheEndPass(t *testing.T) {
	in := eventsOf(chunk(`{"index":0,"delta":{},"finish_reason":"stop"}`),
		chunk(`{"index":0,"delta":{"annotations":[{"a":1}]},"finish_reason":null}`))
	require.Equal(t, in, decodePieces(t, Dialect{AsReceived: true}, "m", in))
}

// Lists whose elements have an index can be added to, and those of anything but objects too: they pass as they come.
func TestOtherListsOfDeltasPass(t *testing.T) {
	in := eventsOf(chunk(
		`{"index":0,"delta":{"images":[{"index":0}],"citations":["a"],"empty":[]},"finish_reason":null}`),
		chunk(
			`{"index":0,"delta":{"tool_calls":[{"id":"a","function":{"name":"f","arguments":""}}]},"finish_reason":"stop"}`))
	require.Equal(t, in, decodePieces(t, Dialect{AsReceived: true}, "m", in))
}
