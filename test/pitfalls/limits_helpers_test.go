package pitfalls

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/test/harness"
)

// A limitGateway is a whole one whose models "openai/m" and "anthropic/claude-sonnet-4-5" have prices, and that falls
// back from the one to the other by the model "either", and back by "reversed".
type limitGateway struct{ jobGateway }

func overLimits(t *testing.T, flags ...string) limitGateway {
	g := limitGateway{overJobs(t, flags...)}
	g.Apply(t,
		&configv1.Catalog{Name: "default", Version: "test", Models: []*configv1.ModelFacts{
			// A dollar for a thousand tokens.
			{Vendors: []string{"openai"}, Models: []string{"m"}, Price: &configv1.Price{Input: "1000", Output: "1000"}},
		}},
		&configv1.Model{Name: "either", Targets: []*configv1.Target{
			{Provider: "openai", Model: "m"}, {Provider: "anthropic", Model: "claude-sonnet-4-5", Priority: 1}}},
		&configv1.Model{Name: "reversed", Targets: []*configv1.Target{
			{Provider: "anthropic", Model: "claude-sonnet-4-5"}, {Provider: "openai", Model: "m", Priority: 1}}},
		&configv1.Route{Name: "rerank", PathPrefix: "/v1/ocr", Provider: "openai"},
	)
	harness.Eventually(t, "configuration in force", func() error { return g.has("either", "reversed") })
	return g
}

// An onGateway has a test run over the one gateway that most rows share: each has keys of its own.
type onGateway func(test func(*testing.T, limitGateway)) func(*testing.T)

// overOne returns an onGateway. The gateway starts with the first test and ends with root.
func overOne(root *testing.T) onGateway {
	var (
		once   sync.Once
		shared limitGateway
	)
	return func(test func(*testing.T, limitGateway)) func(*testing.T) {
		return func(t *testing.T) {
			once.Do(func() { shared = overLimits(root) })
			shared.worker.answers(answerLine)
			test(t, shared)
		}
	}
}

// key makes a key with limits and waits until it works.
func (g limitGateway) key(t *testing.T, flags ...string) (id, key string) {
	t.Helper()
	made := harness.Decode(t, harness.Must(t, "",
		append([]string{"key", "create", "--create-missing", "--data", g.Dir, "--name", "limited", "-o", "json"},
			flags...)...))
	id, key = made["id"].(string), made["key"].(string)
	harness.Eventually(t, "the key works", func() error {
		var any struct{}
		return g.As(key).Try(http.MethodGet, "/v1/models", &any)
	})
	return id, key
}

// A reply is what a client got.
type reply struct {
	status int
	header http.Header
	body   string
	err    struct{ Type, Code, Message string }
}

func (r reply) reset(name string) time.Duration {
	d, err := time.ParseDuration(r.header.Get("x-ratelimit-reset-" + name))
	if err != nil {
		return -1
	}
	return d
}

func (r reply) number(name string) int {
	n, err := strconv.Atoi(r.header.Get(name))
	if err != nil {
		return -1
	}
	return n
}

// ask posts a body with a key.
func (g limitGateway) ask(t *testing.T, key, path, body string) reply {
	t.Helper()
	r, err := g.try(key, path, body)
	require.NoError(t, err)
	return r
}

func (g limitGateway) try(key, path, body string) (reply, error) {
	request, err := http.NewRequest(http.MethodPost, g.URL+path, strings.NewReader(body))
	if err != nil {
		return reply{}, err
	}
	request.Header.Set("Authorization", "Bearer "+key)
	request.Header.Set("Content-Type", "application/json")
	response, err := g.Client.Do(request)
	if err != nil {
		return reply{}, err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	r := reply{status: response.StatusCode, header: response.Header, body: string(text)}
	var failed struct {
		Error struct{ Type, Code, Message string } `json:"error"`
	}
	if r.status >= http.StatusBadRequest && json.Unmarshal(text, &failed) == nil {
		r.err = failed.Error
	}
	return r, err
}

// atOnce asks n times at once and returns how many had each status.
func (g limitGateway) atOnce(t *testing.T, n int, key, body string) map[int]int {
	t.Helper()
	var (
		mu       sync.Mutex
		all      sync.WaitGroup
		statuses = map[int]int{}
	)
	for range n {
		all.Go(func() {
			r, err := g.try(key, chatPath, body)
			if err != nil {
				t.Errorf("ask: %v", err)
			}
			mu.Lock()
			defer mu.Unlock()
			statuses[r.status]++
		})
	}
	all.Wait()
	return statuses
}

// chatOf is a request for an answer of at most so many tokens.
func chatOf(model string, most int, more string) string {
	return fmt.Sprintf(`{"model":%q,"max_tokens":%d,"messages":[{"role":"user","content":"hi"}]%s}`, model, most, more)
}

// held has the worker answer only once the test lets it, and returns how that is done.
func (g limitGateway) held(t *testing.T) (let func()) {
	gate := make(chan struct{})
	var once sync.Once
	let = func() { once.Do(func() { close(gate) }) }
	t.Cleanup(let)
	g.worker.answers(func(w http.ResponseWriter, r *http.Request, a asking) {
		select {
		case <-gate:
			answerLine(w, r, a)
		case <-r.Context().Done():
		}
	})
	return let
}

// reached is how many requests for answers the worker has been asked.
func (g limitGateway) reached() int {
	g.worker.mu.Lock()
	defer g.worker.mu.Unlock()
	return len(g.worker.asked)
}
