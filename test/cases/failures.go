package cases

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func contentLength(a Answer) int {
	n, _ := strconv.Atoi(a.Header.Get("Content-Length"))
	return n
}

// askSmart asks a model that falls back from one dialect to the other.
const askSmart = `{"model":"smart","messages":[{"role":"user","content":"hi"}],"stream":true}`

func fallback(t *testing.T, g *Gateway) {
	for name, first := range map[string]http.HandlerFunc{
		"500": status(500, `{"error":{"message":"boom"}}`),
		"429": status(429, `{"error":{"message":"slow down"}}`, "Retry-After", "30"),
		"529": status(529, `{}`),
		"connection reset": func(http.ResponseWriter, *http.Request) {
			panic(http.ErrAbortHandler)
		},
	} {
		t.Run("to another dialect after "+name, func(t *testing.T) {
			defer rested(t, g)
			g.A.Answers(first)
			g.B.Answers(stream(Recording(t, "anthropic-text.sse"), 1<<20))
			a := g.Chat(t, askSmart)
			require.Equal(t, 200, a.Status, "%s", a.Body)
			events := a.Events(t)
			require.Equal(t, "[DONE]", events[len(events)-1])
			require.Contains(t, events[0], `"model":"smart"`)
			require.Equal(t, "b", a.Header.Get("X-Modelgate-Provider"))
			require.Equal(t, "2", a.Header.Get("X-Modelgate-Attempts"))

			require.Len(t, g.A.Requests(), 1)
			require.Len(t, g.B.Requests(), 1)
			second := g.B.Requests()[0]
			require.Equal(t, "/v1/messages", second.Path)
			require.Equal(t, CredentialB, second.Header.Get("X-Api-Key"))
			require.Empty(t, second.Header.Get("Authorization"), "pitfall 81: nothing of the first provider")
			require.Equal(t, "claude-haiku-4-5", second.JSON(t)["model"])
			require.EqualValues(t, len(second.Body), second.Length, "pitfall 72: not chunked")
		})
	}
	t.Run("and back to OpenAI's", func(t *testing.T) { fallbackToOpenAI(t, g) })
	t.Run("pitfall 103: a client's own mistake does not fall back", func(t *testing.T) { clientMistake(t, g) })
	t.Run("what only one of them can do goes to that one", func(t *testing.T) { onlyOneCan(t, g) })
	t.Run("all fail: the last one's error, in OpenAI's shape", func(t *testing.T) { allFail(t, g) })
	t.Run("no more attempts than configured", func(t *testing.T) { attemptsBounded(t, g) })
}

// rested waits until no provider is left alone for what it said in a case: Envoy tells of that a moment later. Each
// has to be asked first again, for a while.
func rested(t *testing.T, g *Gateway) {
	t.Helper()
	g.A.Answers(status(200, string(Recording(t, "openai-text.json"))))
	g.B.Answers(status(200, string(Recording(t, "anthropic-text.json"))))
	first := 0
	require.Eventually(t, func() bool {
		first++
		for model, provider := range map[string]string{"smart": "a", "reversed": "b"} {
			if g.Chat(t, strings.Replace(hello, "a/gpt-4.1", model, 1)).Header.Get("X-Modelgate-Provider") != provider {
				first = 0
			}
		}
		for _, direct := range []string{"a/gpt-4.1", "b/claude-haiku-4-5"} { // whose answer ends it
			require.Equal(t, 200, g.Chat(t, strings.Replace(hello, "a/gpt-4.1", direct, 1)).Status)
		}
		return first == 8
	}, soon, 30*time.Millisecond)
}

func fallbackToOpenAI(t *testing.T, g *Gateway) {
	defer rested(t, g)
	g.A.Answers(status(200, string(Recording(t, "openai-text.json"))))
	g.B.Answers(status(529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`))
	a := g.Chat(t, `{"model":"reversed","messages":[{"role":"user","content":"hi"}]}`)
	require.Equal(t, 200, a.Status, "%s", a.Body)
	second := g.A.Requests()[0]
	require.Equal(t, "Bearer "+CredentialA, second.Header.Get("Authorization"))
	require.Empty(t, second.Header.Get("X-Api-Key"))
	require.Empty(t, second.Header.Get("Anthropic-Version"))
	require.JSONEq(t, `{"model":"gpt-4.1","messages":[{"role":"user","content":"hi"}]}`, string(second.Body))
}

func clientMistake(t *testing.T, g *Gateway) {
	g.A.Answers(status(400,
		`{"error":{"message":"bad schema","type":"invalid_request_error","param":"tools","code":"invalid_schema"}}`))
	g.B.Answers(status(500, `{}`))
	a := g.Chat(t, askSmart)
	require.Equal(t, 400, a.Status)
	require.Equal(t, Failure{"bad schema", "invalid_request_error", "tools", "invalid_schema"}, a.Failure(t))
	require.Empty(t, g.B.Requests())
}

func onlyOneCan(t *testing.T, g *Gateway) {
	g.A.Answers(status(200, string(Recording(t, "openai-text.json"))))
	g.B.Answers(status(500, `{}`))
	a := g.Chat(t, `{"model":"reversed","n":2,"messages":[{"role":"user","content":"hi"}]}`)
	require.Equal(t, 200, a.Status, "%s", a.Body)
	require.Empty(t, g.B.Requests())
}

func allFail(t *testing.T, g *Gateway) {
	defer rested(t, g)
	g.A.Answers(status(500, `{"error":{"message":"boom"}}`))
	g.B.Answers(status(529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`))
	a := g.Chat(t, askSmart)
	require.Equal(t, 503, a.Status)
	f := a.Failure(t)
	require.Equal(t, "server_error", f.Type)
	require.Contains(t, f.Message, "Overloaded")
}

