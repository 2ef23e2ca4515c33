package cases

import (
	"bytes"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
)

func completions(t *testing.T, g *Gateway) {
	const ask = `{"model":"b/claude-haiku-4-5","prompt":"hi","max_tokens":50`
	t.Run("over chat", func(t *testing.T) {
		g.B.Answers(status(200, string(Recording(t, "anthropic-text.json"))))
		a := g.Do(t, "POST", "/v1/completions", ask+"}", "X-Request-Id", "completion-1")
		require.Equal(t, 200, a.Status, "%s", a.Body)
		m := a.JSON(t)
		require.Equal(t, "text_completion", m["object"])
		require.Equal(t, "b/claude-haiku-4-5", m["model"])
		choice := m["choices"].([]any)[0].(map[string]any)
		require.Equal(t, "\n  \"result\": 8\n}", choice["text"])
		require.Equal(t, "stop", choice["finish_reason"])
		require.EqualValues(t, 40, m["usage"].(map[string]any)["total_tokens"])
		line := g.Logged(t, "completion-1")
		require.Equal(t, "completions", line["operation"])
		require.EqualValues(t, 28, line["prompt_tokens"])
	})
	t.Run("streamed", func(t *testing.T) {
		for _, size := range []int{1, 1 << 20} {
			g.B.Answers(stream(Recording(t, "anthropic-text.sse"), size))
			events := g.Do(t, "POST", "/v1/completions", ask+
				`,"stream":true,"stream_options":{"include_usage":true}}`).Events(t)
			require.Equal(t, "[DONE]", events[len(events)-1])
			require.Contains(t, events[len(events)-2], `"prompt_tokens":16`)
			for _, e := range events[:len(events)-1] {
				require.Contains(t, e, `"object":"text_completion"`)
			}
		}
	})
	t.Run("after a failure, at another provider", func(t *testing.T) {
		g.A.Answers(status(503, `{}`))
		g.B.Answers(status(200, string(Recording(t, "anthropic-text.json"))))
		a := g.Do(t, "POST", "/v1/completions", strings.Replace(ask, "b/claude-haiku-4-5", "smart", 1)+"}")
		require.Equal(t, 200, a.Status, "%s", a.Body)
		require.Equal(t, "smart", a.JSON(t)["model"])
		require.Equal(t, "2", a.Header.Get("X-Modelgate-Attempts"))
	})
	t.Run("an error in a stream", func(t *testing.T) {
		recorded := string(Recording(t, "anthropic-text.sse"))
		g.B.Answers(stream([]byte(recorded[:strings.Index(recorded, "event: message_stop")]), 50))
		events := g.Do(t, "POST", "/v1/completions", ask+`,"stream":true}`).Events(t)
		require.Equal(t, "upstream_truncated", failure(t, []byte(events[len(events)-1])).Code)
	})
	t.Run("without a prompt", func(t *testing.T) {
		a := g.Do(t, "POST", "/v1/completions", `{"model":"b/claude-haiku-4-5"}`)
		require.Equal(t, 400, a.Status)
		require.Equal(t, "prompt", a.Failure(t).Param)
	})
}

func embeddings(t *testing.T, g *Gateway) {
	const ask = `{"model":"a/text-embedding-3-small","input":["a","b"]}`
	const answer = `{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.5,-1]},{"object":"embedding","index":1,"embedding":[0,1]}],"model":"text-embedding-3-small","usage":{"prompt_tokens":2,"total_tokens":2}}`
	t.Run("by a provider that has them", func(t *testing.T) {
		g.A.Answers(status(200, answer))
		a := g.Do(t, "POST", "/v1/embeddings", ask, "X-Request-Id", "embedding-1")
		require.Equal(t, 200, a.Status, "%s", a.Body)
		m := a.JSON(t)
		require.Len(t, m["data"], 2)
		require.Equal(t, "a/text-embedding-3-small", m["model"])
		require.Equal(t, "/v1/embeddings", g.A.Requests()[0].Path)
		require.Equal(t, "text-embedding-3-small", g.A.Requests()[0].JSON(t)["model"])
		line := g.Logged(t, "embedding-1")
		require.Equal(t, "embeddings", line["operation"])
		require.EqualValues(t, 2, line["prompt_tokens"])
	})
	t.Run("by the one provider of a model that has them", func(t *testing.T) {
		g.A.Answers(status(200, answer))
		a := g.Do(t, "POST", "/v1/embeddings", strings.Replace(ask, "a/text-embedding-3-small", "reversed", 1))
		require.Equal(t, 200, a.Status, "%s", a.Body)
	})
	t.Run("by a provider that has none", func(t *testing.T) {
		a := g.Do(t, "POST", "/v1/embeddings", strings.Replace(ask, "a/", "b/", 1))
		require.Equal(t, 400, a.Status)
		require.Equal(t, "unsupported_endpoint", a.Failure(t).Code)
		require.Empty(t, g.B.Requests())
	})
}

