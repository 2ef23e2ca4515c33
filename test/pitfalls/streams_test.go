package pitfalls

import (
	"bufio"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/internal/translate"
)

// streamRows are those of the life of a stream, from its first byte to its end.
func streamRows() []row {
	return []row{
		{17, "where a stream is cut into pieces never matters, also within a rune", cutAnywhere},
		{18, "a frame of AWS's may be cut within its lengths, and a wrong one ends the stream", cutFrames},
		{19, "a stream may be written with any line ends, and without the space after the colon", otherWriting},
		{20, "comments and pings are not events", commentsAndPings},
		{21, "an event is with the client before the next one comes", flushed},
		{22, "a stream that breaks off is not completed", brokenOff},
		{23, "a stream without events is an error", noEvents},
		{24, "an error with status 200 is not content, and has its own status", errorFirst},
		{25, "an error after text is told in OpenAI's words, and nothing is said twice", errorAfterText},
		{26, "as long as nothing was said, a failure has a status, also of the fallback", fallbackFails},
		{27, "an error keeps its class and its wait", classOfErrors},
		{28, "JSON in answer to a request for a stream is a 502", jsonForStream},
		{29, "a client that leaves a stream cancels the provider's, also before the first token", clientCancelsStream},
		{30, "a client that leaves while it waits for a whole answer cancels the provider's", clientCancelsUnary},
		{31, "of a stream that its client has left, the tokens so far are recorded", cancelledStreamIsCounted},
		{32, "a client that does not read holds the provider back, and nobody else", slowClient},
	}
}

// everything has all that a stream may hold, and runes of several bytes.
var everything = completion{
	thinking: "Überlegen 🤔", signature: "c2lnbmF0dXJl", text: "Grüße, 世界 🌍!", calls: twoCalls.calls, stop: "tool_calls",
	usage: counts{prompt: 20, cached: 5, output: 9, reasoning: 4},
}

// rich is everything, but for who calls no tools, and the request for it.
func (s upstream) rich() (completion, string) {
	what := everything
	if s.vendor == "perplexity" {
		what.calls, what.stop = nil, "stop"
		return what, chat(streams)
	}
	return what, chat(tools + "," + streams)
}

func cutAnywhere(t *testing.T) {
	each(t, allUpstreams(), func(t *testing.T, s upstream) {
		what, request := s.rich()
		x, _, err := s.exchange(translate.Chat, request)
		require.NoError(t, err)
		from := translate.Response{Status: 200, Header: http.Header{},
			Body: []byte(strings.Join(s.dialect.stream(what), ""))}
		want := x.Respond(from, from.Body)
		require.Contains(t, string(want.Body), "[DONE]")
		require.NoError(t, x.Cuts(from, want))
		a := s.respond(t, what, request, true)
		require.Equal(t, what.text, a.text)
		require.Equal(t, what.thinking, a.reasoning)
		require.Len(t, a.calls, len(what.calls))
	})
}

func cutFrames(t *testing.T) {
	each(t, bedrocks, func(t *testing.T, s upstream) {
		what, request := s.rich()
		frames := s.dialect.stream(what)
		want := s.send(t, request, true, frames...)
		for cut := 1; cut <= 12; cut++ { // the lengths and their checksum are 12 bytes
			var pieces []string
			rest := ""
			for _, f := range frames {
				pieces, rest = append(pieces, rest+f[:cut]), f[cut:]
			}
			a := s.send(t, request, true, append(pieces, rest)...)
			require.Equal(t, want.text+want.reasoning, a.text+a.reasoning, "cut after %d bytes of each frame", cut)
			require.Equal(t, bare(want.calls), bare(a.calls))
			require.True(t, a.done)
		}
		for name, bad := range map[string]string{"a length that cannot be": "\xff\xff" + frames[2][2:],
			"another payload": strings.Replace(frames[2], "delta", "Delta", 1)} {
			a := s.send(t, request, true, slices.Replace(slices.Clone(frames), 2, 3, bad)...)
			require.True(t, a.failure.Exists(), name)
			require.False(t, a.done, name)
		}
	})
}

// overSSE are those whose streams are server-sent events.
func overSSE() []upstream {
	return slices.DeleteFunc(allUpstreams(), func(s upstream) bool { return s.vendor == "bedrock" })
}

