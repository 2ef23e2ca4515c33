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

// streamBegins is about streams that end before they say anything: until then the client can still get a status.
func streamBegins(t *testing.T, g *Gateway) {
	defer rested(t, g)
	t.Run("a stream that fails before it says anything is an error with a status",
		func(t *testing.T) { failsFirst(t, g) })
	t.Run("the first token goes out at once", func(t *testing.T) { firstToken(t, g) })
	t.Run("a first token that takes its time", func(t *testing.T) { slowFirstToken(t, g) })
	t.Run("the provider's connection breaks before the first token", func(t *testing.T) { breaksFirst(t, g) })
	t.Run("a client that leaves before the first token cancels the provider's request",
		func(t *testing.T) { leavesFirst(t, g) })
	t.Run("a unary answer in many pieces has its length", func(t *testing.T) { longUnary(t, g) })
}

func askStream(model string) string {
	return `{"model":"` + model + `","messages":[{"role":"user","content":"hi"}],"stream":true}`
}

const (
	askOpenAI    = "a/m"
	askAnthropic = "b/claude-haiku-4-5"
	askBedrock   = "c/us.amazon.nova-micro-v1:0"

	role     = `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}` + "\n\n"
	text     = `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"x"},"finish_reason":null}]}` + "\n\n"
	finish   = `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n" + "data: [DONE]\n\n"
	slowDown = `data: {"error":{"message":"Slow down.","type":"requests","param":null,"code":"rate_limit_exceeded"}}` +
		"\n\n"
	overload = "event: error\n" + `data: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}` +
		"\n\n"
	begin = "event: message_start\n" +
		`data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","content":[],"usage":{"input_tokens":3,"output_tokens":1}}}` + "\n\n"
	ping      = "event: ping\n" + `data: {"type": "ping"}` + "\n\n"
	truncated = "upstream_truncated"
)

func failsFirst(t *testing.T, g *Gateway) {
	for i, c := range []struct {
		name, model, body string
		status            int
		typ, code         any
		outcome           string
	}{
		{"pitfall 24: vLLM's and SGLang's", askOpenAI,
			`data: {"error":{"message":"out of memory","type":"InternalServerError","param":null,"code":500}}` +
				"\n\ndata: [DONE]\n\n", 500, "InternalServerError", nil, "failed"},
		{"pitfall 24: the client's mistake", askOpenAI,
			`data: {"object":"error","message":"too long","type":"BadRequestError","param":null,"code":400}` + "\n\n", 400,
			"BadRequestError", nil, "rejected"},
		{"pitfall 27: a rate limit", askOpenAI, slowDown, 429, "requests", "rate_limit_exceeded", "failed"},
		{"OpenRouter's, after comments", askOpenAI, ": OPENROUTER PROCESSING\n\n: OPENROUTER PROCESSING\n\n" + slowDown, 429,
			"requests", "rate_limit_exceeded", "failed"},
		{"pitfall 26: after the role", askOpenAI, role + slowDown, 429, "requests", "rate_limit_exceeded", "failed"},
		{"Groq's, of a call that it could not parse", askOpenAI, "event: error\n" +
			`data: {"error":{"message":"Failed to call a function.","type":"invalid_request_error","code":"tool_use_failed","failed_generation":"<","status_code":400}}` + "\n\n", 400, "invalid_request_error", "tool_use_failed", "rejected"},
		{"Anthropic's overload at once", askAnthropic, overload, 503, "server_error", "overloaded", "failed"},
		{"Anthropic's overload, after its beginning", askAnthropic, begin + ping + overload, 503, "server_error",
			"overloaded", "failed"},
		{"Bedrock's exception", askBedrock, exception("throttlingException", `{"message":"Too many requests"}`), 429,
			"requests", "rate_limit_exceeded", "failed"},
		{"Bedrock's exception, after its beginning", askBedrock, frame("messageStart", `{"role":"assistant"}`) +
			exception("validationException", `{"message":"Malformed input."}`), 400, "invalid_request_error", nil, "rejected"},
		{"pitfall 23: comments and no more", askOpenAI, ": hello\n\n", 502, "server_error", truncated, "truncated"},
		{"only the role", askOpenAI, role, 502, "server_error", truncated, "truncated"},
		{"only a part of the first event", askOpenAI, role[:20], 502, "server_error", truncated, "truncated"},
		{"only the beginning of Anthropic's", askAnthropic, begin + ping, 502, "server_error", truncated, "truncated"},
		{"only a part of Bedrock's first frame", askBedrock, frame("messageStart", `{"role":"assistant"}`)[:30], 502,
			"server_error", truncated, "truncated"},
		{"an end without a beginning", askOpenAI, "data: [DONE]\n\n", 502, "server_error", truncated, "truncated"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, size := range []int{1, 50, 1 << 20} {
				g.vendorOf(c.model).Answers(streamAs(g.mediaOf(c.model), []byte(c.body), size))
				id := "fails-first-" + strconv.Itoa(i) + "-" + strconv.Itoa(size)
				a := g.Do(t, http.MethodPost, "/v1/chat/completions", askStream(c.model), "X-Request-Id", id)
				require.Equal(t, c.status, a.Status, "%s", a.Body)
				require.NoError(t, a.Err)
				f := a.Failure(t)
				require.Equal(t, c.typ, f.Type)
				if c.code != nil {
					require.Equal(t, c.code, f.Code)
				}
				require.EqualValues(t, len(a.Body), contentLength(a))
				require.Equal(t, c.model[:1], a.Header.Get("X-Modelgate-Provider"))
				require.Equal(t, id, a.Header.Get("X-Request-Id"))
				require.Equal(t, "vendor-request", a.Header.Get("X-Upstream-Request-Id"))
				require.Empty(t, a.Header.Get("Set-Cookie"))
				line := g.Logged(t, id)
				require.Equal(t, c.outcome, line["outcome"])
				require.EqualValues(t, c.status, line["status"])
			}
		})
	}
}

