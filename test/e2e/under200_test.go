package e2e

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/test/cases"
	"github.com/modelgate/modelgate/test/harness"
)

const (
	sse      = "text/event-stream"
	jsonType = "application/json"

	openAIRole = `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}` + "\n\n"
	openAIText = `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"fine"},"finish_reason":null}]}` + "\n\n"
	openAIEnd  = `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":20,"completion_tokens":10,"total_tokens":30}}` +
		"\n\ndata: [DONE]\n\n"
	openAIFailure = `{"error":{"message":"The server had an error","type":"server_error","param":null,"code":null}}`
	claudeBegin   = "event: message_start\n" + `data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"usage":{"input_tokens":3,"output_tokens":1}}}` + "\n\n" +
		"event: ping\n" + `data: {"type": "ping"}` + "\n\n"
	claudeFailure    = `{"type":"error","error":{"type":"api_error","message":"Internal server error"}}`
	geminiFailure    = `{"error":{"code":500,"message":"An internal error has occurred.","status":"INTERNAL"}}`
	responsesCreated = "event: response.created\n" + `data: {"type":"response.created","sequence_number":0,"response":{"id":"resp_1","object":"response","status":"in_progress","output":[]}}` + "\n\n"
	responsesFailed  = "event: response.failed\n" + `data: {"type":"response.failed","sequence_number":1,"response":{"id":"resp_1","object":"response","status":"failed","error":{"code":"server_error","message":"The server had an error"},"output":[]}}` + "\n\n"
)

// A failure is an answer with status 200 that has no content, to a request for a stream or for a document.
type failure struct {
	vendor, name, media, body string
	to                        func(path string, stream bool) bool
}

func anyway(string, bool) bool        { return true }
func toStreams(_ string, s bool) bool { return s }
func toUnary(_ string, s bool) bool   { return !s }

func isResponses(path string) bool { return strings.HasSuffix(path, "/responses") }

// failures are by vendor and kind. One with the length 0 has an empty body, and is told apart from one without length.
var failures = []failure{
	{"openai", "event", sse, "data: " + openAIFailure + "\n\n", chatStream},
	{"openai", "event-done", sse, "data: " + openAIFailure + "\n\ndata: [DONE]\n\n", chatStream},
	{"openai", "role-event", sse, openAIRole + "data: " + openAIFailure + "\n\n", chatStream},
	{"openai", "done", sse, "data: [DONE]\n\n", toStreams},
	{"openai", "comment", sse, ": hello\n\n", toStreams},
	{"openai", "role", sse, openAIRole, chatStream},
	{"openai", "json", jsonType, openAIFailure, anyway},
	{"openai", "half", jsonType, `{"id":"c","object":"chat.completion","choices":[{"ind`, toUnary},
	{"openai", "created-failed", sse, responsesCreated + responsesFailed, responsesStream},
	{"openai", "responses-event", sse, "event: error\n" +
		`data: {"type":"error","code":"server_error","message":"The server had an error","param":null}` + "\n\n", responsesStream},
	{"openai", "created", sse, responsesCreated, responsesStream},
	{"openai", "failed", jsonType, `{"id":"resp_1","object":"response","status":"failed","error":{"code":"server_error","message":"The server had an error"},"output":[],"usage":null}`,
		func(path string, stream bool) bool { return isResponses(path) && !stream }},
	{"anthropic", "event", sse, "event: error\ndata: " + claudeFailure + "\n\n", toStreams},
	{"anthropic", "begin-event", sse, claudeBegin + "event: error\ndata: " + claudeFailure + "\n\n", toStreams},
	{"anthropic", "begin", sse, claudeBegin, toStreams},
	{"anthropic", "json", jsonType, claudeFailure, anyway},
	{"gemini", "event", sse, "data: " + geminiFailure + "\n\n", toStreams},
	{"gemini", "json", jsonType, geminiFailure, anyway},
	{"openai", "empty", jsonType, "", anyway},
	{"openai", "nothing", "", "", anyway},
	{"anthropic", "empty", sse, "", anyway},
	{"anthropic", "nothing", "", "", anyway},
	{"gemini", "empty", jsonType, "", anyway},
}

func chatStream(path string, stream bool) bool      { return stream && !isResponses(path) }
func responsesStream(path string, stream bool) bool { return stream && isResponses(path) }

// A question is a request of a client's dialect.
type question struct {
	name, path, body string
	stream           bool
	vendors          []string // that have the operation; nil: all
}