func attemptsBounded(t *testing.T, g *Gateway) {
	g.A.Answers(status(503, `{"error":{"message":"down"}}`))
	require.Equal(t, 503, g.Chat(t, `{"model":"once","messages":[{"role":"user","content":"hi"}]}`).Status)
	require.Len(t, g.A.Requests(), 1)
}

func providerErrors(t *testing.T, g *Gateway) {
	defer rested(t, g)
	for _, c := range []struct {
		name     string
		answer   http.HandlerFunc
		status   int
		typ      string
		code     any
		contains string
	}{
		{"its refusal of our credential is not the client's",
			status(401, `{"error":{"message":"Incorrect API key provided: `+CredentialA+
				`","type":"invalid_request_error","code":"invalid_api_key"}}`), 502, "server_error", "upstream_auth_failed",
			"credential"},
		{"pitfall 79: our credential, repeated", status(400, `{"error":{"message":"No account for token=`+CredentialA+
			`.","type":"invalid_request_error","param":null,"code":null}}`), 400, "invalid_request_error", nil,
			"No account for token=[redacted]."},
		{"a rate limit",
			status(429, `{"error":{"message":"Rate limit reached","type":"tokens","param":null,"code":"rate_limit_exceeded"}}`,
				"Retry-After", "7"), 429, "tokens", "rate_limit_exceeded", "Rate limit reached"},
		{"HTML", status(503, `<html>oops</html>`), 503, "server_error", "overloaded", ""},
		{"nothing", status(500, ``), 500, "server_error", nil, ""},
		{"an answer that is none", status(200, `<html>oops</html>`), 502, "server_error", "upstream_invalid_response", ""},
		{"an empty answer", status(200, ``), 502, "server_error", "upstream_invalid_response", ""},
		{"pitfall 75: an encoding that nobody asked for", status(200, "\x1f\x8b\x08", "Content-Encoding", "gzip"), 502,
			"server_error", "upstream_invalid_response", ""},
		{"pitfall 75: the same, on an error", status(500, "\x1f\x8b\x08", "Content-Encoding", "gzip"), 500, "server_error",
			nil, ""},
		{"a redirect", status(302, `{"choices":[]}`, "Location", "http://elsewhere.test/"), 502, "server_error", nil, ""},
		{"431 without a body, which Envoy would say of the client's headers", status(431, ``), 431, "invalid_request_error",
			nil, "provider"},
		{"JSON that is nested without end", status(200, `{"x":`+strings.Repeat("[", 4<<20)), 502, "server_error",
			"upstream_invalid_response", ""},
		{"counts that are none", status(500, `{"usage":{"prompt_tokens":-1}}`), 500, "server_error", nil, ""},
		{"an error with status 200", status(200, `{"error":{"message":"no capacity","type":"server_error"}}`), 500,
			"server_error", nil, "no capacity"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g.A.Answers(c.answer)
			a := g.Chat(t, `{"model":"once","messages":[{"role":"user","content":"hi"}]}`)
			f := a.Failure(t)
			require.Equal(t, c.status, a.Status, "%s", a.Body)
			require.Equal(t, c.typ, f.Type)
			if c.code != nil {
				require.Equal(t, c.code, f.Code)
			}
			require.Contains(t, f.Message, c.contains)
			require.NotEmpty(t, a.Header.Get("X-Request-Id"))
			require.Empty(t, a.Header.Get("Content-Encoding"))
			if c.status == 429 {
				require.Equal(t, "7", a.Header.Get("Retry-After"), "pitfall 27: the class and the wait are kept")
				require.Equal(t, "7000", a.Header.Get("Retry-After-Ms"))
			}
		})
	}
	t.Run("pitfall 28: JSON in answer to a request for a stream", func(t *testing.T) {
		g.A.Answers(status(200, string(Recording(t, "openai-text.json"))))
		a := g.Chat(t, hello[:len(hello)-1]+`,"stream":true}`)
		require.Equal(t, 502, a.Status)
		require.Equal(t, "upstream_not_a_stream", a.Failure(t).Code)
	})
}

