package hostile

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/test/cases"
	"github.com/modelgate/modelgate/test/harness"
)

// secrets are what rules have to find.
const (
	hiddenCard = "4111111111111111"
	hiddenMail = "ann@example.com"
	hidden     = "pay " + hiddenCard + " to " + hiddenMail + " SESAME now"
)

// A guardedVendor notes what clients send, which is posted, and answers as it is told. The control plane gets its list
// of models at any time.
type guardedVendor struct {
	*httptest.Server
	mu     sync.Mutex // guards what follows
	got    []string
	status int
	answer string
}

func newGuardedVendor(t *testing.T) *guardedVendor {
	v := &guardedVendor{}
	v.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		v.mu.Lock()
		defer v.mu.Unlock()
		if r.Method == http.MethodPost {
			v.got = append(v.got, string(body))
		}
		w.Header().Set("Content-Type", "application/json")
		if strings.HasPrefix(v.answer, "data:") || strings.HasPrefix(v.answer, "event:") {
			w.Header().Set("Content-Type", "text/event-stream")
		}
		w.Header().Set("X-Request-Id", hiddenMail)
		w.Header().Set("X-Note", hidden)
		w.WriteHeader(v.status)
		_, _ = io.WriteString(w, v.answer)
	}))
	t.Cleanup(v.Close)
	return v
}

// says has the vendor answer from now on.
func (v *guardedVendor) says(status int, answer string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.got, v.status, v.answer = nil, status, answer
}

// bodies returns what the vendor has got.
func (v *guardedVendor) bodies() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.got
}

