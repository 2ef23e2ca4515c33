package gemini

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/chat"
	"github.com/modelgate/modelgate/internal/inbound"
	"github.com/modelgate/modelgate/internal/provider/private"
)

// translated returns the chat completion for a request, with the members that codecs read which translate.
func translated(t *testing.T, body string) (gjson.Result, *request, error) {
	t.Helper()
	r, err := parseStreamed(inbound.Head{Path: "/v1beta/models/team/fast:streamGenerateContent"}, []byte(body))
	if err != nil {
		return gjson.Result{}, nil, err
	}
	of := r.Encoder.(*request)
	if err := of.translate(); err != nil {
		return gjson.Result{}, of, err
	}
	return gjson.ParseBytes(of.Own.Body), of, nil
}

func TestARequestBecomesAChatCompletion(t *testing.T) {
	got, r, err := translated(t, `{
		"system_instruction":{"parts":[{"text":"Be "},{"text":"brief."}]},
		"contents":[
			{"parts":[{"text":"Look"},{"inline_data":{"mime_type":"image/png","data":"-_8="}},{"fileData":{"mimeType":"application/pdf","fileUri":"https://x.example/a.pdf"}}]},
			{"role":"model","parts":[{"text":"hm","thought":true},{"text":"I look."},{"functionCall":{"name":"f","args":{"a":1}},"thoughtSignature":"c2ln"},{"functionCall":{"id":"c9","name":"g"}}]},
			{"role":"user","parts":[{"functionResponse":{"name":"f","response":{"r":1}}},{"functionResponse":{"id":"c9","name":"g","response":{"r":2}}}]},
			{"role":"user","parts":[{"text":"Go on"}]}],
		"tools":[{"functionDeclarations":[{"name":"f","description":"F","parameters":{"type":"OBJECT","properties":{"type":{"type":"STRING","nullable":true,"enum":["x"]},"n":{"type":"ARRAY","min_items":"2","items":{"type":"INTEGER"}}},"propertyOrdering":["n"]}},{"name":"g","parametersJsonSchema":{"type":"object","additionalProperties":false}}]},{"google_search":{}}],
		"toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["f","g"]}},
		"generationConfig":{"temperature":0.5,"topP":0.9,"top_k":40,"maxOutputTokens":100,"stopSequences":["."],"candidateCount":2,"seed":7,"responseMimeType":"application/json","responseSchema":{"type":"STRING"},"thinkingConfig":{"thinkingBudget":9000,"includeThoughts":true},"audioTimestamp":true},
		"safetySettings":[{"category":"X","threshold":"Y"}],"serviceTier":"flex"}`)
	require.NoError(t, err)
	require.Equal(t, `[{"role":"system","content":[{"type":"text","text":"Be "},{"type":"text","text":"brief."}]},`+
		`{"role":"user","content":[{"type":"text","text":"Look"},{"type":"image_url","image_url":{"url":"data:image/png;base64,+/8="}},{"type":"file","file":{"filename":"document.pdf","file_data":"https://x.example/a.pdf"}}]},`+
		`{"role":"assistant","reasoning_content":"hm","content":"I look.","tool_calls":[{"id":"call_3_0","type":"function","function":{"name":"f","arguments":"{\"a\":1}"},"extra_content":{"google":{"thought_signature":"c2ln"}}},{"id":"c9","type":"function","function":{"name":"g","arguments":"{}"}}]},`+
		`{"role":"tool","tool_call_id":"call_3_0","content":"{\"r\":1}"},{"role":"tool","tool_call_id":"c9","content":"{\"r\":2}"},`+
		`{"role":"user","content":"Go on"}]`, got.Get("messages").Raw)
	require.Equal(t, `[{"type":"function","function":{"name":"f","description":"F","parameters":{"type":"object","properties":{"type":{"type":["string","null"],"enum":["x",null]},"n":{"type":"array","minItems":2,"items":{"type":"integer"}}}}}},`+
		`{"type":"function","function":{"name":"g","parameters":{"type":"object","additionalProperties":false}}}]`, got.Get("tools").Raw)
	require.Equal(t, `{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[{"type":"function","function":{"name":"f"}},{"type":"function","function":{"name":"g"}}]}}`,
		got.Get("tool_choice").Raw)
	for name, want := range map[string]string{"model": `"team/fast"`, "stream": "true", "temperature": "0.5",
		"top_p": "0.9", "top_k": "40", "max_tokens": "100", "stop": `["."]`, "n": "2", "seed": "7", "service_tier": `"flex"`,
		"web_search_options": "{}", "thinking": `{"type":"enabled","budget_tokens":9000}`,
		"response_format": `{"type":"json_schema","json_schema":{"name":"answer","schema":{"type":"string"}}}`,
	} {
		require.Equal(t, want, got.Get(name).Raw, name)
	}
	require.Equal(t, "medium", gjson.GetBytes(r.Plain.Body, "reasoning_effort").Str)
	require.False(t, gjson.GetBytes(r.Plain.Body, "thinking").Exists())
	require.Equal(t, []string{"generationConfig.audioTimestamp", "safetySettings"}, r.Dropped)
}

