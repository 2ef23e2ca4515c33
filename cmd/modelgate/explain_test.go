package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/provider/all"
	"github.com/modelgate/modelgate/internal/translate"
)

// explained runs modelgate explain of a chat for a model, and returns its JSON.
func explained(t *testing.T, c *cli, exit int, model string, args ...string) gjson.Result {
	t.Helper()
	c.stdin(t, fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"hi"}],"max_tokens":100}`, model))
	out, _ := c.run(t, exit, append([]string{"explain", "-", "-o", "json"}, args...)...)
	require.True(t, json.Valid([]byte(out)), out)
	return gjson.Parse(out)
}

func explainable(t *testing.T) (*fakeAdmin, *cli) {
	f := startFakeAdmin(t)
	env := &configv1.Credential{Source: &configv1.Credential_Env{Env: "K"}}
	f.objects = []configv1.Object{
		&configv1.Provider{Name: "openai", Vendor: "openai", Credential: env, Headers: map[string]string{"x-team": "blue"}},
		&configv1.Provider{Name: "claude", Vendor: "anthropic", Credential: env,
			UnsupportedParameters: configv1.UnsupportedParameters_DROP},
		&configv1.Provider{Name: "aws", Vendor: "bedrock", Region: "us-east-1", Credential: env},
		&configv1.Provider{Name: "off", Vendor: "openai", Credential: env, Disabled: true},
		&configv1.Model{Name: "smart", Targets: []*configv1.Target{
			{Provider: "aws", Model: "anthropic.claude-sonnet-4-5", Priority: 1},
			{Provider: "openai", Model: "gpt-4.1", Weight: 3},
			{Provider: "claude", Model: "claude-sonnet-4-5"}, {Provider: "off", Model: "gpt-4.1"},
			{Provider: "gone", Model: "m"},
		}},
		&configv1.Organization{Name: "acme", Limits: []*configv1.Limit{{Domain: "tokens", Unit: configv1.Unit_MINUTE,
			RequestsPerUnit: 1000}}},
		&configv1.RateLimit{Name: "all", Domain: "requests",
			Descriptors: []*configv1.RateLimitDescriptor{{Key: "model", Value: "smart",
				RateLimit: &configv1.RateLimitPolicy{Unit: configv1.Unit_HOUR, RequestsPerUnit: 77}}}},
		&configv1.Key{Name: "key_a", DisplayName: "A", Organization: "acme", Models: []string{"smart"},
			Addresses: []string{"10.0.0.0/8"},
			Endpoints: []string{"chat/completions"}, Budgets: []*configv1.Budget{{Unit: configv1.Unit_DAY, Usd: "1"}}},
	}
	return f, &cli{}
}

func TestExplainLeavesOutWhatHasNoCredential(t *testing.T) {
	f, c := explainable(t)
	f.errors["Provider openai"] = "credential: the control plane has no environment variable K, or it is empty"
	x := explained(t, c, exitOK, "smart")
	require.Equal(t, `[0,1,0,0,1]`, x.Get("targets.#.chance").Raw, "the others work")
	require.Contains(t, x.Get("targets.0.left_out").Str, "no environment variable K")
	for _, name := range []string{"claude", "aws"} {
		f.errors["Provider "+name] = "credential: broken"
	}
	require.True(t, explained(t, c, exitRefused, "smart").Get("refused").Exists(), "none is left")
}

func TestExplainFindsAModelWithoutItsProvider(t *testing.T) {
	f, c := explainable(t)
	f.objects = append(f.objects, &configv1.Provider{Name: "one", Vendor: "echo", Endpoint: "http://e.test",
		Models: []string{"bare"}}, &configv1.Key{Name: "key_one", Models: []string{"one/*"}})
	for range 2 {
		x := explained(t, c, exitOK, "bare", "--key-id", "key_one")
		require.Equal(t, `["one/bare","one/bare"]`, x.Get("plan.order").Raw)
		require.Equal(t, `["one"]`, x.Get("targets.#.provider").Raw, "as it is planned")
		require.Equal(t, "one/bare", x.Get("model").Str)
		// Another lists it, too: who may use that as well has to say which is meant.
		f.objects = append(f.objects, &configv1.Provider{Name: "two", Vendor: "echo", Endpoint: "http://e.test",
			Models: []string{"bare"}})
	}
	x := explained(t, c, exitRefused, "bare")
	require.Contains(t, x.Get("refused.body.error.message").Str, "Several providers list it")
	require.Empty(t, x.Get("targets").Array())
}

func TestExplainFollowsThePolicyThatChoosesTheModel(t *testing.T) {
	f, c := explainable(t)
	policy := &configv1.Policy{Name: "p", Rules: []*configv1.PolicyRule{{Name: "cheap", When: `model == "smart"`,
		UseModel: "other"}}}
	f.objects = append(f.objects, policy, &configv1.Provider{Name: "one", Vendor: "echo", Endpoint: "http://e.test"},
		&configv1.Model{Name: "other", Targets: []*configv1.Target{{Provider: "one", Model: "small"}}})
	x := explained(t, c, exitOK, "smart")
	require.Equal(t, "p/cheap instead of smart", x.Get("policy").Str)
	require.Equal(t, "other", x.Get("model").Str)
	require.Equal(t, `["one"]`, x.Get("targets.#.provider").Raw)
	require.Equal(t, "small", x.Get("targets.0.request.body.model").Str)
	c.stdin(t, `{"model":"smart","messages":[{"role":"user","content":"hi"}]}`)
	out, _ := c.run(t, exitOK, "explain", "-")
	require.Contains(t, out, "Model chosen by policy: p/cheap instead of smart\n")

	f.objects = append(f.objects, &configv1.Key{Name: "key_smart", Models: []string{"smart"}})
	x = explained(t, c, exitRefused, "smart", "--key-id", "key_smart")
	require.Contains(t, x.Get("refused.body.error.message").Str, "the model 'other', which this key may not use")
}

func TestExplainSaysWhichCacheIsForARequest(t *testing.T) {
	f, c := explainable(t)
	cache := &configv1.ResponseCache{Name: "faq", MaxTemperature: 1}
	f.objects = append(f.objects, cache)
	asked := func(text, more string) string {
		c.stdin(t, `{"model":"smart","messages":[{"role":"user","content":"`+text+`"}]`+more+`}`)
		out, _ := c.run(t, exitOK, "explain", "-")
		_, line, _ := strings.Cut(out, "\nResponse cache: ")
		line, _, _ = strings.Cut(line, "\n")
		return line
	}
	const question = "What are your opening hours?"
	require.Equal(t, "faq", asked(question, ""))
	cache.Similar = &configv1.SimilarAnswers{Url: "https://e.test/v1/embeddings", Model: "m"}
	cache.Credential = &configv1.Credential{Source: &configv1.Credential_Sealed{Sealed: configv1.Redacted}}
	require.Equal(t, "faq, also with the answer to a similar request", asked(question, ""))
	require.Equal(t, "faq", asked("hi", ""), "which is too short to be compared")
	require.Equal(t, "faq does not keep the answer, because of the request's temperature",
		asked(question, `,"temperature":1.5`))
}

func TestExplainShowsEveryTargetAndWhatItWouldBeSent(t *testing.T) {
	_, c := explainable(t)
	x := explained(t, c, exitOK, "smart")
	require.Equal(t, `["openai","claude","off","gone","aws"]`, x.Get("targets.#.provider").Raw, "by priority")
	require.Equal(t, `[0.75,0.25,0,0,1]`, x.Get("targets.#.chance").Raw, "among those that take it")
	require.Equal(t, `["The provider is disabled.","This provider does not exist, or its configuration is refused."]`,
		x.Get("targets.#.left_out").Raw)
	require.False(t, x.Get("refused").Exists())
	require.False(t, x.Get("key").Exists())

	openai := x.Get("targets.0")
	require.Equal(t, "POST", openai.Get("request.method").Str)
	require.Equal(t, "https://api.openai.com/v1/chat/completions", openai.Get("request.url").Str)
	require.Equal(t, "Bearer ***", openai.Get("request.headers.authorization").Str)
	require.Equal(t, "blue", openai.Get("request.headers.x-team").Str)
	require.Equal(t, "gpt-4.1", openai.Get("request.body.model").Str)
	require.NotEmpty(t, openai.Get("price.input").Str)
	require.Regexp(t, `^0\.0\d+$`, openai.Get("estimated_cost_usd").Str)
	require.Equal(t, "https://api.anthropic.com/v1/messages", x.Get("targets.1.request.url").Str)
	require.Equal(t, "***", x.Get("targets.1.request.headers.x-api-key").Str)
	require.Contains(t, x.Get("targets.4.request.url").Str, "bedrock-runtime.us-east-1.amazonaws.com")
	require.NotContains(t, x.Raw, "CREDENTIAL")

	require.Equal(t, int64(100), x.Get("reserved.output_tokens").Int())
	require.Equal(t, `["ratelimit/all/requests/hour/model=smart"]`, x.Get("limits.#.counter").Raw)
	require.Equal(t, "77", x.Get("limits.0.limit").Str)
	require.GreaterOrEqual(t, x.Get("plan.attempts").Int(), int64(2))
	require.Contains(t, x.Get("plan.retry_statuses").Raw, `"503"`)

	c.stdin(t, `{"model":"claude/x","n":2,"messages":[{"role":"user","content":"hi"}]}`)
	out, _ := c.run(t, exitOK, "explain", "-", "-o", "json")
	require.Equal(t, `["n"]`, gjson.Get(out, "targets.0.request.dropped").Raw,
		"an unlisted model, and a parameter that it lacks")
	out, _ = c.run(t, exitOK, "explain", "input")
	require.Contains(t, out, "claude/x (anthropic), priority 0, weight 1, first of its priority in 100% of cases")
	require.Contains(t, out, "price: unknown")
}

func TestExplainSignsForEveryVendorAndShowsNoCredential(t *testing.T) {
	f, c := startFakeAdmin(t), &cli{}
	every := &configv1.Model{Name: "all"}
	for name, v := range all.Providers() {
		f.objects = append(f.objects, translate.Complete(v, &configv1.Provider{}))
		every.Targets = append(every.Targets, &configv1.Target{Provider: name, Model: "m"})
	}
	f.objects = append(f.objects, every)
	x := explained(t, c, exitOK, "all")
	require.NotContains(t, x.Raw, "CREDENTIAL")
	require.Len(t, x.Get("targets").Array(), len(all.Providers()))
	for _, target := range x.Get("targets").Array() {
		require.NotEmpty(t, target.Get("request.url").Str, target.Raw)
	}
}

func TestExplainOnBehalfOfAKey(t *testing.T) {
	f, c := explainable(t)
	used := int64(500)
	f.consumption["key_a"] = adminapi.Consumption{
		Limits: []adminapi.LimitUse{{Scope: "organization/acme", Domain: "tokens", Unit: "minute", Limit: 1000,
			Used: &used}},
		Budgets: []adminapi.BudgetUse{{Scope: "key/key_a", Unit: "day", USD: "1", Spent: "0.25", Resets: time.Now()}},
	}
	x := explained(t, c, exitOK, "smart", "--key-id", "key_a")
	require.Equal(t, "active", x.Get("key.state").Str)
	require.Equal(t, "500", x.Get(`limits.#(counter=="organization/acme/tokens/minute").used`).Str)
	require.Equal(t, "$0.25", x.Get(`limits.#(counter=="budget/key/key_a/day").used`).Str)
	require.Equal(t, "$1", x.Get(`limits.#(counter=="budget/key/key_a/day").limit`).Str)

	for name, want := range map[string]struct {
		prepare func()
		model   string
		args    []string
		status  int64
		code    string
	}{
		"another model":    {func() {}, "openai/gpt-4.1", nil, 404, "model_not_found"},
		"another endpoint": {func() {}, "smart", []string{"--operation", "embeddings"}, 403, "insufficient_permissions"},
		"another address":  {func() {}, "smart", []string{"--address", "192.0.2.1"}, 401, "ip_not_authorized"},
		"a limit reached":  {func() { used = 950 }, "smart", nil, 429, "rate_limit_exceeded"},
		"a budget spent": {func() {
			used = 0
			f.consumption["key_a"].Budgets[0].Spent = "1"
		}, "smart", nil, 429, "insufficient_quota"},
	} {
		t.Run(name, func(t *testing.T) {
			used, f.consumption["key_a"].Budgets[0].Spent = 500, "0.25"
			want.prepare()
			x := explained(t, c, exitRefused, want.model, append([]string{"--key", "key_a"}, want.args...)...)
			require.Equal(t, want.status, x.Get("refused.status").Int(), x.Raw)
			require.Equal(t, want.code, x.Get("refused.body.error.code").Str)
		})
	}
	used = 950
	x = explained(t, c, exitRefused, "smart", "--key-id", "key_a")
	require.Equal(t, "POST", x.Get("targets.0.request.method").Str, "what else would be is shown all the same")
	f.objects[7].(*configv1.Key).Disabled = true
	x = explained(t, c, exitRefused, "smart", "--key-id", "key_a")
	require.Equal(t, "disabled", x.Get("key.state").Str)
	require.Equal(t, "invalid_api_key", x.Get("refused.body.error.code").Str)
}

