package cases

import (
	"context"
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
)

// tenants are organizations and what they share.
func tenants() []configv1.Object {
	return []configv1.Object{
		&configv1.Organization{Name: "closed", Disabled: true},
		&configv1.Organization{Name: "open"},
		&configv1.Project{Name: "open/shut", Disabled: true},
		&configv1.Project{Name: "open/small", Limits: []*configv1.Limit{{Domain: "tokens", Unit: configv1.Unit_HOUR,
			RequestsPerUnit: 5000}}},
		&configv1.RateLimit{Name: "users", Domain: "requests", Descriptors: []*configv1.RateLimitDescriptor{{
			Key: "organization", Value: "open", Descriptors: []*configv1.RateLimitDescriptor{{
				Key: "user", RateLimit: &configv1.RateLimitPolicy{Unit: configv1.Unit_HOUR, RequestsPerUnit: 2},
			}},
		}}},
		&configv1.RateLimit{Name: "loud", Domain: "requests", When: `user.startsWith("loud-") && size > 20`,
			Descriptors: []*configv1.RateLimitDescriptor{{Key: "key", RateLimit: &configv1.RateLimitPolicy{
				Unit: configv1.Unit_HOUR, RequestsPerUnit: 1}}}},
	}
}

func limits(t *testing.T, g *Gateway) {
	t.Run("pitfall 99: what a client is told", func(t *testing.T) { limitHeaders(t, g) })
	t.Run("pitfall 98: every operation counts", func(t *testing.T) { limitOperations(t, g) })
	t.Run("a body that is not announced is reserved", func(t *testing.T) { limitChunked(t, g) })
	t.Run("pitfall 95: calls at the same time do not overspend", func(t *testing.T) { limitBudget(t, g) })
	t.Run("pitfall 97: without a budget nothing is exceeded", func(t *testing.T) {
		g.A.Answers(status(200, string(Recording(t, "openai-text.json"))))
		require.Equal(t, 200, g.with(g.NewKey(t, &configv1.Key{})).Chat(t, hello).Status)
	})
	t.Run("requests at the same time", func(t *testing.T) { limitConcurrency(t, g) })
	t.Run("users", func(t *testing.T) { limitUsers(t, g) })
	t.Run("requests of an expression", func(t *testing.T) { limitSome(t, g) })
	t.Run("cost", func(t *testing.T) { costs(t, g) })
	t.Run("a provider's concurrency", func(t *testing.T) { providerConcurrency(t, g) })
}

// with returns the gateway as the holder of another key sees it.
func (g *Gateway) with(key string) *Gateway {
	as := *g
	as.Key = key
	return &as
}

func perHour(domain string, n uint64) *configv1.Limit {
	return &configv1.Limit{Domain: domain, Unit: configv1.Unit_HOUR, RequestsPerUnit: n}
}

func limitSome(t *testing.T, g *Gateway) {
	key := g.with(g.NewKey(t, &configv1.Key{}))
	g.A.Answers(status(200, string(Recording(t, "openai-text.json"))))
	for _, asked := range []struct {
		user   string
		status int
	}{{"loud-1", 200}, {"loud-2", 429}, {"quiet", 200}, {"loud-1", 429}} {
		a := key.Chat(t, hello[:len(hello)-1]+`,"user":"`+asked.user+`"}`)
		require.Equal(t, asked.status, a.Status, "%s: %s", asked.user, a.Body)
		require.Equal(t, asked.user == "quiet", a.Header.Get("X-Ratelimit-Limit-Requests") == "", asked.user)
	}
}

