package exchange_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/extproc/exchange"
	"github.com/modelgate/modelgate/internal/guard"
	"github.com/modelgate/modelgate/internal/policy"
)

// guarded returns a gateway with one guardrail.
func guarded(t *testing.T, rules ...*configv1.GuardRule) *meter {
	t.Helper()
	m := newMeter(t, fullKey())
	rails, err := guard.Compile([]*configv1.Guardrail{{Name: "g", Organization: "acme", Rules: rules}})
	require.NoError(t, err)
	m.config.Rails = rails
	return m
}

func emails(mode configv1.GuardMode, in ...configv1.GuardSide) *configv1.GuardRule {
	return &configv1.GuardRule{Name: "email", Mode: mode, In: in,
		Data: []configv1.SensitiveData{configv1.SensitiveData_EMAIL}}
}

const askMail = `{"model":"a/m-1","messages":[{"role":"user","content":"write to ann@x.example"}],"max_tokens":40}`

// deltas returns the contents of a stream of chat completion chunks.
func deltas(stream string) (text, finish string) {
	for line := range strings.Lines(stream) {
		data, ok := strings.CutPrefix(line, "data: {")
		if !ok {
			continue
		}
		choice := gjson.Get("{"+data, "choices.0")
		text += choice.Get("delta.content").Str
		finish += choice.Get("finish_reason").Str
	}
	return text, finish
}

// chunk is a chunk with a text.
func chunkOf(text string) string {
	return `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"` +
		text + `"},"finish_reason":null}]}` + "\n\n"
}

func TestTheProviderSeesPlaceholdersAndTheClientItsOwnText(t *testing.T) {
	m := guarded(t, emails(configv1.GuardMode_MASK, configv1.GuardSide_REQUESTS))
	x, sent := m.chat(askMail)
	require.NotContains(t, string(sent.Body), "ann@x.example")
	require.Equal(t, "write to [EMAIL_1]", gjson.GetBytes(sent.Body, "messages.0.content").Str)
	require.Equal(t, "m-1", gjson.GetBytes(sent.Body, "model").Str)
	answer(x, "200", "application/json")
	out := x.ResponseBody(t.Context(), []byte(strings.Replace(whole, "hello", "Dear [EMAIL_1]", 1)), true)
	require.Equal(t, "Dear ann@x.example", gjson.GetBytes(out.Body, "choices.0.message.content").Str)
	r := x.Close()
	require.Equal(t, []string{"mask g/email in the request: 1"}, r.Guards.Texts())
	require.Equal(t, []string{"mask g/email in the request: 1"}, m.ended[0].GetDetails().GetGuards())
	require.EqualValues(t, 11, r.Usage.TotalTokens, "it is charged as ever")

	stream := chunkOf("Dear [EM") + chunkOf("AIL_1]!") + ended + usage11 + over
	for cut := range len(stream) {
		m.settled, m.key.Limits = nil, nil
		m.configure()
		x, _ := m.chat(strings.Replace(askMail, "{", `{"stream":true,`, 1))
		answer(x, "200", "text/event-stream")
		got := string(x.ResponseBody(t.Context(), []byte(stream[:cut]), false).Body)
		got += string(x.ResponseBody(t.Context(), []byte(stream[cut:]), true).Body)
		text, finish := deltas(got)
		require.Equal(t, "Dear ann@x.example! stop", text+" "+finish, cut)
		require.Equal(t, 1, strings.Count(got, "[DONE]"))
		x.Close()
	}
}

func TestARequestThatARuleRefuses(t *testing.T) {
	m := guarded(t, emails(configv1.GuardMode_BLOCK))
	x, reply := m.chat(askMail)
	require.Equal(t, 400, reply.Immediate.Status)
	require.Equal(t, "content_blocked", gjson.GetBytes(reply.Immediate.Body, "error.code").Str)
	require.Contains(t, string(reply.Immediate.Body), "g/email")
	require.NotContains(t, string(reply.Immediate.Body), "ann@")
	require.Equal(t, "false", reply.Immediate.Header.Get("X-Should-Retry"))
	r := x.Close()
	require.Equal(t, "guardrail g/email", r.RefusedBy)
	require.Empty(t, m.begun, "nothing was sent")

	_, reply = m.ask("/v1/messages", `{"model":"a/m-1","max_tokens":9,"messages":[{"role":"user","content":"ann@x.example"}]}`)
	require.Equal(t, "error", gjson.GetBytes(reply.Immediate.Body, "type").Str, "in the client's dialect")
	_, reply = m.chat(strings.Replace(askMail, "ann@x.example", "nobody", 1))
	require.Nil(t, reply.Immediate)
}

