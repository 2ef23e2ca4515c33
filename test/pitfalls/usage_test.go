package pitfalls

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// usageRows are those of what is counted, and what it costs.
func usageRows() []row {
	return []row{
		{33, "a provider is always asked for the usage of a stream, which is recorded", usageIsAsked},
		{34, "a client that has not asked gets no chunk of usage", usageUnasked},
		{35, "include_usage false hides usage from the client, not from the gateway", usageRefused},
		{36, "usage that the vendor tells twice is told once", usageTwice},
		{37, "usage in a chunk that also has a choice is found", usageBesideChoice},
		{38, "chunks before the usage say that it is null", usageNull},
		{39, "Anthropic's counts of the start and the end are merged, not added", usageMerged},
		{40, "cached tokens are a part of the prompt, once", usageCached},
		{41, "reasoning is a part of the output, and told apart", usageReasoning},
		{42, "details that are null are no details", usageNullDetails},
		{43, "what a provider says that the answer cost is kept", usageCost},
		{44, "prices of long prompts have tiers", tieredPrices},
		{45, "a price that is mistyped is refused, and its field named", mistypedPrices},
	}
}

var counted = completion{text: "Hello", stop: "stop", usage: counts{prompt: 20, output: 7}}

func usageIsAsked(t *testing.T) {
	each(t, allUpstreams(), func(t *testing.T, s upstream) {
		if s.dialect.name != openAI.name || s.vendor == "perplexity" {
			for _, options := range []string{"", `,"stream_options":{"include_usage":true}`} {
				require.False(t, s.ask(t, chat(`"stream":true`+options)).body.Get("stream_options").Exists(),
					"the vendor knows no such member, and always tells")
			}
			return
		}
		for _, options := range []string{"", `,"stream_options":null`, `,"stream_options":{}`,
			`,"stream_options":{"include_usage":null}`, `,"stream_options":{"include_usage":true}`} {
			require.True(t, s.ask(t, chat(`"stream":true`+options)).body.Get("stream_options.include_usage").Bool(), options)
		}
		require.False(t, s.ask(t, chat("")).body.Get("stream_options").Exists(), "only of a stream")
	})
	t.Run("it is recorded", func(t *testing.T) {
		g := overPlayer(t)
		for model, d := range models {
			g.vendor.send(d.stream(counted)...)
			g.Do(t, "POST", "/v1/chat/completions", ask(model), "X-Request-Id", idOf(model))
			line := g.Logged(t, idOf(model))
			require.EqualValues(t, 20, line["prompt_tokens"], model)
			require.EqualValues(t, 7, line["completion_tokens"], model)
		}
	})
}

// hidden checks that a client with these members in its request sees nothing of the usage.
func hidden(t *testing.T, members string) {
	t.Helper()
	each(t, allUpstreams(), func(t *testing.T, s upstream) {
		stream := s.dialect.stream
		if s.passesThrough() {
			stream = openAIItself.stream // which says "usage":null where usage was asked for, and the gateway has asked
		}
		a := s.send(t, chat(members), true, stream(counted)...)
		require.NotContains(t, a.body, "usage")
		for _, c := range a.chunks {
			require.NotEmpty(t, c.Get("choices").Array())
		}
		require.True(t, a.done)
	})
}

func usageUnasked(t *testing.T) {
	hidden(t, `"stream":true`)
	hidden(t, `"stream":true,"stream_options":{}`)
}

func usageRefused(t *testing.T) {
	hidden(t, `"stream":true,"stream_options":{"include_usage":false}`)
	each(t, allUpstreams(), func(t *testing.T, s upstream) {
		if s.dialect.name == openAI.name && s.vendor != "perplexity" {
			require.True(t, s.ask(t, chat(`"stream":true,"stream_options":{"include_usage":false}`)).body.Get(
				"stream_options.include_usage").Bool())
		}
	})
	g := overPlayer(t)
	for model, d := range models {
		g.vendor.send(d.stream(counted)...)
		request := strings.Replace(ask(model), `"stream":true`, `"stream":true,"stream_options":{"include_usage":false}`, 1)
		require.NotContains(t, string(g.Do(t, "POST", "/v1/chat/completions", request, "X-Request-Id", idOf(model)).Body),
			"usage")
		require.EqualValues(t, 7, g.Logged(t, idOf(model))["completion_tokens"], model)
	}
}

// with adds members to a chunk.
func with(chunk, members string) string {
	return strings.TrimSuffix(chunk, "}\n\n") + "," + members + "}\n\n"
}

