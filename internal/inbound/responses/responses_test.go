package responses

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/chat"
	"github.com/modelgate/modelgate/internal/inbound"
	"github.com/modelgate/modelgate/internal/provider"
)

// spy is a codec that keeps the chat completion that it gets.
type spy struct{ got *openai.ChatRequest }

func (s *spy) Encode(r *openai.ChatRequest, _ provider.Target) (provider.Request, provider.Answer, error) {
	s.got = r
	return provider.Request{}, nil, nil
}

func translated(t *testing.T, members string) (string, provider.Request, error) {
	t.Helper()
	r, err := parse(inbound.Head{}, []byte(`{"model":"m",`+members+`}`))
	require.NoError(t, err)
	var s spy
	sent, _, err := r.Encode(&provider.Provider{Chat: &s}, provider.Target{Config: &configv1.Provider{}})
	if err != nil {
		return "", sent, err
	}
	return string(s.got.Body), sent, nil
}

func TestRequests(t *testing.T) {
	const head, hi = `{"model":"m","messages":`, `[{"role":"user","content":"hi"}]`
	for name, c := range map[string]struct{ members, want string }{
		"a string": {`"input":"hi"`, head + hi},
		"messages": {`"instructions":"be brief","input":[{"role":"developer","content":"d"},{"type":"message","role":"user","content":[{"type":"input_text","text":"a"},{"type":"input_image","image_url":"https://i","detail":"low"},{"type":"input_file","filename":"f.pdf","file_data":"data:x"}]},{"role":"assistant","content":[{"type":"output_text","text":"said"}]}]`,
			head + `[{"role":"system","content":"be brief"},{"role":"developer","content":"d"},{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"https://i","detail":"low"}},{"type":"file","file":{"filename":"f.pdf","file_data":"data:x"}}]},{"role":"assistant","content":"said"}]`},
		"a turn of the assistant is one message, and results follow it": {`"input":[{"role":"user","content":"hi"},{"type":"reasoning","summary":[{"type":"summary_text","text":"hm"}]},{"type":"function_call","call_id":"c1","name":"f","arguments":"{\"x\":1}"},{"role":"assistant","content":"wait"},{"type":"custom_tool_call","call_id":"c2","name":"g","input":"raw \"text\""},{"type":"function_call_output","call_id":"c1","output":[{"type":"input_text","text":"one"},{"type":"input_image","image_url":"https://i"}]},{"type":"custom_tool_call_output","call_id":"c2","output":"two"},{"role":"user","content":"go on"}]`,
			head + `[{"role":"user","content":"hi"},{"role":"assistant","reasoning_content":"hm","content":"wait","tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}},{"id":"c2","type":"function","function":{"name":"g","arguments":"{\"input\":\"raw \\\"text\\\"\"}"}}]},{"role":"tool","tool_call_id":"c1","content":"one"},{"role":"tool","tool_call_id":"c2","content":"two"},{"role":"user","content":[{"type":"text","text":"From the result of the tool call c1:"},{"type":"image_url","image_url":{"url":"https://i"}}]},{"role":"user","content":"go on"}]`},
		"tools": {`"input":"hi","tools":[{"type":"function","name":"f","description":"d","parameters":{"type":"object"},"strict":true},{"type":"custom","name":"patch","description":"edits","format":{"type":"grammar","syntax":"lark","definition":"start: x"}},{"type":"namespace","name":"n","tools":[{"type":"function","name":"f","parameters":{"type":"object"}}]},{"type":"web_search"}],"tool_choice":{"type":"function","name":"f"},"parallel_tool_calls":false`,
			head + hi + `,"tools":[{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object"},"strict":true}},{"type":"function","function":{"name":"patch","description":"edits\n\nThe input must match this lark grammar:\nstart: x","parameters":` + customParameters + `}},{"type":"function","function":{"name":"n__f","parameters":{"type":"object"}}},{"type":"web_search"}],"tool_choice":{"type":"function","function":{"name":"f"}},"parallel_tool_calls":false`},
		"parameters": {`"input":"hi","stream":true,"max_output_tokens":7,"text":{"format":{"type":"json_schema","name":"a","schema":{"type":"object"},"strict":true},"verbosity":"low"},"reasoning":{"effort":"high","summary":"auto"},"temperature":0.5,"user":"u","store":false,"include":["reasoning.encrypted_content"]`,
			`{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":` + hi + `,"max_completion_tokens":7,"response_format":{"type":"json_schema","json_schema":{"name":"a","schema":{"type":"object"},"strict":true}},"verbosity":"low","reasoning_effort":"high","temperature":0.5,"user":"u"`},
	} {
		t.Run(name, func(t *testing.T) {
			got, sent, err := translated(t, c.members)
			require.NoError(t, err)
			require.Equal(t, c.want+"}", got)
			require.Empty(t, sent.Dropped)
		})
	}
}

