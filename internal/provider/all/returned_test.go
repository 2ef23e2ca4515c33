package all

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/translate"
)

// A talk is a client of a dialect at a provider.
type talk struct {
	vendor, provider, model string
	endpoint                translate.Endpoint
}

func (k talk) target() (provider.Provider, provider.Target) {
	p := Providers()[k.vendor]
	config := &configv1.Provider{Name: k.provider}
	if k.provider == "googles" {
		config.Endpoint, config.Operations = "https://generativelanguage.googleapis.com/v1beta/openai", []string{provider.OpChat}
	}
	target := provider.Target{Config: translate.Complete(p, config), Model: k.model}
	return p.For(target.Config), target
}

// encode returns what the provider gets, and what reads its answer.
func (k talk) encode(t *testing.T, body string) ([]byte, *translate.Exchange) {
	t.Helper()
	p, target := k.target()
	r, err := translate.Parse(p, k.endpoint, []byte(body))
	require.NoError(t, err)
	sent, answer, err := r.Encode(target)
	require.NoError(t, err)
	return sent.Body, &translate.Exchange{Provider: p, Request: r, Answer: answer}
}

// second returns the request of a second turn, in which a client sends back what it got in the first: the id of the
// call, and what else standard clients of its dialect keep.
func (k talk) second(t *testing.T, stream bool, answer string, at talk) []byte {
	t.Helper()
	asks := map[translate.Endpoint]string{
		translate.Chat:      `{"model":"m","stream":%v,"messages":[{"role":"user","content":"x"}%s],"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{}}}}]}`,
		translate.Messages:  `{"model":"m","max_tokens":9,"stream":%v,"messages":[{"role":"user","content":"x"}%s],"tools":[{"name":"f","input_schema":{"type":"object"}}]}`,
		translate.Responses: `{"model":"m","stream":%v,"input":[{"role":"user","content":"x"}%s],"tools":[{"type":"function","name":"f","parameters":{"type":"object","properties":{}}}]}`,
		translate.Gemini:    `{"model":"m","stream":%v,"contents":[{"role":"user","parts":[{"text":"x"}]}%s],"tools":[{"functionDeclarations":[{"name":"f"}]}]}`,
	}
	_, x := k.encode(t, fmt.Sprintf(asks[k.endpoint], stream, ""))
	got := x.Respond(translate.Response{Status: 200}, []byte(answer))
	require.Equal(t, 200, got.Status, string(got.Body))
	id := callID(string(got.Body))
	require.NotEmpty(t, id, string(got.Body))
	turns := map[translate.Endpoint]string{
		translate.Chat:      `,{"role":"assistant","tool_calls":[{"id":%[1]q,"type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":%[1]q,"content":"y"}`,
		translate.Messages:  `,{"role":"assistant","content":[{"type":"tool_use","id":%[1]q,"name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":%[1]q,"content":"y"}]}`,
		translate.Responses: `,{"type":"function_call","call_id":%[1]q,"name":"f","arguments":"{}"},{"type":"function_call_output","call_id":%[1]q,"output":"y"}`,
		translate.Gemini:    `,{"role":"model","parts":[{"functionCall":{"id":%[1]q,"name":"f","args":{}}}]},{"role":"user","parts":[{"functionResponse":{"id":%[1]q,"name":"f","response":{"a":1}}}]}`,
	}
	sent, _ := at.encode(t, fmt.Sprintf(asks[k.endpoint], stream, fmt.Sprintf(turns[k.endpoint], id)))
	return sent
}

// tells is what a second turn at one of Google's services has.
type tells struct{ id, signature string }

// Google's own ids and signatures come back to the service that made them. Another service of Google's refuses a
// signature that is not its own, so that it gets what stands for one.
func TestGooglesIDsAndSignaturesComeBack(t *testing.T) {
	const placeholder = "skip_thought_signature_validator"
	answer := func(id string) string {
		return `{"candidates":[{"content":{"role":"model","parts":[{"functionCall":{` + id +
			`"name":"f","args":{}},"thoughtSignature":"c2ln"}]},"finishReason":"STOP","index":0}],"usageMetadata":` +
			`{"promptTokenCount":1,"candidatesTokenCount":1,"totalTokenCount":2},"responseId":"r"}`
	}
	for _, endpoint := range []translate.Endpoint{translate.Chat, translate.Messages, translate.Responses} {
		studio := talk{"gemini", "g", "gemini-3-pro-preview", endpoint}
		vertex := talk{"vertex", "v", "gemini-3-pro-preview", endpoint}
		for _, stream := range []bool{false, true} {
			for _, c := range []struct {
				from, to talk
				id       string
				want     tells
			}{
				{studio, studio, `"id":"g-1.2",`, tells{"g-1.2", "c2ln"}},
				{studio, studio, ``, tells{"", "c2ln"}},
				{vertex, vertex, `"id":"g-1.2",`, tells{"g-1.2", "c2ln"}},
				{studio, vertex, `"id":"g-1.2",`, tells{"g-1.2", placeholder}},
				{vertex, studio, `"id":"g-1.2",`, tells{"g-1.2", placeholder}},
			} {
				body := answer(c.id)
				if stream {
					body = sse(body)
				}
				part := gjson.GetBytes(c.from.second(t, stream, body, c.to), "contents.1.parts.0")
				require.Equal(t, c.want, tells{part.Get("functionCall.id").Str, part.Get("thoughtSignature").Str},
					"%s, from %s to %s, streamed %v", endpoint, c.from.vendor, c.to.vendor, stream)
			}
		}
	}
}

