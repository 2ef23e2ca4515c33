package pitfalls

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
)

// conversationRows are those of messages, tools and thinking.
func conversationRows() []row {
	return []row{
		{46, "the results of parallel calls are one turn, in the order of the calls, before what the user says",
			resultsInOneTurn},
		{47, "the result of a call may be a list, nothing, or an image", resultsOfEveryShape},
		{48, "text that is empty is not sent to those who refuse it", emptyText},
		{49, "a conversation with calls needs no tools in the request", callsWithoutTools},
		{50, "every tool_choice is said in the vendor's way, or refused", toolChoices},
		{51, "a tool may have any name, and the client gets it back", toolNames},
		{52, "a schema reaches Gemini without what it refuses", schemas},
		{53, "a reference in a result is not one for Gemini to resolve", referencesInResults},
		{54, "the limit of tokens has the name that the model takes, and the one that it needs", limits},
		{55, "a budget of thinking is less than the limit of tokens", budgets},
		{56, "signed thinking comes back to Claude through any client", signedThinking},
		{57, "Gemini's signatures of calls come back through any client", signedCalls},
		{58, "unsigned thinking goes back to those who want it", unsignedThinking},
		{59, "system messages stay in order, wherever they stand and whatever their form", systemMessages},
		{60, "marks of the prompt cache are kept where there is a cache to mark", cacheMarks},
	}
}

func texts(results []gjson.Result) []string {
	var out []string
	for _, r := range results {
		out = append(out, r.String())
	}
	return out
}

const (
	userAsks  = `{"role":"user","content":"hi"}`
	twoAsked  = `{"role":"assistant","content":null,"tool_calls":[{"id":"callaaaa1","type":"function","function":{"name":"weather","arguments":"{\"city\":\"Roma\"}"}},{"id":"callaaaa2","type":"function","function":{"name":"clock","arguments":""}}]}`
	resultOne = `{"role":"tool","tool_call_id":"callaaaa1","content":"sunny"}`
	resultTwo = `{"role":"tool","tool_call_id":"callaaaa2","content":"noon"}`
)

func resultsInOneTurn(t *testing.T) {
	all := chatRequest(strings.Join([]string{userAsks, twoAsked, resultTwo, resultOne,
		`{"role":"user","content":"and now?"}`}, ","), tools)
	half := chatRequest(userAsks+","+twoAsked+","+resultTwo+`,{"role":"user","content":"and now?"}`, tools)
	for _, s := range claudes {
		body := s.ask(t, all).body
		require.Equal(t, []string{"user", "assistant", "user"}, texts(body.Get("messages.#.role").Array()))
		require.Equal(t, []string{"tool_result", "tool_result", "text"},
			texts(body.Get("messages.2.content.#.type").Array()))
		require.Equal(t, []string{"callaaaa1", "callaaaa2"}, texts(body.Get("messages.2.content.#.tool_use_id").Array()))
		require.Equal(t, []string{"callaaaa1", "callaaaa2"},
			texts(s.ask(t, half).body.Get("messages.2.content.#.tool_use_id").Array()), "every call has a result")
	}
	for _, s := range geminis {
		body := s.ask(t, all).body
		require.Equal(t, []string{"user", "model", "user"}, texts(body.Get("contents.#.role").Array()))
		require.Equal(t, []string{"weather", "clock"}, texts(body.Get("contents.2.parts.#.functionResponse.name").Array()))
		require.Equal(t, "and now?", body.Get("contents.2.parts.2.text").Str)
		require.Len(t, s.ask(t, half).body.Get("contents.2.parts.#.functionResponse.name").Array(), 2)
	}
	for _, s := range bedrocks {
		body := s.ask(t, all).body
		require.Equal(t, []string{"user", "assistant", "user"}, texts(body.Get("messages.#.role").Array()))
		require.Equal(t, []string{"callaaaa1", "callaaaa2"},
			texts(body.Get("messages.2.content.#.toolResult.toolUseId").Array()))
		require.Equal(t, "and now?", body.Get("messages.2.content.2.text").Str)
		require.Len(t, s.ask(t, half).body.Get("messages.2.content.#.toolResult.toolUseId").Array(), 2)
	}
	alone := bedrockLlama.ask(t, all).body // which takes nothing beside results
	require.Equal(t, []string{"callaaaa1", "callaaaa2"},
		texts(alone.Get("messages.2.content.#.toolResult.toolUseId").Array()))
	require.Len(t, alone.Get("messages.2.content").Array(), 2)
	require.Equal(t, []string{"user", "assistant", "user", "assistant", "user"},
		texts(alone.Get("messages.#.role").Array()))
	// here each is a message
	for _, s := range []upstream{command, mistralSmall, compatible("compatible"), compatible("openai")} {
		roles := texts(s.ask(t, all).body.Get("messages.#.role").Array())
		require.Equal(t, []string{"user", "assistant", "tool", "tool"}, roles[:4], s.name)
		require.Equal(t, "user", roles[len(roles)-1])
	}
}