func TestWhatIsRefusedOrLeftOut(t *testing.T) {
	for members, param := range map[string]string{
		`"input":"hi","store":true`: "store", `"input":"hi","background":true`: "background",
		`"input":"hi","previous_response_id":"resp_1"`:                               "previous_response_id",
		`"input":"hi","conversation":"conv_1"`:                                       "conversation",
		`"input":"hi","prompt":{"id":"pmpt_1"}`:                                      "prompt",
		`"store":false`:                                                              "input",
		`"input":[{"type":"item_reference","id":"x"}]`:                               "input[0]",
		`"input":[{"type":"hologram"}]`:                                              "input[0].type",
		`"input":[{"role":"user","content":[{"type":"hologram"}]}]`:                  "input[0].content[0].type",
		`"input":[{"role":"user","content":[{"type":"input_image","file_id":"f"}]}]`: "input[0].content[0].file_id",
		`"input":[{"role":"narrator","content":"x"}]`:                                "input[0].role",
		`"input":[{"type":"function_call","name":"f","arguments":"{}"}]`:             "input[0].call_id",
		`"input":[{"type":"function_call_output","output":"x"}]`:                     "input[0].call_id",
		`"input":[{"role":"user","content":7}]`:                                      "input[0].content",
		`"input":"hi","tools":[{}]`:                                                  "tools[0].type",
		`"input":"hi","tool_choice":{"type":"file_search"}`:                          "tool_choice",
	} {
		_, _, err := translated(t, members)
		var e *openai.Error
		require.ErrorAs(t, err, &e, members)
		require.Equal(t, 400, e.Status)
		require.Equal(t, param, e.Param, e.Message)
	}
	_, sent, err := translated(t, `"input":[{"type":"web_search_call","id":"w"},{"role":"user","content":"hi"}],"truncation":"auto","novelty":1`)
	require.NoError(t, err)
	require.Equal(t, []string{"novelty", "truncation", "input[0]"}, sent.Dropped)
}

// events returns the events that a stream writes.
func events(asked chat.Asked, all ...chat.Event) (data []gjson.Result) {
	w := newStream(asked)
	for _, e := range all {
		w.Put(e)
	}
	for e := range strings.SplitSeq(strings.TrimSuffix(string(w.Take()), "\n\n"), "\n\n") {
		_, d, _ := strings.Cut(e, "\ndata: ")
		data = append(data, gjson.Parse(d))
	}
	return data
}

func TestEventsOfAStream(t *testing.T) {
	asked := chat.Asked{Model: "m", Created: 7,
		Echo: []byte(`{"instructions":"i","tools":[{"type":"custom","name":"patch"}],"temperature":0.5}`)}
	got := events(asked, chat.Begin("chatcmpl-1"), chat.Reasoning(0, "hm"), chat.Text(0, "a"), chat.Text(0, "b"),
		chat.ToolCall(0, 0, "c1", "f"), chat.ToolCall(0, 1, "c2", "patch"), chat.Arguments(0, 1, `{"input":"x`),
		chat.Arguments(0, 0, `{"y":1}`), chat.Arguments(0, 1, `\ny"}`), chat.Finish(0, "tool_calls"),
		chat.Usage(openai.Usage{PromptTokens: 5, CompletionTokens: 3, ReasoningTokens: 1}), chat.End())
	var names []string
	for _, e := range got {
		names = append(names, e.Get("type").Str)
	}
	require.Equal(t, []string{"response.created", "response.in_progress",
		"response.output_item.added", "response.reasoning_summary_part.added", "response.reasoning_summary_text.delta",
		"response.reasoning_summary_text.done", "response.reasoning_summary_part.done", "response.output_item.done",
		"response.output_item.added", "response.content_part.added", "response.output_text.delta",
		"response.output_text.delta", "response.output_text.done", "response.content_part.done",
		"response.output_item.done",
		"response.output_item.added", "response.output_item.added", "response.function_call_arguments.delta",
		"response.function_call_arguments.done", "response.output_item.done",
		"response.custom_tool_call_input.delta", "response.custom_tool_call_input.done", "response.output_item.done",
		"response.completed"}, names)
	require.JSONEq(t, `{"id":"resp_1","object":"response","created_at":7,"status":"completed","background":false,"error":null,
		"incomplete_details":null,"model":"m","output":[
			{"id":"rs_1_0","type":"reasoning","summary":[{"type":"summary_text","text":"hm"}]},
			{"id":"msg_1_1","type":"message","role":"assistant","status":"completed","content":[{"type":"output_text","annotations":[],"logprobs":[],"text":"ab"}]},
			{"id":"fc_1_2","type":"function_call","status":"completed","call_id":"c1","name":"f","arguments":"{\"y\":1}"},
			{"id":"ctc_1_3","type":"custom_tool_call","status":"completed","call_id":"c2","name":"patch","input":"x\ny"}],
		"instructions":"i","max_output_tokens":null,"max_tool_calls":null,"metadata":{},"parallel_tool_calls":true,
		"previous_response_id":null,"prompt_cache_key":null,"reasoning":{"effort":null,"summary":null},
		"safety_identifier":null,"temperature":0.5,"text":{"format":{"type":"text"}},"tool_choice":"auto",
		"tools":[{"type":"custom","name":"patch"}],"top_logprobs":0,"top_p":1.0,"truncation":"disabled","user":null,
		"store":false,"service_tier":null,"usage":{"input_tokens":5,"input_tokens_details":{"cached_tokens":0},
		"output_tokens":3,"output_tokens_details":{"reasoning_tokens":1},"total_tokens":8}}`,
		got[len(got)-1].Get("response").Raw)
}

