package pitfalls

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
	"google.golang.org/protobuf/types/known/durationpb"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/test/harness"
)

// envoyRows are those of what goes wrong between Envoy and a service that it asks. Rows 81 to 89 are in
// envoy_more_test.go, those of processes that run apart in apart_test.go.
func envoyRows(on onGateway, apart onApart) []row {
	return append([]row{
		{71, "the length that a provider gives its stream does not cut the client's", on(lengthOfAStream)},
		{72, "a retry's body has its length and does not come in chunks", on(lengthOfARetry)},
		{73, "a body that was made longer or shorter has its own length", on(lengthOfABody)},
		{74, "a body of megabytes passes, and one above the limit is refused in OpenAI's form", on(largeBody)},
		{75, "no compressed answer is asked for, and one that comes anyway is not called plain", on(compressedAnswer)},
		{76, "a compressed request is read", on(compressedRequest)},
		{77, "an answer that comes in pieces is read whole", on(answerInPieces)},
		{78, "Envoy's own answers are told once, and not taken for a provider's", on(envoysOwn)},
		{79, "a service that takes longer than Envoy's 200 ms is waited for", apart(slowService)},
		{80, "without the service nothing passes", apart(failsClosed)},
	}, moreEnvoyRows(on, apart)...)
}

// The models of a gateway's two dialects.
var twoDialects = map[string]dialect{"openai/m": openAI, "anthropic/claude-sonnet-4-5": messages}

// streamedText is the text of a stream that has ended well.
func streamedText(t *testing.T, body string) string {
	t.Helper()
	require.True(t, strings.HasSuffix(body, end), body)
	var text strings.Builder
	for _, e := range events(t, body, true) {
		text.WriteString(gjson.Get(e, "choices.0.delta.content").Str)
	}
	return text.String()
}

// inPieces writes a body of which each part of a size goes out by itself.
func inPieces(w http.ResponseWriter, body string, size int) {
	for rest := body; rest != ""; {
		n := min(size, len(rest))
		if _, err := w.Write([]byte(rest[:n])); err != nil {
			return
		}
		w.(http.Flusher).Flush()
		rest = rest[n:]
	}
}

func lengthOfAStream(t *testing.T, g limitGateway) {
	text := strings.Repeat("word ", 400)
	for model, d := range twoDialects {
		stream := strings.Join(d.stream(completion{text: text, stop: "stop", usage: counts{prompt: 3, output: 400}}), "")
		g.worker.answers(func(w http.ResponseWriter, _ *http.Request, _ asking) {
			w.Header().Set("Content-Type", "text/event-stream")
			w.Header().Set("Content-Length", fmt.Sprint(len(stream)))
			inPieces(w, stream, 100)
		})
		a := g.client.Chat(t, ask(model))
		require.NoError(t, a.Err, model)
		require.Equal(t, text, streamedText(t, string(a.Body)), model)
		require.Empty(t, a.Header.Get("Content-Length"), model)
	}
}

// requireLength checks that a provider was sent a body of JSON with its length.
func requireLength(t *testing.T, a asking) {
	t.Helper()
	require.True(t, a.body.IsObject(), "%s was sent %s", a.path, a.body.Raw)
	require.EqualValues(t, len(a.body.Raw), a.length, a.path)
}

func lengthOfARetry(t *testing.T, g limitGateway) {
	for _, more := range []string{"", `,"stream":true`, `,"user":"` + strings.Repeat("u", 4000) + `"`} {
		g.warm(t)
		g.overloaded(http.StatusInternalServerError)
		g.ask(t, g.Key, chatPath, chatOf("either", 2, more))
		asked := g.worker.last(2)
		require.True(t, strings.HasPrefix(asked[1].path, "/anthropic"), asked[1].path)
		for _, a := range asked {
			requireLength(t, a)
		}
	}
}

