package pitfalls

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
)

// toolRows are those of streams with calls of tools, and of finish reasons.
func toolRows() []row {
	return []row{
		{1, "parallel calls are numbered 0, 1, 2, and their pieces stay apart", parallelCalls},
		{2, "a vendor's numbers of blocks are not numbers of choices", blocksAreNoChoices},
		{3, "each of several choices keeps its number", severalChoices},
		{4, "the first call is number 0, also after text", firstCallAfterText},
		{5, "a call without arguments has {}, in its own place", callsWithoutArguments},
		{6, "a turn of calls ends with tool_calls, also where the vendor says stop", callsThatStop},
		{7, "a finish reason that comes alone is not lost", finishAlone},
		{8, "the finish reason comes once, however often the vendor repeats it", finishOnce},
		{9, "every stop reason of a vendor becomes one of OpenAI's", stopReasons},
		{10, "the role comes once, in the first chunk of each choice", roleOnce},
		{11, "a complete stream ends with one [DONE]", doneOnce},
		{12, "a call that the limit of tokens cuts is kept, with length", cutCalls},
		{13, "arguments that are no JSON pass, and go to those who need an object in one", brokenArguments},
		{14, "the pieces of a call pass as they come", callsAsTheyCome},
		{15, "an answer by a hidden tool is text, and the client's tools stay calls", hiddenTool},
		{16, "the Responses API is passed to those who have it, and whole where it is made up of chat", responsesAreWhole},
	}
}

// both tools are called at once, after some text.
var twoCalls = completion{text: "Let me see.", stop: "tool_calls", calls: []call{
	{"callaaaa1", "weather", `{"city":"Zürich"}`}, {"callaaaa2", "clock", `{"zone":"CET","dst":true}`},
	{"callaaaa3", "weather", `{"city":"Roma"}`},
}}

// bare takes out of the ids of calls what they carry.
func bare(calls []call) []call {
	out := make([]call, len(calls))
	for i, c := range calls {
		out[i] = c
		out[i].id, _, _ = strings.Cut(c.id, openai.CarriedMark)
	}
	return out
}

func parallelCalls(t *testing.T) {
	each(t, toolUpstreams(), func(t *testing.T, s upstream) {
		both(t, func(t *testing.T, streamed bool) {
			a := s.respond(t, twoCalls, chat(tools), streamed)
			require.Equal(t, twoCalls.calls, bare(a.calls), a.body)
			require.Equal(t, "tool_calls", a.stop)
		})
	})
	t.Run("a server that numbers every call 0", func(t *testing.T) {
		for _, vendor := range []string{"ollama", "compatible", "vllm", "huggingface"} {
			one := func(id string) string {
				return chunk(`{"role":"assistant","tool_calls":[{"index":0,"id":"`+id+
					`","type":"function","function":{"name":"clock","arguments":"{}"}}]}`, "null")
			}
			a := compatible(vendor).send(t, chat(tools), true, one("a"), one("b"), chunk(`{}`, `"tool_calls"`), end)
			require.Equal(t, []call{{"a", "clock", "{}"}, {"b", "clock", "{}"}}, bare(a.calls), vendor)
		}
	})
	t.Run("Gemini's calls in one event, without ids", func(t *testing.T) {
		for _, s := range geminis {
			a := s.send(t, chat(tools), true,
				data(`{"candidates":[{"content":{"parts":[{"functionCall":{"name":"clock","args":{}}},{"functionCall":{"name":"clock","args":{"zone":"CET"}}}],"role":"model"},"finishReason":"STOP"}]}`))
			require.Len(t, a.calls, 2)
			require.NotEqual(t, a.calls[0].id, a.calls[1].id)
			require.JSONEq(t, `{"zone":"CET"}`, a.calls[1].arguments)
		}
	})
}

func blocksAreNoChoices(t *testing.T) {
	each(t, foreignUpstreams(), func(t *testing.T, s upstream) {
		a := s.respond(t, twoCalls, chat(tools), true)
		require.Len(t, a.choices, 1)
		require.NotNil(t, a.choices[0])
	})
}

