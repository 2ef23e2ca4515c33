package exchange_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/extproc/exchange"
	"github.com/modelgate/modelgate/extproc/routing"
	"github.com/modelgate/modelgate/internal/guard"
	"github.com/modelgate/modelgate/internal/policy"
	"github.com/modelgate/modelgate/internal/provider/vendors/anthropic"
)

// serveClaude has Anthropic behind a provider's name.
func (m *meter) serveClaude(t *testing.T, name string) {
	config := &configv1.Provider{Name: name, Vendor: "anthropic"}
	p, err := routing.NewProvider(&configv1.ResolvedProvider{Provider: config, Credential: "sk-provider"},
		anthropic.Provider())
	require.NoError(t, err)
	m.config.Providers[name] = p
	m.configure()
}

// limitTools has a guardrail that lists get_*.
func (m *meter) limitTools(t *testing.T, mode configv1.GuardMode) {
	var err error
	rule := &configv1.GuardRule{Name: "t", Mode: mode, AllowedTools: []string{"get_*"}}
	m.config.Rails, err = guard.Compile([]*configv1.Guardrail{{Name: "g", Rules: []*configv1.GuardRule{rule}}})
	require.NoError(t, err)
	m.configure()
}

const (
	tools40 = `{"model":"both","messages":[{"role":"user","content":"hi"}],"max_tokens":40,"tools":[`
	called  = `{"model":"b/m-1","max_tokens":40,"messages":[{"role":"user","content":"hi"},{"role":"assistant",` +
		`"tool_calls":[{"id":"c","type":"function","function":{"name":"drop","arguments":"{}"}}]},` +
		`{"role":"tool","tool_call_id":"c","content":"x"}]}`
)

func function(name string) string { return `{"type":"function","function":{"name":"` + name + `"}}` }

// TestARetryOffersWhatWasJudged: the second vendor gets the request in another dialect, and the judge knows its tools.
func TestARetryOffersWhatWasJudged(t *testing.T) {
	for body, sent := range map[string]bool{
		tools40 + function("get_x") + `]}`:                                            true,
		tools40 + function("get x") + `]}`:                                            false,
		tools40 + function("get_ü") + `]}`:                                            true, // which Anthropic gets by another name
		tools40 + function("get_x") + `],"web_search_options":{}}`:                    false,
		`{"model":"both","max_tokens":4,"messages":[{"role":"user","content":"hi"}]}`: true,
	} {
		m := newMeter(t, &configv1.Key{Name: "key_1"})
		m.serveClaude(t, "b")
		m.limitTools(t, configv1.GuardMode_BLOCK)
		_, reply := m.chat(body)
		if !sent {
			require.Equal(t, "content_blocked", gjson.GetBytes(reply.Immediate.Body, "error.code").Str, body)
			continue
		}
		require.Nil(t, reply.Immediate, body)
		_, err := reply.Plan.Encode(2)
		require.NoError(t, err, body)
	}
}

// TestADefinitionOfWhatWasCalledIsAnOffer: some vendors want one, and the model may then call it.
func TestADefinitionOfWhatWasCalledIsAnOffer(t *testing.T) {
	m := newMeter(t, &configv1.Key{Name: "key_1"})
	m.serveClaude(t, "b")
	_, reply := m.chat(called)
	require.Contains(t, string(reply.Body), `"tools":[{"name":"drop"`)

	m.limitTools(t, configv1.GuardMode_BLOCK)
	x, reply := m.chat(called)
	require.Equal(t, "content_blocked", gjson.GetBytes(reply.Immediate.Body, "error.code").Str)
	require.Equal(t, "guardrail g/t", x.Close().RefusedBy)
	m.limitTools(t, configv1.GuardMode_OBSERVE)
	x, reply = m.chat(called)
	require.Nil(t, reply.Immediate)
	require.Equal(t, []string{"observe g/t in the request: 1"}, x.Close().Guards.Texts())

	m.config.Rails = nil
	for deny, status := range map[string]int{`tools.exists(t, t == "drop")`: 403, `tools.exists(t, t == "other")`: 0} {
		var err error
		m.config.Policies, err = policy.Policies(nil).Next([]*configv1.Policy{{Name: "p",
			Rules: []*configv1.PolicyRule{{Name: "r", Deny: deny}}}})
		require.NoError(t, err)
		m.configure()
		_, reply = m.chat(called)
		require.Equal(t, status != 0, reply.Immediate != nil, deny)
		if status != 0 {
			require.Equal(t, "policy_denied", gjson.GetBytes(reply.Immediate.Body, "error.code").Str)
		}
	}
}

