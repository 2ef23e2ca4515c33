package fakeprovider

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/chat/chattest"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/vendors/echo"
)

// user is a request's messages with one of the user.
func user(text string) string {
	data, _ := json.Marshal([]map[string]string{{"role": "system", "content": "Be brief."},
		{"role": "user", "content": text}})
	return `"messages":` + string(data)
}

const weatherTools = `"tools":[
	{"type":"function","function":{"name":"get_weather","parameters":{"type":"object","required":["city","days"],"properties":{
		"city":{"type":"string"},"days":{"type":"integer","minimum":3},"unit":{"enum":["C","F"]}}}}},
	{"type":"function","function":{"name":"get_time"}}]`

func post(t *testing.T, body string) (int, gjson.Result) {
	t.Helper()
	w := httptest.NewRecorder()
	Handler().ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(body)))
	require.Equal(t, "application/json", w.Header().Get("Content-Type"))
	require.True(t, gjson.Valid(w.Body.String()), "not JSON: %s", w.Body)
	return w.Code, gjson.Parse(w.Body.String())
}

func TestAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		request string // without model
		want    map[string]string
	}{
		"the text comes back as it is": {user("Hello,  world\n ünd more "), map[string]string{
			"object": `"chat.completion"`, "model": `"echo"`, "choices.0.message.content": `"Hello,  world\n ünd more "`,
			"choices.0.message.role": `"assistant"`, "choices.0.finish_reason": `"stop"`, "choices.#": "1",
			"system_fingerprint":  `"fp_echo"`,
			"usage.prompt_tokens": "6", "usage.completion_tokens": "4", "usage.total_tokens": "10"}},
		"the last message of the user counts": {`"messages":[{"role":"user","content":"one"},{"role":"assistant","content":"x"},{"role":"user","content":[{"type":"text","text":"two"}]},{"role":"assistant","content":"y"}]`,
			map[string]string{"choices.0.message.content": `"two"`}},
		"several choices": {user("a b") + `,"n":3`, map[string]string{
			"choices.#": "3", "choices.2.index": "2", "choices.2.message.content": `"a b"`, "usage.completion_tokens": "6"}},
		"a limit of tokens cuts words": {user("a b c") + `,"max_tokens":2`, map[string]string{
			"choices.0.message.content": `"a b"`, "choices.0.finish_reason": `"length"`, "usage.completion_tokens": "2"}},
		"a limit of completion tokens, too": {user("a b c") + `,"max_completion_tokens":1`,
			map[string]string{"choices.0.message.content": `"a"`}},
		"a limit that is not reached": {user("a b c") + `,"max_tokens":3`,
			map[string]string{"choices.0.finish_reason": `"stop"`}},
		"the first of several stops": {user("a b c d") + `,"stop":[" d"," c"]`,
			map[string]string{"choices.0.message.content": `"a b"`, "choices.0.finish_reason": `"stop"`}},
		"a JSON object": {user("hi") + `,"response_format":{"type":"json_object"}`,
			map[string]string{"choices.0.message.content": `"{\"text\":\"hi\"}"`}},
		"a JSON object after a schema": {user("hi") +
			`,"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":{"type":"object","required":["a","b","c","d","e","f","g"],
			"properties":{"a":{"type":"string"},"b":{"type":"number"},"c":{"type":"boolean"},"d":{"type":["null","integer"]},"e":{"type":"array","items":{"$ref":"#/$defs/item"}},"f":{"anyOf":[{"const":"k"}]},"g":{"type":"null"},"not":{"type":"string"}},
			"$defs":{"item":{"type":"object","required":["x"],"properties":{"x":{"enum":["one","two"]}}}}}}}`,
			map[string]string{
				"choices.0.message.content": `"{\"a\":\"text\",\"b\":1,\"c\":true,\"d\":1,\"e\":[{\"x\":\"one\"}],\"f\":\"k\",\"g\":null}"`}},
		"tools that are not named are not called": {user("what is get_weather?") + "," + weatherTools, map[string]string{
			"choices.0.message.content": `"what is get_weather?"`, "choices.0.message.tool_calls": ""}},
		"a tool that the user names is called": {user("please call get_weather.") + "," + weatherTools, map[string]string{
			"choices.0.message.content": "null", "choices.0.finish_reason": `"tool_calls"`,
			"choices.0.message.tool_calls.#":      "1",
			"choices.0.message.tool_calls.0.type": `"function"`, "choices.0.message.tool_calls.0.index": "",
			"choices.0.message.tool_calls.0.function.name":      `"get_weather"`,
			"choices.0.message.tool_calls.0.function.arguments": `"{\"city\":\"text\",\"days\":3}"`}},
		"several tools that the user names are called in parallel": {user("call get_time and get_weather") + "," +
			weatherTools, map[string]string{
			"choices.0.message.tool_calls.#.function.name":      `["get_time","get_weather"]`,
			"choices.0.message.tool_calls.0.function.arguments": `"{}"`}},
		"not in parallel where that is switched off": {user("call get_time and get_weather") +
			`,"parallel_tool_calls":false,` + weatherTools, map[string]string{
			"choices.0.message.tool_calls.#.function.name": `["get_time"]`}},
		"a tool choice that requires one": {user("hi") + `,"tool_choice":"required",` + weatherTools, map[string]string{
			"choices.0.message.tool_calls.#.function.name": `["get_weather"]`}},
		"a tool choice that names one": {user("hi") + `,"tool_choice":{"type":"function","function":{"name":"get_time"}},` +
			weatherTools, map[string]string{
			"choices.0.message.tool_calls.#.function.name": `["get_time"]`}},
		"a tool choice of none": {user("call get_time") + `,"tool_choice":"none",` + weatherTools,
			map[string]string{"choices.0.message.tool_calls": ""}},
		"no further call after a tool's result": {`"messages":[{"role":"user","content":"call get_time"},{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"get_time","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c","content":"noon"}],` + weatherTools,
			map[string]string{"choices.0.message.content": `"call get_time"`}},
	} {
		t.Run(name, func(t *testing.T) {
			status, got := post(t, `{"model":"echo",`+c.request+`}`)
			require.Equal(t, http.StatusOK, status, got.Raw)
			require.True(t, strings.HasPrefix(got.Get("id").String(), "chatcmpl-"))
			require.Positive(t, got.Get("created").Int())
			for path, want := range c.want {
				require.Equal(t, want, got.Get(path).Raw, path)
			}
		})
	}
}