// TestExplainShowsTheLimitsThatAreForTheRequest, and no others.
func TestExplainShowsTheLimitsThatAreForTheRequest(t *testing.T) {
	f, c := explainable(t)
	for name, when := range map[string]string{"all": "", "large": "size > 100000",
		"small": `size < 1000 && model == "smart"`, "staff": `"staff" in token.groups`, "wrong": "size"} {
		f.objects = append(f.objects, &configv1.RateLimit{Name: name, Domain: "requests", When: when,
			Descriptors: []*configv1.RateLimitDescriptor{{Key: "model", RateLimit: &configv1.RateLimitPolicy{
				Unit: configv1.Unit_MINUTE, RequestsPerUnit: 5}}}})
	}
	var names []string
	for _, l := range explained(t, c, exitOK, "smart").Get("limits.#.counter").Array() {
		names = append(names, strings.TrimSuffix(strings.TrimPrefix(l.Str, "ratelimit/"), "/requests/minute/model=smart"))
	}
	require.ElementsMatch(t, []string{"all", "small", "staff"}, names, "an expression that fails applies")
}

// TestExplainShowsWhatServiceTiersCost, and that one without a price is refused under a budget.
func TestExplainShowsWhatServiceTiersCost(t *testing.T) {
	_, c := explainable(t)
	x := explained(t, c, exitOK, "smart")
	tiers := x.Get("targets.0.service_tiers")
	require.Equal(t, "default", tiers.Get("0.name").Str)
	require.True(t, tiers.Get("0.asked").Bool())
	require.Equal(t, x.Get("targets.0.estimated_cost_usd").Str, tiers.Get("0.estimated_cost_usd").Str)
	priority := tiers.Get(`#(name=="priority").estimated_cost_usd`).Float()
	require.InDelta(t, 1.75*tiers.Get("0.estimated_cost_usd").Float(), priority, 1e-6,
		"gpt-4.1 costs 1.75 times as much in it")

	for tier, want := range map[string]string{"priority": "priority \\$[0-9.]+ \\(asked for\\)",
		"scale": "scale no price: refused if a budget applies, otherwise charged as default \\(asked for\\)"} {
		c.stdin(t, `{"model":"openai/gpt-4.1","service_tier":"`+tier+`","messages":[{"role":"user","content":"hi"}]}`)
		out, _ := c.run(t, exitOK, "explain", "input")
		require.Regexp(t, want, out)
	}
	c.stdin(t, `{"model":"smart","service_tier":"scale","messages":[{"role":"user","content":"hi"}]}`)
	out, _ := c.run(t, exitRefused, "explain", "input", "--key-id", "key_a")
	require.Regexp(t, "REFUSED with status 400:\n.*The service tier has no price", out)
}

