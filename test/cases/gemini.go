package cases

import (
	"bytes"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
)

// askGemini is a request of Google's API, with a member that only Google knows.
const askGemini = `{"contents":[{"role":"user","parts":[{"text":"hi"}]}], "safety_settings":[{"category":"X"}]}`

// gemini is what Google's clients get.
func gemini(t *testing.T, g *Gateway) {
	ask := func(t *testing.T, path, body string) Answer {
		return g.Do(t, "POST", "/v1beta/models/"+path, body, "Authorization", "", "x-goog-api-key", g.Key)
	}
	t.Run("Google's models get the request as it is", func(t *testing.T) {
		recorded := string(Recording(t, "gemini-text.json"))
		g.B.Answers(status(200, recorded))
		a := ask(t, "d/gemini-2.5-flash:generateContent", askGemini)
		require.Equal(t, 200, a.Status, "%s", a.Body)
		sent := g.B.Requests()[0]
		require.Equal(t, "/v1beta/models/gemini-2.5-flash:generateContent", sent.Path)
		require.Equal(t, CredentialB, sent.Header.Get("X-Goog-Api-Key"))
		require.Equal(t, askGemini, string(sent.Body))
		require.Equal(t, "d/gemini-2.5-flash", gjson.GetBytes(a.Body, "modelVersion").Str)
		require.Equal(t, gjson.Get(recorded, "candidates").Raw, gjson.GetBytes(a.Body, "candidates").Raw)
	})
	t.Run("streams, as events and as an array", func(t *testing.T) { geminiStreams(t, g, ask) })
	t.Run("the key is in the URL, and goes no further", func(t *testing.T) {
		g.B.Answers(status(200, string(Recording(t, "gemini-text.json"))))
		for _, path := range []string{"d/x:generateContent", "routed/x:generateContent"} {
			a := g.Do(t, "POST", "/v1beta/models/"+path+"?key="+url.QueryEscape(g.Key), askGemini, "Authorization", "",
				"X-Request-Id", "gemini-key")
			if strings.HasPrefix(path, "routed") {
				require.Equal(t, 401, a.Status, "a Route takes no key in the URL, which it would pass on")
				continue
			}
			require.Equal(t, 200, a.Status, "%s", a.Body)
			require.NotContains(t, g.B.Requests()[0].Path, "key")
			line := g.Logged(t, "gemini-key")
			require.Equal(t, "generateContent", line["operation"])
			require.Equal(t, "/v1beta/models/d/x:generateContent", line["path"])
		}
	})
	t.Run("another vendor's model", func(t *testing.T) {
		g.A.Answers(status(200, string(Recording(t, "openai-text.json"))))
		a := ask(t, "a/gpt-4.1:generateContent", askGemini)
		require.Equal(t, 200, a.Status, "%s", a.Body)
		require.Equal(t, "/v1/chat/completions", g.A.Requests()[0].Path)
		require.Equal(t, gjson.GetBytes(Recording(t, "openai-text.json"), "choices.0.message.content").Str,
			gjson.GetBytes(a.Body, "candidates.0.content.parts.0.text").Str)
		require.Equal(t, "safety_settings", a.Header.Get("X-Modelgate-Dropped"))
	})
	t.Run("tokens are counted", func(t *testing.T) {
		g.B.Answers(status(200, `{"totalTokens":14}`))
		a := ask(t, "d/x:countTokens", askGemini)
		require.JSONEq(t, `{"totalTokens":14}`, string(a.Body))
		require.Equal(t, "/v1beta/models/x:countTokens", g.B.Requests()[0].Path)
		a = ask(t, "a/gpt-4.1:countTokens", `{"generateContentRequest":`+askGemini+`}`)
		require.Equal(t, "estimate", a.Header.Get("X-Modelgate-Counted"), "%s", a.Body)
		require.Positive(t, gjson.GetBytes(a.Body, "totalTokens").Int())
	})
	t.Run("embeddings", func(t *testing.T) {
		g.A.Answers(status(200, `{"object":"list","data":[{"index":0,"object":"embedding","embedding":[0.5,1]},{"index":1,"object":"embedding","embedding":[2]}],"model":"e","usage":{"prompt_tokens":3,"total_tokens":3}}`))
		a := ask(t, "a/e:batchEmbedContents",
			`{"requests":[{"content":{"parts":[{"text":"x"}]}},{"content":{"parts":[{"text":"y"}]}}]}`)
		require.JSONEq(t, `{"embeddings":[{"values":[0.5,1]},{"values":[2]}]}`, string(a.Body))
		require.Equal(t, `["x","y"]`, gjson.GetBytes(g.A.Requests()[0].Body, "input").Raw)
	})
	t.Run("models", func(t *testing.T) {
		a := g.Do(t, "GET", "/v1beta/models?pageSize=50", "", "x-goog-api-key", g.Key, "Authorization", "")
		require.Contains(t, gjson.GetBytes(a.Body, "models.#.name").Raw, `"models/a/gpt-4.1"`)
		a = g.Do(t, "GET", "/v1/models", "", "x-goog-api-key", g.Key, "Authorization", "")
		require.Contains(t, gjson.GetBytes(a.Body, "models.#.name").Raw, `"models/a/gpt-4.1"`, "of the stable version")
		a = g.Do(t, "GET", "/v1beta/models/a/gpt-4.1", "")
		require.Equal(t, "models/a/gpt-4.1", gjson.GetBytes(a.Body, "name").Str, "%s", a.Body)
	})
	t.Run("errors are Google's", func(t *testing.T) { geminiErrors(t, g) })
	t.Run("a Route of the operator has its paths", func(t *testing.T) {
		g.B.Answers(status(200, `{"passed":true}`))
		a := g.Do(t, "POST", "/v1beta/models/routed/x:generateContent", askGemini, "X-Request-Id", "gemini-route")
		require.Equal(t, `{"passed":true}`, string(a.Body))
		require.Equal(t, "route", g.Logged(t, "gemini-route")["operation"])
	})
}