func otherWriting(t *testing.T) {
	each(t, overSSE(), func(t *testing.T, s upstream) {
		what, request := s.rich()
		usual := strings.Join(s.dialect.stream(what), "")
		want := s.send(t, request, true, usual)
		for name, stream := range map[string]string{
			"no space":      strings.ReplaceAll(strings.ReplaceAll(usual, "data: ", "data:"), "event: ", "event:"),
			"CRLF":          strings.ReplaceAll(usual, "\n", "\r\n"),
			"CR":            strings.ReplaceAll(usual, "\n", "\r"),
			"no last line":  strings.TrimSuffix(usual, "\n"),
			"other fields":  strings.ReplaceAll(usual, "data: ", "id: 7\nretry: 1000\nunknown\ndata: "),
			"spaces in it":  strings.ReplaceAll(usual, "}\n\n", "}       \n\n"),
			"a mark before": "\ufeff" + usual,
		} {
			a := s.send(t, request, true, stream)
			require.Equal(t, want.text, a.text, name)
			require.Equal(t, bare(want.calls), bare(a.calls), name)
			require.True(t, a.done, name)
		}
	})
}

func commentsAndPings(t *testing.T) {
	each(t, overSSE(), func(t *testing.T, s upstream) {
		what, request := s.rich()
		events := s.dialect.stream(what)
		want := s.send(t, request, true, events...)
		between := []string{": OPENROUTER PROCESSING\n\n", ":\n\n", ": keep-alive\n", "\n\n\n", "retry: 3000\n\n"}
		if s.dialect.name == messages.name {
			between = append(between, "event: ping\ndata: {\"type\": \"ping\"}\n\n")
		}
		for _, b := range between {
			a := s.send(t, request, true, b+strings.Join(events, b))
			require.Equal(t, want.text, a.text, b)
			require.Equal(t, bare(want.calls), bare(a.calls), b)
			require.Len(t, a.chunks, len(want.chunks), b)
			require.True(t, a.done, b)
		}
	})
	t.Run("blank lines before a whole answer", func(t *testing.T) {
		for _, s := range []upstream{compatible("deepseek"), compatible("openrouter"), compatible("compatible")} {
			require.Equal(t, "Hello", s.send(t, chat(""), false, "\n\n  \n"+
				s.dialect.unary(completion{text: "Hello", stop: "stop"})).text)
		}
	})
}

func flushed(t *testing.T) {
	overBoth(t, func(t *testing.T, g gateway) {
		for model, d := range models {
			events := d.stream(completion{text: "Hello there", stop: "stop"})
			first := len(untilText(events))
			seen := make(chan struct{})
			g.vendor.answers(func(w http.ResponseWriter, r *http.Request) {
				write(w, events[:first]...)
				select {
				case <-seen:
					write(w, events[first:]...)
				case <-r.Context().Done():
				}
			})
			lines := bufio.NewScanner(g.open(t.Context(), t, ask(model)))
			text, told := "", false
			for lines.Scan() && lines.Text() != "data: [DONE]" {
				text += gjson.Get(strings.TrimPrefix(lines.Text(), "data: "), "choices.0.delta.content").Str
				if text == "Hello" && !told {
					close(seen)
					told = true
				}
			}
			require.Equal(t, "Hello there", text, model)
		}
	})
}

func brokenOff(t *testing.T) {
	each(t, allUpstreams(), func(t *testing.T, s upstream) {
		what, request := s.rich()
		events := s.dialect.stream(what)
		mark := s.dialect.endMark
		if s.vendor == "perplexity" {
			mark = `"finish_reason":"stop"` // there is no other
		}
		complete := slices.IndexFunc(events, func(e string) bool { return strings.Contains(e, mark) })
		require.Positive(t, complete)
		for n := 1; n <= complete; n++ {
			for _, rest := range []string{"", events[n][:len(events[n])/2]} {
				a := s.send(t, request, true, strings.Join(events[:n], "")+rest)
				require.Equal(t, "upstream_truncated", a.failure.Get("code").Str, "%d events, then %q: %s", n, rest, a.body)
				require.Equal(t, "server_error", a.failure.Get("type").Str)
				require.False(t, a.done)
				if !s.passesThrough() && s.dialect.name != openAI.name {
					require.Empty(t, a.stop, "%d events", n)
				}
			}
		}
		whole := s.dialect.unary(what)
		a := s.send(t, strings.Replace(request, ","+streams, "", 1), false, whole[:len(whole)/2])
		require.Equal(t, 502, a.status)
		require.True(t, a.failure.Exists())
	})
}