// A request is explained by its operation or by its path, in the dialect of any client.
func TestExplainTakesOperationsAndPathsOfEveryDialect(t *testing.T) {
	_, c := explainable(t)
	const contents = `{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}`
	for operation, body := range map[string]string{
		"/v1/chat/completions/": `{"model":"openai/gpt-4.1","messages":[{"role":"user","content":"hi"}]}`,
		"v1/responses":          `{"model":"openai/gpt-4.1","input":"hi"}`,
		"messages":              `{"model":"openai/gpt-4.1","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`,
		"embeddings":            `{"model":"openai/text-embedding-3-small","input":"hi"}`,
		"generateContent":       strings.Replace(contents, "{", `{"model":"openai/gpt-4.1",`, 1),

		"models/openai/gpt-4.1:generateContent":                             contents,
		"/v1beta/models/openai/gpt-4.1:streamGenerateContent":               contents,
		"/v1beta/models/openai%2Fgpt-4.1:streamGenerateContent?alt=sse&x=y": contents,
	} {
		c.stdin(t, body)
		out, _ := c.run(t, exitOK, "explain", "-", "--operation", operation, "-o", "json")
		x := gjson.Parse(out)
		require.Equal(t, "openai", x.Get("targets.0.provider").Str, operation)
		require.Contains(t, x.Get("model").Str, "openai/", operation)
		require.Positive(t, x.Get("targets.0.estimated_cost_usd").Float(), operation)
	}
}