func severalChoices(t *testing.T) {
	two := func(n int, delta, finish string) string {
		return strings.Replace(chunk(delta, finish), `"index":0`, fmt.Sprintf(`"index":%d`, n), 1)
	}
	for _, vendor := range []string{"openai", "azure", "compatible", "mistral", "together", "fireworks", "xai", "vllm"} {
		a := compatible(vendor).send(t, chat(`"n":2,"stream":true`), true, two(1, `{"role":"assistant","content":"b"}`,
			"null"),
			two(0, `{"role":"assistant","content":"a"}`, "null"), two(0, `{"content":"A"}`, `"stop"`),
			two(1, `{"content":"B"}`, `"length"`), end)
		require.Len(t, a.choices, 2, vendor)
		require.Equal(t, choice{text: "aA", stop: "stop", roles: 1}, *a.choices[0], vendor)
		require.Equal(t, choice{text: "bB", stop: "length", roles: 1}, *a.choices[1], vendor)
	}
	for _, s := range geminis {
		part := func(n int, text string) string {
			return fmt.Sprintf(`{"content":{"parts":[{"text":%q}],"role":"model"},"finishReason":"STOP","index":%d}`, text, n)
		}
		a := s.send(t, chat(`"n":2`), true, data(`{"candidates":[%s]}`, part(1, "b")),
			data(`{"candidates":[%s]}`, part(0, "a")))
		require.Equal(t, "a", a.choices[0].text)
		require.Equal(t, "b", a.choices[1].text)
		whole := s.send(t, chat(`"n":2`), false, `{"candidates":[`+part(0, "a")+`,`+part(1, "b")+`]}`)
		require.Equal(t, "b", whole.all.Get("choices.1.message.content").Str)
		require.EqualValues(t, 1, whole.all.Get("choices.1.index").Int())
	}
	for _, s := range append(slices.Concat(claudes, bedrocks), bedrockLlama, command) {
		require.Equal(t, "n", s.refuses(t, chat(`"n":2`)).Param, s.name)
	}
}

func firstCallAfterText(t *testing.T) {
	each(t, toolUpstreams(), func(t *testing.T, s upstream) {
		what := twoCalls
		what.calls = what.calls[:1]
		a := s.respond(t, what, chat(tools), true) // the reader takes no other number than 0
		require.Equal(t, "Let me see.", a.text)
		require.Len(t, a.calls, 1)
	})
}

func callsWithoutArguments(t *testing.T) {
	what := completion{stop: "tool_calls", calls: []call{{"callaaaa1", "clock", ""},
		{"callaaaa2", "weather", `{"city":"Roma"}`}}}
	each(t, toolUpstreams(), func(t *testing.T, s upstream) {
		if s.passesThrough() {
			return // OpenAI itself writes {}
		}
		both(t, func(t *testing.T, streamed bool) {
			a := s.respond(t, what, chat(tools), streamed)
			require.Equal(t, []call{{"callaaaa1", "clock", "{}"}, {"callaaaa2", "weather", `{"city":"Roma"}`}}, bare(a.calls),
				a.body)
		})
	})
	t.Run("cohere says null", func(t *testing.T) {
		a := command.send(t, chat(tools), false,
			`{"id":"m","message":{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"clock","arguments":"null"}}]},"finish_reason":"TOOL_CALL"}`)
		require.Equal(t, []call{{"c", "clock", "{}"}}, bare(a.calls))
	})
}

func callsThatStop(t *testing.T) {
	for _, s := range geminis { // the dialect says STOP
		both(t, func(t *testing.T, streamed bool) {
			require.Equal(t, "tool_calls", s.respond(t, twoCalls, chat(tools), streamed).stop, s.name)
		})
		a := s.send(t, chat(tools), true,
			data(`{"candidates":[{"content":{"parts":[{"functionCall":{"name":"clock","args":{}}}],"role":"model"}}]}`),
			data(`{"candidates":[{"content":{"parts":[{"text":""}],"role":"model"},"finishReason":"STOP"}]}`))
		require.Equal(t, "tool_calls", a.stop, "the reason comes later than the call")
	}
	what := twoCalls
	what.stop = "stop"
	for _, vendor := range []string{"compatible", "ollama", "vllm", "llamacpp", "together", "alibaba"} {
		both(t, func(t *testing.T, streamed bool) {
			require.Equal(t, "tool_calls", compatible(vendor).respond(t, what, chat(tools), streamed).stop, vendor)
		})
	}
}

func finishAlone(t *testing.T) {
	for _, s := range geminis {
		for _, last := range []string{`{"finishReason":"MAX_TOKENS"}`,
			`{"content":{"role":"model"},"finishReason":"MAX_TOKENS"}`,
			`{"content":{},"finishReason":"MAX_TOKENS","index":0}`} {
			a := s.send(t, chat(""), true, data(`{"candidates":[{"content":{"parts":[{"text":"a"}],"role":"model"}}]}`),
				data(`{"candidates":[%s]}`, last))
			require.Equal(t, "length", a.stop, s.name)
			require.Equal(t, "length", s.send(t, chat(""), false, `{"candidates":[`+last+`]}`).stop)
		}
	}
	each(t, allUpstreams(), func(t *testing.T, s upstream) {
		require.Equal(t, "length", s.respond(t, completion{text: "a", stop: "length"}, chat(""), true).stop)
	})
	for _, s := range []upstream{compatible("compatible"), compatible("xai"), mistralSmall} {
		for _, delta := range []string{`{}`, `{"content":null}`, `null`} {
			a := s.send(t, chat(""), true, chunk(`{"role":"assistant","content":"a"}`, "null"), chunk(delta, `"length"`), end)
			require.Equal(t, "length", a.stop, "%s: %s", s.name, delta)
		}
	}
}