func rerank(t *testing.T, g *Gateway) {
	const ask = `{"model":"c/amazon.rerank-v1:0","query":"q","documents":["a",{"text":"b"}],"return_documents":true}`
	for _, path := range []string{"/v1/rerank", "/v2/rerank"} { // the second is that of Cohere's own SDK
		g.B.Answers(status(200, `{"results":[{"index":0,"relevance_score":0.1},{"index":1,"relevance_score":0.9}]}`))
		a := g.Do(t, "POST", path, ask, "X-Request-Id", "rerank-1")
		require.Equal(t, 200, a.Status, "%s", a.Body)
		require.Equal(t, `[1,0]`, gjson.GetBytes(a.Body, "results.#.index").Raw)
		require.Equal(t, "b", gjson.GetBytes(a.Body, "results.0.document.text").Str)
		require.Equal(t, "/model/amazon.rerank-v1%3A0/invoke", g.B.Requests()[0].Path)
		require.Equal(t, "rerank", g.Logged(t, "rerank-1")["operation"])
	}
	g.B.Answers(status(200, `{}`))
	for body, param := range map[string]string{
		strings.Replace(ask, `"q"`, `""`, 1):                                  "query",
		strings.Replace(ask, `"query":"q",`, "", 1):                           "query",
		strings.Replace(ask, `["a",{"text":"b"}]`, `[]`, 1):                   "documents",
		strings.Replace(ask, `["a",{"text":"b"}]`, `"a"`, 1):                  "documents",
		strings.Replace(ask, `{"text":"b"}`, `{"title":"b"}`, 1):              "documents[1].text",
		strings.Replace(ask, `"return_documents":true`, `"top_n":0`, 1):       "top_n",
		strings.Replace(ask, `"return_documents":true`, `"top_n":"1"`, 1):     "top_n",
		strings.Replace(ask, "c/amazon.rerank-v1:0", "b/claude-haiku-4-5", 1): "model",
	} {
		a := g.Do(t, "POST", "/v1/rerank", body)
		require.Equal(t, 400, a.Status, "%s: %s", body, a.Body)
		require.Equal(t, param, a.Failure(t).Param, body)
	}
	require.Empty(t, g.B.Requests())
}

func natives(t *testing.T, g *Gateway) {
	t.Run("an upload of audio", func(t *testing.T) { upload(t, g) })
	t.Run("an upload that is streamed", func(t *testing.T) { uploadStreamed(t, g) })
	t.Run("speech", func(t *testing.T) { speech(t, g) })
	t.Run("images and moderations", func(t *testing.T) { documentsPass(t, g) })
	t.Run("a stream of a response", func(t *testing.T) { responses(t, g) })
	t.Run("retries and fallback", func(t *testing.T) { nativeRetries(t, g) })
	t.Run("errors", func(t *testing.T) { nativeErrors(t, g) })
}

// form returns a form with a file of size bytes and then the model, with a boundary that must be quoted.
func form(t *testing.T, model string, size int) (body []byte, contentType string) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	require.NoError(t, w.SetBoundary("a boundary: (1)/2"))
	file, err := w.CreateFormFile("file", "speech.mp3")
	require.NoError(t, err)
	_, err = file.Write(bytes.Repeat([]byte("\r\n--a boundary\x00\xff"), size/16))
	require.NoError(t, err)
	require.NoError(t, w.WriteField("model", model))
	require.NoError(t, w.WriteField("language", "en"))
	require.NoError(t, w.Close())
	return b.Bytes(), w.FormDataContentType()
}

