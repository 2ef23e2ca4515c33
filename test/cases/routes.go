package cases

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func routes(t *testing.T, g *Gateway) {
	t.Run("requests pass as they are", func(t *testing.T) { routePasses(t, g) })
	t.Run("any method, body or none", func(t *testing.T) { routeMethods(t, g) })
	t.Run("bodies are streamed both ways", func(t *testing.T) { routeStreams(t, g) })
	t.Run("answers pass as they come", func(t *testing.T) { routeAnswers(t, g) })
	t.Run("who may not", func(t *testing.T) { routeRefusals(t, g) })
	t.Run("it is not tried again", func(t *testing.T) {
		g.A.Answers(status(503, `{"message":"down"}`))
		a := g.Do(t, "POST", "/v1/ocr", `{}`)
		require.Equal(t, 503, a.Status)
		require.Equal(t, `{"message":"down"}`, string(a.Body), "the error as it came")
		require.Len(t, g.A.Requests(), 1)
		g.A.Answers(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
		a = g.Do(t, "POST", "/v1/ocr", `{}`)
		require.Equal(t, 503, a.Status)
		a.Failure(t) // Envoy's own error is OpenAI's
		require.Len(t, g.A.Requests(), 1)
	})
}

func routePasses(t *testing.T, g *Gateway) {
	for _, c := range []struct {
		path, want string
		vendor     *Vendor
	}{
		{"/v1/ocr", "/v1/ocr", g.A},
		{"/v1/ocr/deep?x=1&y=a%20b&x=2", "/v1/ocr/deep?x=1&y=a%20b&x=2", g.A},
		{"/anthropic/messages?beta=true", "/v1/messages?beta=true", g.B},
		{"/anthropic/deep/er", "/v1/v2/er", g.A},
		{"/anthropic/deeper", "/v1/deeper", g.B},
	} {
		t.Run(c.path, func(t *testing.T) {
			c.vendor.Answers(status(200, `{"results":[]}`))
			body := ` {"model":"rerank-v3", "model":"x", not JSON`
			id := "route-" + strconv.Itoa(len(c.path))
			a := g.Do(t, "POST", c.path, body, "X-Request-Id", id, "Anthropic-Version", "2023-06-01", "Cookie", "a=b",
				"X-Api-Key", "the client's",
				"X-Custom", "stays", "User-Agent", "client/1 (mine)", "OpenAI-Organization", "org-client", "Traceparent",
				"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
			require.Equal(t, 200, a.Status, "%s", a.Body)
			require.Equal(t, `{"results":[]}`, string(a.Body))
			require.Equal(t, id, a.Header.Get("X-Request-Id"))
			asked := c.vendor.Requests()
			require.Len(t, asked, 1)
			require.Equal(t, c.want, asked[0].Path)
			require.Equal(t, body, string(asked[0].Body))
			require.EqualValues(t, len(body), asked[0].Length)
			require.Equal(t, "application/json", asked[0].Header.Get("Content-Type"))
			require.Equal(t, "stays", asked[0].Header.Get("X-Custom"))
			require.Equal(t, "2023-06-01", asked[0].Header.Get("Anthropic-Version"))
			for _, name := range []string{"Cookie", "Openai-Organization", "Traceparent", "X-Request-Id", "X-Forwarded-For",
				"X-Forwarded-Proto"} {
				require.Empty(t, asked[0].Header.Get(name), name)
			}
			require.NotContains(t, asked[0].Header.Get("User-Agent"), "client/1 ")
			if c.vendor == g.A {
				require.Equal(t, "Bearer "+CredentialA, asked[0].Header.Get("Authorization"))
				require.Empty(t, asked[0].Header.Get("X-Api-Key"))
			} else {
				require.Equal(t, CredentialB, asked[0].Header.Get("X-Api-Key"))
				require.Empty(t, asked[0].Header.Get("Authorization"))
			}
			line := g.Logged(t, id)
			require.Equal(t, "route", line["operation"])
			require.Equal(t, "finished", line["outcome"])
			require.EqualValues(t, len(a.Body), line["bytes_sent"])
		})
	}
}

func routeMethods(t *testing.T, g *Gateway) {
	g.A.Answers(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Method", r.Method)
		if r.Method == http.MethodDelete {
			w.WriteHeader(http.StatusNoContent)
		}
	})
	for _, method := range []string{"GET", "HEAD", "DELETE", "PUT", "PATCH", "POST", "OPTIONS"} {
		a := g.Do(t, method, "/v1/ocr/x", "", "X-Request-Id", "route-"+method)
		require.Equal(t, 2, a.Status/100, method)
		require.Equal(t, method, a.Header.Get("X-Method"))
		require.Equal(t, "finished", g.Logged(t, "route-"+method)["outcome"], method)
	}
}

// routeStreams sends a body whose end waits for the beginning of the answer, and reads an answer whose end waits for
// the client.
func routeStreams(t *testing.T, g *Gateway) {
	body, write := io.Pipe()
	g.A.Streams(func(w http.ResponseWriter, r *http.Request) {
		first := make([]byte, 5)
		if _, err := io.ReadFull(r.Body, first); err != nil {
			return
		}
		rc := http.NewResponseController(w)
		_ = rc.EnableFullDuplex()
		w.Header().Set("Content-Type", "application/octet-stream")
		_, _ = w.Write(first)
		_ = rc.Flush()
		n, _ := io.Copy(io.Discard, r.Body)
		_, _ = fmt.Fprint(w, n)
	})
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.URL+"/v1/ocr", body)
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+g.Key)
	go func() { _, _ = write.Write([]byte("begin")) }()
	response, err := g.Client.Do(r)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	first := make([]byte, 5)
	_, err = io.ReadFull(response.Body, first)
	require.NoError(t, err, "the answer has begun before the request has ended")
	require.Equal(t, "begin", string(first))
	const more = 3 << 20
	go func() {
		_, _ = write.Write(bytes.Repeat([]byte("x"), more))
		_ = write.Close()
	}()
	rest, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Equal(t, strconv.Itoa(more), string(rest))
}