func finishOnce(t *testing.T) {
	for _, s := range []upstream{compatible("compatible"), compatible("openrouter"), compatible("alibaba"),
		mistralSmall} {
		for name, early := range map[string]string{"repeated": `"stop"`, "empty": `""`} {
			a := s.send(t, chat(""), true, chunk(`{"role":"assistant","content":"a"}`, early), chunk(`{"content":"b"}`, early),
				chunk(`{"content":""}`, `"stop"`), chunk(`{}`, `"stop"`), end)
			require.Equal(t, "ab", a.text, "%s, %s", s.name, name)
			require.Equal(t, "stop", a.stop)
		}
	}
	for _, s := range geminis {
		one := data(`{"candidates":[{"content":{"parts":[{"text":"a"}],"role":"model"},"finishReason":"STOP","index":0}]}`)
		a := s.send(t, chat(""), true, one, one, one)
		require.Equal(t, "aaa", a.text)
		require.Equal(t, "stop", a.stop)
	}
}

func stopReasons(t *testing.T) {
	compatibles := []upstream{compatible("compatible"), compatible("together"), compatible("huggingface"),
		compatible("openrouter")}
	for _, c := range []struct {
		upstreams []upstream
		want      string // "error": the answer has failed
		natives   []string
	}{
		{claudes, "stop", []string{"end_turn", "stop_sequence", "pause_turn", "something_new"}},
		{claudes, "length", []string{"max_tokens", "model_context_window_exceeded"}},
		{claudes, "content_filter", []string{"refusal"}},
		{geminis, "stop", []string{"STOP", "FINISH_REASON_UNSPECIFIED", "OTHER", "SOMETHING_NEW"}},
		{geminis, "length", []string{"MAX_TOKENS"}},
		{geminis, "content_filter", []string{"SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII",
			"IMAGE_SAFETY", "LANGUAGE"}},
		{bedrocks, "stop", []string{"end_turn", "stop_sequence", "something_new"}},
		{bedrocks, "length", []string{"max_tokens", "model_context_window_exceeded"}},
		{bedrocks, "content_filter", []string{"guardrail_intervened", "content_filtered"}},
		{bedrocks, "error", []string{"malformed_model_output", "malformed_tool_use"}},
		{[]upstream{command}, "stop", []string{"COMPLETE", "STOP_SEQUENCE"}},
		{[]upstream{command}, "length", []string{"MAX_TOKENS", "ERROR_LIMIT"}},
		{[]upstream{command}, "content_filter", []string{"ERROR_TOXIC"}},
		{[]upstream{command}, "error", []string{"ERROR", "TIMEOUT"}},
		{[]upstream{mistralSmall}, "stop", []string{"stop", "something_new"}},
		{[]upstream{mistralSmall}, "length", []string{"length", "model_length"}},
		{[]upstream{mistralSmall}, "error", []string{"error"}},
		{compatibles, "stop", []string{"stop", "eos", "eos_token", "stop_sequence", "something_new"}},
		{compatibles, "length", []string{"length", "max_tokens"}},
		{compatibles, "content_filter", []string{"content_filter"}},
		{compatibles, "error", []string{"error"}},
		{[]upstream{compatible("deepseek")}, "error", []string{"insufficient_system_resource"}},
		{[]upstream{compatible("zai")}, "content_filter", []string{"sensitive"}},
		{[]upstream{compatible("zai")}, "error", []string{"network_error"}},
		{[]upstream{compatible("vllm")}, "error", []string{"abort"}},
	} {
		for _, s := range c.upstreams {
			for _, native := range c.natives {
				for _, streamed := range []bool{false, true} {
					a := s.respond(t, completion{text: "a", stop: native}, chat(""), streamed)
					require.Equal(t, c.want == "error", a.failure.Exists(), "%s: %s: %s", s.name, native, a.body)
					if c.want != "error" {
						require.Equal(t, c.want, a.stop, "%s: %s", s.name, native)
					}
				}
			}
		}
	}
	for _, s := range geminis { // with nothing said
		for _, failed := range []string{"MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL"} {
			both(t, func(t *testing.T, streamed bool) {
				require.True(t, s.respond(t, completion{stop: failed}, chat(""), streamed).failure.Exists(), failed)
			})
		}
	}
}