func resultsOfEveryShape(t *testing.T) {
	result := func(content string) string {
		return chatRequest(userAsks+
			`,{"role":"assistant","content":null,"tool_calls":[{"id":"callaaaa1","type":"function","function":{"name":"clock","arguments":"{}"}}]},{"role":"tool","tool_call_id":"callaaaa1","content":`+content+`}`, tools)
	}
	at := map[string]string{"messages": "messages.2.content.0", "google": "contents.2.parts.0.functionResponse",
		"converse": "messages.2.content.0.toolResult"}
	each(t, toolUpstreams(), func(t *testing.T, s upstream) {
		where := cmp.Or(at[s.dialect.name], "messages.2")
		list := s.ask(t, result(`[{"type":"text","text":"sunny"},{"type":"text","text":"warm"}]`)).body.Get(where).Raw
		require.Contains(t, list, "sunny")
		require.Contains(t, list, "warm")
		for _, nothing := range []string{`""`, `[]`, `[{"type":"text","text":""}]`} {
			got := s.ask(t, result(nothing)).body
			require.True(t, got.Get(where).Exists(), "%s: %s", nothing, got.Raw)
			if s.vendor == "bedrock" {
				require.NotContains(t, got.Get(where).Raw, `"text":""`)
				require.NotEmpty(t, got.Get(where+".content").Array())
			}
		}
	})
	picture := result(`[{"type":"image_url","image_url":{"url":"data:image/png;base64,` + png + `"}}]`)
	for _, s := range slices.Concat(claudes, geminis, bedrocks) {
		require.Contains(t, s.ask(t, picture).body.Get(at[s.dialect.name]).Raw, png, s.name)
	}
	require.Contains(t, command.refuses(t, picture).Param, "messages[2].content")
}

func emptyText(t *testing.T) {
	conversation := `{"role":"system","content":""},{"role":"user","content":[{"type":"text","text":""},{"type":"text","text":"hi"}]},{"role":"assistant","content":""},{"role":"user","content":""},` +
		strings.Replace(twoAsked, `"content":null`, `"content":""`, 1) + "," + resultOne + "," + resultTwo
	for _, s := range slices.Concat(claudes, geminis, bedrocks) {
		body := s.ask(t, chatRequest(conversation, tools)).body
		for _, at := range []string{"system", "systemInstruction.parts", "messages.#.content|@flatten",
			"contents.#.parts|@flatten"} {
			for _, block := range body.Get(at).Array() {
				require.False(t, block.Raw == "{}" || block.Get("text").Exists() && block.Get("text").Str == "" ||
					block.Get("type").Str == "text" && !block.Get("text").Exists(), "%s: %s", s.name, body.Raw)
			}
		}
		for _, turn := range append(body.Get("messages.#.content").Array(), body.Get("contents.#.parts").Array()...) {
			require.NotEmpty(t, turn.Array(), "%s: %s", s.name, body.Raw)
		}
	}
	for _, s := range []upstream{command, mistralSmall} { // an assistant's message without anything is refused
		for _, m := range s.ask(t, chatRequest(conversation, tools)).body.Get("messages").Array() {
			require.False(t, m.Get("role").Str == "assistant" && m.Get("content").String() == "" &&
				!m.Get("tool_calls").Exists(), m.Raw)
		}
	}
}