// callID returns the id of the call in an answer of any dialect.
func callID(body string) string {
	for line := range strings.Lines(body) {
		v := gjson.Parse(strings.TrimPrefix(line, "data: "))
		for _, path := range []string{"choices.0.message.tool_calls.0.id", "choices.0.delta.tool_calls.0.id",
			`content.#(type=="tool_use").id`, `content_block.id`, `output.#(type=="function_call").call_id`, "item.call_id",
			"candidates.0.content.parts.#(functionCall).functionCall.id"} {
			if id := v.Get(path).Str; id != "" {
				return id
			}
		}
	}
	return ""
}

// sse frames chunks as events.
func sse(chunks ...string) string {
	return "data: " + strings.Join(chunks, "\n\ndata: ") + "\n\n"
}

const chunk = `{"id":"a","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{%s},"finish_reason":%s}]}`

// The signed reasoning of a server of OpenAI's dialect comes back to it in every client's dialect, and goes to no
// other server.
func TestSignedReasoningComesBackToItsServer(t *testing.T) {
	const (
		made     = `"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}%s}]`
		thinking = `{"type":"thinking","thinking":"hm so","signature":"c2ln"}`
		details  = `[{"type":"reasoning.text","text":"hm","signature":"c2ln","index":0}]`
		extra    = `{"google":{"thought_signature":"Z29v"}}`
	)
	whole := func(members string) string {
		return `{"id":"a","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"finish_reason":"tool_calls","message":{"role":"assistant","content":null,` +
			members + `}}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`
	}
	plain, signed := fmt.Sprintf(made, ""), fmt.Sprintf(made, `,"extra_content":`+extra)
	end := fmt.Sprintf(chunk, "", `"tool_calls"`)
	for name, c := range map[string]struct {
		whole, stream, path, want string
	}{
		"LiteLLM's blocks": {
			whole(`"reasoning_content":"hm so","thinking_blocks":[` + thinking + `],` + plain),
			sse(fmt.Sprintf(chunk, `"reasoning_content":"hm","thinking_blocks":[{"type":"thinking","thinking":"hm"}]`, "null"),
				fmt.Sprintf(chunk, `"reasoning_content":" so","thinking_blocks":[{"type":"thinking","thinking":" so","signature":""}]`, "null"),
				fmt.Sprintf(chunk, `"reasoning_content":"","thinking_blocks":[{"type":"thinking","thinking":"","signature":"c2ln"}]`, "null"),
				fmt.Sprintf(chunk, plain, "null"), end, "[DONE]"),
			"messages.1.thinking_blocks", `[` + thinking + `]`},
		"OpenRouter's details": {whole(`"reasoning_details":` + details + `,` + plain),
			sse(fmt.Sprintf(chunk, `"reasoning_details":`+details, "null"), fmt.Sprintf(chunk, plain, "null"), end, "[DONE]"),
			"messages.1.reasoning_details", details},
		"Google's signatures": {whole(signed), sse(fmt.Sprintf(chunk, signed, "null"), end, "[DONE]"),
			"messages.1.tool_calls.0.extra_content", extra},
	} {
		for _, endpoint := range []translate.Endpoint{translate.Chat, translate.Messages, translate.Responses,
			translate.Gemini} {
			for _, stream := range []bool{false, true} {
				answer := c.whole
				if stream {
					answer = c.stream
				}
				k := talk{"compatible", "one", "m", endpoint}
				sent := k.second(t, stream, answer, k)
				require.JSONEq(t, c.want, gjson.GetBytes(sent, c.path).Raw, "%s, %s, streamed %v: %s", name, endpoint, stream,
					sent)
				require.Equal(t, "c1", gjson.GetBytes(sent, "messages.1.tool_calls.0.id").Str)
				sent = k.second(t, stream, answer, talk{"compatible", "two", "m", endpoint})
				require.NotContains(t, string(sent), gjson.Get(c.want, "@ugly").Raw, "another server")
				require.Equal(t, "c1", gjson.GetBytes(sent, "messages.1.tool_calls.0.id").Str)
			}
		}
	}
}