func upload(t *testing.T, g *Gateway) {
	for _, size := range []int{1 << 10, 3 << 20} {
		g.A.Answers(status(200,
			`{"text":"hello","usage":{"type":"tokens","input_tokens":14,"output_tokens":4,"total_tokens":18}}`))
		body, contentType := form(t, "a/whisper-1", size)
		id := fmt.Sprintf("upload-%d", size)
		a := g.Do(t, "POST", "/v1/audio/transcriptions", string(body), "Content-Type", contentType, "X-Request-Id", id)
		require.Equal(t, 200, a.Status, "%s", a.Body)
		require.Equal(t, "hello", a.JSON(t)["text"])
		require.Equal(t, "a", a.Header.Get("X-Modelgate-Provider"))
		asked := g.A.Requests()[0]
		require.Equal(t, "/v1/audio/transcriptions", asked.Path)
		require.Equal(t, contentType, asked.Header.Get("Content-Type"))
		require.Equal(t, "Bearer "+CredentialA, asked.Header.Get("Authorization"))
		require.True(t, bytes.Equal(bytes.Replace(body, []byte("a/whisper-1"), []byte("whisper-1"), 1), asked.Body),
			"every other byte is the client's")
		require.EqualValues(t, len(asked.Body), asked.Length)
		_, params, err := mime.ParseMediaType(asked.Header.Get("Content-Type"))
		require.NoError(t, err)
		read, err := multipart.NewReader(bytes.NewReader(asked.Body), params["boundary"]).ReadForm(8 << 20)
		require.NoError(t, err)
		require.Equal(t, []string{"whisper-1"}, read.Value["model"])
		line := g.Logged(t, id)
		require.Equal(t, "audio/transcriptions", line["operation"])
		require.Equal(t, "finished", line["outcome"])
		require.EqualValues(t, 14, line["prompt_tokens"])
		require.EqualValues(t, 4, line["completion_tokens"])
	}
	body, contentType := form(t, "a/whisper-1", 100)
	a := g.Do(t, "POST", "/v1/audio/transcriptions", string(body[:len(body)-8]), "Content-Type", contentType)
	require.Equal(t, 400, a.Status)
	require.Equal(t, "invalid_form", a.Failure(t).Code)
	a = g.Do(t, "POST", "/v1/audio/transcriptions", strings.Replace(string(body), `"model"`, `"modell"`, 1),
		"Content-Type", contentType)
	require.Equal(t, 400, a.Status)
	require.Equal(t, "model", a.Failure(t).Param)
	a = g.Do(t, "POST", "/v1/chat/completions", string(body), "Content-Type", contentType)
	require.Equal(t, 415, a.Status)
}

func uploadStreamed(t *testing.T, g *Gateway) {
	recorded := Recording(t, "openai-transcription.sse")
	for _, size := range []int{7, 1 << 20} {
		g.A.Answers(stream(recorded, size))
		body, contentType := form(t, "a/gpt-4o-transcribe", 1<<10)
		id := fmt.Sprintf("transcript-%d", size)
		a := g.Do(t, "POST", "/v1/audio/transcriptions", string(body), "Content-Type", contentType, "X-Request-Id", id)
		require.Equal(t, 200, a.Status)
		require.Equal(t, string(recorded), string(a.Body))
		line := g.Logged(t, id)
		require.Equal(t, "finished", line["outcome"])
		require.EqualValues(t, 37, line["prompt_tokens"])
		require.EqualValues(t, 145, line["completion_tokens"])
	}
}

func speech(t *testing.T, g *Gateway) {
	audio := bytes.Repeat([]byte{0xff, 0xfb, 0, '{'}, 50_000)
	g.A.Answers(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "audio/mpeg")
		w.Header().Set("Set-Cookie", "vendor=1")
		_, _ = w.Write(audio)
	})
	a := g.Do(t, "POST", "/v1/audio/speech", `{"model":"a/tts-1","input":"hi","voice":"alloy"}`, "X-Request-Id",
		"speech-1")
	require.Equal(t, 200, a.Status)
	require.NoError(t, a.Err)
	require.Equal(t, "audio/mpeg", a.Header.Get("Content-Type"))
	require.Empty(t, a.Header.Get("Set-Cookie"))
	require.True(t, bytes.Equal(audio, a.Body))
	require.JSONEq(t, `{"model":"tts-1","input":"hi","voice":"alloy"}`, string(g.A.Requests()[0].Body))
	line := g.Logged(t, "speech-1")
	require.Equal(t, "finished", line["outcome"])
	require.EqualValues(t, len(audio), line["bytes_sent"])
}