func callsWithoutTools(t *testing.T) {
	request := chatRequest(strings.Join([]string{userAsks, twoAsked, resultOne, resultTwo}, ","), "")
	for _, s := range claudes {
		body := s.ask(t, request).body
		require.Equal(t, []string{"weather", "clock"}, texts(body.Get("tools.#.name").Array()))
		require.Equal(t, "none", body.Get("tool_choice.type").Str)
	}
	for _, s := range bedrocks {
		require.Equal(t, []string{"weather", "clock"},
			texts(s.ask(t, request).body.Get("toolConfig.tools.#.toolSpec.name").Array()))
	}
	each(t, toolUpstreams(), func(t *testing.T, s upstream) { s.ask(t, request) })
}

func toolChoices(t *testing.T) {
	const one, allowed = `{"type":"function","function":{"name":"clock"}}`,
		`{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[{"type":"function","function":{"name":"clock"}}]}}`
	for _, c := range []struct {
		upstreams []upstream
		choice    string
		at, want  string
	}{
		{claudes, `"auto"`, "tool_choice.type", "auto"}, {claudes, `"none"`, "tool_choice.type", "none"},
		{claudes, `"required"`, "tool_choice.type", "any"},
		{claudes, one, "tool_choice.name", "clock"}, {claudes, allowed, "tools.#.name", `["clock"]`},
		{geminis, `"auto"`, "toolConfig.functionCallingConfig.mode", "AUTO"},
		{geminis, `"none"`, "toolConfig.functionCallingConfig.mode", "NONE"},
		{geminis, `"required"`, "toolConfig.functionCallingConfig.mode", "ANY"},
		{geminis, one, "toolConfig.functionCallingConfig.allowedFunctionNames", `["clock"]`},
		{geminis, allowed, "toolConfig.functionCallingConfig.allowedFunctionNames", `["clock"]`},
		{bedrocks, `"auto"`, "toolConfig.tools.#", "2"}, {bedrocks, `"none"`, "toolConfig", ""},
		{bedrocks, `"required"`, "toolConfig.toolChoice", `{"any":{}}`},
		{bedrocks, one, "toolConfig.toolChoice.tool.name", "clock"}, {bedrocks, allowed, "toolConfig.tools.#.toolSpec.name",
			`["clock"]`},
		{[]upstream{command}, `"auto"`, "tool_choice", ""}, {[]upstream{command}, `"none"`, "tool_choice", "NONE"},
		{[]upstream{command}, `"required"`, "tool_choice", "REQUIRED"},
		{[]upstream{command}, one, "tools.#.function.name", `["clock"]`},
		{[]upstream{command}, allowed, "tools.#.function.name", `["clock"]`},
		{[]upstream{mistralSmall}, `"auto"`, "tool_choice", "auto"}, {[]upstream{mistralSmall}, `"none"`, "tool_choice",
			"none"}, {[]upstream{mistralSmall}, `"required"`, "tool_choice", "any"},
		{[]upstream{mistralSmall}, one, "tool_choice.function.name", "clock"},
		{[]upstream{mistralSmall}, allowed, "tools.#.function.name", `["clock"]`},
		{[]upstream{compatible("openai"), compatible("compatible")}, allowed, "tool_choice.type", "allowed_tools"},
		{[]upstream{compatible("groq")}, one, "tool_choice.function.name", "clock"},
		{[]upstream{compatible("llamacpp")}, one, "tool_choice", "required"},
		{[]upstream{compatible("ollama"), compatible("zai")}, `"none"`, "tools", ""},
	} {
		for _, s := range c.upstreams {
			body := s.ask(t, chat(tools+`,"tool_choice":`+c.choice)).body
			require.Equal(t, c.want, body.Get(c.at).String(), "%s: %s: %s", s.name, c.choice, body.Raw)
		}
	}
	for _, s := range []upstream{compatible("ollama"), compatible("zai")} {
		require.Equal(t, "tool_choice", s.refuses(t, chat(tools+`,"tool_choice":"required"`)).Param, s.name)
	}
	each(t, allUpstreams(), func(t *testing.T, s upstream) {
		for _, harmless := range []string{`"auto"`, `"none"`, `null`} {
			s.ask(t, chat(`"tool_choice":`+harmless))
		}
	})
	for _, s := range foreignUpstreams() {
		for _, senseless := range []string{`"required"`, one} {
			require.Equal(t, "tool_choice", s.refuses(t, chat(`"tool_choice":`+senseless)).Param, "%s: there are no tools",
				s.name)
		}
		require.Equal(t, "tool_choice", s.refuses(t, chat(tools+`,"tool_choice":"sometimes"`)).Param, s.name)
	}
}

