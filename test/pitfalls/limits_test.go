package pitfalls

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/limit"
	"github.com/modelgate/modelgate/internal/redistest"
	"github.com/modelgate/modelgate/test/harness"
)

func limitRows(on onGateway) []row {
	return []row{
		{90, "three replicas admit ten requests where the limit is ten", threeReplicas},
		{91, "two regions without a common store share a limit", twoRegions},
		{92, "tokens are reserved before the request goes out", on(reservedBefore)},
		{93, "a stream's tokens are taken once", on(streamTakenOnce)},
		{94, "a limit that can have no effect is an error, not a silence", on(limitWithoutEffect)},
		{95, "concurrent requests do not overspend what is left of a budget", on(lastOfABudget)},
		{96, "budgets of organizations and projects, and limits of users, hold for every key", on(sharedBudgets)},
		{97, "without a budget nothing is exceeded", on(noBudget)},
		{98, "limits hold on every way to a provider", on(everyWay)},
		{99, "a refusal has OpenAI's form and headers", on(refusalForm)},
		{100, "a provider that says 429 is passed over, and left alone for as long as it says", on(providerCools)},
		{101, "models of one provider share its cooling", on(sharedQuota)},
		{102, "retries of the gateway are bounded, and are not multiplied", on(boundedRetries)},
		{103, "a mistake of the client's says nothing about the provider", on(clientsMistake)},
		{104, "what is refused before a provider costs nothing", on(refundedRefusal)},
	}
}

func threeReplicas(t *testing.T) {
	server := redistest.Start(t)
	rules := []limit.Rule{{Counter: "key/k/requests/minute", Measure: limit.Requests, Window: limit.Minute, Limit: 10}}
	var admitted atomic.Int64
	var all sync.WaitGroup
	for range 3 {
		options, err := redis.ParseURL(server.URL)
		require.NoError(t, err)
		replica := limit.NewRedis(redis.NewClient(options), limit.RedisOptions{})
		t.Cleanup(func() { _ = replica.Close(context.Background()) })
		for range 10 {
			all.Go(func() {
				d, err := replica.Reserve(t.Context(),
					limit.Demand{ID: "x", Rules: rules, Amounts: limit.Amounts{limit.Requests: 1}})
				if err != nil {
					t.Errorf("reserve: %v", err)
				} else if d.Refused < 0 {
					admitted.Add(1)
				}
			})
		}
	}
	all.Wait()
	require.EqualValues(t, 10, admitted.Load())
}

func twoRegions(t *testing.T) {
	rules := []limit.Rule{{Counter: "key/k/requests/minute", Measure: limit.Requests, Window: limit.Minute, Limit: 10}}
	admitted := 0
	for range 2 {
		region := limit.Divide(limit.NewMemory(limit.Options{}), limit.Division{Part: 0.5})
		for range 10 {
			d, err := region.Reserve(t.Context(),
				limit.Demand{ID: "x", Rules: rules, Amounts: limit.Amounts{limit.Requests: 1}})
			require.NoError(t, err)
			if d.Refused < 0 {
				admitted++
			}
		}
	}
	require.Equal(t, 10, admitted)
}

func reservedBefore(t *testing.T, g limitGateway) {
	let := g.held(t)
	_, key := g.key(t, "--tpm", "120")
	// Each may use 40 tokens and its prompt, which is guessed: two fit, before any has used one.
	body := chatOf("openai/m", 40, "")
	var statuses map[int]int
	done := make(chan struct{})
	go func() {
		defer close(done)
		statuses = g.atOnce(t, 10, key, body)
	}()
	harness.Eventually(t, "the provider is asked", func() error {
		if g.reached() < 2 {
			return errNotYet
		}
		return nil
	})
	let()
	<-done
	require.Equal(t, map[int]int{http.StatusOK: 2, http.StatusTooManyRequests: 8}, statuses)
}