func noEvents(t *testing.T) {
	each(t, allUpstreams(), func(t *testing.T, s upstream) {
		nothing := []string{"", ": hello\n\n", "\n\n", "data: [DONE]\n\n"}
		if s.vendor == "bedrock" {
			nothing = []string{"", frame("event", "messageStart", `{"role":"assistant"}`)}
		}
		for _, stream := range nothing {
			a := s.send(t, chat(""), true, stream)
			require.True(t, a.failure.Exists(), "%q: %s", stream, a.body)
			require.Equal(t, "server_error", a.failure.Get("type").Str)
			require.False(t, a.done)
		}
		for _, body := range []string{"", "  \n", "null", "{}", "[]", `""`} {
			a := s.send(t, chat(""), false, body)
			require.Equal(t, 502, a.status, "%q: %s", body, a.body)
		}
	})
	t.Run("the client's request ends", func(t *testing.T) {
		g := overPlayer(t)
		for model := range models {
			g.vendor.send()
			a := g.Chat(t, ask(model))
			require.NoError(t, a.Err)
			require.Contains(t, string(a.Body), `"error"`, model)
			require.Equal(t, 502, a.Status, model)
		}
	})
}

func errorFirst(t *testing.T) {
	each(t, allUpstreams(), func(t *testing.T, s upstream) {
		a := s.send(t, chat(""), true, s.dialect.failure)
		require.GreaterOrEqual(t, a.status, 500, a.body)
		require.Equal(t, "server_error", a.failure.Get("type").Str, a.body)
	})
	for vendor, body := range map[string]string{
		"compatible": `{"error":{"message":"no such thing","type":"invalid_request_error","param":null,"code":400}}`,
		"vllm":       `{"object":"error","message":"no such thing","type":"BadRequestError","param":null,"code":400}`,
		"openrouter": `{"error":{"code":400,"message":"no such thing"},"user_id":"u"}`,
		"gemini":     `{"error":{"code":400,"message":"no such thing","status":"INVALID_ARGUMENT"}}`,
		"vertex":     `[{"error":{"code":400,"message":"no such thing","status":"INVALID_ARGUMENT"}}]`,
		"anthropic":  `{"type":"error","error":{"type":"invalid_request_error","message":"no such thing"}}`,
	} {
		s := compatible(vendor)
		both(t, func(t *testing.T, streamed bool) {
			sent := body
			if streamed {
				sent = data("%s", body)
			}
			a := s.send(t, chat(""), streamed, sent)
			require.Equal(t, "invalid_request_error", a.failure.Get("type").Str, "%s: %s", vendor, a.body)
			require.Contains(t, a.failure.Get("message").Str, "no such thing", vendor)
			require.Equal(t, 400, a.status, vendor)
		})
	}
}

// untilText returns the events up to and with the first that says Hello.
func untilText(events []string) []string {
	n := slices.IndexFunc(events, func(e string) bool { return strings.Contains(e, "Hello") }) + 1
	return slices.Clone(events[:n])
}

func errorAfterText(t *testing.T) {
	each(t, allUpstreams(), func(t *testing.T, s upstream) {
		events := s.dialect.stream(completion{text: "Hello there", stop: "stop"})
		a := s.send(t, chat(""), true, append(untilText(events), s.dialect.failure, end)...)
		require.Equal(t, 200, a.status)
		require.Equal(t, "Hello", a.text)
		require.Equal(t, "server_error", a.failure.Get("type").Str, a.body)
		require.Contains(t, a.failure.Get("message").Str, "verloaded", "in the vendor's own words")
		require.False(t, a.done)
		require.Empty(t, a.stop)
	})
	t.Run("no other provider is asked then", func(t *testing.T) {
		g := overPlayer(t)
		g.vendor.send(chunk(`{"role":"assistant","content":"Hello"}`, "null"), openAI.failure)
		a := g.Chat(t, ask("first"))
		require.Equal(t, 1, strings.Count(string(a.Body), "Hello"))
		require.Equal(t, []string{"/openai/chat/completions"}, g.vendor.asked())
	})
}