func roleOnce(t *testing.T) {
	each(t, allUpstreams(), func(t *testing.T, s upstream) { // the reader counts
		a := s.respond(t, completion{text: "Hello there", stop: "stop"}, chat(""), true)
		require.Equal(t, "assistant", a.chunks[0].Get("choices.0.delta.role").Str)
	})
	for _, s := range []upstream{compatible("compatible"), compatible("huggingface"), compatible("openrouter"),
		mistralSmall} {
		for name, role := range map[string]string{"never": "", "always": `"role":"assistant",`, "null": `"role":null,`,
			"empty": `"role":"",`} {
			a := s.send(t, chat(""), true, chunk(`{`+role+`"content":"a"}`, "null"), chunk(`{`+role+`"content":"b"}`, "null"),
				chunk(`{}`, `"stop"`), end)
			require.Equal(t, "ab", a.text, "%s, %s", s.name, name)
		}
	}
}

func doneOnce(t *testing.T) {
	each(t, allUpstreams(), func(t *testing.T, s upstream) {
		a := s.respond(t, completion{text: "Hello", stop: "stop"}, chat(""), true)
		require.True(t, strings.HasSuffix(a.body, "\n\ndata: [DONE]\n\n"))
		require.Equal(t, 1, strings.Count(a.body, "[DONE]"))
	})
	t.Run("a vendor that sends none", func(t *testing.T) {
		a := compatible("perplexity").send(t, chat(""), true, chunk(`{"role":"assistant","content":"a"}`, "null"),
			chunk(`{}`, `"stop"`))
		require.True(t, a.done)
	})
	t.Run("a vendor that sends two", func(t *testing.T) {
		require.True(t, command.send(t, chat(""), true,
			append(cohere.stream(completion{text: "a", stop: "stop"}), end)...).done)
	})
}

func cutCalls(t *testing.T) {
	what := completion{stop: "length", calls: []call{{"callaaaa1", "weather", `{"city":"Zür`}}}
	each(t, toolUpstreams(), func(t *testing.T, s upstream) {
		if s.dialect.name == google.name {
			whole := what
			whole.calls = []call{{"callaaaa1", "weather", `{"city":"Z"}`}} // there are no pieces of calls
			both(t, func(t *testing.T, streamed bool) {
				a := s.respond(t, whole, chat(tools), streamed)
				require.Equal(t, "length", a.stop)
				require.Len(t, a.calls, 1)
			})
			return
		}
		a := s.respond(t, what, chat(tools), true)
		require.Equal(t, "length", a.stop)
		require.Equal(t, what.calls, bare(a.calls))
	})
	for _, s := range []upstream{claude, bedrockClaude, command, mistralSmall, compatible("compatible")} {
		whole := what
		whole.calls = []call{{"callaaaa1", "weather", `{"city":"Z"}`}}
		a := s.respond(t, whole, chat(tools), false)
		require.Equal(t, "length", a.stop, s.name)
		require.Len(t, a.calls, 1, s.name)
	}
}

func brokenArguments(t *testing.T) {
	for _, s := range []upstream{compatible("compatible"), compatible("openai"), compatible("groq"), mistralSmall,
		command} {
		both(t, func(t *testing.T, streamed bool) {
			a := s.respond(t, completion{stop: "tool_calls", calls: []call{{"callaaaa1", "weather", `{"city": Zürich`}}},
				chat(tools), streamed)
			require.Equal(t, `{"city": Zürich`, a.calls[0].arguments, s.name)
		})
	}
	again := chatRequest(`{"role":"user","content":"hi"},{"role":"assistant","content":null,"tool_calls":[{"id":"callaaaa1","type":"function","function":{"name":"weather","arguments":"{\"city\": Z"}}]},{"role":"tool","tool_call_id":"callaaaa1","content":"x"}`, tools)
	at := map[string]string{"messages": "messages.1.content.0.input", "google": "contents.1.parts.0.functionCall.args",
		"converse": "messages.1.content.0.toolUse.input"}
	for _, s := range slices.Concat(claudes, geminis, bedrocks) {
		got := s.ask(t, again).body.Get(at[s.dialect.name])
		require.True(t, got.IsObject(), s.name)
		require.Contains(t, got.Raw, "Z", s.name)
	}
	require.Equal(t, `{"city": Z`, compatible("compatible").ask(t,
		again).body.Get("messages.1.tool_calls.0.function.arguments").Str)
}