func TestAnAnswerThatARuleEnds(t *testing.T) {
	m := guarded(t, emails(configv1.GuardMode_BLOCK, configv1.GuardSide_ANSWERS))
	stream := chunkOf(strings.Repeat("fine. ", 40)) + chunkOf("Ask bob@x.exa") + chunkOf("mple or") + chunkOf(" me") +
		ended + usage11 + over
	x, _ := m.chat(stream40)
	answer(x, "200", "text/event-stream")
	out := x.ResponseBody(t.Context(), []byte(stream), true)
	text, finish := deltas(string(out.Body))
	require.Equal(t, strings.Repeat("fine. ", 40)+"Ask  content_filter", text+" "+finish)
	r := x.Close()
	require.Equal(t, []string{"block g/email in the answer: 1"}, r.Guards.Texts())
	require.EqualValues(t, 11, r.Usage.TotalTokens, "what was used is charged")

	x, _ = m.chat(ask40)
	answer(x, "200", "application/json")
	out = x.ResponseBody(t.Context(), []byte(strings.Replace(whole, "hello", "bob@x.example", 1)), true)
	require.Equal(t, `"" content_filter`, gjson.GetBytes(out.Body, "choices.0.message.content").Raw+" "+
		gjson.GetBytes(out.Body, "choices.0.finish_reason").Str)
}

func TestResponsesComeAsEventsBehindAGuardrail(t *testing.T) {
	m := guarded(t, emails(configv1.GuardMode_MASK))
	body := `{"model":"a/m-1","store":false,"instructions":"mail ann@x.example","input":"hi"}`
	x, sent := m.ask("/v1/responses", body)
	require.Equal(t, "/v1/chat/completions", sent.Set.Get(":path"), "the answer of OpenAI's own API would pass unseen")
	require.NotContains(t, string(sent.Body), "ann@")
	answer(x, "200", "application/json")
	out := x.ResponseBody(t.Context(), []byte(strings.Replace(whole, "hello", "to [EMAIL_1] and bob@x.example", 1)), true)
	require.Equal(t, "to ann@x.example and [EMAIL]", gjson.GetBytes(out.Body, "output.0.content.0.text").Str)
	require.Equal(t, "mail ann@x.example", gjson.GetBytes(out.Body, "instructions").Str, "what the client sent")

	only := guarded(t, emails(configv1.GuardMode_OBSERVE, configv1.GuardSide_REQUESTS))
	_, sent = only.ask("/v1/responses", body)
	require.Empty(t, sent.Set.Get(":path"), "it stays")
	_, reply := m.ask("/v1/responses/compact", `{"model":"a/m-1","input":"hi ann@x.example"}`)
	require.Equal(t, "not_guarded", gjson.GetBytes(reply.Immediate.Body, "error.code").Str)
}

func TestAPolicyRefusesARequest(t *testing.T) {
	m := newMeter(t, fullKey())
	var err error
	rules := []*configv1.PolicyRule{
		{Name: "seen", Deny: `model.startsWith("a/")`, Observe: true},
		{Name: "tools", Deny: `tools.exists(t, t == "drop") || operation == "route" || size > 5000`, Message: "Not here."},
		{Name: "users", Deny: `user == "eve" || address == "10.0.0.9"`}}
	m.config.Policies, err = policy.Policies(nil).Next([]*configv1.Policy{{Name: "p", Organization: "acme",
		Rules: rules}})
	require.NoError(t, err)
	x, reply := m.chat(ask40)
	require.Nil(t, reply.Immediate)
	x.ResponseHeaders(exchange.Headers{{Name: ":status", Value: "500"}}, exchange.Facts{}, true)
	require.Equal(t, []string{"observe policy p/seen in the request: 1"}, x.Close().Guards.Texts())

	for name, c := range map[string]struct{ path, body, says, by string }{
		"a tool": {"/v1/chat/completions",
			strings.Replace(ask40, "{", `{"tools":[{"type":"function","function":{"name":"drop"}}],`, 1), "Not here.",
			"policy p/tools"},
		"a tool of Anthropic's clients": {"/v1/messages",
			strings.Replace(ask40, "{", `{"tools":[{"name":"drop","input_schema":{"type":"object"}}],`, 1), "Not here.",
			"policy p/tools"},
		"a user": {"/v1/chat/completions", strings.Replace(ask40, "{", `{"user":"eve",`, 1), "policy 'p/users'",
			"policy p/users"},
		"a Route": {"/r/messages", `{}`, "Not here.", "policy p/tools"},
	} {
		t.Run(name, func(t *testing.T) {
			x, reply := m.ask(c.path, c.body)
			require.Equal(t, 403, reply.Immediate.Status)
			require.Contains(t, string(reply.Immediate.Body), c.says)
			require.Equal(t, c.by, x.Close().RefusedBy)
		})
	}
	require.Len(t, m.begun, 1, "nothing else was sent")
}