func questions(model string) []question {
	text := `"messages":[{"role":"user","content":"hi"}]`
	contents := `{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}`
	of := func(rest string, stream bool) string {
		if stream {
			rest += `,"stream":true`
		}
		return `{"model":"` + model + `",` + rest + `}`
	}
	all := []question{
		{"embeddings", "/v1/embeddings", of(`"input":"hi"`, false), false, []string{"openai", "gemini"}},
		{"embedContent", "/v1beta/models/" + model + ":embedContent", `{"content":{"parts":[{"text":"hi"}]}}`, false,
			[]string{"openai", "gemini"}},
		{"generateContent", "/v1beta/models/" + model + ":generateContent", contents, false, nil},
		{"streamGenerateContent", "/v1beta/models/" + model + ":streamGenerateContent?alt=sse", contents, true, nil},
	}
	for _, stream := range []bool{false, true} {
		all = append(all, question{fmt.Sprint("chat ", stream), "/v1/chat/completions", of(text, stream), stream, nil},
			question{fmt.Sprint("completions ", stream), "/v1/completions", of(`"prompt":"hi"`, stream), stream,
				[]string{"openai"}},
			question{fmt.Sprint("responses ", stream), "/v1/responses", of(`"input":"hi","store":false`, stream), stream, nil},
			question{fmt.Sprint("messages ", stream), "/v1/messages", of(text+`,"max_tokens":10`, stream), stream, nil})
	}
	return all
}

