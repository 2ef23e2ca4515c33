package openai_test

import (
	"runtime"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/api/openai"
)

// chat returns the typed form of a body that is good.
func chat(t *testing.T, body string) *openai.Chat {
	t.Helper()
	r, err := openai.ParseChatRequest([]byte(body))
	require.NoError(t, err)
	c, err := r.Chat()
	require.NoError(t, err)
	again, err := r.Chat()
	require.NoError(t, err)
	require.Same(t, c, again)
	return c
}

func value(s string) jsontext.Value { return jsontext.Value(s) }

func TestChatHasEveryMember(t *testing.T) {
	got := chat(t,
		` { "model":"m", "max_tokens" : 1, "max_completion_tokens":2,"temperature":0.5,"top_p":1e-1,"frequency_penalty":-2,"presence_penalty":1.5,`+
			`"n":3,"stop":["a","\n"],"seed":-7,"logit_bias":{"1": 2},"logprobs":true,"top_logprobs":4,"modalities":["text"],"audio":{"voice":"x","format":"wav"},`+
			`"response_format":{"type":"json_schema","json_schema":{"name":"s","description":"d","strict":true,"schema":{"type": "object"}}},`+
			`"tools":[{"type":"function","function":{"name":"f","description":"says \"f\"","parameters":{"type":"object"},"strict":false},"cache_control":{"type":"ephemeral"}},{"type":"custom","custom":{"name":"g"}}],`+
			`"tool_choice":"required","parallel_tool_calls":false,"reasoning_effort":"low","verbosity":"high","user":"u","safety_identifier":"i","service_tier":"flex",`+
			`"prediction":{"type":"content","content":"x"},"metadata":{"a":"b"},"store":false,"web_search_options":{},"functions":[{"name":"h"}],"function_call":"auto","thinking":{"type":"enabled"},"top_k":40,`+
			`"unknown":[{"model":"x"}],"messages":[{"role":"user","content":"hi"}]}`)
	require.Empty(t, cmp.Diff(&openai.Chat{
		Messages:  []openai.Message{{Role: "user", Content: openai.Content{{Type: "text", Text: "hi"}}}},
		MaxTokens: new(int64(1)), MaxCompletionTokens: new(int64(2)), Temperature: new(0.5), TopP: new(0.1),
		FrequencyPenalty: new(-2.0), PresencePenalty: new(1.5),
		N: new(int64(3)), Stop: openai.Strings{"a", "\n"}, Seed: new(int64(-7)), LogitBias: value(`{"1": 2}`),
		Logprobs: new(true), TopLogprobs: new(int64(4)),
		Modalities: []string{"text"}, Audio: value(`{"voice":"x","format":"wav"}`),
		ResponseFormat: &openai.ResponseFormat{Type: "json_schema", JSONSchema: &openai.JSONSchema{Name: "s",
			Description: "d", Strict: new(true), Schema: value(`{"type": "object"}`)}},
		Tools: []openai.Tool{
			{Type: "function", Function: openai.Function{Name: "f", Description: `says "f"`,
				Parameters: value(`{"type":"object"}`), Strict: new(false)}, CacheControl: value(`{"type":"ephemeral"}`)},
			{Type: "custom"},
		},
		ToolChoice: &openai.ToolChoice{Mode: "required"}, ParallelToolCalls: new(false), ReasoningEffort: "low",
		Verbosity: "high", User: "u", SafetyIdentifier: "i",
		ServiceTier: "flex", Prediction: value(`{"type":"content","content":"x"}`), Metadata: value(`{"a":"b"}`),
		Store: new(false), WebSearchOptions: value(`{}`),
		Functions: value(`[{"name":"h"}]`), FunctionCall: value(`"auto"`), Thinking: value(`{"type":"enabled"}`),
		TopK: new(int64(40)),
	}, got))
}

