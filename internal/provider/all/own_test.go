package all

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/overchat"
)

// What OpenAI refuses reaches the vendors that have documented it, and the servers that decide for themselves. All
// others refuse it. (report 9)
func TestWordsOfAVendorsOwn(t *testing.T) {
	const f = `"tools":[{"type":"function","function":{"name":"f"}}]`
	const everywhere = "compatible llamacpp nvidia openrouter vllm "
	for _, c := range []struct{ members, reaches string }{
		{`"top_p":-1`, everywhere},
		{`"temperature":3`, everywhere},
		{`"max_tokens":-1`, everywhere + "ollama"},
		{f + `,"tool_choice":"any"`, everywhere + "anthropic bedrock mistral"},
		{f + `,"tool_choice":{"function":{"name":"f"}}`, everywhere + "huggingface"},
		{`"response_format":{"type":"regex","regex":{"regex":"a"}}`, everywhere + "huggingface perplexity together"},
		{`"response_format":{"type":"grammar","grammar":"root ::= x"}`, everywhere + "fireworks huggingface"},
		{`"response_format":{"type":"structural_tag","structures":[],"triggers":[]}`, everywhere},
		{`"response_format":{"type":"json_schema","schema":{"type":"object"}}`, everywhere + "together"},
		{`"logprobs":2`, everywhere + "fireworks together"},
		{`"logit_bias":[[1,2]]`, "compatible llamacpp openrouter vllm"},
	} {
		for name, p := range Providers() {
			t.Run(name+" "+c.members, func(t *testing.T) {
				r, err := openai.ParseChatRequest([]byte(`{"model":"m","messages":[{"role":"user","content":"x"}],` + c.members +
					`}`))
				require.NoError(t, err)
				_, _, err = p.Chat.Encode(r, provider.Target{Model: "m", Config: &configv1.Provider{Name: name}})
				if slices.Contains(strings.Fields(c.reaches), name) {
					require.NoError(t, err)
				} else {
					require.ErrorContains(t, err, "400 invalid_request_error: ")
				}
			})
		}
	}
}

// So it is with legacy completions.
func TestCompletionsOfAVendorsOwn(t *testing.T) {
	r, err := openai.ParseCompletionRequest([]byte(`{"model":"m","prompt":"x","max_tokens":-1}`))
	require.NoError(t, err)
	for name, p := range Providers() {
		codec := p.Completion
		if codec == nil {
			codec = overchat.Completion(p.Chat, name)
		}
		_, _, err := codec.Encode(r, provider.Target{Model: "m", Config: &configv1.Provider{Name: name}})
		if slices.Contains([]string{"compatible", "llamacpp", "nvidia", "ollama", "openrouter", "vllm"}, name) {
			require.NoError(t, err, name)
		} else {
			require.ErrorContains(t, err, "Invalid 'max_tokens': integer below minimum value.", name)
		}
	}
}

// A schema needs a name at OpenAI alone. Those who would miss it get one. (report 4)
func TestSchemasWithoutAName(t *testing.T) {
	const format = `"response_format":{"type":"json_schema","json_schema":{"schema":{"type":"object","properties":{},"additionalProperties":false}}}`
	r, err := openai.ParseChatRequest([]byte(`{"model":"m","messages":[{"role":"user","content":"x"}],` + format + `}`))
	require.NoError(t, err)
	sent := map[string]string{}
	for name, p := range Providers() {
		req, _, err := p.Chat.Encode(r, provider.Target{Model: "m", Config: &configv1.Provider{Name: name}})
		if err == nil {
			sent[name] = string(req.Body)
			continue
		}
		require.ErrorContains(t, err, "Missing required parameter: 'response_format.json_schema.name'.", name)
		delete(sent, name)
	}
	for _, name := range []string{"azure", "echo", "openai"} {
		require.NotContains(t, sent, name)
	}
	require.Len(t, sent, len(Providers())-3)
	for name, body := range sent {
		named := strings.Contains(body, `"json_schema":{"name":"response","schema":{`)
		require.Equal(t,
			slices.Contains(
				strings.Fields("alibaba cerebras fireworks groq huggingface mistral moonshot nvidia ollama openrouter perplexity together vllm xai"), name), named, "%s: %s", name, body)
	}
	require.Contains(t, slices.Collect(maps.Keys(sent)), "perplexity")
	require.Contains(t, sent["compatible"], format)
}

// Words that are new reach every vendor of OpenAI's dialect but echo, which takes what there is today. (report 4)
func TestNewWordsReachVendorsOfTheDialect(t *testing.T) {
	for _, members := range []string{
		`"reasoning_effort":"utmost"`, `"service_tier":"gold"`, `"verbosity":"mute"`, `"modalities":["text","video"]`,
		`"tools":[{"type":"telepathy"}]`,
	} {
		r, err := openai.ParseChatRequest([]byte(`{"model":"m","messages":[{"role":"user","content":"x"}],` + members + `}`))
		require.NoError(t, err)
		for _, name := range []string{"openai", "azure", "compatible", "openrouter"} {
			req, _, err := Providers()[name].Chat.Encode(r, provider.Target{Model: "m", Config: &configv1.Provider{Name: name}})
			require.NoError(t, err)
			require.Contains(t, string(req.Body), members)
		}
		_, _, err = Providers()["echo"].Chat.Encode(r, provider.Target{Model: "m", Config: &configv1.Provider{Name: "echo"}})
		require.ErrorContains(t, err, "400 invalid_request_error: Invalid value: ")
	}
}

// Mistral has texts where OpenAI has objects.
func TestMediaThatAreTexts(t *testing.T) {
	r, err := openai.ParseChatRequest(
		[]byte(`{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":"https://a.test/b.png"},{"type":"input_audio","input_audio":"aGk="}]}]}`))
	require.NoError(t, err)
	for name, p := range Providers() {
		req, _, err := p.Chat.Encode(r, provider.Target{Model: "m", Config: &configv1.Provider{Name: name}})
		switch name {
		case "compatible", "llamacpp", "nvidia", "openrouter", "vllm":
			require.Contains(t, string(req.Body),
				`[{"type":"image_url","image_url":"https://a.test/b.png"},{"type":"input_audio","input_audio":"aGk="}]`, name)
		case "mistral":
			require.Contains(t, string(req.Body),
				`[{"type":"image_url","image_url":{"url":"https://a.test/b.png"}},{"type":"input_audio","input_audio":"aGk="}]`)
		default:
			require.ErrorContains(t, err, "Invalid type for 'messages[0].content[0].image_url'", name)
		}
	}
}