func routeAnswers(t *testing.T, g *Gateway) {
	g.A.Answers(func(w http.ResponseWriter, _ *http.Request) {
		for name, value := range map[string]string{
			"Content-Type": "text/x-anything; a=b", "X-Of-The-Provider": "1", "X-Request-Id": "vendor-request",
			"Set-Cookie": "a=b", "Alt-Svc": `h3=":443"`, "Openai-Organization": "ours",
		} {
			w.Header().Set(name, value)
		}
		w.WriteHeader(http.StatusTeapot)
		_, _ = io.WriteString(w, "short and stout")
	})
	a := g.Do(t, "POST", "/v1/ocr", "{}", "X-Request-Id", "route-teapot")
	require.Equal(t, http.StatusTeapot, a.Status)
	require.Equal(t, "short and stout", string(a.Body))
	require.Equal(t, "text/x-anything; a=b", a.Header.Get("Content-Type"))
	require.Equal(t, "1", a.Header.Get("X-Of-The-Provider"))
	require.Equal(t, "vendor-request", a.Header.Get("X-Upstream-Request-Id"))
	for _, name := range []string{"Set-Cookie", "Alt-Svc", "Openai-Organization"} {
		require.Empty(t, a.Header.Get(name), name)
	}
	line := g.Logged(t, "route-teapot")
	require.Equal(t, "rejected", line["outcome"])
	require.EqualValues(t, http.StatusTeapot, line["status"])
}

func routeRefusals(t *testing.T, g *Gateway) {
	g.A.Answers(status(200, `{}`))
	g.B.Answers(status(200, `{}`))
	for _, c := range []struct {
		name, path string
		headers    []string
		status     int
	}{
		{"no key", "/v1/ocr", []string{"Authorization", ""}, 401},
		{"a wrong key", "/anthropic/messages", []string{"Authorization", "Bearer x"}, 401},
		{"a path beside it", "/v1/ocrs", nil, 404},
		{"a path that is no route's", "/other", nil, 404},
		{"a path that climbs", "/anthropic/x%2f..%2f..%2fadmin", nil, 400},
		{"one that climbs otherwise", "/anthropic/..%5cadmin", nil, 400},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := g.Do(t, "POST", c.path, "{}", c.headers...)
			require.Equal(t, c.status, a.Status, "%s", a.Body)
			a.Failure(t)
		})
	}
	require.Empty(t, g.A.Requests())
	require.Empty(t, g.B.Requests())
	a := g.Do(t, "POST", "/anthropic/x/../../v1/chat/completions", "{}")
	require.Equal(t, 400, a.Status, "Envoy reads it as the path that it is")
	require.Equal(t, "model", a.Failure(t).Param)
}

