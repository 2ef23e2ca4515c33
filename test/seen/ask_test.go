package seen

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/internal/usage"
	"github.com/modelgate/modelgate/test/harness"
)

// An attempt is one at a provider: which answered so, and failed or did not.
type attempt struct {
	provider, model, kind string
	status                int
	failed                bool
}

// An ask is a request with what must become of it.
type ask struct {
	kind            string
	client          client
	user, model     string
	stream          bool
	order           order
	body            string // instead of an order
	status          int
	outcome, refuse string
	attempts        []attempt
	input, output   int64 // tokens that it is charged, besides those of the order
	told            bool  // the order's tokens are reported

	said     string // the message of the error that the client got
	id       string // of the request
	exchange string
}

// last is the attempt that answered, or the last.
func (a *ask) last() attempt {
	switch {
	case a.kind == "hit":
		return attempt{provider: usage.ResponseCache}
	case len(a.attempts) == 0:
		return attempt{}
	}
	return a.attempts[len(a.attempts)-1]
}

// tokens are what it is charged.
func (a *ask) tokens() (input, cached, output int64) {
	if a.told {
		return a.order.Input, a.order.Cached, a.order.Output
	}
	return a.input, 0, a.output
}

// cost is in billionths of a dollar.
func (a *ask) cost() int64 {
	p := prices()[a.last().model]
	input, cached, output := a.tokens()
	return (input-cached)*p.input + cached*p.cached + output*p.output
}

// failed reports whether it counts as an error.
func (a *ask) failed() bool {
	return a.outcome == "failed" || a.outcome == "truncated" || a.outcome == "gateway" ||
		a.refuse == "" && a.status >= 500
}

// class is that of its outcome.
func (a *ask) class() string {
	switch {
	case a.refuse != "":
		return "rejected"
	case a.failed():
		return "error"
	case a.outcome == "rejected", a.outcome == "cancelled":
		return a.outcome
	}
	return "served"
}

// kinds are how often each kind of request is sent in a round.
func kinds() []string {
	return strings.Fields("unary stream cached chain unary reject unary dead stream broken unary cut chain unary inband " +
		"cached invalid stream left unary withheld stranger unary")
}

func (s *scene) newAsk(t *testing.T, kind string, c client) *ask {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.number++
	n := s.number
	a := &ask{kind: kind, client: c, model: "fast", status: http.StatusOK, outcome: "finished", told: true,
		order: order{Number: n, Input: int64(10 + n%97), Output: int64(1 + n%53)}}
	if n%3 == 0 {
		a.user = fmt.Sprint("user-", n%5)
	}
	alpha := attempt{"alpha", "alpha-1", "first", http.StatusOK, false}
	a.attempts = []attempt{alpha}
	switch kind {
	case "stream":
		a.stream = true
	case "cached":
		a.order.Cached = a.order.Input / 2
	case "kept":
		a.model = kind
	case "hit":
		a.model, a.attempts, a.told = "kept", nil, false
	case "dear":
		a.model, a.attempts = "dear", []attempt{{"alpha", "dear-1", "first", http.StatusOK, false}}
	case "chain":
		a.model, a.attempts = kind, []attempt{{"absent", "gone-1", "first", 0, true},
			{"broken", "gone-1", "fallback", http.StatusInternalServerError, true},
			{"beta", "beta-1", "fallback", http.StatusOK, false}}
	case "tired": // before it refuses
		a.model, a.attempts = "busy", []attempt{{"tired", "tired-1", "first", http.StatusOK, false}}
	case "refusing":
		a.model, a.attempts = "busy", []attempt{{"tired", "tired-1", "first", http.StatusTooManyRequests, true},
			{"beta", "beta-1", "fallback", http.StatusOK, false}}
	case "cooling":
		a.model, a.attempts = "busy", []attempt{{"beta", "beta-1", "first", http.StatusOK, false}}
	case "dead":
		a.model, a.status, a.outcome, a.told = kind, http.StatusServiceUnavailable, "gateway", false
		a.attempts = []attempt{{"absent", "gone-1", "first", 0, true}}
	case "broken":
		a.model, a.status, a.outcome, a.told = kind, http.StatusInternalServerError, "failed", false
		a.attempts = []attempt{{"broken", "gone-1", "first", http.StatusInternalServerError, true}}
	case "reject":
		a.model, a.status, a.outcome, a.told = "faulty/reject", http.StatusBadRequest, "rejected", false
		a.attempts = []attempt{{"faulty", "reject", "first", http.StatusBadRequest, false}}
	case "cut", "inband", "left":
		a.model, a.stream, a.told = "faulty/"+kind, true, false
		a.outcome = map[string]string{"cut": "truncated", "inband": "failed", "left": "cancelled"}[kind]
		a.attempts = []attempt{{"faulty", kind, "first", http.StatusOK, kind != "left"}}
		a.input, a.output = s.count(t, a.prompt())+7, s.count(t, spoken)
	default:
		s.refuse(a)
	}
	s.asks = append(s.asks, a)
	return a
}

