package cases

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
)

// askMessages is a request of Anthropic's Messages API. The version is one that no provider knows by itself.
const askMessages = `{"model":"b/claude-haiku-4-5", "max_tokens":40,"system":[{"type":"text","text":"s","cache_control":{"type":"ephemeral"}}],"messages":[{"role":"user","content":"hi"}],"context_management":{"edits":[]}}`

// messages is what Anthropic's clients get.
func messages(t *testing.T, g *Gateway) {
	ask := func(t *testing.T, body string) Answer {
		return g.Do(t, "POST", "/v1/messages", body, "anthropic-beta", "context-management-2025-06-27")
	}
	t.Run("Claude's vendor gets the request as it is", func(t *testing.T) {
		g.B.Answers(status(200, string(Recording(t, "anthropic-text.json"))))
		a := ask(t, askMessages)
		require.Equal(t, 200, a.Status, "%s", a.Body)
		sent := g.B.Requests()[0]
		require.Equal(t, "/v1/messages", sent.Path)
		require.Equal(t, CredentialB, sent.Header.Get("X-Api-Key"))
		require.Equal(t, "context-management-2025-06-27", sent.Header.Get("Anthropic-Beta"))
		require.JSONEq(t, strings.Replace(askMessages, "b/claude", "claude", 1), string(sent.Body))
		require.Equal(t, "b/claude-haiku-4-5", gjson.GetBytes(a.Body, "model").Str)
		recorded := gjson.GetBytes(Recording(t, "anthropic-text.json"), "content").Raw
		require.Equal(t, recorded, gjson.GetBytes(a.Body, "content").Raw)
		require.Equal(t, a.Header.Get("X-Request-Id"), a.Header.Get("Request-Id"))
	})
	t.Run("a fallback to another dialect", func(t *testing.T) {
		defer rested(t, g)
		g.B.Answers(status(529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`))
		g.A.Answers(stream(Recording(t, "openai-text.sse"), 1<<20))
		a := ask(t, `{"model":"reversed","max_tokens":40,"stream":true,"messages":[{"role":"user","content":"hi"}]}`)
		require.Equal(t, 200, a.Status, "%s", a.Body)
		require.Equal(t, "a", a.Header.Get("X-Modelgate-Provider"))
		require.True(t, strings.HasPrefix(string(a.Body), "event: message_start\n"), a.Body)
		require.True(t, strings.HasSuffix(string(a.Body), "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"), a.Body)
		require.Equal(t, "/v1/chat/completions", g.A.Requests()[0].Path)
	})
	t.Run("a stream of Claude's that is cut", func(t *testing.T) {
		defer rested(t, g)
		whole := string(Recording(t, "anthropic-text.sse"))
		g.B.Answers(stream([]byte(whole[:strings.Index(whole, "event: message_delta")]), 1<<20))
		a := ask(t, strings.Replace(askMessages, "{", `{"stream":true,`, 1))
		require.Equal(t, 200, a.Status)
		require.Contains(t, string(a.Body), "event: content_block_delta")
		require.NotContains(t, string(a.Body), "message_stop")
		require.Contains(t, string(a.Body), "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\"")
	})
	t.Run("an error of the provider", func(t *testing.T) {
		defer rested(t, g)
		g.B.Answers(status(429, `{"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}`, "Retry-After", "7"))
		a := ask(t, askMessages)
		require.Equal(t, 429, a.Status)
		require.Equal(t, `{"type":"error","error":{"type":"rate_limit_error","message":"slow down"},"request_id":"`+
			a.Header.Get("Request-Id")+`"}`, string(a.Body))
		require.Equal(t, "7", a.Header.Get("Retry-After"))
	})
	t.Run("a vendor that counts is asked, and nothing is charged", func(t *testing.T) {
		g.B.Answers(status(200, `{"input_tokens":14}`))
		a := g.Do(t, "POST", "/v1/messages/count_tokens",
			`{"model":"b/claude-haiku-4-5","messages":[{"role":"user","content":"hi"}]}`, "X-Modelgate-Include-Cost", "true")
		require.Equal(t, 200, a.Status, "%s", a.Body)
		require.JSONEq(t, `{"input_tokens":14}`, string(a.Body))
		require.Equal(t, "/v1/messages/count_tokens", g.B.Requests()[0].Path)
		require.Empty(t, a.Header.Get("X-Modelgate-Counted"))
	})
}