func TestChatHasEveryKindOfMessage(t *testing.T) {
	text := func(s string) openai.Content { return openai.Content{{Type: "text", Text: s}} }
	for name, c := range map[string]struct {
		message string
		want    openai.Message
	}{
		"escapes": {`{"role":"us\u0065r","content":"\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00 é"}`,
			openai.Message{Role: "user", Content: text("\"\\/\b\f\n\r\té😀 é")}},
		"names": {`{"ro\u006ce":"user","content":"","na\u006de":"n"}`, openai.Message{Role: "user", Content: text(""),
			Name: "n"}},
		"no content": {`{"role":"assistant","content":null,"refusal":"no","reasoning_content":"why","thinking_blocks":[ ],"audio":{"id":"a"}}`, openai.Message{Role: "assistant", Refusal: "no", Audio: value(`{"id":"a"}`), ReasoningContent: "why", ThinkingBlocks: value(`[ ]`)}},
		"nulls":      {`{"role":"user","content":"x","name":null,"tool_calls":null,"function_call":null,"cache_control":null,"thinking_blocks":null}`, openai.Message{Role: "user", Content: text("x")}},
		"no parts":   {`{"role":"user","content":[]}`, openai.Message{Role: "user", Content: openai.Content{}}},
		"parts": {`{"role":"user","content":[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}},{"type":"image_url","image_url":{"url":"data:,","detail":"low","x":1}},` +
			`{"type":"input_audio","input_audio":{"data":"d","format":"wav"}},{"type":"file","file":{"file_id":"i","filename":"n","file_data":"d"}},{"type":"refusal","refusal":"r"},{"type":"own","own":[]}]}`,
			openai.Message{Role: "user", Content: openai.Content{
				{Type: "text", Text: "a", CacheControl: value(`{"type":"ephemeral"}`)},
				{Type: "image_url", ImageURL: &openai.ImageURL{URL: "data:,", Detail: "low"}},
				{Type: "input_audio", InputAudio: &openai.InputAudio{Data: "d", Format: "wav"}},
				{Type: "file", File: &openai.File{FileID: "i", Filename: "n", FileData: "d"}},
				{Type: "refusal", Refusal: "r"}, {Type: "own"},
			}}},
		"thoughts": {`{"role":"assistant","content":[ {"signature":"s","type":"thinking","thinking":"t"},{"type":"redacted_thinking","data":"d"},{"type":"thinking","thinking":[]}]}`,
			openai.Message{Role: "assistant", Content: openai.Content{
				{Type: "thinking", Thought: value(`{"signature":"s","type":"thinking","thinking":"t"}`)},
				{Type: "redacted_thinking", Thought: value(`{"type":"redacted_thinking","data":"d"}`)}, {Type: "thinking"},
			}}},
		"calls": {`{"role":"assistant","tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"},"extra_content":{"google":{}}},{"id":"2"}]}`,
			openai.Message{Role: "assistant", ToolCalls: []openai.ToolCall{
				{ID: "1", Type: "function", Function: openai.FunctionCall{Name: "f", Arguments: `{"a":1}`},
					ExtraContent: value(`{"google":{}}`)}, {ID: "2"},
			}}},
		"a function call": {`{"role":"assistant","content":null,"function_call":{"name":"f","arguments":""}}`,
			openai.Message{Role: "assistant", FunctionCall: &openai.FunctionCall{Name: "f"}}},
		"a result": {`{"role":"tool","tool_call_id":"1","content":"r"}`, openai.Message{Role: "tool", ToolCallID: "1",
			Content: text("r")}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Empty(t, cmp.Diff([]openai.Message{c.want}, chat(t, message(c.message)).Messages))
		})
	}
}

func TestToolChoice(t *testing.T) {
	for choice, want := range map[string]*openai.ToolChoice{
		`null`:   nil,
		`"none"`: {Mode: "none"},
		`{"type":"function","function":{"name":"f","x":1}}`: {Mode: "function", Name: "f"},
		`{"type":"custom","custom":{"name":"f"}}`:           {Mode: "custom", Name: "f"},
		`{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"function","function":{"name":"f"}},null,{"type":"x"}]}}`: {Mode: "auto", Allowed: []string{"f", "", ""}},
	} {
		require.Empty(t, cmp.Diff(want, chat(t, with(`"tool_choice":`+choice)).ToolChoice), choice)
	}
}

func TestStopMayBeOneString(t *testing.T) {
	require.Equal(t, openai.Strings{"a\n"}, chat(t, with(`"stop":"a\n"`)).Stop)
	require.Equal(t, openai.Strings{}, chat(t, with(`"stop":[]`)).Stop)
	require.Nil(t, chat(t, with(`"stop":null`)).Stop)
}