func TestASchemaThatRefersToItselfEnds(t *testing.T) {
	got := example(
		[]byte(`{"$ref":"#/$defs/a","$defs":{"a":{"type":"object","required":["a","list"],"properties":{"a":{"$ref":"#/$defs/a"},"list":{"type":"array","items":{"$ref":"#"}}}}}}`))
	require.IsType(t, map[string]any{}, got)
	require.Equal(t, map[string]any{}, example([]byte(`{"type":7}`)), "a schema that cannot be read")
}

func TestErrors(t *testing.T) {
	for name, c := range map[string]struct {
		method, path, body string
		status             int
		code               string
	}{
		"a body that is not JSON": {http.MethodPost, "/v1/chat/completions", "{", http.StatusBadRequest, "invalid_json"},
		"no messages": {http.MethodPost, "/v1/chat/completions", `{"model":"echo"}`, http.StatusBadRequest,
			"missing_required_parameter"},
		"an unknown path": {http.MethodPost, "/v1/audio/speech", `{}`, http.StatusNotFound, "unknown_url"},
		"the wrong method": {http.MethodGet, "/v1/chat/completions", "", http.StatusMethodNotAllowed,
			"method_not_supported"},
		"too large": {http.MethodPost, "/v1/chat/completions", strings.Repeat(" ", maxBody+1),
			http.StatusRequestEntityTooLarge, "request_too_large"},
	} {
		t.Run(name, func(t *testing.T) {
			w := httptest.NewRecorder()
			Handler().ServeHTTP(w, httptest.NewRequest(c.method, c.path, strings.NewReader(c.body)))
			require.Equal(t, c.status, w.Code)
			require.Equal(t, c.code, gjson.Get(w.Body.String(), "error.code").String())
			require.NotEmpty(t, gjson.Get(w.Body.String(), "error.message").String())
		})
	}
}

func TestModels(t *testing.T) {
	w := httptest.NewRecorder()
	Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/v1/models", nil))
	require.Equal(t, http.StatusOK, w.Code)
	require.Equal(t, `["echo"]`, gjson.Get(w.Body.String(), "data.#.id").Raw)
}

