package messages

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/provider"
)

func TestNativeRequestsPassAsTheyAre(t *testing.T) {
	for sent, want := range map[string]string{
		`{"model":"public","max_tokens":5, "messages": [{"role":"user","content":"x"}],"context_management":{"edits":[]}}`: `{"model":"claude","max_tokens":5,"messages":[{"role":"user","content":"x"}],"context_management":{"edits":[]}}`,
		// Thinking that Claude signed stays, and all members in their order.
		`{"model":"p","messages":[{"role":"assistant","content":[{"type":"thinking","thinking":"a","signature":"s"},{"type":"text","text":"b"}]}]}`: `{"model":"claude","messages":[{"role":"assistant","content":[{"type":"thinking","thinking":"a","signature":"s"},{"type":"text","text":"b"}]}]}`,
		// What the gateway made of another vendor's answer goes.
		`{"model":"p","system":"y","messages":[{"role":"user","content":"x"},{"role":"assistant","content":[{"type":"thinking","thinking":"a","signature":""},{"type":"text","text":"b"}]}]}`: `{"model":"claude","messages":[{"role":"user","content":"x"},{"role":"assistant","content":[{"type":"text","text":"b"}]}],"system":"y"}`,
		`{"model":"p","messages":[{"role":"assistant","content":[{"type":"thinking","thinking":"a","signature":""}]}]}`:                                                                       `{"model":"claude","messages":[{"role":"assistant","content":[{"type":"text","text":"."}]}]}`,
	} {
		got := EncodeNative("anthropic", provider.NativeRequest{Body: []byte(sent)}, nil, "claude", "")
		require.Equal(t, want, string(got.Body))
		require.Empty(t, got.Dropped)
	}
	carrying := carrier.Carry("call_1", []byte(`{"x":1}`))
	got := EncodeNative("anthropic", provider.NativeRequest{Carrier: carrier, Body: []byte(`{"model":"p","messages":[{"role":"assistant","content":[{"type":"tool_use","id":"` + carrying + `","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"` + carrying + `","content":"x"}]}]}`)}, nil, "claude", "")
	require.Equal(t, `{"model":"claude","messages":[{"role":"assistant","content":[{"type":"tool_use","id":"call_1","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"call_1","content":"x"}]}]}`,
		string(got.Body))
}

func TestBetasOfNativeRequests(t *testing.T) {
	r := provider.NativeRequest{Body: []byte(`{"model":"p","max_tokens":1}`), Betas: "web-search-2025-03-05, nobody-2020-01-01"}
	got := EncodeNative("anthropic", r, nil, "claude", "")
	require.Equal(t, []string{"web-search-2025-03-05", "nobody-2020-01-01"}, got.Betas)
	got = EncodeNative("vertex", r, nil, "", "vertex-1")
	require.Equal(t, `{"anthropic_version":"vertex-1","anthropic_beta":["web-search-2025-03-05"],"max_tokens":1}`, string(got.Body))
	require.Equal(t, []string{"anthropic-beta"}, got.Dropped)
}
