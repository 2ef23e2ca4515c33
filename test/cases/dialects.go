package cases

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func sameDialect(t *testing.T, g *Gateway) {
	t.Run("a unary answer passes, but for the model's name", func(t *testing.T) { sameDialectUnary(t, g) })
	t.Run("pitfalls 33 to 38: usage is asked of the provider, and shown to who asked",
		func(t *testing.T) { sameDialectUsage(t, g) })
	t.Run("parallel tool calls pass", func(t *testing.T) { sameDialectTools(t, g) })
	t.Run("a forged internal header has no effect", func(t *testing.T) { forgedHeaders(t, g) })
}

func sameDialectUnary(t *testing.T, g *Gateway) {
	recorded := Recording(t, "openai-text.json")
	g.A.Answers(status(200, string(recorded), "Set-Cookie", "vendor=1", "X-Request-Id", "vendor-request",
		"Openai-Organization", "ours"))
	a := g.Do(t, "POST", "/v1/chat/completions",
		`{ "messages":[{"role":"user","content":"\u00fc \ud83d\ude00"}], "model":"a/gpt-4.1", "seed":12345678901, "x_new":{"b":[1.50,2]} }`,
		"Cookie", "a=b", "X-Stainless-Lang", "go", "OpenAI-Organization", "org-client", "X-Title", "app", "Accept-Encoding",
		"gzip",
		"X-Forwarded-Host", "client.test", "X-Envoy-Anything", "1", "Traceparent",
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	require.Equal(t, 200, a.Status)
	require.Equal(t, strings.Replace(string(recorded), "gpt-4.5-preview-2025-02-27", "a/gpt-4.1", 1), string(a.Body))
	require.Equal(t, "application/json", a.Header.Get("Content-Type"))
	require.Equal(t, "a", a.Header.Get("X-Modelgate-Provider"))
	require.Equal(t, "vendor-request", a.Header.Get("X-Upstream-Request-Id"))
	require.NotEmpty(t, a.Header.Get("X-Request-Id"))
	require.NotEqual(t, "vendor-request", a.Header.Get("X-Request-Id"))
	require.Empty(t, a.Header.Get("Set-Cookie"))
	require.Empty(t, a.Header.Get("Openai-Organization"))

	asked := g.A.Requests()
	require.Len(t, asked, 1)
	require.Equal(t, "/v1/chat/completions", asked[0].Path)
	require.Equal(t,
		`{ "messages":[{"role":"user","content":"\u00fc \ud83d\ude00"}], "model":"gpt-4.1", "seed":12345678901, "x_new":{"b":[1.50,2]} }`, string(asked[0].Body))
	require.Equal(t, "Bearer "+CredentialA, asked[0].Header.Get("Authorization"))
	require.EqualValues(t, len(asked[0].Body), asked[0].Length, "not chunked")
	for _, name := range []string{"Cookie", "X-Stainless-Lang", "Openai-Organization", "X-Title", "X-Request-Id",
		"X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "Accept-Encoding", "Traceparent"} {
		require.Empty(t, asked[0].Header.Get(name), name)
	}
	for name := range asked[0].Header {
		require.False(t, strings.HasPrefix(name, "X-Envoy") || strings.HasPrefix(name, "X-Modelgate"), name)
	}
}

func sameDialectUsage(t *testing.T, g *Gateway) {
	recorded := Recording(t, "openai-text.sse")
	for _, size := range []int{1, 7, 1 << 20} {
		g.A.Answers(stream(recorded, size))
		without := g.Chat(t, hello[:len(hello)-1]+`,"stream":true}`)
		require.JSONEq(t, `{"include_usage":true}`, string(mustJSON(t, g.A.Requests()[0].JSON(t)["stream_options"])))
		events := without.Events(t)
		require.Equal(t, "[DONE]", events[len(events)-1])
		require.NotContains(t, string(without.Body), `"usage"`)
		require.Contains(t, events[0], `"model":"a/gpt-4.1"`)

		with := g.Chat(t, hello[:len(hello)-1]+`,"stream":true,"stream_options":{"include_usage":true}}`).Events(t)
		require.Len(t, with, len(events)+1)
		require.Contains(t, with[0], `"usage":null`)
		require.Contains(t, with[len(with)-2], `"prompt_tokens":1144`)
		require.Contains(t, with[len(with)-2], `"choices":[]`)
	}
}

func sameDialectTools(t *testing.T, g *Gateway) {
	g.A.Answers(stream(Recording(t, "openai-parallel-tools.sse"), 100))
	calls, finish := toolCalls(t, g.Chat(t, hello[:len(hello)-1]+`,"stream":true}`).Events(t))
	require.Len(t, calls, 2)
	require.Equal(t, "tool_calls", finish)
	for _, c := range calls {
		require.True(t, json.Valid([]byte(c.arguments)), c.arguments)
	}
}

func forgedHeaders(t *testing.T, g *Gateway) {
	g.A.Answers(status(200, string(Recording(t, "openai-text.json"))))
	a := g.Do(t, "POST", "/v1/chat/completions", hello, "X-Role", "up", "X-Envoy-Max-Retries", "9",
		"X-Envoy-Upstream-Rq-Timeout-Ms", "1",
		"X-Envoy-Upstream-Rq-Per-Try-Timeout-Ms", "1", "X-Mg-Plan", "b", "X-Envoy-Original-Path", "/admin")
	require.Equal(t, 200, a.Status)
	require.Len(t, g.A.Requests(), 1)
}

// askB is the beginning of a request to the provider of another dialect.
const askB = `{"model":"b/claude-haiku-4-5","max_tokens":50,"messages":[{"role":"system","content":"Be brief"},{"role":"user","content":"hi"}]`

func otherDialect(t *testing.T, g *Gateway) {
	t.Run("a unary answer is translated", func(t *testing.T) { otherDialectUnary(t, g) })
	t.Run("a stream is translated, however it is cut", func(t *testing.T) { otherDialectStream(t, g) })
	t.Run("pitfall 1: parallel tool calls are numbered from 0", func(t *testing.T) { otherDialectTools(t, g) })
	t.Run("what was dropped is told in a header that no proxy refuses", func(t *testing.T) {
		g.B.Answers(status(200, string(Recording(t, "anthropic-text.json"))))
		tool := `{"type":"function","function":{"name":"f","strict":true,"parameters":{"type":"object","patternProperties":{"x":{}}}}}`
		a := g.Chat(t, askB+`,"seed":1,"tools":[`+strings.Repeat(tool+",", 2000)+tool+`]}`)
		require.Equal(t, 200, a.Status, "%s", a.Body)
		require.NotEmpty(t, a.Header.Get("X-Modelgate-Dropped"))
		require.LessOrEqual(t, len(a.Header.Get("X-Modelgate-Dropped")), 1024)
	})
	t.Run("report 5: what was adjusted is told", func(t *testing.T) {
		g.B.Answers(status(200, string(Recording(t, "anthropic-text.json"))))
		a := g.Chat(t, askB+`,"temperature":1.7}`)
		require.Equal(t, 200, a.Status, "%s", a.Body)
		require.Equal(t, "temperature", a.Header.Get("X-Modelgate-Adjusted"))
		require.Empty(t, a.Header.Get("X-Modelgate-Dropped"))
	})
	t.Run("what the provider cannot do is refused before it is asked",
		func(t *testing.T) { otherDialectUnsupported(t, g) })
}

func otherDialectUnary(t *testing.T, g *Gateway) {
	g.B.Answers(status(200, string(Recording(t, "anthropic-text.json"))))
	a := g.Chat(t, askB+`}`)
	require.Equal(t, 200, a.Status, "%s", a.Body)
	m := a.JSON(t)
	require.Equal(t, "chat.completion", m["object"])
	require.Equal(t, "b/claude-haiku-4-5", m["model"])
	choice := m["choices"].([]any)[0].(map[string]any)
	require.Equal(t, "stop", choice["finish_reason"])
	require.Equal(t, "\n  \"result\": 8\n}", choice["message"].(map[string]any)["content"])
	usage := m["usage"].(map[string]any)
	require.EqualValues(t, 28, usage["prompt_tokens"])
	require.EqualValues(t, 12, usage["completion_tokens"])
	require.EqualValues(t, 40, usage["total_tokens"])
	require.EqualValues(t, len(a.Body), contentLength(a))

	asked := g.B.Requests()[0]
	require.Equal(t, "/v1/messages", asked.Path)
	require.Equal(t, CredentialB, asked.Header.Get("X-Api-Key"))
	require.Empty(t, asked.Header.Get("Authorization"))
	require.Equal(t, "2023-06-01", asked.Header.Get("Anthropic-Version"))
	require.EqualValues(t, len(asked.Body), asked.Length)
	require.Equal(t, "claude-haiku-4-5", asked.JSON(t)["model"])
}

func otherDialectStream(t *testing.T, g *Gateway) {
	var first []string
	for _, size := range []int{1, 13, 1 << 20} {
		g.B.Answers(stream(Recording(t, "anthropic-text.sse"), size))
		events := g.Chat(t, askB+`,"stream":true,"stream_options":{"include_usage":true}}`).Events(t)
		require.Equal(t, "[DONE]", events[len(events)-1])
		require.Contains(t, events[0], `"role":"assistant"`)
		require.Contains(t, events[len(events)-2], `"prompt_tokens":16`)
		require.Contains(t, events[len(events)-3], `"finish_reason":"stop"`)
		if first == nil {
			first = events
		}
		require.Equal(t, withoutCreated(first), withoutCreated(events))
	}
}

func otherDialectTools(t *testing.T, g *Gateway) {
	g.B.Answers(stream(Recording(t, "anthropic-parallel-tools.sse"), 50))
	calls, finish := toolCalls(t, g.Chat(t, askB+
		`,"stream":true,"tools":[{"type":"function","function":{"name":"f"}}]}`).Events(t))
	require.Len(t, calls, 2)
	require.Equal(t, "tool_calls", finish)
}

func otherDialectUnsupported(t *testing.T, g *Gateway) {
	g.B.Answers(status(200, string(Recording(t, "anthropic-text.json"))))
	a := g.Chat(t, askB+`,"n":2}`)
	require.Equal(t, 400, a.Status)
	require.Equal(t, "n", a.Failure(t).Param)
	require.Empty(t, g.B.Requests())
}

type toolCall struct{ id, name, arguments string }

// toolCalls puts together the tool calls of a stream, as SDKs do, and returns the finish reason.
func toolCalls(t testing.TB, events []string) ([]toolCall, string) {
	var calls []toolCall
	finish := ""
	for _, e := range events[:len(events)-1] {
		var chunk struct {
			Choices []struct {
				Delta struct {
					ToolCalls []struct {
						Index    int
						ID       string
						Function struct{ Name, Arguments string }
					} `json:"tool_calls"`
				}
				FinishReason string `json:"finish_reason"`
			}
		}
		require.NoError(t, json.Unmarshal([]byte(e), &chunk), e)
		for _, c := range chunk.Choices {
			for _, d := range c.Delta.ToolCalls {
				if d.Index == len(calls) {
					calls = append(calls, toolCall{id: d.ID, name: d.Function.Name})
				}
				calls[d.Index].arguments += d.Function.Arguments
			}
			if c.FinishReason != "" {
				require.Empty(t, finish, "one finish reason")
				finish = c.FinishReason
			}
		}
	}
	for _, c := range calls {
		require.NotEmpty(t, c.id)
		require.NotEmpty(t, c.name)
	}
	return calls, finish
}

// withoutCreated takes the time out of chunks, which differs from request to request.
func withoutCreated(events []string) []string {
	out := make([]string, len(events))
	for i, e := range events {
		before, after, ok := strings.Cut(e, `"created":`)
		if ok {
			_, after, _ = strings.Cut(after, ",")
		}
		out[i] = before + after
	}
	return out
}

func mustJSON(t testing.TB, v any) []byte {
	b, err := json.Marshal(v)
	require.NoError(t, err)
	return b
}
