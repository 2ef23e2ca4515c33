package responses

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/chat"
	"github.com/modelgate/modelgate/internal/chat/chattest"
	"github.com/modelgate/modelgate/internal/provider"
)

// inner is the codec of chat completions. It only says that it was used.
type inner struct{}

func (inner) Encode(*openai.ChatRequest, provider.Target) (provider.Request, provider.Answer, error) {
	return provider.Request{Path: "/chat/completions", Header: http.Header{}}, nil, nil
}

func encode(t *testing.T, providerName, members string, translated bool) (provider.Request, provider.Answer, error) {
	t.Helper()
	r, err := chattest.Carrier().ParseChatRequest([]byte(`{"model":"m",` + members + `}`))
	require.NoError(t, err)
	r.Translated = translated
	takes := false
	c := New(inner{}, Dialect{Vendor: "openai", Path: func(provider.Target) (string, bool) { return "/responses", true },
		InBand: func(body []byte) *openai.Error { return &openai.Error{Status: 502, Message: string(body)} }})
	return c.Encode(r, provider.Target{Model: "gpt", Config: &configv1.Provider{Name: providerName},
		Facts: &configv1.ModelFacts{Capabilities: &configv1.Capabilities{ChatToolsWithReasoning: &takes,
			Efforts: []string{"none", "low", "high"}, UnsupportedParameters: []string{"temperature"}}}})
}

const tools = `"tools":[{"type":"function","function":{"name":"a.b","parameters":{"type":"object"}}}]`

func TestWhichRequestsGoOverResponses(t *testing.T) {
	const hi = `"messages":[{"role":"user","content":"hi"}]`
	for _, c := range []struct {
		members    string
		translated bool
		path       string
	}{
		{hi + "," + tools, true, "/responses"},
		{hi + "," + tools + `,"reasoning_effort":"low"`, true, "/responses"},
		{hi + "," + tools + `,"reasoning_effort":"none"`, true, "/chat/completions"},
		{hi + `,"reasoning_effort":"low"`, true, "/chat/completions"},
		{hi + "," + tools, false, "/chat/completions"},
	} {
		sent, _, err := encode(t, "p", c.members, c.translated)
		require.NoError(t, err)
		require.Equal(t, c.path, sent.Path, c.members)
	}
	r, err := chattest.Carrier().ParseChatRequest([]byte(`{"model":"m",` + hi + `}`))
	require.NoError(t, err)
	there := false
	only := provider.Target{Facts: &configv1.ModelFacts{Capabilities: &configv1.Capabilities{Chat: &there}}}
	require.True(t, Needed(r, only), "the model is nowhere else")
	require.False(t, Needed(r, provider.Target{}))
	r, err = chattest.Carrier().ParseChatRequest([]byte(`{"model":"m",` + hi + "," + tools + `}`))
	require.NoError(t, err)
	takes := false
	facts := &configv1.ModelFacts{Capabilities: &configv1.Capabilities{ChatToolsWithReasoning: &takes}}
	require.False(t, Needed(r, provider.Target{Facts: facts}))
	require.True(t, Needed(r, provider.Target{Facts: facts, Mixed: true}), "another vendor may have got it before")
}

func TestRequests(t *testing.T) {
	sent, _, err := encode(t, "p", `"messages":[{"role":"developer","content":"d"},{"role":"user","content":[{"type":"text","text":"t"},{"type":"image_url","image_url":{"url":"https://i","detail":"low"}},{"type":"file","file":{"filename":"f.pdf","file_data":"data:x"}},{"type":"file","file":{"file_data":"https://f"}}]},`+
		`{"role":"assistant","content":"c","tool_calls":[{"id":"x.y","type":"function","function":{"name":"a.b","arguments":""}}]},{"role":"system","content":"notice"},{"role":"tool","tool_call_id":"x.y","content":"r"},{"role":"assistant","content":"said"}],`+
		tools+`,"tool_choice":{"type":"function","function":{"name":"a.b"}},"parallel_tool_calls":false,"reasoning_effort":"max","max_tokens":9,"temperature":1,"top_p":0.5,"verbosity":"low","stream":true,"web_search_options":{"search_context_size":"low"},`+
		`"response_format":{"type":"json_schema","json_schema":{"name":"s","strict":true,"schema":{"type":"object","properties":{"a":{"type":"string"}}}}}`, true)
	require.NoError(t, err)
	id, name := `"x_y_`, `"a_b_`
	got := gjson.ParseBytes(sent.Body)
	require.Equal(t, `["message","message","message","function_call","function_call_output","message","message"]`, got.Get("input.#.type").Raw)
	require.Equal(t, `{"type":"message","role":"user","content":[{"type":"input_text","text":"t"},{"type":"input_image","image_url":"https://i","detail":"low"},{"type":"input_file","filename":"f.pdf","file_data":"data:x"},{"type":"input_file","file_url":"https://f"}]}`, got.Get("input.1").Raw)
	require.True(t, strings.HasPrefix(got.Get("input.3.call_id").Raw, id))
	require.Equal(t, got.Get("input.3.call_id").Raw, got.Get("input.4.call_id").Raw)
	require.Equal(t, "{}", got.Get("input.3.arguments").Str)
	require.True(t, strings.HasPrefix(got.Get("tools.0.name").Raw, name))
	require.Equal(t, got.Get("tools.0.name").Raw, got.Get("tool_choice.name").Raw)
	require.Equal(t, got.Get("tools.0.name").Raw, got.Get("input.3.name").Raw)
	require.Equal(t, `{"type":"web_search","search_context_size":"low"}`, got.Get("tools.1").Raw)
	require.Equal(t, `{"effort":"high"}`, got.Get("reasoning").Raw)
	require.Equal(t, "false", got.Get("text.format.strict").Raw)
	require.Equal(t, "false", got.Get("store").Raw)
	require.False(t, got.Get("temperature").Exists())
	require.Equal(t, "0.5", got.Get("top_p").Raw)
	require.Empty(t, sent.Dropped)
	require.ElementsMatch(t, []string{"reasoning_effort", "response_format"}, sent.Adjusted)
	_, _, err = encode(t, "p", `"messages":[{"role":"user","content":"hi"}],"stop":["x"],`+tools, true)
	require.ErrorContains(t, err, "stop")
}