// A signature goes to a server of OpenAI's dialect as it was made, if AI Studio has made it.
func TestSignaturesOfAnotherProductAreNotSent(t *testing.T) {
	for signature, want := range map[string]string{"c2ln": "c2ln", private.Mark("gemini") + "c2ln": "c2ln",
		private.Mark("vertex") + "c2ln": private.Unsigned} {
		got, _, err := translated(t, `{"contents":[{"parts":[{"text":"hi"}]},{"role":"model","parts":[`+
			`{"functionCall":{"name":"f"},"thoughtSignature":"`+signature+`"}]},`+
			`{"parts":[{"functionResponse":{"name":"f","response":{}}}]}]}`)
		require.NoError(t, err)
		require.Equal(t, want, got.Get("messages.1.tool_calls.0.extra_content.google.thought_signature").Str)
	}
}

func TestWhatOnlyGoogleDoesIsRefusedByName(t *testing.T) {
	const ask = `"contents":[{"parts":[{"text":"x"}]}]`
	for body, param := range map[string]string{
		`{` + ask + `,"tools":[{"codeExecution":{}}]}`:                                                                                "tools[0].codeExecution",
		`{` + ask + `,"cachedContent":"cachedContents/1"}`:                                                                            "cachedContent",
		`{` + ask + `,"generationConfig":{"responseModalities":["IMAGE"]}}`:                                                           "generationConfig.responseModalities",
		`{` + ask + `,"generationConfig":{"responseMimeType":"text/x.enum"}}`:                                                         "generationConfig.responseMimeType",
		`{` + ask + `,"toolConfig":{"functionCallingConfig":{"mode":"SOMETIMES"}},"tools":[{"functionDeclarations":[{"name":"f"}]}]}`: "toolConfig.functionCallingConfig.mode",
		`{"contents":[{"parts":[{"hologram":{}}]}]}`:                                                                                  "contents[0].parts[0]",
		`{"contents":[{"role":"model","parts":[{"hologram":{}}]}]}`:                                                                   "contents[0].parts[0]",
		`{"contents":[{"role":"robot","parts":[{"text":"x"}]}]}`:                                                                      "contents[0].role",
		`{"contents":[{"parts":[{"functionResponse":{"name":"f"}}]}]}`:                                                                "contents[0].parts[0].functionResponse",
		`{"contents":[{"parts":[{"fileData":{"fileUri":"gs://b/o","mimeType":"image/png"}}]}]}`:                                       "contents[0].parts[0].fileData.fileUri",
		`{"contents":[{"parts":[{"inlineData":{"mimeType":"video/mp4"}}]}]}`:                                                          "contents[0].parts[0].inlineData.mimeType",
		`{"contents":[{"parts":"x"}]}`:                                                                                                "contents[0].parts",
		`{"contents":[]}`:                                                                                                             "contents",
		`{"messages":[{"role":"user","content":"of another API"}]}`:                                                                   "contents",
	} {
		_, _, err := translated(t, body)
		var e *openai.Error
		require.ErrorAs(t, err, &e, body)
		require.Equal(t, http.StatusBadRequest, e.Status, body)
		require.Equal(t, param, e.Param, body)
	}
}

func TestPaths(t *testing.T) {
	for path, want := range map[string]*inbound.Operation{
		"/v1/models/a/b:generateContent":                     unary,
		"/v1/models/ollama/llama3:8b":                        nil,
		"/v1beta/models/m:generateContent":                   unary,
		"/v1beta/models/a/b:8b:streamGenerateContent":        listed,
		"/v1beta/models/a%2Fb:streamGenerateContent?alt=sse": streamed,
		"/v1beta/models/m:countTokens":                       count,
		"/v1beta/models/m:embedContent":                      embed,
		"/v1beta/models/m:batchEmbedContents":                embedAll,
		"/v1beta/models/m:predict":                           nil,
		"/v1beta/models/:generateContent":                    nil,
		"/v1beta/models/m":                                   nil,
	} {
		path, query, _ := strings.Cut(path, "?")
		require.Same(t, want, match(path, query), path)
	}
	model, _, _ := split("/v1beta/models/a%2Fb:8b:generateContent")
	require.Equal(t, "a/b:8b", model)
}

// put returns what a writer makes of events.
func put(w chat.Writer, events ...chat.Event) string {
	for _, e := range events {
		w.Put(e)
	}
	return string(w.Take())
}