func TestHowAStreamEnds(t *testing.T) {
	asked := chat.Asked{Model: "m"}
	cut := events(asked, chat.Begin("x"), chat.Text(0, "a"), chat.Finish(0, "length"), chat.End())
	last := cut[len(cut)-1]
	require.Equal(t, "response.incomplete", last.Get("type").Str)
	require.Equal(t, "max_output_tokens", last.Get("response.incomplete_details.reason").Str)
	failed := events(asked, chat.Begin("x"), chat.Text(0, "a"),
		chat.Event{Kind: chat.KindError, Error: &openai.Error{Message: "gone"}})
	last = failed[len(failed)-1]
	require.Equal(t, "response.failed", last.Get("type").Str)
	require.Equal(t, "gone", last.Get("response.error.message").Str)
	require.Equal(t, "a", last.Get("response.output.0.content.0.text").Str, "what came so far")
}

// FuzzParse holds that no body makes the translation panic, and that every error is the client's.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"model":"m","input":"hi"}`))
	f.Add([]byte(`{"model":"m","input":[{"type":"function_call","call_id":"c","name":"f"},{"type":"function_call_output","call_id":"c","output":"x"}]}`))
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

func TestFunctionsOfANamespace(t *testing.T) {
	asked := chat.Asked{Echo: []byte(`{"tools":[{"type":"namespace","name":"n","tools":[{"type":"function","name":"f"}]}]}`)}
	got := events(asked, chat.Begin("x"), chat.ToolCall(0, 0, "c", "n__f"), chat.Arguments(0, 0, "{}"), chat.End())
	call := got[len(got)-1].Get("response.output.0")
	require.Equal(t, "n f", call.Get("namespace").Str+" "+call.Get("name").Str)
	back, _, err := translated(t, `"input":[`+call.Raw+`,{"type":"function_call_output","call_id":"c","output":"x"}]`)
	require.NoError(t, err)
	require.Contains(t, back, `"function":{"name":"n__f","arguments":"{}"}`)
}

func TestLogprobs(t *testing.T) {
	first, second := chat.Text(0, "a"), chat.Text(0, "b")
	first.Logprobs = []byte(`{"content":[{"token":"a","logprob":-1,"bytes":[97],"top_logprobs":[]}],"refusal":null}`)
	second.Logprobs = []byte(`{"content":[{"token":"b","logprob":-2,"bytes":[98],"top_logprobs":[]}],"refusal":null}`)
	got := events(chat.Asked{}, chat.Begin("x"), first, second, chat.Finish(0, "stop"), chat.End())
	require.Equal(t, int64(-2), got[5].Get("logprobs.0.logprob").Int())
	require.Equal(t, "[-1,-2]", got[len(got)-1].Get("response.output.0.content.0.logprobs.#.logprob").Raw)
}

func TestWhatARequestWantsOfStoredState(t *testing.T) {
	for members, want := range map[string]inbound.State{
		`"input":"hi"`:                             inbound.Stateful, // OpenAI's default
		`"input":"hi","store":true`:                inbound.Stateful,
		`"input":"hi","store":null`:                inbound.Stateful,
		`"input":"hi","store":false`:               inbound.Stateless,
		`"store":false,"previous_response_id":"r"`: inbound.Stateful,
		`"previous_response_id":null,"conversation":null,"background":false,"store":false`: inbound.Stateless,
		`"conversation":{"id":"c"},"store":false`:                                          inbound.Stateful,
		`"store":false,"input":[{"type":"item_reference","id":"x"}]`:                       inbound.Stateful,
		`"background":true,"store":false`:                                                  inbound.Background,
		`"store":false,"background":true`:                                                  inbound.Background,
	} {
		require.Equal(t, want, stateOf(openai.MembersOf([]byte(`{"model":"m",`+members+`}`))), members)
	}
}