func requireCounts(t *testing.T, a answer, prompt, output int64) {
	t.Helper()
	require.True(t, a.usage.IsObject(), a.body)
	require.Equal(t, prompt, a.usage.Get("prompt_tokens").Int(), a.body)
	require.Equal(t, output, a.usage.Get("completion_tokens").Int(), a.body)
	require.Equal(t, prompt+output, a.usage.Get("total_tokens").Int(), a.body)
}

const sevenOfTwenty = `"usage":{"prompt_tokens":20,"completion_tokens":7,"total_tokens":27}`

func usageTwice(t *testing.T) { // the reader takes one chunk of usage
	begin, last := chunk(`{"role":"assistant","content":"a"}`, "null"), chunk(`{}`, `"stop"`)
	alone := data(
		`{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"upstream","choices":[],%s}`,
		sevenOfTwenty)
	for name, events := range map[string][]string{
		"groq": {begin, with(last, `"x_groq":{"id":"r",`+sevenOfTwenty+`},`+sevenOfTwenty), alone, end},
		"xai": {with(begin, `"usage":{"prompt_tokens":20,"completion_tokens":1,"total_tokens":21}`),
			with(last, sevenOfTwenty), alone, end},
		"perplexity": {with(begin, `"usage":{"prompt_tokens":20,"completion_tokens":1,"total_tokens":21}`),
			with(last, sevenOfTwenty)},
		"compatible": {begin, last, alone, alone, end},
		"mistral":    {begin, with(last, sevenOfTwenty), alone, end},
	} {
		t.Run(name, func(t *testing.T) {
			requireCounts(t, named(name).send(t, chat(streams), true, events...), 20, 7)
			require.NotContains(t, named(name).send(t, chat(`"stream":true`), true, events...).body, `"usage"`)
		})
	}
	t.Run("x_groq alone", func(t *testing.T) {
		requireCounts(t, compatible("groq").send(t, chat(streams), true, begin,
			with(last, `"x_groq":{"id":"r",`+sevenOfTwenty+`}`), end), 20, 7)
	})
}

func usageBesideChoice(t *testing.T) {
	for _, vendor := range []string{"compatible", "openrouter", "deepseek", "alibaba", "together", "vllm", "mistral"} {
		for _, last := range []string{with(chunk(`{}`, "null"), sevenOfTwenty),
			with(chunk(`{"role":"assistant","content":""}`, `"stop"`), sevenOfTwenty)} {
			a := named(vendor).send(t, chat(streams), true, chunk(`{"role":"assistant","content":"a"}`, "null"),
				chunk(`{}`, `"stop"`), last, end)
			requireCounts(t, a, 20, 7)
			require.Equal(t, "stop", a.stop, vendor)
		}
	}
	t.Run("within the choice", func(t *testing.T) {
		last := strings.Replace(chunk(`{}`, `"stop"`), `"stop"}`, `"stop",`+sevenOfTwenty+`}`, 1)
		requireCounts(t, compatible("moonshot").send(t, chat(streams), true, chunk(`{"role":"assistant","content":"a"}`,
			"null"), last, end), 20, 7)
	})
}

func usageNull(t *testing.T) {
	each(t, allUpstreams(), func(t *testing.T, s upstream) { // the reader looks at every chunk
		a := s.respond(t, counted, chat(streams), true)
		require.GreaterOrEqual(t, len(a.chunks), 3)
		require.Equal(t, "null", a.chunks[0].Get("usage").Raw)
		requireCounts(t, a, 20, 7)
	})
}