func streamTakenOnce(t *testing.T, g limitGateway) {
	g.worker.answers(func(w http.ResponseWriter, _ *http.Request, _ asking) {
		write(w, openAI.stream(completion{text: "yes", stop: "stop", usage: counts{prompt: 30, output: 20}})...)
	})
	_, key := g.key(t, "--tpm", "1000")
	for range 3 {
		r := g.ask(t, key, chatPath, chatOf("openai/m", 100, `,"stream":true`))
		require.Equal(t, http.StatusOK, r.status, r.body)
		require.Contains(t, r.body, "data: [DONE]")
	}
	// What is left is told as of the reservation of the next: three streams of 50 tokens are taken, once each.
	g.worker.answers(answerLine)
	harness.Eventually(t, "what was used", func() error {
		r := g.ask(t, key, chatPath, chatOf("openai/m", 1, ""))
		left := r.number("x-ratelimit-remaining-tokens")
		if left > 850 || left < 1000-3*50-60 {
			return errNotYet
		}
		return nil
	})
}

func limitWithoutEffect(t *testing.T, g limitGateway) {
	for what, document := range map[string]string{
		"an unknown domain":   "kind: RateLimit\nname: bad\ndomain: nonsense\ndescriptors: [{key: key, rate_limit: {unit: MINUTE, requests_per_unit: 1}}]\n",
		"an unknown key":      "kind: RateLimit\nname: bad\ndomain: requests\ndescriptors: [{key: moon, rate_limit: {unit: MINUTE, requests_per_unit: 1}}]\n",
		"no limit at its end": "kind: RateLimit\nname: bad\ndomain: requests\ndescriptors: [{key: key}]\n",
		"a budget by hour":    "kind: Organization\nname: bad\nbudgets: [{unit: HOUR, usd: '1'}]\n",
	} {
		out, err := harness.Command(t, document, "config", "apply", "--data", g.Dir, "-f", "-")
		require.Error(t, err, what)
		require.Contains(t, out, "bad", "it says of which object")
	}
	out, err := harness.Command(t,
		"kind: RateLimit\nname: dangling\ndomain: requests\ndescriptors: [{key: provider, value: gone, rate_limit: {unit: MINUTE, requests_per_unit: 1}}]\n",
		"config", "apply", "--data", g.Dir, "-f", "-")
	require.Error(t, err)
	require.Contains(t, out, "RateLimit dangling has no effect", "it is stored, and says so")
	t.Cleanup(func() { harness.Must(t, "", "config", "delete", "--data", g.Dir, "ratelimits", "dangling") })
	harness.Eventually(t, "a limit on nothing is reported", func() error {
		out, _ := harness.Command(t, "", "config", "get", "--data", g.Dir, "ratelimits", "dangling", "-o", "json")
		if !strings.Contains(out, "gone") || !strings.Contains(out, `"error"`) {
			return errNotYet
		}
		return nil
	})
}

func lastOfABudget(t *testing.T, g limitGateway) {
	// The 5 tokens of an answer are half a cent: the budget has room for ten.
	_, key := g.key(t, "--budget-usd-day", "0.05")
	statuses := g.atOnce(t, 30, key, chatOf("openai/m", 2, ""))
	require.Positive(t, statuses[http.StatusOK])
	require.LessOrEqual(t, statuses[http.StatusOK], 10)
	require.Equal(t, 30, statuses[http.StatusOK]+statuses[http.StatusTooManyRequests])
}