func limitHeaders(t *testing.T, g *Gateway) {
	key := g.with(g.NewKey(t, &configv1.Key{Organization: "open", Project: "small",
		Limits: []*configv1.Limit{perHour("requests", 4), perHour("tokens", 3000)}}))
	told := func(a Answer, requests string) {
		t.Helper()
		require.Equal(t, "4", a.Header.Get("X-Ratelimit-Limit-Requests"))
		require.Equal(t, requests, a.Header.Get("X-Ratelimit-Remaining-Requests"))
		require.Equal(t, "3000", a.Header.Get("X-Ratelimit-Limit-Tokens"))
		require.Equal(t, "5000", a.Header.Get("X-Ratelimit-Limit-Project-Tokens"))
		left, err := strconv.Atoi(a.Header.Get("X-Ratelimit-Remaining-Tokens"))
		require.NoError(t, err)
		require.Less(t, left, 3000)
		for _, what := range []string{"Requests", "Tokens", "Project-Tokens"} {
			reset, err := time.ParseDuration(a.Header.Get("X-Ratelimit-Reset-" + what))
			require.NoError(t, err)
			require.Greater(t, reset, time.Second)
			require.Less(t, reset, 2*time.Hour)
		}
	}
	g.A.Answers(status(200, string(Recording(t, "openai-text.json"))))
	a := key.Chat(t, hello)
	require.Equal(t, 200, a.Status)
	told(a, "3")
	g.A.Answers(stream(Recording(t, "openai-text.sse"), 100))
	a = key.Chat(t, hello[:len(hello)-1]+`,"stream":true}`)
	a.Events(t)
	told(a, "2")
	g.A.Answers(status(400, `{"error":{"message":"no"}}`))
	a = key.Chat(t, hello)
	require.Equal(t, 400, a.Status)
	told(a, "1")
	g.A.Answers(status(500, `{}`))
	a = key.Chat(t, hello)
	require.GreaterOrEqual(t, a.Status, 500, "%s", a.Body)
	told(a, "0")
	require.Equal(t, "false", a.Header.Get("X-Should-Retry"), "pitfall 102: the gateway has tried again already")

	g.A.Answers(nil)
	a = key.Do(t, "POST", "/v1/chat/completions", hello, "X-Request-Id", "limited-1")
	require.Equal(t, 429, a.Status)
	told(a, "0")
	f := a.Failure(t)
	require.Equal(t, "requests", f.Type)
	require.Equal(t, "rate_limit_exceeded", f.Code)
	require.Regexp(t,
		`^Rate limit reached for a/gpt-4\.1 in organization open on requests per hour \(RPH\): Limit 4, Used 4, Requested 1\. Please try again in [0-9hms.]+\. `, f.Message)
	seconds, err := strconv.Atoi(a.Header.Get("Retry-After"))
	require.NoError(t, err)
	milliseconds, err := strconv.Atoi(a.Header.Get("Retry-After-Ms"))
	require.NoError(t, err)
	require.Equal(t, (milliseconds+999)/1000, seconds)
	require.Empty(t, a.Header.Get("X-Should-Retry"))
	require.Empty(t, g.A.Requests(), "nothing reaches a provider")
	require.Equal(t, "rejected", g.Logged(t, "limited-1")["outcome"])

	large := g.with(g.NewKey(t, &configv1.Key{Limits: []*configv1.Limit{perHour("output_tokens", 10)}}))
	a = large.Chat(t, hello[:len(hello)-1]+`,"max_tokens":11}`)
	require.Equal(t, 429, a.Status)
	require.Equal(t, "false", a.Header.Get("X-Should-Retry"))
	require.Equal(t, "tokens", a.Failure(t).Type)
	require.Contains(t, a.Failure(t).Message,
		"Request too large for a/gpt-4.1 on output tokens per hour: Limit 10, Requested 11.")
}

