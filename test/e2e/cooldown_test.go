package e2e

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/test/cases"
	"github.com/modelgate/modelgate/test/harness"
)

// A tired provider refuses until it is told not to, and notes when it was asked.
type tired struct {
	mu     sync.Mutex // guards what follows
	header [2]string  // with which it refuses; no name: it answers
	asked  []time.Time
}

func (p *tired) refuses(name, value string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.header, p.asked = [2]string{name, value}, nil
}

func (p *tired) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	name := ""
	if strings.HasPrefix(r.URL.Path, "/first") {
		p.mu.Lock()
		p.asked = append(p.asked, time.Now())
		name = p.header[0]
		p.mu.Unlock()
	}
	w.Header().Set("Content-Type", "application/json")
	if name != "" {
		w.Header().Set(name, p.header[1])
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = io.WriteString(w,
			`{"error":{"message":"Rate limit reached","type":"tokens","param":null,"code":"rate_limit_exceeded"}}`)
		return
	}
	_, _ = io.WriteString(w,
		`{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"yes"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`)
}

// times returns when the provider was asked.
func (p *tired) times() []time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]time.Time(nil), p.asked...)
}

// chat asks a model and returns the status and headers of the answer.
func (g *gateway) chat(t *testing.T, model string) (int, http.Header) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.URL+"/v1/chat/completions",
		strings.NewReader(`{"model":"`+model+`","messages":[{"role":"user","content":"hi"}]}`))
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+g.Key)
	r.Header.Set("Content-Type", "application/json")
	response, err := g.Client.Do(r)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	_, err = io.Copy(io.Discard, response.Body)
	require.NoError(t, err)
	return response.StatusCode, response.Header
}

// TestCooldown holds that a provider which refuses for its load is left alone for as long as it says, also where the
// client sees nothing of the refusal because Envoy has tried another: rows 100 and 101 of the pitfalls.
func TestCooldown(t *testing.T) {
	g := startRun(t, t.TempDir())
	p := &tired{}
	server := cases.NewProvider(t, p.ServeHTTP)
	harness.Must(t, "kind: Provider\nname: first\nvendor: openai\nendpoint: "+server.URL+"/first\n---\n"+
		"kind: Provider\nname: second\nvendor: openai\nendpoint: "+server.URL+"/second\n---\n"+
		"kind: Model\nname: both\ntargets:\n- {provider: first, model: m}\n- {provider: second, model: m, priority: 1}\n",
		"config", "apply", "--data", g.Dir, "-f", "-")
	harness.Eventually(t, "configuration in force", func() error { return g.has("both") })

	p.refuses("Retry-After", "2")
	status, header := g.chat(t, "both")
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, "second", header.Get("X-Modelgate-Provider"))
	require.Equal(t, "2", header.Get("X-Modelgate-Attempts"))
	harness.Eventually(t, "the provider is passed over", func() error {
		status, header := g.chat(t, "both")
		require.Equal(t, http.StatusOK, status)
		if header.Get("X-Modelgate-Attempts") != "" {
			return errStill
		}
		return nil
	})
	require.Contains(t, g.metrics(t), `modelgate_provider_cooling{provider="first"} 1`)
	require.Contains(t, g.metrics(t), `modelgate_provider_cooling{provider="second"} 0`)

	refused := p.times()
	p.refuses("", "") // from now on it would answer
	harness.Eventually(t, "the provider is asked again", func() error {
		status, header := g.chat(t, "both")
		require.Equal(t, http.StatusOK, status)
		require.Empty(t, header.Get("X-Modelgate-Attempts"), "no attempt is lost")
		if header.Get("X-Modelgate-Provider") != "first" {
			return errStill
		}
		return nil
	})
	require.GreaterOrEqual(t, p.times()[0].Sub(refused[len(refused)-1]), 2*time.Second)
	require.Contains(t, g.metrics(t), `modelgate_provider_cooling{provider="first"} 0`)

	for _, c := range []struct {
		name, value string
		seconds     int // 0: any
		least, most int // milliseconds
	}{
		{"Retry-After", "7", 7, 7000, 7000},
		{"Retry-After-Ms", "1780", 2, 1780, 1780},
		{"Retry-After", time.Now().Add(time.Hour).UTC().Format(http.TimeFormat), 0, 3_500_000, 3_600_000},
	} {
		t.Run("the last refusal says when to come again: "+c.name, func(t *testing.T) {
			p.refuses(c.name, c.value)
			status, header := g.chat(t, "first/m")
			require.Equal(t, http.StatusTooManyRequests, status, "there is no other target, and nobody waits")
			require.Len(t, p.times(), 1)
			millis, err := strconv.Atoi(header.Get("Retry-After-Ms"))
			require.NoError(t, err)
			require.GreaterOrEqual(t, millis, c.least)
			require.LessOrEqual(t, millis, c.most)
			if c.seconds > 0 {
				require.Equal(t, strconv.Itoa(c.seconds), header.Get("Retry-After"))
			}
		})
	}
}

func (g *gateway) metrics(t *testing.T) string {
	t.Helper()
	_, metrics := g.adminGet(t, "/metrics")
	return metrics
}