func usageMerged(t *testing.T) {
	text := messages.stream(completion{text: "Hello", stop: "stop"})
	for name, c := range map[string]struct {
		start, last                     string
		prompt, cached, written, output int64
	}{
		"output is the last": {`"input_tokens":20,"output_tokens":3`, `"output_tokens":7`, 20, 0, 0, 7},
		"the end repeats the input": {`"input_tokens":20,"cache_read_input_tokens":5,"output_tokens":1`,
			`"input_tokens":20,"cache_read_input_tokens":5,"output_tokens":7`, 25, 5, 0, 7},
		"the end says 0 of the input": {`"input_tokens":20,"cache_creation_input_tokens":4,"output_tokens":1`,
			`"input_tokens":0,"cache_creation_input_tokens":0,"output_tokens":7`, 24, 0, 4, 7},
		"only the end knows the input": {`"input_tokens":0,"output_tokens":0`,
			`"input_tokens":20,"cache_read_input_tokens":6,"output_tokens":7`, 26, 6, 0, 7},
		"the end knows better": {`"input_tokens":20,"output_tokens":1`, `"input_tokens":30,"output_tokens":7`, 30, 0,
			0, 7},
		"nothing at the end": {`"input_tokens":20,"output_tokens":3`, `"output_tokens":0`, 20, 0, 0, 3},
		"null": {`"input_tokens":20,"cache_read_input_tokens":null,"output_tokens":1`,
			`"input_tokens":null,"output_tokens":7`, 20, 0, 0, 7},
	} {
		t.Run(name, func(t *testing.T) {
			events := append([]string{event("message_start",
				`{"type":"message_start","message":{"id":"msg_1","role":"assistant","content":[],"usage":{%s}}}`, c.start)},
				text[1:len(text)-2]...)
			events = append(events, event("message_delta",
				`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{%s}}`, c.last), text[len(text)-1])
			for _, s := range claudes {
				a := s.send(t, chat(""), true, events...)
				requireCounts(t, a, c.prompt, c.output)
				require.Equal(t, c.cached, a.usage.Get("prompt_tokens_details.cached_tokens").Int())
				require.Equal(t, c.written, a.usage.Get("prompt_tokens_details.cache_write_tokens").Int())
			}
		})
	}
}

func usageCached(t *testing.T) {
	each(t, allUpstreams(), func(t *testing.T, s upstream) {
		what := counted
		what.usage.cached = 12
		tellsWritten := s.dialect.name == messages.name || s.dialect.name == converse.name
		if tellsWritten {
			what.usage.written = 3
		}
		both(t, func(t *testing.T, streamed bool) {
			a := s.respond(t, what, chat(""), streamed)
			requireCounts(t, a, 20, 7)
			require.EqualValues(t, 12, a.usage.Get("prompt_tokens_details.cached_tokens").Int(), a.body)
			require.EqualValues(t, what.usage.written, a.usage.Get("prompt_tokens_details.cache_write_tokens").Int(), a.body)
		})
	})
	for vendor, usage := range map[string]string{
		"deepseek": `"prompt_cache_hit_tokens":12,"prompt_cache_miss_tokens":8`,
		"moonshot": `"cached_tokens":12`,
		"mistral":  `"num_cached_tokens":12`,
	} {
		whole := strings.Replace(openAI.unary(counted), `"prompt_tokens_details":{"cached_tokens":0},`, "", 1)
		a := named(vendor).send(t, chat(""), false, strings.Replace(whole, `"total_tokens":27`, `"total_tokens":27,`+usage,
			1))
		require.EqualValues(t, 12, a.usage.Get("prompt_tokens_details.cached_tokens").Int(), "%s: %s", vendor, a.body)
	}
}

func usageReasoning(t *testing.T) {
	each(t, allUpstreams(), func(t *testing.T, s upstream) {
		if s.vendor == "bedrock" {
			return // it does not tell
		}
		what := completion{thinking: "Hm", text: "Hello", stop: "stop", usage: counts{prompt: 20, output: 7, reasoning: 4}}
		both(t, func(t *testing.T, streamed bool) {
			a := s.respond(t, what, chat(""), streamed)
			requireCounts(t, a, 20, 7)
			require.EqualValues(t, 4, a.usage.Get("completion_tokens_details.reasoning_tokens").Int(), a.body)
		})
	})
	t.Run("xAI's output is without it", func(t *testing.T) {
		apart := strings.Replace(openAI.unary(completion{text: "Hello", stop: "stop",
			usage: counts{prompt: 20, output: 3, reasoning: 4}}), `"total_tokens":23`, `"total_tokens":27`, 1)
		requireCounts(t, compatible("xai").send(t, chat(""), false, apart), 20, 7)
	})
	t.Run("Gemini's tools count as prompt", func(t *testing.T) {
		whole := strings.Replace(google.unary(counted), `"promptTokenCount":20`,
			`"promptTokenCount":15,"toolUsePromptTokenCount":5`, 1)
		requireCounts(t, gemini.send(t, chat(""), false, whole), 20, 7)
	})
}