func toolNames(t *testing.T) {
	at := map[string]string{
		"messages": "tools.#.name", "google": "tools.0.functionDeclarations.#.name",
		"converse": "toolConfig.tools.#.toolSpec.name", "cohere": "tools.#.function.name",
		"mistral": "tools.#.function.name",
	}
	names := []string{"files.read/all", "files_read_all", "files.read all", strings.Repeat("n", 80),
		strings.Repeat("n", 79) + "m", "größe"}
	var declared []string
	for _, n := range names {
		declared = append(declared, `{"type":"function","function":{"name":"`+n+
			`","parameters":{"type":"object","properties":{}}}}`)
	}
	declaredTools := `"tools":[` + strings.Join(declared, ",") + `]`
	request := chat(declaredTools)
	each(t, foreignUpstreams(), func(t *testing.T, s upstream) {
		told := texts(s.ask(t, request).body.Get(at[s.dialect.name]).Array())
		require.Len(t, told, len(names))
		require.Len(t, slices.Compact(slices.Sorted(slices.Values(told))), len(names), "no two are the same: %v", told)
		what := completion{stop: "tool_calls"}
		for i, n := range told {
			if s.vendor != "cohere" && s.vendor != "mistral" { // which say nothing of names
				require.Regexp(t, `^[a-zA-Z0-9_-]{1,64}$`, strings.NewReplacer(".", "_", ":", "_").Replace(n))
			}
			what.calls = append(what.calls, call{fmt.Sprintf("callaaaa%d", i), n, "{}"})
		}
		both(t, func(t *testing.T, streamed bool) {
			a := s.respond(t, what, request, streamed)
			require.Len(t, a.calls, len(names))
			for i, c := range a.calls {
				require.Equal(t, names[i], c.name)
			}
			again := s.ask(t, chatRequest(userAsks+","+a.echo()+","+a.results(), declaredTools)).body
			for _, n := range told {
				require.GreaterOrEqual(t, strings.Count(again.Raw, quote(n)), 2, "in the tools and in the conversation")
			}
		})
	})
}