// TestTheGatewaysOwnToolIsNoOffer: structured output by a tool is not the client's.
func TestTheGatewaysOwnToolIsNoOffer(t *testing.T) {
	m := newMeter(t, &configv1.Key{Name: "key_1"})
	m.serveClaude(t, "b")
	m.limitTools(t, configv1.GuardMode_BLOCK)
	_, reply := m.chat(strings.Replace(ask40, `"a/m-1"`, `"b/m-1","response_format":{"type":"json_schema",`+
		`"json_schema":{"name":"a","schema":{"type":"object","properties":{"a":{"type":"string"}}}}}`, 1))
	require.Nil(t, reply.Immediate)
}

// TestAKeyForSomeModelsNamesNoOthers: it may name those that it may use, and all if it may use all of the provider.
func TestAKeyForSomeModelsNamesNoOthers(t *testing.T) {
	for _, c := range []struct {
		models []string
		member string
		passes bool
	}{
		{nil, `"models":["m-2"]`, true},
		{[]string{"a/*"}, `"models":["m-2"],"preset":"p"`, true},
		{[]string{"a/m-1", "a/m-2"}, `"models":["m-2"]`, true},
		{[]string{"a/m-1"}, `"models":["m-2"]`, false},
		{[]string{"a/m-1"}, `"model\u0073":["m-2"]`, false},
		{[]string{"a/m-1", "b/*"}, `"preset":"p"`, false},
		{[]string{"a/m-1"}, `"never_heard_of":"x"`, false},
		{[]string{"a/m-1"}, `"never_heard_of":1,"top_k":5`, true},
		{[]string{"a/m-1"}, `"tools":[` + function("model") + `]`, true},
	} {
		m := newMeter(t, &configv1.Key{Name: "key_1", Models: c.models})
		m.takeAll(t)
		x, reply := m.chat(strings.TrimSuffix(ask40, "}") + "," + c.member + "}")
		require.Equal(t, c.passes, reply.Immediate == nil, "%v %s", c.models, c.member)
		if !c.passes {
			require.Equal(t, "model_not_allowed", gjson.GetBytes(reply.Immediate.Body, "error.code").Str)
			require.Equal(t, exchange.Reply{}.Plan, reply.Plan)
			require.Equal(t, 403, x.Close().Status)
		}
	}
}

// TestWhatAProviderKeepsIsOfNobody: all tenants share the provider's account, so that a reference is refused, unless
// the operator says that they belong together.
func TestWhatAProviderKeepsIsOfNobody(t *testing.T) {
	const file = `"messages":[{"role":"user","content":[{"type":"file","file":{"file_id":"file-1"}}]}]`
	for _, c := range []struct {
		key    *configv1.Key
		shared bool
		passes bool
	}{
		{&configv1.Key{}, false, true},
		{&configv1.Key{Models: []string{"a/*"}}, false, true},
		{&configv1.Key{Models: []string{"a/m-1"}}, false, false},
		{&configv1.Key{Models: []string{"a/m-1"}}, true, true},
		{&configv1.Key{Organization: "acme"}, false, false},
		{&configv1.Key{Organization: "acme"}, true, true},
	} {
		for _, body := range []string{`{"model":"a/m-1","max_tokens":4,` + file + `}`,
			`{"model":"a/m-1","max_tokens":4,"messages":[{"role":"user","content":"hi"}],"extra_body":{"cached_content":"cachedContents/1"}}`} {
			c.key.Name = "key_1"
			m := newMeter(t, c.key)
			m.takeAll(t)
			m.config.Providers["a"].Config.SharedObjects = c.shared
			x, reply := m.chat(body)
			require.Equal(t, c.passes, reply.Immediate == nil, "%v %v %s", c.key, c.shared, body)
			if !c.passes {
				require.Equal(t, "reference_not_allowed", gjson.GetBytes(reply.Immediate.Body, "error.code").Str)
				require.Equal(t, 403, x.Close().Status)
			}
		}
	}
}