// refuse makes it one that the gateway refuses.
func (s *scene) refuse(a *ask) {
	if a.kind == "unary" {
		return
	}
	a.outcome, a.attempts, a.told = "rejected", nil, false
	switch a.kind {
	case "invalid":
		a.status, a.refuse, a.body, a.model = http.StatusBadRequest, "request", `{"model": fast}`, ""
		a.user = ""
	case "withheld":
		a.status, a.refuse, a.model, a.user = http.StatusNotFound, "model/secret", "secret", ""
	case "stranger":
		a.status, a.refuse, a.model, a.user = http.StatusUnauthorized, "unknown key", "", ""
		a.client = client{key: "mg-nobody-has-made-7xyz"}
	case "limit":
		a.status, a.refuse = http.StatusTooManyRequests, "key/"+a.client.id+" limit requests per day"
	case "budget":
		a.status, a.refuse, a.model = http.StatusTooManyRequests, "budget key/"+a.client.id+" month", "dear"
	}
}

func (a *ask) prompt() string {
	b, _ := json.Marshal(a.order) // numbers
	return string(b)
}

// content is the body of the request.
func (a *ask) content() string {
	if a.body != "" {
		return a.body
	}
	model := cmp.Or(a.model, "fast")
	body := map[string]any{"model": model, "max_tokens": 1,
		"messages": []any{map[string]any{"role": "user", "content": a.prompt()}}}
	if a.stream {
		body["stream"] = true
	}
	if a.user != "" {
		body["user"] = a.user
	}
	b, _ := json.Marshal(body) // maps of strings
	return string(b)
}

// send sends about so many requests: first those whose order matters.
func (s *scene) send(t *testing.T, n int) {
	one := func(kind string, key, times int) {
		for range times {
			require.NoError(t, s.do(s.newAsk(t, kind, s.keys[key]), s.Client))
		}
	}
	one("unary", limited, 5)
	one("limit", limited, 4)
	for key, input := range map[int]int64{spender: 8500, broke: 6000} {
		a := s.newAsk(t, "dear", s.keys[key])
		a.order.Input, a.order.Output = input, 1
		require.NoError(t, s.do(a, s.Client))
	}
	one("budget", broke, 3)
	kept := s.newAsk(t, "kept", s.keys[0])
	require.NoError(t, s.do(kept, s.Client))
	for range 3 {
		a := s.newAsk(t, "hit", s.keys[0])
		a.order, a.user = kept.order, kept.user
		require.NoError(t, s.do(a, s.Client))
	}

	work := make(chan *ask)
	var workers sync.WaitGroup
	for range 8 {
		own := harness.ClientFor(t, filepath.Join(s.Dir, "ca.crt"))
		workers.Go(func() {
			for a := range work {
				if err := s.do(a, own); err != nil {
					t.Errorf("%s: %v", a.kind, err)
				}
			}
		})
	}
	all := kinds()
	for i := range n - 40 {
		key := i % keys
		if key >= limited && key <= broke {
			key = expires
		}
		work <- s.newAsk(t, all[i%len(all)], s.keys[key])
	}
	close(work)
	workers.Wait()
	one("tired", 0, 6)
	s.vendors.tired.Store(true)
	one("refusing", 1, 1)
	harness.Eventually(t, "the refusal, which Envoy alone has seen, is known", func() error {
		health, err := s.admin.Health(t.Context())
		if err != nil {
			return err
		}
		for _, h := range health.Providers {
			if h.Provider == "tired" && h.CoolingUntil != nil {
				return nil
			}
		}
		return errors.New("the provider does not cool")
	})
	one("cooling", 2, 4)
}

// do sends a request and returns what is wrong with the answer.
func (s *scene) do(a *ask, client *http.Client) error {
	ctx, leave := context.WithCancel(context.Background())
	defer leave()
	heard := make(chan struct{})
	s.vendors.heard.Store(a.prompt(), heard)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+"/v1/chat/completions",
		strings.NewReader(a.content()))
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+a.client.key)
	r.Header.Set("Content-Type", "application/json")
	response, err := client.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	a.id = response.Header.Get("x-request-id")
	if response.StatusCode != a.status {
		body, _ := io.ReadAll(response.Body)
		return fmt.Errorf("status %d, not %d: %s", response.StatusCode, a.status, body)
	}
	if a.kind != "cut" && a.kind != "inband" && a.kind != "left" {
		body, err := io.ReadAll(response.Body)
		a.said = gjson.GetBytes(body, "error.message").Str
		return err
	}
	words := strings.Fields(spoken)
	if err := readUntil(response.Body, words[len(words)-1]); err != nil {
		return err
	}
	close(heard)
	if a.kind == "left" {
		return nil
	}
	_, _ = io.Copy(io.Discard, response.Body) // which may be cut
	return nil
}

// readUntil reads until a text has come.
func readUntil(r io.Reader, text string) error {
	var read strings.Builder
	piece := make([]byte, 4096)
	for !strings.Contains(read.String(), text) {
		n, err := r.Read(piece)
		read.Write(piece[:n])
		if err != nil {
			return errors.Join(err, fmt.Errorf("after %q", read.String()))
		}
	}
	return nil
}