func documentsPass(t *testing.T, g *Gateway) {
	image := `{"created":1,"data":[{"b64_json":"` + strings.Repeat("iVBORw0KGgo", 100_000) +
		`"}],"usage":{"input_tokens":9,"output_tokens":4160,"total_tokens":4169}}`
	for path, answer := range map[string]string{
		"/v1/images/generations": image,
		"/v1/moderations":        `{"id":"modr-1","model":"omni-moderation-latest","results":[{"flagged":false}]}`,
	} {
		g.A.Answers(status(200, answer))
		a := g.Do(t, "POST", path, `{"prompt":"a cat", "input":"x", "model":"a/some-model"}`, "X-Request-Id",
			strings.ReplaceAll(path[4:], "/", "-"))
		require.Equal(t, 200, a.Status, "%s", a.Body)
		require.Equal(t, answer, string(a.Body), "as it came")
		require.Equal(t, path, g.A.Requests()[0].Path)
		require.Equal(t, `{"prompt":"a cat", "input":"x", "model":"some-model"}`, string(g.A.Requests()[0].Body))
	}
	require.EqualValues(t, 4160, g.Logged(t, "images-generations")["completion_tokens"])
	require.Equal(t, "finished", g.Logged(t, "moderations")["outcome"])
}

func responses(t *testing.T, g *Gateway) {
	recorded := Recording(t, "openai-responses.sse")
	const ask = `{"model":"a/gpt-5","input":"hi","stream":true}`
	for _, size := range []int{11, 1 << 20} {
		g.A.Answers(stream(recorded, size))
		id := fmt.Sprintf("response-%d", size)
		a := g.Do(t, "POST", "/v1/responses", ask, "X-Request-Id", id)
		require.Equal(t, 200, a.Status)
		require.Equal(t, string(recorded), string(a.Body), "as it came")
		require.Equal(t, "text/event-stream; charset=utf-8", a.Header.Get("Content-Type"))
		line := g.Logged(t, id)
		require.Equal(t, "responses", line["operation"])
		require.Equal(t, "finished", line["outcome"])
		require.Equal(t, true, line["stream"])
		require.EqualValues(t, 53, line["prompt_tokens"])
		require.EqualValues(t, 469, line["completion_tokens"])
		require.EqualValues(t, 448, line["reasoning_tokens"])
	}
	t.Run("it passes at once", func(t *testing.T) {
		first, rest, _ := bytes.Cut(recorded, []byte("\n\n"))
		g.A.Answers(func(w http.ResponseWriter, r *http.Request) {
			stream(append(first, "\n\n"...), 1<<20)(w, r)
			<-r.Context().Done()
			_ = rest
		})
		body := openPath(t, g, "/v1/responses", ask)
		got := make([]byte, len(first))
		_, err := io.ReadFull(body, got)
		require.NoError(t, err)
		require.Equal(t, string(first), string(got))
	})
	t.Run("without its end", func(t *testing.T) {
		cut := recorded[:bytes.LastIndex(recorded, []byte("event: response.completed"))]
		g.A.Answers(stream(cut, 100))
		a := g.Do(t, "POST", "/v1/responses", ask, "X-Request-Id", "response-cut")
		require.True(t, bytes.HasPrefix(a.Body, cut))
		tail := strings.TrimSpace(string(a.Body[len(cut):]))
		data, ok := strings.CutPrefix(tail, "event: error\ndata: ")
		require.True(t, ok, tail)
		require.Equal(t, "upstream_truncated", failure(t, []byte(data)).Code)
		require.Equal(t, "truncated", g.Logged(t, "response-cut")["outcome"])
	})
	t.Run("cut within an event, of a length that was told", func(t *testing.T) {
		whole := bytes.LastIndex(recorded, []byte("event: response.completed"))
		g.A.Answers(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", strconv.Itoa(whole+30))
			stream(recorded[:whole+30], 100)(w, r)
		})
		a := g.Do(t, "POST", "/v1/responses", ask)
		require.NoError(t, a.Err)
		tail, ok := bytes.CutPrefix(a.Body, recorded[:whole])
		require.True(t, ok)
		require.True(t, strings.HasPrefix(strings.TrimSpace(string(tail)), "event: error\n"), "no half event: %s", tail)
		require.Empty(t, a.Header.Get("Content-Length"))
	})
	t.Run("that failed", func(t *testing.T) {
		g.A.Answers(
			stream(
				[]byte("event: response.created\ndata: {\"type\":\"response.created\"}\n\nevent: error\ndata: {\"type\":\"error\",\"code\":\"server_error\",\"message\":\"x\"}\n\n"), 9))
		g.Do(t, "POST", "/v1/responses", ask, "X-Request-Id", "response-failed")
		require.Equal(t, "failed", g.Logged(t, "response-failed")["outcome"])
	})
}