func lengthOfABody(t *testing.T, g limitGateway) {
	longer := chatOf("anthropic/claude-sonnet-4-5", 2, `,"stop":"x"`)
	shorter := strings.Replace(longer, ",", ","+strings.Repeat(" ", 5000), 1) + strings.Repeat("\n", 5000)
	for _, body := range []string{longer, shorter} {
		for _, text := range []string{"", "short", strings.Repeat("é\n", 9000)} {
			g.worker.answers(func(w http.ResponseWriter, _ *http.Request, _ asking) {
				w.Header().Set("Content-Type", "application/json")
				_, _ = w.Write([]byte(messages.unary(completion{text: text, stop: "stop", usage: counts{prompt: 3, output: 2}})))
			})
			a := g.client.Chat(t, body)
			require.Equal(t, http.StatusOK, a.Status, "%s", a.Body)
			require.NoError(t, a.Err)
			require.Equal(t, text, gjson.GetBytes(a.Body, "choices.0.message.content").String())
			require.Equal(t, fmt.Sprint(len(a.Body)), a.Header.Get("Content-Length"))
			requireLength(t, g.worker.last(1)[0])
		}
	}
}

func largeBody(t *testing.T, g limitGateway) {
	picture := `{"model":"openai/m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,%s"}}]}]}`
	for _, size := range []int{900 << 10, 3 << 20, 20 << 20} {
		g.worker.answers(answerLine)
		a := g.client.Chat(t, fmt.Sprintf(picture, strings.Repeat("A", size)))
		require.Equal(t, http.StatusOK, a.Status, "%d bytes: %.300s", size, a.Body)
		require.Len(t, g.worker.last(1)[0].body.Get("messages.0.content.0.image_url.url").Str,
			size+len("data:image/png;base64,"))
	}
	g.worker.answers(answerLine)
	a := g.client.Chat(t, fmt.Sprintf(picture, strings.Repeat("A", 33<<20)))
	require.Equal(t, http.StatusRequestEntityTooLarge, a.Status)
	require.Equal(t, "request_too_large", a.Failure(t).Code)
	require.Zero(t, g.reached())
}

func zipped(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.String()
}

func compressedAnswer(t *testing.T, g limitGateway) {
	compressed := func(status int, body string) {
		g.worker.answers(func(w http.ResponseWriter, _ *http.Request, _ asking) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Encoding", "gzip")
			w.WriteHeader(status)
			_, _ = w.Write([]byte(zipped(t, body)))
		})
	}
	wants := []string{"Accept-Encoding", "gzip, br, zstd"}
	for model, d := range twoDialects {
		for _, status := range []int{http.StatusOK, http.StatusBadRequest, http.StatusInternalServerError} {
			for _, body := range []string{chatOf(model, 2, ""), chatOf(model, 2, `,"stream":true`)} {
				compressed(status, d.unary(counted))
				a := g.client.Do(t, http.MethodPost, chatPath, body, wants...)
				require.Empty(t, a.Header.Get("Content-Encoding"), "%s, %d", model, status)
				a.Failure(t) // it is JSON
				require.GreaterOrEqual(t, a.Status, http.StatusBadRequest)
				require.Empty(t, g.worker.last(1)[0].header.Get("Accept-Encoding"), "nobody has asked for it")
			}
		}
	}
	compressed(http.StatusOK, `{"results":[]}`)
	a := g.client.Do(t, http.MethodPost, "/v1/ocr", "{}", wants...) // which passes as it is
	require.Equal(t, "gzip", a.Header.Get("Content-Encoding"))
	require.Equal(t, zipped(t, `{"results":[]}`), string(a.Body))
}

func compressedRequest(t *testing.T, g limitGateway) {
	for model := range twoDialects {
		g.worker.answers(answerLine)
		a := g.client.Do(t, http.MethodPost, chatPath, zipped(t, chatOf(model, 2, "")), "Content-Encoding", "gzip")
		require.NotEqual(t, http.StatusBadRequest, a.Status, "%s", a.Body)
		asked := g.worker.last(1)[0]
		require.Contains(t, asked.body.Get("messages").Raw, `"hi"`)
		require.Empty(t, asked.header.Get("Content-Encoding"))
		requireLength(t, asked)
	}
	g.worker.answers(answerLine)
	bomb := zipped(t, chatOf("openai/m", 2, strings.Repeat(" ", 64<<20)))
	require.Less(t, len(bomb), 1<<20)
	a := g.client.Do(t, http.MethodPost, chatPath, bomb, "Content-Encoding", "gzip")
	require.Equal(t, http.StatusRequestEntityTooLarge, a.Status)
	require.Equal(t, "request_too_large", a.Failure(t).Code)
	require.Zero(t, g.reached())
}