// limitOperations has every way to a provider use up the same limits.
func limitOperations(t *testing.T, g *Gateway) {
	const usage = `"usage":{"prompt_tokens":20,"completion_tokens":10,"total_tokens":30}}`
	for _, c := range []struct {
		name, path, body, answer string
		tokens                   int
	}{
		{"chat", "/v1/chat/completions", hello, string(Recording(t, "openai-text.json")), 18},
		{"completions", "/v1/completions", `{"model":"a/x","prompt":"hi"}`,
			`{"id":"c","object":"text_completion","created":1,"model":"x","choices":[{"text":"a","index":0,"logprobs":null,"finish_reason":"stop"}],` + usage, 30},
		{"embeddings", "/v1/embeddings", `{"model":"a/x","input":"hi"}`,
			`{"object":"list","data":[{"object":"embedding","index":0,"embedding":[1]}],"model":"x","usage":{"prompt_tokens":20,"total_tokens":20}}`, 20},
		{"responses", "/v1/responses", `{"model":"a/x","input":"hi"}`,
			`{"id":"r","usage":{"input_tokens":20,"output_tokens":10,"total_tokens":30}}`, 30},
		{"a route", "/v1/ocr", `{"model":"x"}`, `{"results":[],` + usage, 30},
		{"a route to another dialect", "/anthropic/messages", `{"model":"x"}`,
			`{"type":"message","model":"claude-haiku-4-5","usage":{"input_tokens":5,"cache_read_input_tokens":15,"output_tokens":10}}`, 30},
	} {
		t.Run(c.name, func(t *testing.T) {
			key := g.with(g.NewKey(t, &configv1.Key{Limits: []*configv1.Limit{perHour("requests", 2),
				perHour("tokens", 10_000)}}))
			g.A.Answers(status(200, c.answer))
			g.B.Answers(status(200, c.answer))
			a := key.Do(t, "POST", c.path, c.body)
			require.Equal(t, 200, a.Status, "%s", a.Body)
			a = key.Do(t, "POST", c.path, c.body)
			require.Equal(t, 200, a.Status, "%s", a.Body)
			require.Equal(t, "0", a.Header.Get("X-Ratelimit-Remaining-Requests"))
			a = key.Do(t, "POST", c.path, c.body)
			require.Equal(t, 429, a.Status)
			require.Equal(t, "requests", a.Failure(t).Type)
			require.Equal(t, strconv.Itoa(10_000-2*c.tokens), a.Header.Get("X-Ratelimit-Remaining-Tokens"),
				"what the provider says was used, twice")
			require.Equal(t, 200, key.Do(t, "GET", "/v1/models", "").Status, "what asks no provider is not limited")
		})
	}
}

// limitChunked has a Route reserve a body as well that is not announced, and send it on.
func limitChunked(t *testing.T, g *Gateway) {
	key := g.with(g.NewKey(t, &configv1.Key{Limits: []*configv1.Limit{perHour("tokens", 10_000)}}))
	for words, want := range map[int]int{10: 200, 10_000: 429} {
		body := `{"model":"x","query":"` + strings.Repeat("word ", words) + `"}`
		g.A.Answers(status(200, `{"results":[]}`))
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.URL+"/v1/ocr",
			io.MultiReader(strings.NewReader(body)))
		require.NoError(t, err)
		r.Header = http.Header{"Authorization": {"Bearer " + key.Key}, "Content-Type": {"application/json"}}
		response, err := g.Client.Do(r)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, want, response.StatusCode)
		if want == 200 {
			require.Len(t, g.A.Requests(), 1)
			require.Equal(t, body, string(g.A.Requests()[0].Body))
			require.EqualValues(t, len(body), g.A.Requests()[0].Length, "which is known now")
		}
	}
}

// limitBudget has many calls at once want the rest of a budget: 18 tokens of gpt-4.1 cost 8 x 2 + 10 x 8 millionths of
// a dollar.
func limitBudget(t *testing.T, g *Gateway) {
	const cost, calls = 96, 20
	key := g.with(g.NewKey(t,
		&configv1.Key{Budgets: []*configv1.Budget{{Unit: configv1.Unit_MONTH, Usd: fmt.Sprintf("%.6f", 3.5*cost/1e6)}}}))
	g.A.Answers(status(200, string(Recording(t, "openai-text.json"))))
	ask := hello[:len(hello)-1] + `,"max_tokens":10}`
	var all sync.WaitGroup
	answers := make(chan Answer, calls)
	for range calls {
		all.Go(func() { answers <- key.Chat(t, ask) })
	}
	all.Wait()
	close(answers)
	served := 0
	for a := range answers {
		if a.Status == 200 {
			served++
			continue
		}
		require.Equal(t, 429, a.Status)
		if a.Failure(t).Code == "rate_limit_exceeded" { // what is left is reserved, and may come free
			require.NotEmpty(t, a.Header.Get("Retry-After"))
		}
	}
	require.Positive(t, served)
	var a Answer
	for a = key.Chat(t, ask); a.Status == 200; a = key.Chat(t, ask) {
		served++
	}
	require.Equal(t, 3, served, "the budget is used up, and no more")
	f := a.Failure(t)
	require.Equal(t, "insufficient_quota", f.Type)
	require.Equal(t, "insufficient_quota", f.Code)
	require.Contains(t, f.Message, "of the budget of $0.000336 a month of the key")
	require.Equal(t, "false", a.Header.Get("X-Should-Retry"))
	require.Empty(t, a.Header.Get("Retry-After"))
}