func sharedBudgets(t *testing.T, g limitGateway) {
	g.Apply(t, &configv1.Organization{Name: "spent", Budgets: []*configv1.Budget{{Unit: configv1.Unit_MONTH, Usd: "0"}}},
		&configv1.Organization{Name: "acme"},
		&configv1.Project{Name: "acme/spent", Budgets: []*configv1.Budget{{Unit: configv1.Unit_DAY, Usd: "0"}}},
		&configv1.RateLimit{Name: "users", Domain: "requests", Descriptors: []*configv1.RateLimitDescriptor{
			{Key: "user", RateLimit: &configv1.RateLimitPolicy{Unit: configv1.Unit_HOUR, RequestsPerUnit: 2}}}})
	t.Cleanup(func() { harness.Must(t, "", "config", "delete", "--data", g.Dir, "ratelimits", "users") })
	for _, flags := range [][]string{{"--organization", "spent"}, {"--organization", "acme", "--project", "spent"}} {
		_, key := g.key(t, flags...)
		harness.Eventually(t, "the budget holds", func() error {
			if r := g.ask(t, key, chatPath, chatOf("openai/m", 2, "")); r.status != http.StatusTooManyRequests ||
				r.err.Code != "insufficient_quota" {
				return errNotYet
			}
			return nil
		})
	}
	_, key := g.key(t)
	harness.Eventually(t, "the user's limit holds", func() error {
		if r := g.ask(t, key, chatPath, chatOf("openai/m", 2, `,"user":"probe"`)); r.status != http.StatusTooManyRequests {
			return errNotYet
		}
		return nil
	})
	statuses := g.atOnce(t, 10, key, chatOf("openai/m", 2, `,"user":"somebody"`))
	require.Equal(t, map[int]int{http.StatusOK: 2, http.StatusTooManyRequests: 8}, statuses)
	require.Equal(t, http.StatusOK, g.ask(t, key, chatPath, chatOf("openai/m", 2, `,"user":"another"`)).status)
	require.Equal(t, http.StatusOK, g.ask(t, key, chatPath, chatOf("openai/m", 2, "")).status, "nobody in particular")
}

func noBudget(t *testing.T, g limitGateway) {
	_, key := g.key(t, "--organization", "free", "--project", "too")
	require.Equal(t, map[int]int{http.StatusOK: 50}, g.atOnce(t, 50, key, chatOf("openai/m", 1000, "")))
	r := g.ask(t, key, chatPath, chatOf("openai/m", 2, ""))
	require.Empty(t, r.header.Get("x-ratelimit-limit-requests"), "there is none to tell of")
}

func everyWay(t *testing.T, g limitGateway) {
	ways := map[string]string{
		"/v1/chat/completions":   chatOf("openai/m", 2, ""),
		"/v1/completions":        `{"model":"openai/m","prompt":"hi","max_tokens":2}`,
		"/v1/embeddings":         `{"model":"openai/m","input":"hi"}`,
		"/v1/responses":          `{"model":"openai/m","input":"hi"}`,
		"/v1/moderations":        `{"model":"openai/m","input":"hi"}`,
		"/v1/images/generations": `{"model":"openai/m","prompt":"hi"}`,
		"/v1/ocr":                `{"query":"hi"}`, // a Route
	}
	for path, body := range ways {
		_, key := g.key(t, "--rph", "1")
		require.NotEqual(t, http.StatusTooManyRequests, g.ask(t, key, path, body).status, path)
		r := g.ask(t, key, path, body)
		require.Equal(t, http.StatusTooManyRequests, r.status, path)
		require.Equal(t, "rate_limit_exceeded", r.err.Code, path)
		_, poor := g.key(t, "--budget-usd-month", "0")
		r = g.ask(t, poor, path, body)
		require.Equal(t, http.StatusTooManyRequests, r.status, path)
		require.Equal(t, "insufficient_quota", r.err.Code, path)
	}
	_, poor := g.key(t, "--budget-usd-month", "0")
	batch := g.ask(t, poor, "/v1/batches",
		`{"input_file_id":"file-x","endpoint":"/v1/chat/completions","completion_window":"24h"}`)
	require.Equal(t, http.StatusTooManyRequests, batch.status, "nothing could come of it")
	require.Equal(t, "insufficient_quota", batch.err.Code)
}