func schemas(t *testing.T) {
	const schema = `{"$defs":{"point":{"type":"object","properties":{"x":{"type":"number"}}},"tree":{"type":"object","properties":{"left":{"$ref":"#/$defs/tree"},"value":{"type":"string"}}}},
		"type":"object","additionalProperties":false,"properties":{"at":{"$ref":"#/$defs/point"},"root":{"$ref":"#/$defs/tree"},"mode":{"const":"fast"},"note":{"type":["string","null"]},
		"either":{"anyOf":[{"type":"string"},{"type":"null"}]},"one":{"oneOf":[{"type":"string"},{"type":"integer"}]}},"required":["at"]}`
	for _, s := range geminis {
		for request, at := range map[string]string{
			`"tools":[{"type":"function","function":{"name":"f","parameters":` + schema +
				`}}]`: "tools.0.functionDeclarations.0.parametersJsonSchema",
			`"response_format":{"type":"json_schema","json_schema":{"name":"f","schema":` + schema +
				`}}`: "generationConfig.responseJsonSchema",
		} {
			got := s.ask(t, chat(request)).body.Get(at)
			require.True(t, got.IsObject(), s.ask(t, chat(request)).body.Raw)
			for _, refused := range []string{`"$ref"`, `"$defs"`, `"const"`, `"oneOf"`} {
				require.NotContains(t, got.Raw, refused)
			}
			require.Equal(t, "number", got.Get("properties.at.properties.x.type").Str, got.Raw)
			require.Equal(t, "string", got.Get("properties.root.properties.value.type").Str, got.Raw)
			require.Equal(t, "object", got.Get("properties.root.properties.left.type").Str, "a circle becomes any object: %s",
				got.Raw)
			require.Equal(t, `["fast"]`, got.Get("properties.mode.enum").Raw)
			require.Contains(t, got.Get("properties.note").Raw, "null")
			require.Len(t, got.Get("properties.one.anyOf").Array(), 2)
		}
	}
}

func referencesInResults(t *testing.T) {
	const result = `{"role":"tool","tool_call_id":"callaaaa1","content":"{\"schema\":{\"items\":[{\"$ref\":\"#/definitions/x\"}]}}"}`
	for _, s := range geminis {
		response := s.ask(t, chatRequest(strings.Join([]string{userAsks, twoAsked, result, resultTwo}, ","),
			tools)).body.Get("contents.2.parts.0.functionResponse.response")
		require.True(t, response.IsObject())
		require.NotContains(t, response.Raw, `"$ref":`, "as a member")
		require.Contains(t, response.Raw, "#/definitions/x", "it is not lost")
	}
}

func limits(t *testing.T) {
	of := func(vendor, model string) upstream {
		s := compatible(vendor)
		s.model = model
		return s
	}
	for _, c := range []struct {
		s    upstream
		want string
	}{
		{of("openai", "gpt-5.1"), "max_completion_tokens"}, {of("openai", "o3"), "max_completion_tokens"},
		{of("azure", "o4-mini"), "max_completion_tokens"}, {of("moonshot", "kimi-k3"), "max_completion_tokens"},
		{claude, "max_tokens"}, {vertexClaude, "max_tokens"}, {gemini, "generationConfig.maxOutputTokens"},
		{vertexGemini, "generationConfig.maxOutputTokens"},
		{bedrockClaude, "inferenceConfig.maxTokens"}, {bedrockNova, "inferenceConfig.maxTokens"}, {command, "max_tokens"},
		{mistralSmall, "max_tokens"},
		{of("deepseek", "deepseek-v4"), "max_tokens"}, {of("together", "m"), "max_tokens"},
		{of("fireworks", "m"), "max_tokens"}, {of("perplexity", "sonar"), "max_tokens"}, {of("ollama", "m"), "max_tokens"},
		{of("zai", "glm-5"), "max_tokens"}, {of("huggingface", "m"), "max_tokens"}, {of("nvidia", "m"), "max_tokens"},
		{of("llamacpp", "m"), "max_tokens"},
	} {
		t.Run(c.s.name+" "+c.s.model, func(t *testing.T) {
			for _, client := range []string{"max_tokens", "max_completion_tokens"} {
				body := c.s.ask(t, chat(`"`+client+`":123`)).body
				require.EqualValues(t, 123, body.Get(c.want).Int(), "%s: %s", client, body.Raw)
				require.Equal(t, 1, strings.Count(body.Raw, ":123"), body.Raw)
			}
			body := c.s.ask(t, chat(`"max_tokens":55,"max_completion_tokens":123`)).body
			require.EqualValues(t, 123, body.Get(c.want).Int(), "the newer name counts: %s", body.Raw)
		})
	}
	require.EqualValues(t, 123, of("openai", "gpt-4.1").ask(t, chat(`"max_tokens":123`)).body.Get("max_tokens").Int())
	for _, s := range claudes { // which need one
		require.EqualValues(t, 64000, s.ask(t, chat("")).body.Get("max_tokens").Int())
	}
}