// What the model thought before a call comes back in the next turn, at the same provider alone.
// OpenAI's models search the web over responses, and only a few in chat completions.
func TestSearchesOfOtherDialects(t *testing.T) {
	c := New(inner{}, Dialect{Vendor: "openai", Searches: true,
		Path: func(provider.Target) (string, bool) { return "/responses", true }})
	const ask = `{"model":"m","messages":[{"role":"user","content":"hi"}],`
	const tool = `"tools":[{"type":"web_search_20250305","name":"web_search","max_uses":8,"allowed_domains":["a.example"],"user_location":{"type":"approximate","city":"Bern"}}]}`
	for _, x := range []struct {
		members, path  string
		translated, in bool
	}{
		{tool, "/responses", true, false},
		{`"web_search_options":{}}`, "/responses", true, false},
		{tool, "/chat/completions", false, false},
		{tool, "/chat/completions", true, true},
		{tools + "}", "/chat/completions", true, false},
	} {
		r, err := chattest.Carrier().ParseChatRequest([]byte(ask + x.members))
		require.NoError(t, err)
		r.Translated = x.translated
		sent, _, err := c.Encode(r, provider.Target{Model: "gpt", Config: &configv1.Provider{},
			Facts: &configv1.ModelFacts{Capabilities: &configv1.Capabilities{WebSearch: &x.in}}})
		require.NoError(t, err)
		require.Equal(t, x.path, sent.Path, x.members)
		if x.path == "/responses" && x.members == tool {
			require.Equal(t, `[{"type":"web_search","user_location":{"type":"approximate","city":"Bern"},"filters":{"allowed_domains":["a.example"]}}]`,
				gjson.GetBytes(sent.Body, "tools").Raw)
			require.Equal(t, []string{"tools[0].max_uses"}, sent.Dropped)
		}
	}
}

func TestReasoningIsCarried(t *testing.T) {
	_, answer, err := encode(t, "p", `"messages":[{"role":"user","content":"hi"}],`+tools, true)
	require.NoError(t, err)
	const thought = `{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"gAAA"}`
	var whole chat.Answer
	require.NoError(t, answer.Decode([]byte(`{"id":"resp_1","status":"completed","output":[`+thought+`,{"type":"function_call","call_id":"c1","name":"f","arguments":"{}"},{"type":"function_call","call_id":"c2","name":"f","arguments":"{}"}]}`), chat.Asked{Carrier: chattest.Carrier()}, &whole))
	calls := whole.Choices[0].Calls
	require.Equal(t, "c2", calls[1].ID)
	bare, _ := chattest.Carrier().Split(calls[0].ID)
	require.Equal(t, "c1", bare)
	next := `"messages":[{"role":"user","content":"hi"},{"role":"assistant","tool_calls":[{"id":"` + calls[0].ID + `","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"c2","type":"function","function":{"name":"f","arguments":"{}"}}]},` +
		`{"role":"tool","tool_call_id":"c2","content":"y"},{"role":"tool","tool_call_id":"` + calls[0].ID + `","content":"x"}],` + tools
	for name, want := range map[string]string{
		"p":       `["message","reasoning","function_call","function_call","function_call_output","function_call_output"]`,
		"another": `["message","function_call","function_call","function_call_output","function_call_output"]`,
	} {
		sent, _, err := encode(t, name, next, true)
		require.NoError(t, err)
		require.Equal(t, want, gjson.GetBytes(sent.Body, "input.#.type").Raw)
		require.NotContains(t, string(sent.Body), "mg1")
	}
	sent, _, err := encode(t, "p", next, true)
	require.NoError(t, err)
	require.Equal(t, thought, gjson.GetBytes(sent.Body, "input.1").Raw)
}