// vendorOf returns the server behind an unlisted model.
func (g *Gateway) vendorOf(model string) *Vendor {
	if model == askOpenAI {
		return g.A
	}
	return g.B
}

func (g *Gateway) mediaOf(model string) string {
	if model == askBedrock {
		return "application/vnd.amazon.eventstream"
	}
	return "text/event-stream; charset=utf-8"
}

func firstToken(t *testing.T, g *Gateway) {
	for _, first := range []string{role + text, text} {
		gone := make(chan struct{})
		g.A.Answers(func(w http.ResponseWriter, r *http.Request) {
			stream([]byte(first), 60)(w, r)
			<-r.Context().Done()
			close(gone)
		})
		body := open(t, g, askStream(askOpenAI))
		lines := bufio.NewReader(body)
		for {
			line, err := lines.ReadString('\n')
			require.NoError(t, err)
			if strings.Contains(line, `"content":"x"`) {
				break
			}
		}
		require.NoError(t, body.Close())
		requireSoon(t, gone, "the provider still answers")
	}
}

func requireSoon(t *testing.T, done <-chan struct{}, otherwise string) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(soon):
		t.Fatal(otherwise)
	}
}

func slowFirstToken(t *testing.T, g *Gateway) {
	g.A.Answers(func(w http.ResponseWriter, r *http.Request) {
		stream([]byte(role+": wait\n\n"), 1<<20)(w, r)
		select {
		case <-time.After(200 * time.Millisecond): // it thinks
		case <-r.Context().Done():
		}
		stream([]byte(text+finish), 1<<20)(w, r)
	})
	a := g.Chat(t, askStream(askOpenAI))
	require.Equal(t, 200, a.Status)
	require.Equal(t, 1, strings.Count(string(a.Body), `"role":"assistant"`), "what was kept back is not lost")
	events := strings.Split(strings.TrimSpace(string(a.Body)), "\n\n")
	require.Equal(t, "data: [DONE]", events[len(events)-1])
	require.Empty(t, a.Header.Get("Content-Length"))
}

func breaksFirst(t *testing.T, g *Gateway) {
	for name, first := range map[string]string{"silent": "", "announced": role} {
		t.Run(name, func(t *testing.T) {
			g.A.Answers(func(w http.ResponseWriter, r *http.Request) {
				stream([]byte(first), 1<<20)(w, r)
				w.(http.Flusher).Flush()
				panic(http.ErrAbortHandler)
			})
			a := g.Do(t, http.MethodPost, "/v1/chat/completions", askStream("once"), "X-Request-Id", "breaks-first-"+name)
			require.NoError(t, a.Err)
			require.Equal(t, 503, a.Status, "%s", a.Body)
			require.Equal(t, "server_error", a.Failure(t).Type)
			line := g.Logged(t, "breaks-first-"+name)
			require.Equal(t, "truncated", line["outcome"])
			require.EqualValues(t, 503, line["status"])
		})
	}
}

func leavesFirst(t *testing.T, g *Gateway) {
	asked, gone := make(chan struct{}), make(chan struct{})
	g.A.Answers(func(w http.ResponseWriter, r *http.Request) {
		stream([]byte(role), 1<<20)(w, r)
		close(asked)
		<-r.Context().Done()
		close(gone)
	})
	ctx, leave := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, g.URL+"/v1/chat/completions",
		strings.NewReader(askStream(askOpenAI)))
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+g.Key)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Request-Id", "leaves-first")
	go func() {
		<-asked
		leave()
	}()
	response, err := g.Client.Do(r)
	if err == nil {
		_ = response.Body.Close()
	}
	require.ErrorIs(t, err, context.Canceled)
	requireSoon(t, gone, "the provider still works on it")
	require.Equal(t, "cancelled", g.Logged(t, "leaves-first")["outcome"])
}

func longUnary(t *testing.T, g *Gateway) {
	const size = 700 << 10
	recorded := string(Recording(t, "openai-text.json"))
	long := strings.Replace(recorded, `"content": "`, `"content": "`+strings.Repeat("long ", size/5), 1)
	require.Greater(t, len(long), size)
	for name, pieces := range map[string]int{"with its length": 1, "in chunks": 9} {
		t.Run(name, func(t *testing.T) {
			g.A.Answers(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				if pieces == 1 {
					w.Header().Set("Content-Length", strconv.Itoa(len(long)))
				}
				for rest := long; rest != ""; {
					n := min(len(rest), len(long)/pieces+1)
					_, _ = io.WriteString(w, rest[:n])
					w.(http.Flusher).Flush()
					rest = rest[n:]
				}
			})
			a := g.Chat(t, hello)
			require.Equal(t, 200, a.Status)
			require.Equal(t, strings.Replace(long, "gpt-4.5-preview-2025-02-27", "a/gpt-4.1", 1), string(a.Body))
			require.EqualValues(t, len(a.Body), contentLength(a))
		})
	}
}