// hold has a vendor keep every request until the returned function is called. Of each it says so.
func hold(t *testing.T, v *Vendor, answer http.HandlerFunc) (asked chan struct{}, release func()) {
	asked, released := make(chan struct{}, 100), make(chan struct{})
	v.Answers(func(w http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		select {
		case <-released:
			answer(w, r)
		case <-r.Context().Done():
		}
	})
	release = sync.OnceFunc(func() { close(released) })
	t.Cleanup(release)
	return asked, release
}

func await(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(soon):
		t.Fatal(what)
	}
}

func limitConcurrency(t *testing.T, g *Gateway) {
	key := g.with(g.NewKey(t, &configv1.Key{Limits: []*configv1.Limit{{Domain: "concurrency", RequestsPerUnit: 1}}}))
	whole := status(200, string(Recording(t, "openai-text.json")))
	t.Run("until the first has its answer", func(t *testing.T) {
		asked, release := hold(t, g.A, whole)
		done := make(chan Answer, 1)
		go func() { done <- key.Chat(t, hello) }()
		await(t, "the provider is not asked", asked)
		a := key.Chat(t, hello)
		require.Equal(t, 429, a.Status)
		f := a.Failure(t)
		require.Equal(t, "requests", f.Type)
		require.Contains(t, f.Message, "on concurrent requests: Limit 1, Used 1, Requested 1.")
		require.NotEmpty(t, a.Header.Get("Retry-After"))
		release()
		require.Equal(t, 200, (<-done).Status)
		require.Equal(t, 200, key.Chat(t, hello).Status, "its place was free before its client had the answer")
	})
	t.Run("or its client has left", func(t *testing.T) {
		asked, _ := hold(t, g.A, whole)
		ctx, leave := context.WithCancel(t.Context())
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			r, _ := http.NewRequestWithContext(ctx, http.MethodPost, g.URL+"/v1/chat/completions", strings.NewReader(hello))
			r.Header.Set("Authorization", "Bearer "+key.Key)
			r.Header.Set("Content-Type", "application/json")
			if response, err := g.Client.Do(r); err == nil {
				_, _ = io.Copy(io.Discard, response.Body)
				_ = response.Body.Close()
			}
		}()
		await(t, "the provider is not asked", asked)
		leave()
		await(t, "the client waits", gone)
		g.A.Answers(whole)
		require.Eventually(t, func() bool { return key.Chat(t, hello).Status == 200 }, soon, 10*time.Millisecond)
	})
}

func limitUsers(t *testing.T, g *Gateway) {
	g.A.Answers(status(200, string(Recording(t, "openai-text.json"))))
	first := g.with(g.NewKey(t, &configv1.Key{Organization: "open"}))
	second := g.with(g.NewKey(t, &configv1.Key{Organization: "open"}))
	ask := func(key *Gateway, user string) int {
		return key.Chat(t, hello[:len(hello)-1]+`,"user":"`+user+`"}`).Status
	}
	require.Equal(t, 200, ask(first, "alice"))
	require.Equal(t, 200, ask(second, "alice"))
	require.Equal(t, 429, ask(first, "alice"), "of an organization, by whichever key")
	require.Equal(t, 200, ask(first, "bob"))
	require.Equal(t, 200, first.Chat(t, hello).Status, "nobody in particular")
}