func TestChatSaysWhichMemberHasTheWrongType(t *testing.T) {
	for _, c := range []struct{ body, param, message string }{
		{with(`"top_k":1.5`), "top_k", "a number"},
		{with(`"top_k":99999999999999999999`), "top_k", "a number"},
		{message(
			`{"role":"user","content":"x"},{"role":"assistant","tool_calls":[{"id":"1","function":{"arguments":{"a":1}}}]}`),
			"messages[1].tool_calls[0].function.arguments", "an object"},
		{message(`{"role":"assistant","function_call":{"n\u0061me":[]}}`), "messages[0].function_call.name", "an array"},
		{message(`{"role":"assistant","content":"","reasoning_content":{}}`), "messages[0].reasoning_content", "an object"},
	} {
		r, err := openai.ParseChatRequest([]byte(c.body))
		require.NoError(t, err, "only codecs that translate look this deep")
		_, err = r.Chat()
		var e *openai.Error
		require.ErrorAs(t, err, &e, c.body)
		require.Equal(t, 400, e.Status)
		require.Equal(t, c.param, e.Param, c.body)
		require.Equal(t, "invalid_type", string(e.Code))
		require.Equal(t, "Invalid type for '"+c.param+"': got "+c.message+" instead.", e.Message)
	}
}

func TestADeepRequestIsRefusedOrRead(t *testing.T) {
	deep := func(n int) string { return with(`"x":` + strings.Repeat(`[`, n) + strings.Repeat(`]`, n)) }
	chat(t, deep(100))
	for n, code := range map[int]string{200: "invalid_value", 9000: "invalid_value", 1_000_000: "invalid_json"} {
		_, err := openai.ParseChatRequest([]byte(deep(n)))
		var e *openai.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, code, string(e.Code))
	}
}

// An image is copied once: whatever else is made of a request is small beside it.
func TestChatCopiesAnImageOnce(t *testing.T) {
	for _, image := range []string{strings.Repeat("iVBORw0K", 1<<17), strings.Repeat(`iVBOR\/w`, 1<<17)} {
		body := []byte(message(`{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,` +
			image + `"}}]}`))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r, err := openai.ParseChatRequest(body)
		require.NoError(t, err)
		c, err := r.Chat()
		runtime.ReadMemStats(&after)
		require.NoError(t, err)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(len(body)+len(body)/8))
		require.Equal(t, strings.ReplaceAll(image, `\/`, "/"), strings.TrimPrefix(c.Messages[0].Content[0].ImageURL.URL,
			"data:image/png;base64,"))
	}
}

// conversation is a request of 2 KB, as an agent makes it, or, with more of the same turns, a larger one.
func conversation(size int) []byte {
	const head = `{"model":"public/name","max_tokens":512,"temperature":0.7,"stream":true,"stream_options":{"include_usage":true},"user":"user-1234","tool_choice":"auto","parallel_tool_calls":true,"stop":["END"],` +
		`"tools":[{"type":"function","function":{"name":"get_weather","description":"The weather at a place.","parameters":{"type":"object","properties":{"city":{"type":"string","description":"The name of the city"},"unit":{"type":"string","enum":["c","f"]}},"required":["city"],"additionalProperties":false},"strict":true}},` +
		`{"type":"function","function":{"name":"search","description":"Search the web.","parameters":{"type":"object","properties":{"query":{"type":"string"},"limit":{"type":"integer","minimum":1,"maximum":50}},"required":["query"]}}}],` +
		`"messages":[{"role":"system","content":"You are a helpful assistant that answers briefly."}`
	const turn = `,{"role":"user","content":[{"type":"text","text":"What is the weather in Paris today?\nAnd what was it \"yesterday\"?"},{"type":"image_url","image_url":{"url":"https://example.com/a/picture.png","detail":"low"}}]},` +
		`{"role":"assistant","content":null,"tool_calls":[{"id":"call_abc123def456","type":"function","function":{"name":"get_weather","arguments":"{\"city\":\"Paris\",\"unit\":\"c\"}"}}]},` +
		`{"role":"tool","tool_call_id":"call_abc123def456","content":"{\"temperature\":21,\"sky\":\"clear\"}"},` +
		`{"role":"assistant","content":"It is sunny, with 21 degrees, and it was the same yesterday."},{"role":"user","content":"Thank you. And what do you think of the picture? It was taken in the morning by a friend of mine."}`
	return []byte(head + strings.Repeat(turn, max(1, (size-len(head))/len(turn))) + "]}")
}

func BenchmarkChat(b *testing.B) {
	image := `{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,` +
		strings.Repeat("iVBORw0K", 1<<17) + `"}}]}`
	for name, body := range map[string][]byte{"2KB": conversation(2 << 10), "1MB": conversation(1 << 20),
		"1MB image": []byte(message(image))} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				r, err := openai.ParseChatRequest(body)
				if err == nil {
					_, err = r.Chat()
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