// failing is a vendor whose first part of the path says how it fails, and which answers under /good.
func failing(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	stream := strings.Contains(string(body), `"stream":true`) || strings.Contains(r.URL.Path, ":stream")
	if strings.HasPrefix(r.URL.Path, "/good") {
		answerWell(w, r.URL.Path, stream)
		return
	}
	name, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	vendor, kind, _ := strings.Cut(name, "-")
	if kind == "cut" {
		w.Header().Set("Content-Type", sse)
		_, _ = io.WriteString(w, openAIRole)
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	i := slices.IndexFunc(failures, func(f failure) bool { return f.vendor == vendor && f.name == kind })
	if i < 0 {
		http.NotFound(w, r)
		return
	}
	f := failures[i]
	if f.media != "" {
		w.Header().Set("Content-Type", f.media)
	} else {
		w.Header().Set("Content-Length", "0")
		return
	}
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush() // without a length
	_, _ = io.WriteString(w, f.body)
}

func answerWell(w http.ResponseWriter, path string, stream bool) {
	w.Header().Set("Content-Type", jsonType)
	switch {
	case strings.HasSuffix(path, "embeddings"):
		_, _ = io.WriteString(w, `{"object":"list","model":"m","data":[{"object":"embedding","index":0,"embedding":[0.5]}],"usage":{"prompt_tokens":20,"total_tokens":20}}`)
	case stream:
		w.Header().Set("Content-Type", sse)
		for _, event := range []string{openAIRole, openAIText, openAIEnd} {
			_, _ = io.WriteString(w, event)
			w.(http.Flusher).Flush()
		}
	default:
		_, _ = io.WriteString(w, `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"fine"},"finish_reason":"stop"}],"usage":{"prompt_tokens":20,"completion_tokens":10,"total_tokens":30}}`)
	}
}

func providerYAML(name, vendor, endpoint string) string {
	return "---\nkind: Provider\nname: " + name + "\nvendor: " + vendor + "\nendpoint: " + endpoint +
		"\ncredential: {value: key-of-" + name + "}\n"
}

func modelYAML(name string, providers ...string) string {
	text := "---\nkind: Model\nname: " + name + "\ntargets:\n"
	for i, p := range providers {
		text += fmt.Sprintf("- {provider: %s, model: gemini-embedding-001, priority: %d}\n", p, i)
	}
	return text
}

// TestAFailureUnderStatus200FallsBack holds, for each client's dialect and each kind of failure, that an answer that
// has failed before its content is followed by that of the next target, as a failed status is.
func TestAFailureUnderStatus200FallsBack(t *testing.T) {
	g := startRun(t, t.TempDir())
	server := cases.NewProvider(t, failing)
	text := providerYAML("good", "compatible", server.URL+"/good")
	var models []string
	add := func(name string, providers ...string) {
		text += modelYAML(name, providers...)
		models = append(models, name)
	}
	for _, f := range failures {
		name := f.vendor + "-" + f.name
		text += providerYAML(name, f.vendor, server.URL+"/"+name)
		add("m-"+name, name, "good")
	}
	text += providerYAML("openai-cut", "openai", server.URL+"/openai-cut") +
		providerYAML("absent", "openai", "http://127.0.0.1:1/v1")
	add("three", "openai-event", "openai-cut", "good")
	add("breaks", "openai-cut", "good")
	add("unreached", "openai-event", "absent", "good")
	add("none", "openai-event", "anthropic-begin-event")
	add("alone", "openai-event")
	harness.Must(t, text, "config", "apply", "--data", g.Dir, "-f", "-")
	harness.Eventually(t, "configuration in force", func() error { return g.has(models...) })

	for _, f := range failures {
		for _, q := range questions("m-" + f.vendor + "-" + f.name) {
			if !f.to(q.path, q.stream) || q.vendors != nil && !slices.Contains(q.vendors, f.vendor) {
				continue
			}
			t.Run(f.vendor+" "+f.name+" "+q.name, func(t *testing.T) {
				a := g.AsCases().Do(t, http.MethodPost, q.path, q.body)
				require.NoError(t, a.Err)
				require.Equal(t, http.StatusOK, a.Status, "%s", a.Body)
				require.Equal(t, "good", a.Header.Get("X-Modelgate-Provider"), "%s", a.Body)
				require.Equal(t, "2", a.Header.Get("X-Modelgate-Attempts"))
				require.Regexp(t, `fine|0\.5`, string(a.Body))
				require.NotContains(t, string(a.Body), "error had")
				line := g.Logged(t, a.Header.Get("X-Request-Id"))
				require.Equal(t, "finished", line["outcome"])
				require.Len(t, line["attempt_list"], 2)
				first := line["attempt_list"].([]any)[0].(map[string]any)
				require.EqualValues(t, 200, first["status"])
				require.NotEmpty(t, first["error"])
			})
		}
	}
	stream := func(model string) string {
		return `{"model":"` + model + `","stream":true,"messages":[{"role":"user","content":"hi"}]}`
	}
	for _, model := range []string{"three", "unreached"} {
		t.Run(model, func(t *testing.T) {
			a := g.AsCases().Chat(t, stream(model))
			require.Equal(t, http.StatusOK, a.Status, "%s", a.Body)
			require.Equal(t, "3", a.Header.Get("X-Modelgate-Attempts"))
			require.Contains(t, string(a.Body), "fine")
			e := g.exchange(t, a.Header.Get("X-Request-Id"))
			require.Len(t, e.AttemptList, 3)
			require.Equal(t, []string{"openai-event", "good"},
				[]string{e.AttemptList[0].Provider, e.AttemptList[2].Provider})
			require.NotEmpty(t, e.AttemptList[1].Error)
			require.GreaterOrEqual(t, e.InputTokens, int64(20))
			require.Equal(t, int64(10), e.OutputTokens)
		})
	}
	t.Run("no target left", func(t *testing.T) {
		for _, model := range []string{"none", "alone"} {
			a := g.AsCases().Chat(t, stream(model))
			require.Equal(t, http.StatusInternalServerError, a.Status, "%s", a.Body)
			require.Equal(t, "2", a.Header.Get("X-Modelgate-Attempts"))
			require.Contains(t, a.Failure(t).Message, "rror")
		}
	})
	t.Run("a provider that breaks off is asked in a way that can be followed", func(t *testing.T) {
		harness.Eventually(t, "a fallback", func() error {
			a := g.AsCases().Chat(t, stream("breaks"))
			if a.Status != http.StatusOK {
				return fmt.Errorf("status %d: %s", a.Status, a.Body)
			}
			require.Contains(t, string(a.Body), "fine")
			require.Equal(t, "2", a.Header.Get("X-Modelgate-Attempts"))
			require.Equal(t, sse+"; charset=utf-8", a.Header.Get("Content-Type"))
			return nil
		})
	})
	health := g.health(t)
	require.Equal(t, adminapi.ProviderFailing, health["openai-event"].State)
	require.Equal(t, health["openai-event"].Last24Hours.Attempts, health["openai-event"].Last24Hours.Failed)
	require.Equal(t, "server_error", health["openai-event"].LastError)
	require.Zero(t, health["good"].Last24Hours.Failed)
}
