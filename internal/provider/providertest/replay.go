package providertest

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
)

// replayed is the model by which clients know the one that answered.
const replayed = "replayed/model"

// A recording is one recorded exchange with a vendor.
type recording struct {
	request  []byte // nil where only the answer was recorded
	streamed bool
	// openAI says that the request is in OpenAI's dialect, so that it is also a client's.
	openAI   bool
	response response
}

// Replay plays the chat completions recorded in the folder dir, one folder each (NNN-name/{meta.json,request.json,
// response.*}) and answers alone in response-only, against p. It skips the test where there is no such folder.
func Replay(t *testing.T, p provider.Provider, dir string) {
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("no recorded traffic: %v", err)
	}
	played := 0
	play := func(name string, rec *recording) {
		if rec == nil {
			return
		}
		played++
		t.Run(name, func(t *testing.T) { replay(t, p, rec) })
	}
	metas, err := filepath.Glob(filepath.Join(dir, "*", "meta.json"))
	require.NoError(t, err)
	for _, meta := range metas {
		play(filepath.Base(filepath.Dir(meta)), readRecording(t, filepath.Dir(meta)))
	}
	alone, err := filepath.Glob(filepath.Join(dir, "response-only", "*"))
	require.NoError(t, err)
	for _, path := range alone {
		play(filepath.Base(path), readAnswer(t, path))
	}
	require.NotZero(t, played, "nothing recorded in %s is a chat completion", dir)
}

func replay(t *testing.T, p provider.Provider, rec *recording) {
	if rec.openAI && rec.request != nil {
		replayRequest(t, p, rec.request, rec.response.status)
	}
	requests := []string{`{"model":"` + replayed + `","messages":[{"role":"user","content":"x"}],"max_tokens":9}`}
	if rec.streamed {
		head := strings.TrimSuffix(requests[0], "}") + `,"stream":true`
		requests = []string{head + `}`, head + `,"stream_options":{"include_usage":true}}`}
	}
	for _, body := range requests {
		r, err := openai.ParseChatRequest([]byte(body))
		require.NoError(t, err)
		_, answer, err := p.Chat.Encode(r, provider.Target{Config: &configv1.Provider{Name: p.Name, Vendor: p.Name}, Model: "m"})
		require.NoError(t, err)
		o := decode(t, p, answer, r, &rec.response)
		switch {
		case rec.response.status != http.StatusOK:
			requireStatusClass(t, rec.response.status, o.Client.Status)
		case !rec.streamed || complete(rec.response.body):
			require.Empty(t, o.Err)
			require.Equal(t, reportsUsage(rec.response.body), !o.Usage.IsZero(), "usage is recorded where the vendor reports it")
		default:
			require.NotEmpty(t, o.Err, "a stream without its end mark is an error")
		}
	}
}

// replayRequest checks that a recorded request of OpenAI's dialect is accepted, unless the vendor refused it too, and
// changed in no member but those that the gateway must change.
func replayRequest(t *testing.T, p provider.Provider, request []byte, status int) {
	t.Helper()
	r, err := openai.ParseChatRequest(request)
	if err != nil && status == http.StatusBadRequest {
		return
	}
	require.NoError(t, err)
	_, err = r.Chat()
	require.NoError(t, err)
	for _, model := range []string{r.Model, "another"} {
		req, _, err := p.Chat.Encode(r, provider.Target{Config: &configv1.Provider{Name: p.Name, Vendor: p.Name}, Model: model})
		require.NoError(t, err)
		before, after := members(t, request), members(t, req.Body)
		require.Equal(t, model, after["model"])
		for _, mayChange := range []string{"model", "stream_options", "max_tokens", "max_completion_tokens"} {
			delete(before, mayChange)
			delete(after, mayChange)
		}
		require.True(t, reflect.DeepEqual(before, after), "a member was changed that must not be")
	}
}

func members(t *testing.T, body []byte) map[string]any {
	t.Helper()
	var m map[string]any
	require.NoError(t, json.Unmarshal(body, &m))
	return m
}

// readRecording reads a folder, or returns nil where it is not a chat completion.
func readRecording(t *testing.T, dir string) *recording {
	t.Helper()
	var meta struct {
		Kind    string            `json:"kind"`
		Status  int               `json:"status"`
		Headers map[string]string `json:"response_headers"`
	}
	data, err := os.ReadFile(filepath.Join(dir, "meta.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &meta))
	if meta.Kind != "chat-completions" && meta.Kind != "messages" {
		return nil
	}
	rec := &recording{openAI: meta.Kind == "chat-completions", response: response{status: meta.Status, header: http.Header{}}}
	for name, value := range meta.Headers {
		rec.response.header.Set(name, value)
	}
	rec.request, err = os.ReadFile(filepath.Join(dir, "request.json"))
	require.NoError(t, err)
	paths, err := filepath.Glob(filepath.Join(dir, "response.*"))
	require.NoError(t, err)
	require.Len(t, paths, 1)
	rec.streamed = filepath.Ext(paths[0]) == ".sse"
	rec.response.body, err = os.ReadFile(paths[0])
	require.NoError(t, err)
	return rec
}

// readAnswer reads an answer that was recorded without its request, or returns nil where it is not a chat completion.
func readAnswer(t *testing.T, path string) *recording {
	t.Helper()
	body, err := os.ReadFile(path)
	require.NoError(t, err)
	rec := &recording{response: response{status: http.StatusOK, header: http.Header{}, body: body}}
	switch {
	case strings.HasSuffix(path, ".chunks.txt"):
		first, _, _ := bytes.Cut(body, []byte("\n"))
		rec.openAI = gjson.GetBytes(first, "object").String() == "chat.completion.chunk"
		if !rec.openAI && gjson.GetBytes(first, "type").String() != "message_start" {
			return nil
		}
		rec.streamed, rec.response.body = true, chunksToEvents(body, rec.openAI)
	case strings.HasSuffix(path, ".json"):
		rec.openAI = gjson.GetBytes(body, "object").String() == "chat.completion"
		if !rec.openAI && gjson.GetBytes(body, "type").String() != "message" {
			return nil
		}
	default:
		return nil
	}
	return rec
}

// chunksToEvents makes a stream of recorded data lines. The recorder left out OpenAI's end mark.
func chunksToEvents(lines []byte, openAI bool) []byte {
	var out []byte
	for line := range bytes.Lines(lines) {
		if line = bytes.TrimSpace(line); len(line) > 0 {
			out = append(append(append(out, "data: "...), line...), "\n\n"...)
		}
	}
	if openAI && !bytes.Contains(out, []byte("[DONE]")) {
		out = append(out, "data: [DONE]\n\n"...)
	}
	return out
}

// complete reports whether a recorded stream has its vendor's end mark.
func complete(body []byte) bool {
	return bytes.Contains(body, []byte("[DONE]")) || bytes.Contains(body, []byte(`"message_stop"`))
}

// reportsUsage reports whether a recorded answer says how many tokens it took.
func reportsUsage(body []byte) bool {
	return bytes.Contains(body, []byte(`_tokens"`))
}

// requireStatusClass checks that a vendor's error is the client's where it is the client's mistake, and else a server's.
func requireStatusClass(t *testing.T, vendor, client int) {
	t.Helper()
	switch vendor {
	case http.StatusUnauthorized:
		require.Equal(t, http.StatusBadGateway, client)
	case http.StatusPaymentRequired:
		require.Equal(t, http.StatusTooManyRequests, client)
	case http.StatusRequestTimeout, 498, 499:
		require.GreaterOrEqual(t, client, 500)
	default:
		require.Equal(t, vendor/100, client/100)
	}
}