// outcomes holds that the ends of an answer are told apart, in the client's stream and in the log.
func outcomes(t *testing.T, g *Gateway) {
	recorded := string(Recording(t, "anthropic-text.sse"))
	for _, c := range []struct {
		name, path, body string
		complete         bool
		answer           string
		outcome          string
		usage            int
	}{
		{"finished", "/v1/chat/completions", askB, true, recorded, "finished", 16},
		{"truncated", "/v1/chat/completions", askB, true, recorded[:strings.Index(recorded, "event: message_delta")],
			"truncated", 16},
		{"failed", "/v1/chat/completions", askB, true, recorded[:strings.Index(recorded, "event: content_block_stop")] +
			"event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n",
			"failed", 16},
		{"cancelled", "/v1/chat/completions", askB, false, recorded[:strings.Index(recorded, "event: content_block_stop")],
			"cancelled", 16},
		{"cancelled, of legacy completions", "/v1/completions", `{"model":"b/claude-haiku-4-5","prompt":"hi","max_tokens":9`,
			false, recorded[:strings.Index(recorded, "event: content_block_stop")], "cancelled", 16},
	} {
		t.Run(c.name, func(t *testing.T) {
			sent := make(chan struct{})
			g.B.Answers(func(w http.ResponseWriter, r *http.Request) {
				stream([]byte(c.answer), 1<<20)(w, r)
				if close(sent); !c.complete {
					<-r.Context().Done()
				}
			})
			id := "outcome-" + strings.NewReplacer(" ", "-", ",", "").Replace(c.name)
			body := openPath(t, g, c.path, c.body+`,"stream":true}`, "X-Request-Id", id)
			if c.complete {
				all, err := io.ReadAll(body)
				require.NoError(t, err)
				require.Equal(t, c.outcome == "finished", strings.HasSuffix(string(all), "data: [DONE]\n\n"))
				require.Equal(t, c.outcome != "finished", strings.Contains(string(all), `"error"`))
			} else {
				<-sent
				first := make([]byte, 300) // beyond what tells the usage
				_, err := io.ReadFull(body, first)
				require.NoError(t, err)
				require.NoError(t, body.Close())
			}
			line := g.Logged(t, id)
			require.Equal(t, c.outcome, line["outcome"])
			require.EqualValues(t, c.usage, line["prompt_tokens"], "what was seen of the usage")
		})
	}
	t.Run("a mistake of the client's is not the provider's failure", func(t *testing.T) {
		g.A.Answers(status(400,
			`{"error":{"message":"bad schema","type":"invalid_request_error","param":"tools","code":"invalid_schema"}}`))
		g.Do(t, "POST", "/v1/chat/completions", hello, "X-Request-Id", "outcome-mistake")
		require.Equal(t, "rejected", g.Logged(t, "outcome-mistake")["outcome"])
	})
	t.Run("of answers that are not shown", func(t *testing.T) { outcomesUnseen(t, g) })
}

func outcomesUnseen(t *testing.T, g *Gateway) {
	for _, c := range []struct {
		outcome string
		leaves  bool
	}{{"cancelled", true}, {"truncated", false}} {
		for name, ask := range map[string][2]string{
			"route": {"/v1/ocr", `{}`}, "speech": {"/v1/audio/speech", `{"model":"a/tts-1","input":"x"}`},
			"responses": {"/v1/responses", `{"model":"a/gpt-5","input":"x"}`},
		} {
			t.Run(name+" "+c.outcome, func(t *testing.T) {
				begun := make(chan struct{})
				g.A.Answers(func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Content-Type", map[bool]string{true: "text/event-stream",
						false: "audio/mpeg"}[name == "responses"])
					_, _ = io.WriteString(w, "data: {}\n\n")
					w.(http.Flusher).Flush()
					select {
					case <-begun:
					case <-r.Context().Done():
					case <-time.After(soon):
					}
					panic(http.ErrAbortHandler)
				})
				id := "unseen-" + name + "-" + c.outcome
				body := openPath(t, g, ask[0], ask[1], "X-Request-Id", id)
				_, err := io.ReadFull(body, make([]byte, 5))
				require.NoError(t, err)
				if c.leaves {
					require.NoError(t, body.Close())
				} else {
					close(begun)
					_, err = io.ReadAll(body)
					require.Error(t, err, "the client sees that it was cut")
				}
				require.Equal(t, c.outcome, g.Logged(t, id)["outcome"])
			})
		}
	}
}

// openPath sends a request and returns the body of its answer once its headers are there.
func openPath(t *testing.T, g *Gateway, path, body string, headers ...string) io.ReadCloser {
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.URL+path, strings.NewReader(body))
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+g.Key)
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	response, err := g.Client.Do(r)
	require.NoError(t, err)
	t.Cleanup(func() { _ = response.Body.Close() })
	require.Equal(t, 200, response.StatusCode)
	return response.Body
}