func costs(t *testing.T, g *Gateway) {
	g.A.Answers(status(200, string(Recording(t, "openai-text.json"))))
	a := g.Do(t, "POST", "/v1/chat/completions", hello, "X-Request-Id", "cost-1", "X-Modelgate-Include-Cost", "true")
	require.Equal(t, "0.000096", a.Header.Get("X-Modelgate-Cost-Usd"))
	require.Empty(t, g.A.Requests()[0].Header.Get("X-Modelgate-Include-Cost"))
	require.Equal(t, "0.000096", g.Logged(t, "cost-1")["cost_usd"])

	g.A.Answers(stream(Recording(t, "openai-text.sse"), 1000))
	a = g.Do(t, "POST", "/v1/chat/completions", hello[:len(hello)-1]+`,"stream":true}`, "X-Request-Id", "cost-2")
	a.Events(t)
	// 1144 tokens of input of which 1024 were cached, and 2 of output.
	require.Equal(t, "0.000768", g.Logged(t, "cost-2")["cost_usd"])

	t.Run("of who answers after a failure", func(t *testing.T) {
		g.A.Answers(status(503, `{}`))
		g.B.Answers(status(200, string(Recording(t, "anthropic-text.json"))))
		g.Do(t, "POST", "/v1/chat/completions", strings.Replace(hello, "a/gpt-4.1", "smart", 1), "X-Request-Id", "cost-3")
		require.Equal(t, "0.000088", g.Logged(t, "cost-3")["cost_usd"])
	})
	t.Run("of what the client has not waited for", func(t *testing.T) {
		sent := make(chan struct{})
		recorded := Recording(t, "openai-text.sse")
		g.A.Answers(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = w.Write(recorded[:strings.Index(string(recorded), `"finish_reason":"stop"`)-200])
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			close(sent)
		})
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.URL+"/v1/chat/completions",
			strings.NewReader(hello[:len(hello)-1]+`,"stream":true}`))
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer "+g.Key)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("X-Request-Id", "cost-4")
		response, err := g.Client.Do(r)
		require.NoError(t, err)
		_, err = response.Body.Read(make([]byte, 1))
		require.NoError(t, err)
		_ = response.Body.Close()
		await(t, "the provider still answers", sent)
		line := g.Logged(t, "cost-4")
		require.Equal(t, "cancelled", line["outcome"])
		require.Equal(t, true, line["estimated"])
		require.NotEmpty(t, line["cost_usd"])
	})
}

func providerConcurrency(t *testing.T, g *Gateway) {
	narrow := strings.Replace(hello, "a/gpt-4.1", "narrow/x", 1)
	whole := status(200, string(Recording(t, "openai-text.json")))
	asked, release := hold(t, g.A, whole)
	done := make(chan Answer, 3)
	go func() { done <- g.Chat(t, narrow) }()
	await(t, "the provider is not asked", asked)

	g.B.Answers(status(200, string(Recording(t, "anthropic-text.json"))))
	a := g.Chat(t, strings.Replace(hello, "a/gpt-4.1", "narrow-first", 1))
	require.Equal(t, 200, a.Status)
	require.Equal(t, "b", a.Header.Get("X-Modelgate-Provider"), "one that is free is asked")

	waited := func() bool { return impatient(t, g, narrow).Status == 0 }
	require.Eventually(t, waited, soon/2, 20*time.Millisecond, "there is a queue")
	require.Eventually(t, waited, soon/2, 20*time.Millisecond, "a client that leaves the queue frees its place there")

	go func() {
		a := g.Chat(t, narrow)
		for a.Status == 503 { // until it is the one that waits
			a = g.Chat(t, narrow)
		}
		done <- a
	}()
	var full Answer
	require.Eventually(t, func() bool {
		full = impatient(t, g, narrow)
		return full.Status != 0
	}, soon/2, 20*time.Millisecond)
	require.Equal(t, 503, full.Status)
	require.Equal(t, "server_is_overloaded", full.Failure(t).Code)
	require.NotEmpty(t, full.Header.Get("Retry-After"))
	require.Empty(t, asked, "the provider has one request at a time")
	release()
	require.Equal(t, 200, (<-done).Status)
	require.Equal(t, 200, (<-done).Status)
}

