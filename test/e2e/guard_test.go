package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/test/cases"
	"github.com/modelgate/modelgate/test/harness"
)

// A parrot is a provider that repeats the last message, a few bytes at a time, and remembers what it was sent.
type parrot struct {
	mu   sync.Mutex
	seen string
}

// ServeHTTP implements http.Handler.
func (p *parrot) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	p.mu.Lock()
	p.seen += string(body)
	p.mu.Unlock()
	said := gjson.GetBytes(body, "messages.@reverse.0.content").Str
	w.Header().Set("Content-Type", "text/event-stream")
	for len(said) > 0 {
		n := min(len(said), 5)
		text, _ := json.Marshal(said[:n])
		said = said[n:]
		fmt.Fprintf(w, `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":%s},"finish_reason":null}]}`+"\n\n", text)
		w.(http.Flusher).Flush()
	}
	fmt.Fprint(w, `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")
}

const guardrails = `kind: Guardrail
name: personal
models: ["parrot/*"]
rules:
- {name: data, mode: MASK, in: [REQUESTS], data: [EMAIL, CARD, IBAN, PHONE]}
- {name: secrets, mode: BLOCK, data: [SECRET]}
- {name: names, mode: OBSERVE, words: [Project X]}
`

// TestGuardrails: what is masked never leaves the gateway, the client gets its own text back, and the operator finds
// out why a request was refused.
func TestGuardrails(t *testing.T) {
	p := &parrot{}
	vendor := cases.NewProvider(t, p.ServeHTTP)
	g := startRun(t, t.TempDir())
	harness.Must(t, "kind: Provider\nname: parrot\nvendor: compatible\nendpoint: "+vendor.URL+"/v1\nmodels: [m]\n---\n"+guardrails,
		"config", "apply", "--data", g.Dir, "-f", "-")
	harness.Eventually(t, "configuration in force", func() error { return g.has("parrot/m") })

	ask := func(content string) (int, string) {
		a := g.AsCases().Chat(t, `{"model":"parrot/m","stream":true,"messages":[{"role":"user","content":`+content+`}]}`)
		if a.Status != http.StatusOK {
			return a.Status, string(a.Body)
		}
		var text strings.Builder
		for _, e := range a.Events(t) {
			text.WriteString(gjson.Get(e, "choices.0.delta.content").Str)
		}
		return a.Status, text.String()
	}
	const own = "Project X: ann@example.com, 4111 1111 1111 1111, DE89 3704 0044 0532 0130 00, +49 30 123 4567."
	quoted, err := json.Marshal(own)
	require.NoError(t, err)
	const exchanges = 50
	for range exchanges {
		status, text := ask(string(quoted))
		require.Equal(t, 200, status, text)
		require.Equal(t, own, text)
	}
	status, body := ask(`"my key is sk-proj-abcdefghijklmnopqrstuvwx"`)
	require.Equal(t, 400, status)
	require.Equal(t, "content_blocked", gjson.Get(body, "error.code").Str)
	p.mu.Lock()
	for _, secret := range []string{"ann@", "4111", "DE89", "123 4567", "sk-proj"} {
		require.NotContains(t, p.seen, secret)
	}
	require.Contains(t, p.seen, "Project X: [EMAIL_1], [CARD_1], [IBAN_1], [PHONE_1].")
	p.mu.Unlock()

	harness.Eventually(t, "the refused request in the log", func() error {
		out := harness.Must(t, "", "requests", "--data", g.Dir, "--outcome", "rejected", "-o", "json")
		if gjson.Get(out, "#").Int()+gjson.Get(out, "items.#").Int() == 0 {
			return errStill
		}
		require.Contains(t, out, "guardrail personal/secrets")
		require.NotContains(t, out, "sk-proj")
		return nil
	})
	g.WaitFor(t, `"guards":"mask personal/data in the request: 4, observe personal/names in the answer: 1, observe personal/names in the request: 1"`)
	harness.Eventually(t, "findings in the metrics", func() error {
		_, metrics := g.adminGet(t, "/metrics")
		if !strings.Contains(metrics,
			fmt.Sprintf(`modelgate_guard_findings_total{mode="mask",rule="personal/data",side="request"} %d`, 4*exchanges)) {
			return errStill
		}
		return nil
	})
	require.NotContains(t, g.Output(), "ann@example.com", "no log has what was found")

	judge := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, `{"flagged":%t}`, strings.Contains(gjson.GetBytes(body, "texts").Raw, "politics"))
	}))
	t.Cleanup(judge.Close)
	harness.Must(t, "kind: Checker\nname: judge\ntype: WEBHOOK\nurl: "+judge.URL+
		"\ncredential: {value: whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw}\n---\nkind: Guardrail\nname: topics\nrules:\n"+
		"- {name: politics, mode: BLOCK, in: [REQUESTS], checker: judge}\n", "config", "apply", "--data", g.Dir, "-f", "-")
	harness.Eventually(t, "the checker in force", func() error {
		if status, body := ask(`"about politics"`); status != http.StatusBadRequest || !strings.Contains(body,
			"topics/politics") {
			return fmt.Errorf("%d %s", status, body)
		}
		return nil
	})
	status, body = ask(`"about sport"`)
	require.Equal(t, 200, status, body)
	harness.Must(t, "kind: Guardrail\nname: topics\nrules:\n- {name: said, mode: BLOCK, in: [ANSWERS], checker: judge}\n",
		"config", "apply", "--data", g.Dir, "-f", "-")
	sport := strings.Repeat("about sport. ", 200)
	harness.Eventually(t, "answers that are judged in parts", func() error {
		if _, body := ask(`"` + sport + `politics ` + sport + `"`); len(body) < 1024 || len(body) > len(sport) {
			return fmt.Errorf("%d bytes", len(body))
		}
		return nil
	})
	_, body = ask(`"` + sport + `"`)
	require.Equal(t, sport, body)
	judge.Close()
	status, body = ask(`"about sport"`)
	require.Equal(t, 503, status)
	require.Equal(t, "checker_unavailable", gjson.Get(body, "error.code").Str)
	explained := harness.Must(t, `{"model":"parrot/m","messages":[{"role":"user","content":"hi"}]}`, "explain", "--data", g.Dir, "-")
	require.Contains(t, explained, "the checker judge is asked about the answer for the rule topics/said")
	harness.Must(t, "", "config", "delete", "guardrail", "topics", "--data", g.Dir)

	harness.Must(t, "kind: Policy\nname: p\nrules:\n- {name: models, deny: 'model.startsWith(\"parrot/\") && stream', message: Not streamed.}\n",
		"config", "apply", "--data", g.Dir, "-f", "-")
	harness.Eventually(t, "the policy in force", func() error {
		if status, body := ask(`"hi"`); status != http.StatusForbidden || !strings.Contains(body, "Not streamed.") {
			return fmt.Errorf("%d %s", status, body)
		}
		return nil
	})
}