func budgets(t *testing.T) {
	for _, effort := range []string{"minimal", "low", "medium", "high", "xhigh", "max"} {
		for _, limit := range []int{1, 1000, 1024, 2048, 20_000, 63_000, 64_000} {
			request := chat(fmt.Sprintf(`"reasoning_effort":%q,"max_completion_tokens":%d`, effort, limit))
			for s, at := range map[string][2]string{"anthropic": {"thinking.budget_tokens", "max_tokens"},
				"vertex's Claude":  {"thinking.budget_tokens", "max_tokens"},
				"bedrock's Claude": {"additionalModelRequestFields.thinking.budget_tokens", "inferenceConfig.maxTokens"},
				"cohere":           {"thinking.token_budget", "max_tokens"}} {
				body := named(s).ask(t, request).body
				budget, most := body.Get(at[0]).Int(), body.Get(at[1]).Int()
				require.Less(t, budget, most, "%s, effort %s, limit %d", s, effort, limit)
				if s != "cohere" {
					require.GreaterOrEqual(t, budget, int64(1024), "%s, effort %s, limit %d: %s", s, effort, limit, body.Raw)
					require.LessOrEqual(t, most, int64(64_000))
				}
			}
		}
	}
	for _, budget := range []int{2000, 64_000, 100_000} { // which the client itself asks for
		own := claude.ask(t, chat(fmt.Sprintf(`"thinking":{"type":"enabled","budget_tokens":%d},"max_tokens":1000`,
			budget))).body
		require.Less(t, own.Get("thinking.budget_tokens").Int(), own.Get("max_tokens").Int())
		require.LessOrEqual(t, own.Get("max_tokens").Int(), int64(64_000))
	}
}

// goOn is the conversation after an answer with calls, as a stock client sends it.
func goOn(a answer, members string) string {
	return chatRequest(userAsks+","+a.echo()+","+a.results(), members)
}

func signedThinking(t *testing.T) {
	const members = tools + `,"reasoning_effort":"high"`
	for s, at := range map[string][3]string{
		"anthropic":       {"messages.1.content.0.thinking", "messages.1.content.0.signature", "messages.1.content.#.id"},
		"vertex's Claude": {"messages.1.content.0.thinking", "messages.1.content.0.signature", "messages.1.content.#.id"},
		"bedrock's Claude": {"messages.1.content.0.reasoningContent.reasoningText.text",
			"messages.1.content.0.reasoningContent.reasoningText.signature", "messages.1.content.#.toolUse.toolUseId"},
	} {
		both(t, func(t *testing.T, streamed bool) {
			s := named(s)
			a := s.respond(t, everything, chat(members), streamed)
			require.Equal(t, everything.thinking, a.reasoning)
			body := s.ask(t, goOn(a, members)).body
			require.Equal(t, everything.thinking, body.Get(at[0]).Str, "%s: %s", s.name, body.Raw)
			require.Equal(t, everything.signature, body.Get(at[1]).Str)
			require.Equal(t, []string{"callaaaa1", "callaaaa2", "callaaaa3"}, texts(body.Get(at[2]).Array()))
			require.Contains(t, body.Raw, "budget_tokens", "it goes on thinking")
			require.NotContains(t, body.Raw, openai.CarriedMark)
			for _, other := range allUpstreams() { // nothing of it is for anybody else
				if other.vendor != "perplexity" {
					require.NotContains(t, other.ask(t, goOn(a, tools)).body.Raw, openai.CarriedMark, other.name)
				}
			}
		})
	}
	t.Run("without it, thinking is off", func(t *testing.T) {
		for _, s := range []upstream{claude, vertexClaude, bedrockClaude} {
			got := s.ask(t, chatRequest(strings.Join([]string{userAsks, twoAsked, resultOne, resultTwo}, ","), members))
			require.NotContains(t, got.body.Raw, "budget_tokens", s.name)
			require.Contains(t, got.dropped, "reasoning_effort", s.name)
		}
	})
	t.Run("redacted", func(t *testing.T) {
		events := messages.stream(completion{stop: "tool_calls", calls: twoCalls.calls[:1]})
		events = slices.Insert(events, 1, event("content_block_start",
			`{"type":"content_block_start","index":7,"content_block":{"type":"redacted_thinking","data":"c2VjcmV0"}}`),
			event("content_block_stop", `{"type":"content_block_stop","index":7}`))
		a := claude.send(t, chat(members), true, events...)
		require.Equal(t, "c2VjcmV0", claude.ask(t, goOn(a, members)).body.Get("messages.1.content.0.data").Str)
	})
}