func streamEnds(t *testing.T, g *Gateway) {
	openAI, anthropic := string(Recording(t, "openai-text.sse")), string(Recording(t, "anthropic-text.sse"))
	for _, c := range []struct {
		name, model string
		vendor      *Vendor
		body        string
		code        any
	}{
		{"pitfall 22: OpenAI's without its end mark", "a/m", g.A, strings.Replace(openAI, "data: [DONE]\n\n", "", 1),
			"upstream_truncated"},
		{"cut within an event", "a/m", g.A, openAI[:len(openAI)/2], "upstream_truncated"},
		{"pitfall 25: an error after text", "a/m", g.A, role + text +
			`data: {"error":{"message":"out of memory","type":"server_error","code":null}}` + "\n\ndata: [DONE]\n\n", nil},
		{"Anthropic's without its end mark", "b/claude-haiku-4-5", g.B,
			anthropic[:strings.Index(anthropic, "event: message_stop")], "upstream_truncated"},
		{"Anthropic's with an error", "b/claude-haiku-4-5", g.B,
			anthropic[:strings.Index(anthropic, "event: content_block_stop")] +
				"event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n", "overloaded"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.vendor.Answers(stream([]byte(c.body), 50))
			a := g.Chat(t, askStream(c.model))
			require.Equal(t, 200, a.Status)
			require.NoError(t, a.Err, "the body itself ends well")
			events := a.Events(t)
			require.NotContains(t, string(a.Body), "[DONE]")
			f := failure(t, []byte(events[len(events)-1]))
			require.Equal(t, "server_error", f.Type)
			if c.code != nil {
				require.Equal(t, c.code, f.Code)
			}
			for _, e := range events[:len(events)-1] {
				require.NotContains(t, e, `"error"`)
			}
		})
	}
	t.Run("the end mark does not wait for the provider's connection", func(t *testing.T) {
		g.A.Answers(func(w http.ResponseWriter, r *http.Request) {
			stream([]byte(openAI), 50)(w, r)
			<-r.Context().Done()
		})
		body := open(t, g, askStream(askOpenAI))
		for lines := bufio.NewScanner(body); lines.Scan(); {
			if lines.Text() == "data: [DONE]" {
				require.NoError(t, body.Close())
				return
			}
		}
		t.Fatal("no end mark")
	})
	t.Run("the provider's connection breaks: so does the client's", func(t *testing.T) {
		begun := make(chan struct{})
		g.A.Answers(func(w http.ResponseWriter, r *http.Request) {
			stream([]byte(openAI[:len(openAI)/2]), 50)(w, r)
			select {
			case <-begun: // before that, Envoy could still answer with an error
			case <-r.Context().Done():
			}
			panic(http.ErrAbortHandler)
		})
		body := bufio.NewReader(open(t, g, askStream(askOpenAI)))
		_, err := body.ReadString('\n')
		require.NoError(t, err)
		close(begun)
		rest, err := io.ReadAll(body)
		require.Error(t, err)
		require.NotContains(t, string(rest), "[DONE]")
	})
}

// open asks for a stream and returns its body once its headers are there.
func open(t *testing.T, g *Gateway, body string) io.ReadCloser {
	return openPath(t, g, "/v1/chat/completions", body)
}

func cancel(t *testing.T, g *Gateway) {
	t.Run("pitfall 29: a client that leaves cancels the provider's request", func(t *testing.T) {
		gone := make(chan struct{})
		g.A.Answers(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"}}]}\n\n")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			close(gone)
		})
		body := open(t, g, hello[:len(hello)-1]+`,"stream":true}`)
		line, err := bufio.NewReader(body).ReadString('\n')
		require.NoError(t, err, "the first event comes before the stream ends")
		require.Contains(t, line, `"content":"x"`)
		require.NoError(t, body.Close())
		select {
		case <-gone:
		case <-time.After(soon):
			t.Fatal("the provider still answers")
		}
	})
	t.Run("pitfall 30: also one that waits for a unary answer", func(t *testing.T) {
		asked, gone := make(chan struct{}), make(chan struct{})
		g.A.Answers(func(_ http.ResponseWriter, r *http.Request) {
			close(asked)
			<-r.Context().Done()
			close(gone)
		})
		ctx, leave := context.WithCancel(t.Context())
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, g.URL+"/v1/chat/completions", strings.NewReader(hello))
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer "+g.Key)
		r.Header.Set("Content-Type", "application/json")
		go func() {
			<-asked
			leave()
		}()
		response, err := g.Client.Do(r)
		if err == nil {
			_ = response.Body.Close()
		}
		require.ErrorIs(t, err, context.Canceled)
		select {
		case <-gone:
		case <-time.After(soon):
			t.Fatal("the provider still works on it")
		}
	})
}