func TestExplainSaysWhatIsWrongWithTheCommandLine(t *testing.T) {
	_, c := explainable(t)
	c.stdin(t, `{}`)
	_, errOut := c.run(t, exitUsage, "explain", "-", "--key-id", "sk-mg-123")
	require.Contains(t, errOut, "the id of a key")
	require.NotContains(t, errOut, "sk-mg-123")
	_, errOut = c.run(t, exitFailed, "explain", "input", "--key-id", "key_x")
	require.Contains(t, errOut, "no such object")
	_, errOut = c.run(t, exitFailed, "explain", "absent")
	require.Contains(t, errOut, "absent")
	out, _ := c.run(t, exitRefused, "explain", "input", "-o", "json")
	require.Equal(t, "model", gjson.Get(out, "refused.body.error.param").Str)
	_, errOut = c.run(t, exitUsage, "explain", "input", "--operation", "batches")
	require.Contains(t, errOut, "has no plan")
}

func TestExplainShowsWhatGuardrailsDo(t *testing.T) {
	f, c := explainable(t)
	rules := func(mode configv1.GuardMode) []*configv1.GuardRule {
		return []*configv1.GuardRule{{Name: "greeting", Mode: mode, Words: []string{"hi"}}}
	}
	f.objects = append(f.objects, &configv1.Guardrail{Name: "g", Key: "key_a", Rules: rules(configv1.GuardMode_MASK)})
	x := explained(t, c, exitOK, "smart", "--key-id", "key_a")
	require.Equal(t, `["mask g/greeting in the request: 1"]`, x.Get("guards").Raw)
	require.Contains(t, x.Get("targets.0.request").Raw, "[GREETING_1]", "it is what the provider would get")
	require.False(t, explained(t, c, exitOK, "smart").Get("guards").Exists(), "of another key")
	f.objects[len(f.objects)-1].(*configv1.Guardrail).Rules = rules(configv1.GuardMode_BLOCK)
	x = explained(t, c, exitRefused, "smart", "--key-id", "key_a")
	require.Equal(t, "content_blocked", x.Get("refused.body.error.code").Str)
}