func signedCalls(t *testing.T) {
	for _, s := range geminis {
		both(t, func(t *testing.T, streamed bool) {
			a := s.respond(t, everything, chat(tools), streamed)
			parts := s.ask(t, goOn(a, tools)).body.Get("contents.1.parts")
			require.Equal(t, []string{"weather", "clock", "weather"}, texts(parts.Get("#.functionCall.name").Array()))
			require.Equal(t, []string{everything.signature}, texts(parts.Get("#.thoughtSignature").Array()), "%s: %s", s.name,
				parts.Raw)
			require.Contains(t, a.body, `"extra_content":{"google":{"thought_signature":"`+everything.signature+`"}}`)
		})
		echoed := strings.Replace(twoAsked, `"type":"function"`,
			`"extra_content":{"google":{"thought_signature":"b3duCg=="}},"type":"function"`, 1)
		body := s.ask(t, chatRequest(strings.Join([]string{userAsks, echoed, resultOne, resultTwo}, ","), tools)).body
		require.Equal(t, "b3duCg==", body.Get("contents.1.parts.0.thoughtSignature").Str)
		foreign := s.ask(t, chatRequest(strings.Join([]string{userAsks, twoAsked, resultOne, resultTwo}, ","), tools)).body
		require.Equal(t, "skip_thought_signature_validator", foreign.Get("contents.1.parts.0.thoughtSignature").Str,
			"calls that another model has made")
	}
}

func unsignedThinking(t *testing.T) {
	thinking := completion{thinking: "Hm.", stop: "tool_calls", calls: twoCalls.calls[:1]}
	for vendor, model := range map[string]string{"moonshot": "kimi-k2-thinking", "deepseek": "deepseek-v4"} {
		s := compatible(vendor)
		s.model = model
		both(t, func(t *testing.T, streamed bool) {
			a := s.respond(t, thinking, chat(tools), streamed)
			require.Equal(t, "Hm.", a.reasoning)
			require.Equal(t, "Hm.", s.ask(t, goOn(a, tools)).body.Get("messages.1.reasoning_content").Str, vendor)
		})
		without := s.ask(t, chatRequest(strings.Join([]string{userAsks, twoAsked, resultOne, resultTwo}, ","), tools)).body
		require.True(t, without.Get("messages.1.reasoning_content").Exists(), "%s refuses calls without: %s", vendor,
			without.Raw)
	}
	echo := chatRequest(strings.Join([]string{userAsks, strings.Replace(twoAsked, `"content":null`,
		`"content":null,"reasoning_content":"Hm."`, 1), resultOne, resultTwo}, ","), tools)
	for vendor, member := range map[string]string{"compatible": "reasoning_content", "openrouter": "reasoning",
		"zai": "reasoning_content", "groq": "reasoning", "ollama": "reasoning", "cerebras": "reasoning"} {
		require.Equal(t, "Hm.", compatible(vendor).ask(t, echo).body.Get("messages.1."+member).Str, vendor)
	}
	for _, s := range []upstream{claude, vertexClaude, bedrockClaude} { // which want it signed
		require.NotContains(t, s.ask(t, echo).body.Raw, "Hm.", s.name)
	}
}