// impatient asks and leaves where there is no answer soon; then the status is 0.
func impatient(t *testing.T, g *Gateway, body string) Answer {
	ctx, leave := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer leave()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, g.URL+"/v1/chat/completions", strings.NewReader(body))
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+g.Key)
	r.Header.Set("Content-Type", "application/json")
	response, err := g.Client.Do(r)
	if err != nil {
		return Answer{}
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	return Answer{response.StatusCode, response.Header, text, err}
}

// admission is who may ask for what, from where.
func admission(t *testing.T, g *Gateway) {
	code := func(key string, headers ...string) any {
		t.Helper()
		a := g.with(key).Do(t, "GET", "/v1/models", "", headers...)
		if a.Status == 200 {
			return 200
		}
		return fmt.Sprint(a.Status, " ", a.Failure(t).Code)
	}
	for name, k := range map[string]*configv1.Key{
		"an organization that is disabled": {Organization: "closed"},
		"a project that is":                {Organization: "open", Project: "shut"},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, "401 invalid_api_key", code(g.NewRefusedKey(t, k))) })
	}
	t.Run("addresses", func(t *testing.T) {
		here := g.NewKey(t, &configv1.Key{Addresses: []string{"192.0.2.7", "127.0.0.0/8", "::1"}})
		require.Equal(t, 200, code(here))
		require.Equal(t, 200, code(here, "X-Forwarded-For", "192.0.2.8", "X-Envoy-External-Address", "192.0.2.8"))
		there := g.NewKey(t, &configv1.Key{Addresses: []string{"192.0.2.7"}})
		for _, forged := range [][]string{
			nil, {"X-Forwarded-For", "192.0.2.7"}, {"X-Envoy-External-Address", "192.0.2.7"},
			{"X-Forwarded-For", "192.0.2.7", "X-Envoy-External-Address", "192.0.2.7", "X-Envoy-Internal", "true", "X-Real-Ip",
				"192.0.2.7", "Forwarded", "for=192.0.2.7"},
		} {
			require.Equal(t, "401 ip_not_authorized", code(there, forged...), "%v", forged)
		}
	})
	t.Run("endpoints", func(t *testing.T) {
		key := g.with(g.NewKey(t, &configv1.Key{Endpoints: []string{"embeddings", "models", "anthropic/*"}}))
		require.Equal(t, 200, code(key.Key))
		for _, path := range []string{"/v1/chat/completions", "/v1/responses", "/v1/ocr", "/v1/files",
			"/v1/embeddingsx"} {
			a := key.Do(t, "POST", path, hello)
			require.Equal(t, 403, a.Status, path)
			require.Equal(t, "insufficient_permissions", a.Failure(t).Code)
		}
		for _, version := range []string{"v1", "v1beta"} { // whose models may be listed, but not used
			a := key.Do(t, "POST", "/"+version+"/models/a/gpt-4.1:generateContent", askGemini)
			require.Equal(t, 403, a.Status, "%s", a.Body)
		}
		g.B.Answers(status(200, `{}`))
		require.Equal(t, 200, key.Do(t, "POST", "/anthropic/messages", `{}`).Status)
	})
	t.Run("reports need the ledger", func(t *testing.T) {
		require.NotEqual(t, 404, g.Do(t, "GET", "/v1/organization/costs?start_time=1700000000", "").Status)
		require.Equal(t, 404, g.Do(t, "GET", "/v1/organization/users", "").Status)
		require.Equal(t, 405, g.Do(t, "POST", "/v1/organization/costs", "{}").Status)
		require.Equal(t, 401, g.Do(t, "GET", "/v1/organization/costs", "", "Authorization", "").Status)
	})
}