// What no guardrail can look at is refused, unless it would only be counted.
func TestWhatCannotBeGuarded(t *testing.T) {
	ask := func(m *meter, path, contentType, body string) int {
		_, reply := m.ask(path, body, exchange.Header{Name: "content-type", Value: contentType})
		if reply.Immediate == nil {
			return 0
		}
		return reply.Immediate.Status
	}
	const form = "--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\na/m-1\r\n--b--\r\n"
	for mode, want := range map[configv1.GuardMode]int{configv1.GuardMode_MASK: 400, configv1.GuardMode_OBSERVE: 0} {
		m := guarded(t, emails(mode))
		require.Equal(t, want, ask(m, "/r/messages", "application/json", `{}`), "%s: a Route", mode)
		x := exchange.New(m.env, m.config)
		x.RequestHeaders(t.Context(), exchange.Headers{{Name: ":method", Value: "POST"},
			{Name: ":path", Value: "/v1/audio/transcriptions"}, {Name: "authorization", Value: "Bearer " + m.secret},
			{Name: "content-type", Value: "multipart/form-data; boundary=b"}}, false)
		reply := x.RequestBody(t.Context(), []byte(form))
		require.Equal(t, want != 0, reply.Immediate != nil, "%s: a form", mode)
	}
	m := guarded(t, emails(configv1.GuardMode_BLOCK))
	m.config.Rails, _ = guard.Compile([]*configv1.Guardrail{{Name: "g", Organization: "others",
		Rules: []*configv1.GuardRule{emails(configv1.GuardMode_BLOCK)}}})
	require.Zero(t, ask(m, "/r/messages", "application/json", `{}`), "of another organization")
}

func TestAPolicyChoosesTheModel(t *testing.T) {
	use := func(name, when, model string) *configv1.PolicyRule {
		return &configv1.PolicyRule{Name: name, When: when, UseModel: model}
	}
	for name, c := range map[string]struct {
		models    []string // of the key
		rule      *configv1.PolicyRule
		path      string
		says      string // the error; empty: it is sent
		model, by string
		refused   string
		sentTo    string
	}{
		"another":            {rule: use("r", `size > 10`, "a/m-2"), model: "a/m-2", by: "p/r instead of a/m-1", sentTo: "m-2"},
		"the same":           {rule: use("r", `size > 10`, "a/m-1"), model: "a/m-1", sentTo: "m-1"},
		"not this request's": {rule: use("r", `size < 10`, "a/m-2"), model: "a/m-1", sentTo: "m-1"},
		"one that the key may not use": {models: []string{"a/m-1"}, rule: use("r", `size > 10`, "a/m-2"), model: "a/m-1",
			says: "The policy 'p/r' chooses the model 'a/m-2', which this key may not use.", refused: "policy p/r"},
		"none": {rule: use("r", "true", "nothing"), model: "a/m-1", refused: "policy p/r",
			says: "The policy 'p/r' chooses the model 'nothing', which does not exist or is not unique."},
		"a Route's": {rule: use("r", "true", "a/m-2"), path: "/r/messages", refused: "policy p/r",
			says: "The policy 'p/r' chooses the model of this request, and cannot do so for this path."},
	} {
		t.Run(name, func(t *testing.T) {
			key := fullKey()
			key.Models = c.models
			m := newMeter(t, key)
			var err error
			m.config.Policies, err = policy.Policies(nil).Next([]*configv1.Policy{{Name: "p",
				Rules: []*configv1.PolicyRule{c.rule}}})
			require.NoError(t, err)
			path := chats
			if c.path != "" {
				path = c.path
			}
			x, reply := m.ask(path, ask40)
			if c.says != "" {
				require.Equal(t, 403, reply.Immediate.Status)
				require.Equal(t, "policy_denied", gjson.GetBytes(reply.Immediate.Body, "error.code").Str)
				require.Equal(t, c.says, gjson.GetBytes(reply.Immediate.Body, "error.message").Str)
			} else {
				require.Nil(t, reply.Immediate)
				require.Equal(t, c.sentTo, gjson.GetBytes(reply.Body, "model").Str)
			}
			record := x.Close()
			require.Equal(t, []string{c.model, c.by, c.refused}, []string{record.Model, record.Policy, record.RefusedBy})
		})
	}
}