func geminiStreams(t *testing.T, g *Gateway, ask func(*testing.T, string, string) Answer) {
	recorded := Recording(t, "gemini-text.sse")
	texts := func(chunks []gjson.Result) (all string) {
		for _, c := range chunks {
			all += c.Get("candidates.0.content.parts.0.text").Str
		}
		return all
	}
	events := func(body []byte) (chunks []gjson.Result) {
		for line := range bytes.Lines(body) {
			if data, ok := bytes.CutPrefix(line, []byte("data: ")); ok {
				chunks = append(chunks, gjson.ParseBytes(data))
			}
		}
		return chunks
	}
	want := texts(events(recorded))
	require.NotEmpty(t, want)
	for _, size := range []int{1, 100, 1 << 20} {
		g.B.Answers(stream(recorded, size))
		a := ask(t, "d/x:streamGenerateContent?alt=sse", askGemini)
		require.Equal(t, "text/event-stream; charset=utf-8", a.Header.Get("Content-Type"))
		require.Equal(t, want, texts(events(a.Body)))
		require.Equal(t, "/v1beta/models/x:streamGenerateContent?alt=sse", g.B.Requests()[0].Path)
		a = ask(t, "d/x:streamGenerateContent", askGemini)
		require.Equal(t, "application/json", a.Header.Get("Content-Type"))
		require.Equal(t, want, texts(gjson.ParseBytes(a.Body).Array()))
	}
	defer rested(t, g)
	last := bytes.LastIndex(recorded, []byte("data: "))
	g.B.Answers(stream(recorded[:last], 1<<20))
	a := ask(t, "d/x:streamGenerateContent?alt=sse", askGemini)
	cut := events(a.Body)
	require.NotContains(t, string(a.Body), "finishReason")
	require.Equal(t, "UPSTREAM_TRUNCATED", cut[len(cut)-1].Get("error.details.0.reason").Str, "%s", a.Body)
	g.A.Answers(stream(Recording(t, "openai-text.sse"), 50))
	a = ask(t, "a/gpt-4.1:streamGenerateContent", askGemini)
	chunks := gjson.ParseBytes(a.Body).Array()
	require.Equal(t, "STOP", chunks[len(chunks)-1].Get("candidates.0.finishReason").Str)
}

func geminiErrors(t *testing.T, g *Gateway) {
	defer rested(t, g)
	g.B.Answers(status(429, `{"error":{"code":429,"message":"slow down","status":"RESOURCE_EXHAUSTED"}}`, "Retry-After", "7"))
	for _, c := range []struct {
		method, path, body string
		headers            []string
		code               int
		status             string
	}{
		{"POST", "d/x:generateContent", askGemini, nil, 429, "RESOURCE_EXHAUSTED"},
		{"POST", "d/x:generateContent", askGemini, []string{"Authorization", "Bearer sk-mg-wrong"}, 401, "UNAUTHENTICATED"},
		{"POST", "nobody/x:generateContent", askGemini, nil, 404, "NOT_FOUND"},
		{"POST", "d/x:generateContent", `{"messages":[]}`, nil, 400, "INVALID_ARGUMENT"},
		{"POST", "d/x:predict", askGemini, nil, 404, "NOT_FOUND"},
		{"GET", "d/x:generateContent", "", nil, 405, "INVALID_ARGUMENT"},
	} {
		a := g.Do(t, c.method, "/v1beta/models/"+c.path, c.body, c.headers...)
		e := gjson.GetBytes(a.Body, "error")
		require.Equal(t, c.code, a.Status, "%s: %.300s", c.path, a.Body)
		require.EqualValues(t, c.code, e.Get("code").Int(), "%.300s", a.Body)
		require.Equal(t, c.status, e.Get("status").Str)
		require.NotEmpty(t, e.Get("message").Str)
	}
}