func nativeRetries(t *testing.T, g *Gateway) {
	fails := true
	g.A.Answers(func(w http.ResponseWriter, r *http.Request) {
		if fails {
			fails = false
			status(500, `{}`)(w, r)
			return
		}
		status(200, `{"text":"hello"}`)(w, r)
	})
	g.B.Answers(status(500, `{}`))
	// The second provider does not serve it, so the first is asked again.
	body, contentType := form(t, "smart", 100<<10)
	a := g.Do(t, "POST", "/v1/audio/translations", string(body), "Content-Type", contentType)
	require.Equal(t, 200, a.Status, "%s", a.Body)
	require.Equal(t, "2", a.Header.Get("X-Modelgate-Attempts"))
	asked := g.A.Requests()
	require.Len(t, asked, 2)
	require.True(t, bytes.Equal(asked[0].Body, asked[1].Body))
	require.Equal(t, contentType, asked[1].Header.Get("Content-Type"))
	require.EqualValues(t, len(body)-len("smart")+len("gpt-4.1"), asked[1].Length)
	require.Empty(t, g.B.Requests())
}

func nativeErrors(t *testing.T, g *Gateway) {
	const ask = `{"model":"a/m","input":"x","prompt":"x"}`
	for _, c := range []struct {
		name, path, body string
		answer           http.HandlerFunc
		status           int
		code, param      any
	}{
		{"a provider that does not serve it", "/v1/images/generations", strings.Replace(ask, "a/", "b/", 1), nil, 400,
			"unsupported_endpoint", "model"},
		{"no model", "/v1/moderations", `{"input":"x"}`, nil, 400, "missing_required_parameter", "model"},
		{"two models", "/v1/responses", `{"model":"a/m","model":"b/m"}`, nil, 400, "duplicate_parameter", "model"},
		{"a model that is not there", "/v1/responses", strings.Replace(ask, "a/", "x/", 1), nil, 404, "model_not_found",
			nil},
		{"no body", "/v1/responses", "", nil, 400, "invalid_json", nil},
		{"the client's mistake", "/v1/images/generations", ask,
			status(400,
				`{"error":{"message":"Unknown parameter: 'quality'.","type":"invalid_request_error","param":"quality","code":"unknown_parameter"}}`), 400, "unknown_parameter", "quality"},
		{"the gateway's credential", "/v1/responses", ask,
			status(401, `{"error":{"message":"no","type":"x","param":null,"code":null}}`), 502, "upstream_auth_failed", nil},
		{"HTML", "/v1/responses", ask, status(404, `<html>`), 404, "model_not_found", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			g.A.Answers(c.answer)
			a := g.Do(t, "POST", c.path, c.body)
			require.Equal(t, c.status, a.Status, "%s", a.Body)
			f := a.Failure(t)
			require.Equal(t, c.code, f.Code)
			require.Equal(t, c.param, f.Param)
		})
	}
	require.Equal(t, 405, g.Do(t, "GET", "/v1/images/generations", "").Status)
}

func notServed(t *testing.T, g *Gateway) {
	for _, c := range []struct{ method, path, says string }{
		{"GET", "/v1/responses/resp_1", "stores no responses"}, {"DELETE", "/v1/responses/resp_1", "stores no"},
		{"POST", "/v1/responses/resp_1/cancel", "stores no"}, {"POST", "/v1/conversations", "stores no conversations"},
		{"POST", "/v1/music/generations", "no operation for music"}, {"POST", "/v1/videos", "no operation for video"},
		{"POST", "/v1/video/generations", "no operation for video"},
		{"POST", "/v1/3d/generations", "no operation for 3D models"},
		{"POST", "/v1/vision", "/v1/chat/completions"},
	} {
		t.Run(c.method+" "+c.path, func(t *testing.T) {
			a := g.Do(t, c.method, c.path, "")
			require.Equal(t, 404, a.Status)
			f := a.Failure(t)
			require.Equal(t, "invalid_request_error", f.Type)
			require.Equal(t, "unsupported_endpoint", f.Code)
			require.Contains(t, f.Message, c.says)
			require.Contains(t, f.Message, "Route")
			require.Equal(t, 401, g.Do(t, c.method, c.path, "", "Authorization", "").Status)
		})
	}
}

func catalogOverride(t *testing.T, g *Gateway) {
	g.B.Answers(status(200, string(Recording(t, "anthropic-text.json"))))
	a := g.Chat(t, `{"model":"b/limited-1","messages":[{"role":"user","content":"hi"}]}`)
	require.Equal(t, 200, a.Status, "%s", a.Body)
	require.EqualValues(t, 77, g.B.Requests()[0].JSON(t)["max_tokens"])
}