func callsAsTheyCome(t *testing.T) {
	each(t, toolUpstreams(), func(t *testing.T, s upstream) {
		a := s.respond(t, twoCalls, chat(tools), true)
		if !s.sendsUnsplitCalls() {
			require.Equal(t, 6, a.choices[0].deltas, "two pieces of each call: %s", a.body)
		}
		// What has come of a call is with the client before the rest has come.
		events := s.dialect.stream(twoCalls)
		for i := range events {
			if strings.Contains(events[i], "weather") {
				require.Contains(t, s.before(t, chat(tools+","+streams), events[:i+1]), `"name":"weather"`)
				break
			}
		}
	})
}

func hiddenTool(t *testing.T) {
	const format = `"response_format":{"type":"json_schema","json_schema":{"name":"place","schema":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}}}`
	claude, vertex, bedrock := claude, vertexClaude, bedrockClaude // models that take no schema
	claude.model, vertex.model, bedrock.model = "claude-3-5-haiku-20241022", "claude-3-5-haiku@20241022",
		"anthropic.claude-3-5-haiku-20241022-v1:0"
	each(t, []upstream{claude, vertex, bedrock}, func(t *testing.T, s upstream) {
		at := map[string]string{"anthropic": "tools.#.name", "vertex": "tools.#.name",
			"bedrock": "toolConfig.tools.#.toolSpec.name"}[s.vendor]
		for _, own := range []string{"", "," + tools} {
			request := chat(format + own)
			names := s.ask(t, request).body.Get(at).Array()
			require.NotEmpty(t, names, "the model is given a tool to answer with")
			hidden := names[len(names)-1].Str
			both(t, func(t *testing.T, streamed bool) {
				a := s.respond(t, completion{stop: "tool_calls", calls: []call{{"t1", hidden, `{"city":"Roma"}`}}},
					request, streamed)
				require.Empty(t, a.calls)
				require.JSONEq(t, `{"city":"Roma"}`, a.text)
				require.Equal(t, "stop", a.stop)
				if own != "" {
					a = s.respond(t, completion{stop: "tool_calls", calls: []call{{"t2", "clock", `{"zone":"CET"}`}}},
						request, streamed)
					require.Equal(t, []call{{"t2", "clock", `{"zone":"CET"}`}}, bare(a.calls))
					require.Equal(t, "tool_calls", a.stop)
					require.Empty(t, a.text)
				}
			})
		}
	})
}

func responsesAreWhole(t *testing.T) {
	g := overPlayer(t)
	const ask = `{"model":"%s","input":"hi","stream":true,"tools":[{"type":"function","name":"clock","parameters":{"type":"object"}}]}`
	g.vendor.send(messages.stream(completion{text: "wait", stop: "tool_calls",
		calls: []call{{"t1", "clock", `{"zone":"CET"}`}, {"t2", "clock", `{"zone":"UTC"}`}}})...)
	var indices []int64
	deltas := map[int64]string{}
	var last gjson.Result
	translated := g.Do(t, "POST", "/v1/responses", fmt.Sprintf(ask, "claude/claude-sonnet-4-5"))
	for e := range strings.SplitSeq(string(translated.Body), "\n") {
		d, ok := strings.CutPrefix(e, "data: ")
		if !ok {
			continue
		}
		last = gjson.Parse(d)
		switch last.Get("type").Str {
		case "response.output_item.added":
			indices = append(indices, last.Get("output_index").Int())
		case "response.output_text.delta", "response.function_call_arguments.delta":
			deltas[last.Get("output_index").Int()] += last.Get("delta").Str
		}
	}
	require.Equal(t, []int64{0, 1, 2}, indices)
	require.Equal(t, map[int64]string{0: "wait", 1: `{"zone":"CET"}`, 2: `{"zone":"UTC"}`}, deltas)
	require.Equal(t, "clock", last.Get("response.tools.0.name").Str)
	events := event("response.output_item.added",
		`{"type":"response.output_item.added","output_index":1,"item":{"type":"function_call","call_id":"c1","name":"clock","arguments":""}}`) +
		event("response.function_call_arguments.delta",
			`{"type":"response.function_call_arguments.delta","output_index":1,"delta":"{}"}`) +
		event("response.completed",
			`{"type":"response.completed","response":{"status":"completed","usage":{"input_tokens":3,"output_tokens":4}}}`)
	g.vendor.send(events)
	require.Equal(t, events, string(g.Do(t, "POST", "/v1/responses", fmt.Sprintf(ask, "openai/gpt-5")).Body))
}