func fallbackFails(t *testing.T) {
	each(t, allUpstreams(), func(t *testing.T, s upstream) { // what announces an answer says nothing yet
		announced := untilText(s.dialect.stream(completion{text: "Hello there", stop: "stop"}))
		a := s.send(t, chat(""), true, append(announced[:len(announced)-1], s.dialect.failure)...)
		require.GreaterOrEqual(t, a.status, 500, a.body)
	})
	g := overPlayer(t)
	g.vendor.answers(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, `{"error":{"message":"down","type":"server_error"}}`)
	})
	a := g.Chat(t, ask("first"))
	require.Equal(t, 503, a.Status)
	require.Equal(t, "server_error", a.Failure(t).Type)
	require.Equal(t, []string{"/openai/chat/completions", "/claude/messages"}, g.vendor.asked())
	t.Run("where it does not, the stream is one", func(t *testing.T) {
		g.vendor.answers(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.URL.Path, "/openai") {
				w.WriteHeader(http.StatusTooManyRequests)
				return
			}
			write(w, messages.stream(completion{text: "Hello", stop: "stop"})...)
		})
		events := g.Chat(t, ask("first")).Events(t)
		require.Equal(t, "[DONE]", events[len(events)-1])
		require.Equal(t, 1, strings.Count(strings.Join(events, ""), `"role"`))
	})
}

func classOfErrors(t *testing.T) {
	bodies := map[string]string{ // of each dialect, for a status
		"messages": `{"type":"error","error":{"type":"TYPE","message":"told by the vendor"}}`,
		"google":   `{"error":{"code":STATUS,"message":"told by the vendor","status":"WORD"}}`,
		"converse": `{"message":"told by the vendor"}`,
		"cohere":   `{"id":"e1","message":"told by the vendor"}`,
		"mistral":  `{"object":"error","message":"told by the vendor","type":"TYPE","param":null,"code":"1"}`,
		"openAI":   `{"error":{"message":"told by the vendor","type":"TYPE","param":null,"code":null}}`,
	}
	each(t, allUpstreams(), func(t *testing.T, s upstream) {
		for _, c := range []struct {
			status       int
			typ, google  string
			want         int
			wantType     []string
			wantCode     string
			keepsMessage bool
		}{
			{429, "rate_limit_error", "RESOURCE_EXHAUSTED", 429, []string{"requests", "tokens"}, "rate_limit_exceeded", true},
			{500, "api_error", "INTERNAL", 500, []string{"server_error"}, "", true},
			{503, "overloaded_error", "UNAVAILABLE", 503, []string{"server_error"}, "overloaded", true},
			{504, "timeout_error", "DEADLINE_EXCEEDED", 504, []string{"server_error"}, "upstream_timeout", true},
			{400, "invalid_request_error", "INVALID_ARGUMENT", 400, []string{"invalid_request_error"}, "", true},
			{401, "authentication_error", "UNAUTHENTICATED", 502, []string{"server_error"}, "upstream_auth_failed", false},
		} {
			a := s.fails(t, c.status, http.Header{"Retry-After": {"7"}}, strings.NewReplacer("STATUS", strconv.Itoa(c.status),
				"TYPE", c.typ, "WORD", c.google).Replace(bodies[s.dialect.name]))
			require.Equal(t, c.want, a.status, a.body)
			if s.passesThrough() && c.status != 401 {
				continue // its own words are OpenAI's, and pass
			}
			require.Contains(t, c.wantType, a.failure.Get("type").Str, a.body)
			if c.wantCode != "" {
				require.Equal(t, c.wantCode, a.failure.Get("code").Str, a.body)
			}
			require.Equal(t, c.keepsMessage, strings.Contains(a.failure.Get("message").Str, "told by the vendor"), a.body)
			if c.status == 429 {
				require.Equal(t, "7", a.header.Get("Retry-After"))
			}
		}
		require.Equal(t, 503, s.fails(t, 529, nil, `<html>`).status)
	})
	for _, c := range []struct {
		s      upstream
		event  string
		status int
		code   string
	}{
		{claude, event("error", `{"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}`), 429,
			"rate_limit_exceeded"},
		{claude, messages.failure, 503, "overloaded"},
		{vertexClaude, messages.failure, 503, "overloaded"},
		{gemini, data(`{"error":{"code":429,"message":"slow down","status":"RESOURCE_EXHAUSTED"}}`), 429,
			"rate_limit_exceeded"},
		{vertexGemini, google.failure, 503, "overloaded"},
		{bedrockNova, frame("exception", "throttlingException", `{"message":"slow down"}`), 429, "rate_limit_exceeded"},
		{bedrockClaude, frame("exception", "modelTimeoutException", `{"message":"late"}`), 504, "upstream_timeout"},
		{compatible("groq"),
			event("error",
				`{"error":{"message":"no call","type":"invalid_request_error","code":"tool_use_failed","status_code":400}}`), 400,
			"tool_use_failed"},
		{compatible("openrouter"),
			data(`{"id":"x","error":{"code":429,"message":"slow down"},"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}]}`), 429, "rate_limit_exceeded"},
	} {
		first := c.s.send(t, chat(""), true, c.event)
		require.Equal(t, c.status, first.status, "%s: %s", c.s.name, first.body)
		later := c.s.send(t, chat(""), true,
			append(untilText(c.s.dialect.stream(completion{text: "Hello there", stop: "stop"})), c.event)...)
		for _, a := range []answer{first, later} {
			require.Equal(t, c.code, a.failure.Get("code").Str, "%s: %s", c.s.name, a.body)
		}
	}
}