func refusalForm(t *testing.T, g limitGateway) {
	_, key := g.key(t, "--rpm", "2", "--tpm", "5000")
	first := g.ask(t, key, chatPath, chatOf("openai/m", 2, ""))
	require.Equal(t, http.StatusOK, first.status, first.body)
	require.Equal(t, 2, first.number("x-ratelimit-limit-requests"))
	require.Equal(t, 1, first.number("x-ratelimit-remaining-requests"))
	require.Equal(t, 5000, first.number("x-ratelimit-limit-tokens"))
	require.Less(t, first.number("x-ratelimit-remaining-tokens"), 5000)
	require.Positive(t, first.reset("requests"))
	require.Positive(t, first.reset("tokens"))

	stream := g.ask(t, key, chatPath, chatOf("echo/echo", 2, `,"stream":true`))
	require.Equal(t, http.StatusOK, stream.status)
	require.Equal(t, 0, stream.number("x-ratelimit-remaining-requests"))

	refused := g.ask(t, key, chatPath, chatOf("openai/m", 2, ""))
	require.Equal(t, http.StatusTooManyRequests, refused.status)
	require.Equal(t, "requests", refused.err.Type)
	require.Equal(t, "rate_limit_exceeded", refused.err.Code)
	require.Contains(t, refused.err.Message, "requests per min (RPM): Limit 2")
	seconds, millis := refused.number("retry-after"), refused.number("retry-after-ms")
	require.Positive(t, seconds)
	require.LessOrEqual(t, seconds, 61)
	require.Greater(t, millis, (seconds-1)*1000-1)
	require.LessOrEqual(t, millis, seconds*1000)
	require.Equal(t, 0, refused.number("x-ratelimit-remaining-requests"))
	require.Empty(t, refused.header.Get("x-should-retry"), "time helps")

	_, small := g.key(t, "--tpm", "50")
	large := g.ask(t, small, chatPath, chatOf("openai/m", 1000, ""))
	require.Equal(t, http.StatusTooManyRequests, large.status)
	require.Equal(t, "tokens", large.err.Type)
	require.Contains(t, large.err.Message, "Request too large")
	require.Equal(t, "false", large.header.Get("x-should-retry"))

	_, poor := g.key(t, "--budget-usd-day", "0")
	r := g.ask(t, poor, chatPath, chatOf("openai/m", 2, ""))
	require.Equal(t, "insufficient_quota", r.err.Type)
	require.Equal(t, "false", r.header.Get("x-should-retry"))
}

func refundedRefusal(t *testing.T, g limitGateway) {
	// a body that was read and refused is a request, and nothing else
	_, key := g.key(t, "--rpm", "5", "--tpm", "5000", "--models", "openai/*")
	for _, body := range []string{`{"model":"openai/m"}`, `{"model":"none","messages":[]}`, `not JSON`,
		chatOf("anthropic/x", 2, "")} {
		r := g.ask(t, key, chatPath, body)
		require.Contains(t, []int{http.StatusBadRequest, http.StatusNotFound}, r.status, r.body)
	}
	r := g.ask(t, key, chatPath, chatOf("openai/m", 2, ""))
	require.Equal(t, http.StatusOK, r.status, "the one request is still there: %s", r.body)
	require.Greater(t, r.number("x-ratelimit-remaining-tokens"), 4900)
	// A provider's refusal is a request, and no tokens.
	g.worker.answers(func(w http.ResponseWriter, _ *http.Request, _ asking) { answerStatus(w, http.StatusBadRequest) })
	_, key = g.key(t, "--rpm", "1", "--tpm", "5000")
	require.Equal(t, http.StatusBadRequest, g.ask(t, key, chatPath, chatOf("openai/m", 4000, "")).status)
	refused := g.ask(t, key, chatPath, chatOf("openai/m", 4000, ""))
	require.Equal(t, http.StatusTooManyRequests, refused.status)
	require.Equal(t, "requests", refused.err.Type, "its tokens were given back")
}
