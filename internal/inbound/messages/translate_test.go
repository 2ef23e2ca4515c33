package messages

import (
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/inbound"
	"github.com/modelgate/modelgate/internal/provider"
)

// spy is a codec that keeps the chat completion that it gets.
type spy struct{ got *openai.ChatRequest }

func (s *spy) Encode(r *openai.ChatRequest, _ provider.Target) (provider.Request, provider.Answer, error) {
	s.got = r
	return provider.Request{}, nil, nil
}

// translated returns the chat completion for a request with some members, as plain or as own.
func translated(t *testing.T, members string, own bool) (string, provider.Request, error) {
	t.Helper()
	r, err := parse(inbound.Head{}, []byte(`{"model":"m","max_tokens":9,`+members+`}`))
	require.NoError(t, err)
	var s spy
	sent, _, err := r.Encode(&provider.Provider{Chat: &s, TakesThinking: own},
		provider.Target{Config: &configv1.Provider{}})
	if err != nil {
		return "", sent, err
	}
	return string(s.got.Body), sent, nil
}

const hi = `"messages":[{"role":"user","content":"hi"}]`

func TestRequests(t *testing.T) {
	const head, asks = `{"model":"m","max_tokens":9,"messages":`, `[{"role":"user","content":"hi"}]`
	for name, c := range map[string]struct{ members, want string }{
		"text": {hi, head + asks},
		"system blocks": {hi + `,"system":[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}},{"type":"text","text":"b"}]`,
			head + `[{"role":"system","content":[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}},{"type":"text","text":"b"}]},{"role":"user","content":"hi"}]`},
		"media": {`"messages":[{"role":"user","content":[
			{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AA=="}},
			{"type":"image","source":{"type":"url","url":"https://x/y.png"}},
			{"type":"document","title":"t.pdf","source":{"type":"base64","media_type":"application/pdf","data":"AA=="}},
			{"type":"document","title":"T","context":"C","source":{"type":"text","media_type":"text/plain","data":"D"}},
			{"type":"document","source":{"type":"content","content":[{"type":"text","text":"in"}]}},
			{"type":"search_result","source":"https://s","title":"S","content":[{"type":"text","text":"found"}]}]}]`,
			head + `[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AA=="}},{"type":"image_url","image_url":{"url":"https://x/y.png"}},{"type":"file","file":{"filename":"t.pdf","file_data":"data:application/pdf;base64,AA=="}},{"type":"text","text":"T\n\nC\n\nD"},{"type":"text","text":""},{"type":"text","text":"in"},{"type":"text","text":"S\n\nhttps://s"},{"type":"text","text":"found"}]}]`},
		"tools": {hi + `,"tools":[{"name":"f","description":"d","input_schema":{"type":"object"},"strict":true,"cache_control":{"type":"ephemeral"}},{"type":"web_search_20250305","name":"web_search"}],"tool_choice":{"type":"tool","name":"f","disable_parallel_tool_use":true}`,
			head + asks + `,"tools":[{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object"},"strict":true},"cache_control":{"type":"ephemeral"}},{"type":"web_search_20250305","name":"web_search"}],"tool_choice":{"type":"function","function":{"name":"f"}},"parallel_tool_calls":false`},
		"calls and results": {`"messages":[{"role":"user","content":"hi"},
			{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"text","text":"a"},{"type":"tool_use","id":"c1","name":"f","input":{"x":1}},{"type":"tool_use","id":"c2","name":"g","input":{}}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"one"},{"type":"tool_result","tool_use_id":"c2","is_error":true,"content":[{"type":"text","text":"two"},{"type":"image","source":{"type":"url","url":"https://i"}}]},{"type":"text","text":"go on"}]}]`,
			head + `[{"role":"user","content":"hi"},{"role":"assistant","reasoning_content":"hm","thinking_blocks":[{"type":"thinking","thinking":"hm","signature":"s"}],"content":"a","tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}},{"id":"c2","type":"function","function":{"name":"g","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c1","content":"one"},{"role":"tool","tool_call_id":"c2","content":[{"type":"text","text":"Error:"},{"type":"text","text":"two"}]},{"role":"user","content":[{"type":"text","text":"From the result of the tool call c2:"},{"type":"image_url","image_url":{"url":"https://i"}},{"type":"text","text":"go on"}]}]`},
		"parameters": {hi + `,"stream":true,"stop_sequences":["x"],"temperature":0.5,"top_p":0.9,"top_k":4,"metadata":{"user_id":"u"},"service_tier":"standard_only","output_config":{"format":{"type":"json_schema","schema":{"type":"object"}}}`,
			`{"model":"m","max_tokens":9,"stream":true,"stream_options":{"include_usage":true},"messages":` + asks + `,"stop":["x"],"temperature":0.5,"top_p":0.9,"top_k":4,"user":"u","service_tier":"default","response_format":{"type":"json_schema","json_schema":{"name":"answer","strict":true,"schema":{"type":"object"}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			got, _, err := translated(t, c.members, false)
			require.NoError(t, err)
			require.Equal(t, c.want+"}", got)
		})
	}
}

func TestReasoningIsAskedForInTheProvidersWords(t *testing.T) {
	members := hi + `,"thinking":{"type":"enabled","budget_tokens":9000}`
	got, _, err := translated(t, members, false)
	require.NoError(t, err)
	require.Contains(t, got, `"reasoning_effort":"medium"`)
	require.NotContains(t, got, "budget_tokens")
	got, _, err = translated(t, members, true)
	require.NoError(t, err)
	require.Contains(t, got, `"thinking":{"type":"enabled","budget_tokens":9000}`)
	require.NotContains(t, got, "reasoning_effort")
	got, _, err = translated(t, hi+`,"thinking":{"type":"disabled"}`, false)
	require.NoError(t, err)
	require.Contains(t, got, `"reasoning_effort":"none"`)
}

func TestWhatOnlyAnthropicHasIsNamedOrRefused(t *testing.T) {
	got, sent, err := translated(t, `"messages":[{"role":"assistant","content":[{"type":"server_tool_use","id":"s","name":"web_search","input":{}},{"type":"text","text":"a"}]},{"role":"user","content":"hi"}],"context_management":{"edits":[{}]}`, false)
	require.NoError(t, err)
	require.NotContains(t, got, "context_management")
	require.Equal(t, []string{"context_management", "messages.0.content.0"}, sent.Dropped)
	for members, message := range map[string]string{
		hi + `,"mcp_servers":[{"url":"https://x"}]`:                                                        "mcp_servers: The provider",
		`"messages":[{"role":"user","content":[{"type":"hologram"}]}]`:                                     "messages.0.content.0: Input tag 'hologram'",
		`"messages":[{"role":"assistant","content":[{"type":"document"}]}]`:                                "messages.0.content.0: Input tag 'document'",
		`"messages":[{"role":"user","content":[{"type":"image","source":{"type":"file","file_id":"f"}}]}]`: "messages.0.content.0.source: The provider",
		`"messages":[{"role":"user","content":[{"type":"tool_result","content":"x"}]}]`:                    "messages.0.content.0.tool_use_id: Field required",
		`"messages":[{"role":"narrator","content":"x"}]`:                                                   "messages.0.role: ",
		`"messages":[{"role":"user"}]`:                                                                     "messages.0.content: Field required",
		`"messages":[{"role":"user","content":7}]`:                                                         "messages.0.content: A JSON number",
		hi + `,"tools":[{"name":"f"}]`:                                                                     "tools.0.input_schema: Field required",
		hi + `,"tool_choice":{"type":"some"}`:                                                              "tool_choice: Input tag 'some'",
		hi + `,"service_tier":"gold"`:                                                                      "service_tier: ",
		hi + `,"temperature":"hot"`:                                                                        "temperature",
		// A message of the chat completion is one place further: the system prompt comes first.
		`"system":"s",` + `"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png"}}]}],"top_p":[]`: "top_p",
	} {
		_, _, err := translated(t, members, false)
		var e *openai.Error
		require.ErrorAs(t, err, &e, members)
		require.Equal(t, 400, e.Status)
		require.Contains(t, e.Message, message)
	}
}

func TestHeads(t *testing.T) {
	for body, message := range map[string]string{
		``: "not valid JSON", `[]`: "array is not valid", `{"model":7}`: "model: A JSON number",
		`{}`:                                         "model: Field required",
		`{"model":"m"}`:                              "messages: Field required",
		`{"model":"m","messages":[]}`:                "messages: Input should be a list",
		`{"model":"m","messages":"hi"}`:              "messages: Input should be a list",
		`{"model":"m",` + hi + `}`:                   "max_tokens: Field required",
		`{"model":"m","max_tokens":0,` + hi + `}`:    "max_tokens: Input should be greater",
		`{"model":"m","model":"n","max_tokens":1}`:   "model: The member occurs twice",
		`{"model":"m","max_tokens":1,"messages":[{}`: "not valid JSON",
	} {
		_, err := parse(inbound.Head{}, []byte(body))
		var e *openai.Error
		require.ErrorAs(t, err, &e, body)
		require.Equal(t, 400, e.Status)
		require.Contains(t, e.Message, message, body)
		var parsed struct {
			Type  string
			Error struct{ Type, Message string }
		}
		require.NoError(t, json.Unmarshal(appendError(nil, e), &parsed, json.MatchCaseInsensitiveNames(true)))
		require.Equal(t, "error", parsed.Type)
		require.Equal(t, "invalid_request_error", parsed.Error.Type)
	}
}

// FuzzParse holds that no body makes the translation panic, and that every error is the client's.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"model":"m","max_tokens":9,` + hi + `}`))
	f.Add([]byte(`{"model":"m","max_tokens":9,"messages":[{"role":"user","content":[{"type":"document","source":{"type":"content","content":[]}}]}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := parse(inbound.Head{}, body)
		if err == nil {
			_, _, err = r.Encode(&provider.Provider{Chat: &spy{}}, provider.Target{Config: &configv1.Provider{}})
		}
		var e *openai.Error
		if err != nil {
			require.ErrorAs(t, err, &e)
			require.Equal(t, 400, e.Status)
		}
	})
}