func jsonForStream(t *testing.T) {
	each(t, allUpstreams(), func(t *testing.T, s upstream) {
		for media, body := range map[string]string{"text/html": "<html>", "application/json; charset=utf-8": "[]",
			"application/json": s.dialect.unary(completion{text: "Hello", stop: "stop"})} {
			x, _, err := s.exchange(translate.Chat, chat(streams))
			require.NoError(t, err)
			a := read(t, x, translate.Response{Status: 200, Header: http.Header{"Content-Type": {media}}}, body)
			if (s.vendor == "gemini" || s.vendor == "vertex") && media != "text/html" {
				require.NotEqual(t, a.failure.Exists(), a.done,
					"a stream in JSON is the dialect's other way, and ends like any: %s", a.body)
				continue
			}
			require.Equal(t, 502, a.status, media)
			require.Equal(t, "upstream_not_a_stream", a.failure.Get("code").Str)
		}
	})
}

func clientCancelsStream(t *testing.T) {
	overBoth(t, func(t *testing.T, g gateway) {
		for model, d := range models {
			clientCancels(t, g, ask(model))
			clientCancels(t, g, ask(model), untilText(d.stream(completion{text: "Hello there", stop: "stop"}))...)
		}
	})
}

func clientCancelsUnary(t *testing.T) {
	overBoth(t, func(t *testing.T, g gateway) {
		for model := range models {
			clientCancels(t, g, strings.Replace(ask(model), `"stream":true,`, "", 1))
		}
	})
}

func cancelledStreamIsCounted(t *testing.T) {
	overBoth(t, func(t *testing.T, g gateway) {
		clientCancels(t, g, ask("claude/claude-sonnet-4-5"),
			untilText(messages.stream(completion{text: "Hello there", stop: "stop", usage: counts{prompt: 20, cached: 5}}))...)
		line := g.Logged(t, "left")
		require.Equal(t, "cancelled", line["outcome"])
		require.EqualValues(t, 20, line["prompt_tokens"])
		require.EqualValues(t, 5, line["cached_tokens"])
		require.EqualValues(t, 1, line["completion_tokens"])
	})
}

func slowClient(t *testing.T) {
	const most = 32 << 20
	g := overEnvoy(t)
	event := chunk(`{"role":"assistant","content":"`+strings.Repeat("x", 32<<10)+`"}`, "null")
	wrote := make(chan int, 1)
	g.vendor.answers(func(w http.ResponseWriter, r *http.Request) {
		write(w, event)
		n := 0
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(time.Second))
		for n < 2*most {
			k, err := io.WriteString(w, event)
			if n += k; err != nil {
				break // nobody has taken anything for a second
			}
		}
		wrote <- n
	})
	body := g.open(t.Context(), t, ask("openai/m"))
	require.Less(t, <-wrote, most, "the gateway takes what its client does not")
	g.vendor.send(openAI.stream(completion{text: "Hello", stop: "stop"})...)
	require.Contains(t, string(g.Chat(t, ask("openai/m")).Body), "[DONE]", "another client is served")
	require.NoError(t, body.Close())
}