func answerInPieces(t *testing.T, g limitGateway) {
	text := strings.Repeat("é — 猫\n", 20_000)
	for model, d := range twoDialects {
		whole := d.unary(completion{text: text, stop: "stop", usage: counts{prompt: 3, output: 2}})
		g.worker.answers(func(w http.ResponseWriter, _ *http.Request, _ asking) {
			w.Header().Set("Content-Type", "application/json")
			inPieces(w, whole, 4099) // which is within a rune soon
		})
		a := g.client.Chat(t, chatOf(model, 2, ""))
		require.Equal(t, http.StatusOK, a.Status, "%.300s", a.Body)
		require.Equal(t, text, gjson.GetBytes(a.Body, "choices.0.message.content").Str, model)
	}
	failure := `{"error":{"message":` + string(openai.AppendString(nil, text)) +
		`,"type":"invalid_request_error","param":null,"code":"refused"}}`
	g.worker.answers(func(w http.ResponseWriter, _ *http.Request, _ asking) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		inPieces(w, failure, 4099)
	})
	a := g.client.Chat(t, chatOf("openai/m", 2, ""))
	require.Equal(t, http.StatusBadRequest, a.Status)
	require.Equal(t, "refused", a.Failure(t).Code)
}

func envoysOwn(t *testing.T, g limitGateway) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // it takes connections and says nothing
	require.NoError(t, err)
	defer func() { _ = silent.Close() }()
	patience := &configv1.Timeouts{FirstByte: durationpb.New(200 * time.Millisecond)}
	g.Apply(t,
		&configv1.Provider{Name: "unreachable", Vendor: "anthropic", Endpoint: fmt.Sprint("http://127.0.0.1:",
			harness.FreePort(t))},
		&configv1.Provider{Name: "silent", Vendor: "openai", Endpoint: "http://" + silent.Addr().String(),
			Timeouts: patience},
		&configv1.Route{Name: "unreachable", PathPrefix: "/unreachable", Provider: "unreachable"})
	harness.Eventually(t, "configuration in force", func() error { return g.has("unreachable/x", "silent/x") })
	for i, c := range []struct {
		path, body string
		status     int
		code       any
	}{
		{chatPath, chatOf("unreachable/x", 2, ""), 503, "upstream_unavailable"},
		{chatPath, chatOf("unreachable/x", 2, `,"stream":true`), 503, "upstream_unavailable"},
		{chatPath, chatOf("silent/x", 2, ""), 504, "upstream_timeout"},
		{chatPath, chatOf("silent/x", 2, `,"stream":true`), 504, "upstream_timeout"},
		{"/v1/embeddings", `{"model":"silent/x","input":"hi"}`, 504, "upstream_timeout"},
		{"/unreachable/messages", "{}", 503, "upstream_unavailable"},
		{"/elsewhere", "{}", 404, "unknown_url"},
	} {
		id := fmt.Sprint("envoys-own-", i)
		a := g.client.Do(t, http.MethodPost, c.path, c.body, "X-Request-Id", id)
		require.Equal(t, c.status, a.Status, "%s: %s", c.body, a.Body)
		require.Equal(t, c.code, a.Failure(t).Code)
		require.Equal(t, 1, strings.Count(string(a.Body), `"error"`), "told once: %s", a.Body)
		require.Equal(t, id, a.Header.Get("X-Request-Id"))
		require.Empty(t, a.Header.Get("X-Modelgate-Provider"), "nobody has answered")
		if c.status > 500 {
			require.Contains(t, []any{"gateway", "failed"}, g.Logged(t, id)["outcome"])
		}
	}
}