// events streams a request and returns the data of each event.
func events(t *testing.T, body string) []string {
	t.Helper()
	w := httptest.NewRecorder()
	Handler().ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/any/prefix/chat/completions", strings.NewReader(body)))
	require.Equal(t, http.StatusOK, w.Code)
	require.Equal(t, "text/event-stream; charset=utf-8", w.Header().Get("Content-Type"))
	require.True(t, w.Flushed)
	var events []string
	for _, e := range strings.SplitAfter(strings.TrimSuffix(w.Body.String(), "\n\n"), "\n\n") {
		data, ok := strings.CutPrefix(strings.TrimSuffix(e, "\n\n"), "data: ")
		require.True(t, ok)
		events = append(events, data)
	}
	return events
}

func TestStreamsWordByWord(t *testing.T) {
	got := events(t, `{"model":"echo",`+user("one two three")+`,"stream":true,"n":2}`)
	var texts [2]string
	for _, e := range got[:len(got)-1] {
		choice := gjson.Get(e, "choices.0")
		texts[choice.Get("index").Int()] += choice.Get("delta.content").String()
		require.False(t, gjson.Get(e, "usage").Exists())
	}
	require.Equal(t, [2]string{"one two three", "one two three"}, texts)
	require.Len(t, got, 2*(1+3+1)+1)
	require.Equal(t, "[DONE]", got[len(got)-1])
}

func TestStreamsUsageWhereAskedFor(t *testing.T) {
	got := events(t, `{"model":"echo",`+user("one two")+`,"stream":true,"stream_options":{"include_usage":true}}`)
	for _, e := range got[:len(got)-2] {
		require.Equal(t, "null", gjson.Get(e, "usage").Raw)
	}
	last := gjson.Parse(got[len(got)-2])
	require.Equal(t, "[]", last.Get("choices").Raw)
	require.Equal(t, int64(2), last.Get("usage.completion_tokens").Int())
}

func TestStreamsToolCalls(t *testing.T) {
	got := events(t, `{"model":"echo",`+user("call get_weather and get_time")+`,"stream":true,`+weatherTools+`}`)
	names, arguments := map[int64]string{}, map[int64]string{}
	for _, e := range got[:len(got)-1] {
		for _, call := range gjson.Get(e, "choices.0.delta.tool_calls").Array() {
			names[call.Get("index").Int()] += call.Get("function.name").String()
			arguments[call.Get("index").Int()] += call.Get("function.arguments").String()
		}
	}
	require.Equal(t, map[int64]string{0: "get_weather", 1: "get_time"}, names)
	require.Equal(t, map[int64]string{0: `{"city":"text","days":3}`, 1: `{}`}, arguments)
	require.Equal(t, "tool_calls", gjson.Get(got[len(got)-2], "choices.0.finish_reason").String())
}

func TestStopsWhenTheClientGoes(t *testing.T) { // pitfall 29
	ended := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(ended)
		Handler().ServeHTTP(w, r)
	}))
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	body := `{"model":"echo",` + user(strings.Repeat("word ", 300_000)) + `,"stream":true}`
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+"/v1/chat/completions", strings.NewReader(body))
	require.NoError(t, err)
	response, err := server.Client().Do(r)
	require.NoError(t, err)
	defer response.Body.Close()
	_, err = bufio.NewReader(response.Body).ReadString('\n')
	require.NoError(t, err)
	select {
	case <-ended:
		t.Fatal("the answer ended before the client went: the test shows nothing")
	default:
	}
	cancel()
	<-ended
}

func TestACancelledRequestIsNotFinished(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/chat/completions",
		strings.NewReader(`{"model":"echo",`+user("a b c")+`,"stream":true}`))
	Handler().ServeHTTP(w, r)
	require.NotContains(t, w.Body.String(), "[DONE]")
	require.LessOrEqual(t, strings.Count(w.Body.String(), "data: "), 1)
}

func TestTheEchoProviderReadsItsAnswers(t *testing.T) {
	server := httptest.NewServer(Handler())
	defer server.Close()
	p := echo.Provider()
	request, err := openai.ParseChatRequest([]byte(`{"model":"echo/echo",` + user("good morning") + `,"stream":true}`))
	require.NoError(t, err)
	out, answer, err := p.Chat.Encode(request, provider.Target{Model: "echo"})
	require.NoError(t, err)
	response, err := server.Client().Post(server.URL+"/v1"+out.Path, "application/json",
		strings.NewReader(string(out.Body)))
	require.NoError(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	w := chattest.NewStream(request.Model, 1, false)
	s := answer.Stream(w.Asked)
	require.NoError(t, s.Decode(body, w))
	require.NoError(t, s.Close(w))
	require.Contains(t, string(w.Take()), `"model":"echo/echo"`)
	require.Equal(t, int64(2), w.Usage().CompletionTokens)
}