func usageNullDetails(t *testing.T) {
	for _, vendor := range []string{"compatible", "together", "openrouter", "huggingface", "nvidia", "mistral", "xai"} {
		for _, details := range []string{`"prompt_tokens_details":null,"completion_tokens_details":null`,
			`"prompt_tokens_details":{"cached_tokens":null},"completion_tokens_details":{"reasoning_tokens":null}`} {
			whole := openAI.unary(counted)
			at := strings.Index(whole, `"prompt_tokens_details"`)
			a := named(vendor).send(t, chat(""), false, whole[:at]+details+"}}")
			requireCounts(t, a, 20, 7)
			for _, member := range []string{"prompt_tokens_details", "completion_tokens_details",
				"prompt_tokens_details.cached_tokens", "completion_tokens_details.reasoning_tokens"} {
				require.NotEqual(t, "null", a.usage.Get(member).Raw, "%s: %s", vendor, a.usage.Raw)
			}
		}
	}
}

func usageCost(t *testing.T) {
	for vendor, cost := range map[string]string{
		"openrouter": `"cost":0.0025,"is_byok":false,"cost_details":{"upstream_inference_cost":null}`,
		"perplexity": `"cost":{"total_cost":0.006}`} {
		for _, streamed := range []bool{false, true} {
			what := compatible(vendor).dialect.unary(counted)
			if streamed {
				what = strings.Join(compatible(vendor).dialect.stream(counted), "")
			}
			a := compatible(vendor).send(t, chat(""), streamed, strings.Replace(what, `"total_tokens":27`,
				`"total_tokens":27,`+cost, 1))
			requireCounts(t, a, 20, 7)
			require.Contains(t, a.usage.Raw, cost, vendor)
		}
	}
}

func tieredPrices(t *testing.T) {
	for _, c := range []struct {
		vendor, model string
		above         int64
	}{
		{"anthropic", "claude-sonnet-4-5", 200_000}, {"bedrock", "us.anthropic.claude-sonnet-4-5-20250929-v1:0", 200_000},
		{"vertex", "claude-sonnet-4-5@20250929", 200_000},
		{"gemini", "gemini-2.5-pro", 200_000}, {"vertex", "gemini-3-pro-preview", 200_000}, {"openai", "gpt-6-sol", 272_000},
		{"xai", "grok-4.5", 200_000},
	} {
		price := known.Facts(c.vendor, c.model).GetPrice()
		require.Len(t, price.GetTiers(), 1, c.model)
		tier := price.GetTiers()[0]
		require.Equal(t, c.above, tier.GetAbovePromptTokens(), c.model)
		for _, pair := range [][2]string{{price.GetInput(), tier.GetInput()}, {price.GetOutput(), tier.GetOutput()},
			{price.GetCachedInput(), tier.GetCachedInput()}} {
			low, err := strconv.ParseFloat(pair[0], 64)
			require.NoError(t, err, c.model)
			high, err := strconv.ParseFloat(pair[1], 64)
			require.NoError(t, err, c.model)
			require.Greater(t, high, low, c.model)
		}
	}
}

func mistypedPrices(t *testing.T) {
	const sheet = "kind: Catalog\nname: default\nmodels:\n- models: [\"m-*\"]\n  price: {input: %s, output: \"10.00\", tiers: [{above_prompt_tokens: %s, input: %s}]}\n"
	refused := func(input, above, tier string) string {
		documents, err := configv1.ParseYAML("prices.yaml", fmt.Appendf(nil, sheet, input, above, tier))
		if err != nil {
			return err.Error()
		}
		if errs := configv1.Validate(documents[0].Object, nil); len(errs) > 0 {
			return errs.Error()
		}
		return ""
	}
	require.Empty(t, refused(`"0.15"`, "200000", `"0.30"`))
	for _, wrong := range []string{`"76160"`, `"-1"`, `"1,5"`, `"$2"`, `"1e3"`, `"NaN"`, `"Inf"`, `"0.15 "`, `"free"`} {
		require.Contains(t, refused(wrong, "200000", `"0.30"`), "models[0].price.input", wrong)
		require.Contains(t, refused(`"0.15"`, "200000", wrong), "models[0].price.tiers[0].input", wrong)
	}
	require.Contains(t, refused(`"0.15"`, "0", `"0.30"`), "models[0].price.tiers[0].above_prompt_tokens")
	_, err := configv1.ParseYAML("prices.yaml",
		[]byte(strings.Replace(fmt.Sprintf(sheet, `"1"`, "1", `"1"`), "output", "outptu", 1)))
	require.ErrorContains(t, err, "outptu")
}

// idOf is a request id that names a model.
func idOf(model string) string { return strings.ReplaceAll(model, "/", ":") }