// leaks returns what of the secrets a text has: as it is, behind escapes, in base64, and in JSON strings.
func leaks(text string) (found []string) {
	forms := []string{text}
	var document any
	if json.Unmarshal([]byte(text), &document) == nil {
		unfoldInto(&forms, document)
	}
	joined := map[string]string{} // the texts of a stream, by where they stand
	for line := range strings.Lines(text) {
		var event any
		if data, ok := strings.CutPrefix(line, "data:"); ok && json.Unmarshal([]byte(data), &event) == nil {
			unfoldInto(&forms, event)
			joinInto(joined, "", event)
		}
	}
	for _, text := range joined {
		forms = append(forms, text, strings.ReplaceAll(text, `\`, ""))
	}
	for _, secret := range []string{hiddenCard, hiddenMail, "SESAME"} {
		for _, form := range forms {
			if strings.Contains(form, secret) {
				found = append(found, secret)
				break
			}
		}
	}
	return found
}

func unfoldInto(forms *[]string, v any) {
	switch v := v.(type) {
	case string:
		*forms = append(*forms, v)
		if plain, err := url.PathUnescape(v); err == nil {
			*forms = append(*forms, plain)
		}
		_, payload, found := strings.Cut(v, ",")
		if !found {
			payload = v
		}
		if b, err := base64.StdEncoding.DecodeString(payload); err == nil {
			*forms = append(*forms, string(b))
		}
		var inner any
		if json.Unmarshal([]byte(v), &inner) == nil {
			unfoldInto(forms, inner)
		}
	case float64:
		*forms = append(*forms, fmt.Sprintf("%.0f", v))
	case []any:
		for _, e := range v {
			unfoldInto(forms, e)
		}
	case map[string]any:
		for k, e := range v {
			*forms = append(*forms, k)
			unfoldInto(forms, e)
		}
	}
}

func joinInto(joined map[string]string, at string, v any) {
	switch v := v.(type) {
	case string:
		joined[at] += v
	case []any:
		for _, e := range v {
			joinInto(joined, at, e)
		}
	case map[string]any:
		for k, e := range v {
			joinInto(joined, at+"."+k, e)
		}
	}
}

// TestTextsThatGuardrailsMustSee: what is judged is what goes to the vendor, and what comes to the client, wherever it
// stands and however it is written.
func TestTextsThatGuardrailsMustSee(t *testing.T) {
	t.Parallel()
	v := newGuardedVendor(t)
	dir := t.TempDir()
	g := harness.Run(t, dir)
	var config strings.Builder
	for name, of := range map[string][2]string{"rc": {"compatible", "/v1"}, "ro": {"openai", "/v1"},
		"ra": {"anthropic", "/v1"},
		"rx": {"openai", "/v1"}, "rg": {"gemini", "/v1beta"}, "rh": {"cohere", "/v2"}} {
		fmt.Fprintf(&config, "kind: Provider\nname: %s\nvendor: %s\nendpoint: %s\ncredential: {value: x}\n---\n", name, of[0],
			v.URL+of[1])
	}
	keys := map[string]string{}
	for _, mode := range []string{"MASK", "BLOCK", "OBSERVE"} {
		_, keys[mode] = g.CreateKey(t, strings.ToLower(mode), "")
		fmt.Fprintf(&config, "kind: Guardrail\nname: %[1]s\norganization: %[1]s\nrules:\n"+
			"- {name: r, mode: %[2]s, data: [CARD, EMAIL], patterns: [SESAME]}\n---\n", strings.ToLower(mode), mode)
	}
	harness.Must(t, strings.TrimSuffix(config.String(), "---\n"), "config", "apply", "--data", dir, "-f", "-")
	v.says(http.StatusOK, chatAnswer(`{"role":"assistant","content":"ok"}`))
	const control = `{"model":"rc/m","messages":[{"role":"user","content":"SESAME"}]}`
	harness.Eventually(t, "the rules are there", func() error {
		if a := g.As(keys["BLOCK"]).Chat(t, control); a.Status != http.StatusBadRequest {
			return fmt.Errorf("status %d", a.Status)
		}
		return nil
	})

	for _, mode := range []string{"MASK", "BLOCK"} {
		t.Run("requests/"+mode, func(t *testing.T) {
			reached := 0
			for name, probe := range guardedRequests() {
				v.says(http.StatusOK, chatAnswer(`{"role":"assistant","content":"ok"}`))
				answer := g.As(keys[mode]).Do(t, http.MethodPost, probe.path, probe.body)
				require.Less(t, answer.Status, http.StatusServiceUnavailable, "%s: %s", name, answer.Body)
				got := v.bodies()
				if mode == "BLOCK" {
					require.Empty(t, got, "%s reached the vendor", name)
				}
				for _, body := range got {
					require.Empty(t, leaks(body), "%s: the vendor got %s", name, body)
				}
				reached += len(got)
			}
			if mode == "MASK" {
				require.Greater(t, reached, 70)
			}
		})
	}
	for _, mode := range []string{"MASK", "BLOCK", "OBSERVE"} {
		t.Run("answers/"+mode, func(t *testing.T) {
			seen, labels := 0, 0
			for name, answer := range guardedAnswers() {
				streams := strings.HasPrefix(answer.body, "event:") || strings.HasPrefix(answer.body, "data:")
				for _, way := range waysTo(answer.model, streams) {
					if answer.path != "" {
						way = probe{answer.path, answer.ask}
					}
					v.says(answer.status, answer.body)
					got := g.As(keys[mode]).Do(t, http.MethodPost, way.path, way.body)
					headers := got.Header.Get("X-Upstream-Request-Id") + got.Header.Get("X-Note")
					found := append(leaks(string(got.Body)), leaks(headers)...)
					if mode == "OBSERVE" {
						seen += min(1, len(found))
						continue
					}
					if strings.Contains(string(got.Body), "CARD]") || strings.Contains(string(got.Body), "content_filter") ||
						strings.Contains(string(got.Body), "content_blocked") {
						labels++
					}
					require.Empty(t, found, "%s by %s: the client got %d %s", name, way.path, got.Status, got.Body)
				}
			}
			if mode == "OBSERVE" {
				require.Greater(t, seen, 150, "the vendor did say it")
			} else {
				require.Greater(t, labels, 70)
			}
		})
	}
	t.Run("nothing is lost", func(t *testing.T) { nothingIsLost(t, v, g.As(keys["MASK"]).Gateway) })
}

// nothingIsLost asks for what has nothing to find: it comes through rules that mask.
func nothingIsLost(t *testing.T, v *guardedVendor, g *cases.Gateway) {
	v.says(http.StatusOK, `{"object":"list","model":"m","data":[{"object":"embedding","index":0,"embedding":[0.5,-0.25]}],"usage":{"prompt_tokens":1,"total_tokens":1}}`)
	a := g.Do(t, http.MethodPost, "/v1/embeddings", `{"model":"ro/m","input":"x"}`)
	require.Contains(t, string(a.Body), "-0.25")
	png := base64.StdEncoding.EncodeToString([]byte("\x89PNG\r\n\x1a\n" + strings.Repeat("\x01\xfe\x80", 99)))
	v.says(http.StatusOK, chatAnswer(`{"role":"assistant","content":"ok","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{\"a\":\"[EMAIL_1]\"}"}}]}`))
	a = g.Chat(t, `{"model":"ro/m","messages":[{"role":"user","content":[{"type":"text","text":"`+hiddenMail+`"},{"type":"image_url","image_url":{"url":"data:image/png;base64,`+png+`"}}]}],"tools":[{"type":"function","function":{"name":"f"}}]}`)
	require.Equal(t, http.StatusOK, a.Status, "%s", a.Body)
	require.Contains(t, v.bodies()[0], png)
	require.NotContains(t, v.bodies()[0], hiddenMail)
	require.Contains(t, string(a.Body), `{\"a\":\"`+hiddenMail+`\"}`)
}

// A probe is a request.
type probe struct{ path, body string }

func chatAnswer(message string) string {
	return `{"id":"a","object":"chat.completion","created":1,"model":"x","choices":[{"index":0,"message":` + message +
		`,"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`
}

// waysTo returns how a client asks for an answer of a model, in each dialect.
func waysTo(model string, streams bool) []probe {
	const user = `[{"role":"user","content":"x"}]`
	flag, gemini := fmt.Sprint(streams), ":generateContent"
	if streams {
		gemini = ":streamGenerateContent?alt=sse"
	}
	return []probe{
		{"/v1/chat/completions", `{"model":"` + model + `","messages":` + user + `,"stream":` + flag + `,"tools":[{"type":"function","function":{"name":"f"}}]}`},
		{"/v1/messages", `{"model":"` + model + `","max_tokens":9,"messages":` + user + `,"stream":` + flag + `,"tools":[{"name":"f","input_schema":{"type":"object"}}]}`},
		{"/v1/responses", `{"model":"` + model + `","store":false,"input":"x","stream":` + flag + `,"include":["reasoning.encrypted_content"]}`},
		{"/v1beta/models/" + model + gemini, `{"contents":[{"role":"user","parts":[{"text":"x"}]}]}`},
	}
}