func systemMessages(t *testing.T) {
	request := chatRequest(`{"role":"system","content":"one"},{"role":"developer","content":[{"type":"text","text":"two"},{"type":"text","text":"three","cache_control":{"type":"ephemeral"}}]},`+
		userAsks+`,{"role":"system","content":"four"},{"role":"user","content":"go on"}`, "")
	each(t, allUpstreams(), func(t *testing.T, s upstream) {
		body := s.ask(t, request).body
		for _, turn := range append(body.Get(`messages.#(role!="system")#`).Array(), body.Get("contents").Array()...) {
			require.NotContains(t, strings.ReplaceAll(turn.Raw, `<system-message>\nfour\n</system-message>`, ""), "four")
		}
		if at := map[string]string{"messages": "system.#.text", "google": "systemInstruction.parts.#.text",
			"converse": "system.#.text"}[s.dialect.name]; at != "" {
			require.Equal(t, []string{"one", "two", "three"}, texts(body.Get(at).Array()), body.Raw)
			require.Regexp(t, `(?s)"hi".*four.*"go on"`, body.Raw)
			return
		}
		require.Regexp(t, `(?s)one.*two.*three.*four`, body.Get("messages").Raw)
		if s.dialect.name == openAI.name { // of the others some take no system message in the middle
			developer := "system"
			if slices.Contains([]string{"openai", "azure", "echo", "compatible", "openrouter"}, s.vendor) {
				developer = "developer"
			}
			roles := texts(body.Get("messages.#.role").Array())
			require.Equal(t, []string{"system", developer, "user", "system", "user"}, roles)
		}
	})
	require.Equal(t, "ephemeral", claude.ask(t, request).body.Get("system.2.cache_control.type").Str)
}

func cacheMarks(t *testing.T) {
	const mark = `"cache_control":{"type":"ephemeral","ttl":"1h"}`
	request := chatRequest(`{"role":"system","content":[{"type":"text","text":"long",`+mark+
		`}]},{"role":"user","content":[{"type":"text","text":"hi",`+mark+`},{"type":"text","text":"there"}]},`+
		twoAsked+","+resultOne+","+strings.Replace(resultTwo, `"role"`, mark+`,"role"`, 1), tools[:len(tools)-2]+","+mark+
		"}]")
	for _, s := range claudes {
		body := s.ask(t, request).body
		for _, at := range []string{"system.0", "messages.0.content.0", "messages.2.content.1", "tools.1"} {
			require.Equal(t, "1h", body.Get(at+".cache_control.ttl").Str, "%s: %s", at, body.Raw)
		}
		require.Equal(t, 4, strings.Count(body.Raw, "ephemeral"))
	}
	body := bedrockClaude.ask(t, request).body // with a point after what is marked
	for _, at := range []string{"system.1", "messages.0.content.1", "messages.2.content.2", "toolConfig.tools.2"} {
		require.Equal(t, "1h", body.Get(at+".cachePoint.ttl").Str, "%s: %s", at, body.Raw)
	}
	require.Equal(t, 4, strings.Count(compatible("openrouter").ask(t, request).body.Raw, mark))
	for _, s := range append(geminis, command, mistralSmall, bedrockLlama) { // which cache by themselves, or not at all
		got := s.ask(t, request)
		require.NotContains(t, got.body.Raw, "cache_control")
		require.Contains(t, strings.Join(got.dropped, ","), "cache_control")
	}
}