func TestAnAnswerInChunks(t *testing.T) {
	member := chat.Member(0, "annotations", []byte(`[{"type":"url_citation","url_citation":{"url":"https://x","title":"X"}}]`))
	answer := []chat.Event{chat.Begin("r1"), chat.Role(0), chat.Reasoning(0, "hm"), chat.Text(0, "Hal"), chat.Text(0, ""),
		chat.Text(0, "lo"), chat.ToolCall(0, 0, "c1", "f"), chat.ToolCall(0, 1, "c2", "g"),
		chat.Arguments(0, 0, "{\n\"a\":"), chat.Arguments(0, 1, `not JSON`),
		chat.Arguments(0, 0, `1}`), member, chat.Finish(0, "tool_calls"),
		chat.Usage(openai.Usage{PromptTokens: 10, CachedTokens: 4, CompletionTokens: 7, ReasoningTokens: 2}), chat.End()}
	const tail = `,"modelVersion":"m","responseId":"r1"}`
	piece := func(part string) string {
		return `{"candidates":[{"content":{"parts":[` + part + `],"role":"model"},"index":0}]` + tail
	}
	last := `{"candidates":[{"content":{"parts":[{"functionCall":{"id":"c1","name":"f","args":{"a":1}}},{"functionCall":{"id":"c2","name":"g","args":{"arguments":"not JSON"}}}],"role":"model"},"finishReason":"STOP","groundingMetadata":{"groundingChunks":[{"web":{"uri":"https://x","title":"X"}}]},"index":0}],"usageMetadata":{"promptTokenCount":10,"candidatesTokenCount":5,"thoughtsTokenCount":2,"cachedContentTokenCount":4,"totalTokenCount":17}` + tail
	hal, lo := piece(`{"text":"Hal"}`), piece(`{"text":"lo"}`)
	require.Equal(t, "data: "+hal+"\n\ndata: "+lo+"\n\ndata: "+last+"\n\n",
		put(newStream(chat.Asked{Model: "m"}, events), answer...))
	thoughts := chat.Asked{Model: "m", Echo: []byte(`{"include_thoughts":true}`)}
	require.Equal(t, "["+piece(`{"thought":true,"text":"hm"}`)+",\n"+hal+",\n"+lo+",\n"+last+"]",
		put(newStream(thoughts, array), answer...), "one JSON array")

	whole := put(chat.Documents(appendAnswer)(thoughts), answer...)
	require.Equal(t, `[{"thought":true,"text":"hm"},{"text":"Hallo"},{"functionCall":{"id":"c1","name":"f","args":{"a":1}}},{"functionCall":{"id":"c2","name":"g","args":{"arguments":"not JSON"}}}]`,
		gjson.Get(whole, "candidates.0.content.parts").Raw)
	require.Equal(t, gjson.Get(last, "usageMetadata").Raw, gjson.Get(whole, "usageMetadata").Raw)
}

func TestAStreamThatFails(t *testing.T) {
	e := chat.Event{Kind: chat.KindError, Error: &openai.Error{Status: 503, Message: "gone", Code: "upstream_unavailable",
		RetryAfter: 1500 * time.Millisecond}}
	const failed = `{"error":{"code":503,"message":"gone","status":"UNAVAILABLE","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"UPSTREAM_UNAVAILABLE","domain":"modelgate"},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"1.5s"}]}}`
	got := put(newStream(chat.Asked{Model: "m"}, events), chat.Begin("x"), chat.Text(0, "a"), e)
	require.True(t, strings.HasSuffix(got, "\n\ndata: "+failed+"\n\n"), got)
	require.NotContains(t, got, "finishReason")
	got = put(newStream(chat.Asked{Model: "m"}, array), chat.Begin("x"), chat.Text(0, "a"), e)
	require.True(t, gjson.Valid(got), "the array ends: %s", got)
	require.Equal(t, failed, gjson.Get(got, "1").Raw)
}

func TestModelsInGooglesForm(t *testing.T) {
	got := string(appendModels(nil, []byte(`{"object":"list","data":[{"id":"a/b"},{"id":"c"}]}`)))
	require.Equal(t, `["models/a/b","models/c"]`, gjson.Get(got, "models.#.name").Raw)
	require.Equal(t, "models/c", gjson.GetBytes(appendModels(nil, []byte(`{"id":"c"}`)), "name").Str)
}

func BenchmarkChunk(b *testing.B) {
	w := newStream(chat.Asked{Model: "m"}, events)
	w.Put(chat.Begin("x"))
	b.ReportAllocs()
	for b.Loop() {
		w.Put(chat.Text(0, " token"))
		w.Take()
	}
}
