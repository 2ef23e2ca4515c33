package hostile

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

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/test/harness"
)

// A seeing is a vendor of any API that keeps what it gets.
type seeing struct {
	url  string
	mu   sync.Mutex // guards what follows
	last string     // the body, without escapes
}

// greeting is an answer in OpenAI's dialect. In others it cannot be read, which is of no matter here.
const greeting = `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,` +
	`"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],` +
	`"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`

func startSeeing(t *testing.T) *seeing {
	s := &seeing{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Method == http.MethodPost {
			s.mu.Lock()
			defer s.mu.Unlock()
			var v any
			if json.Unmarshal(body, &v) == nil {
				body, _ = json.Marshal(v)
			}
			s.last = string(body)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, greeting)
	}))
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

// take returns the last body, and forgets it.
func (s *seeing) take() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	body := s.last
	s.last = ""
	return body
}

// A toolProbe is a request and what the vendor must not get of it.
type toolProbe struct{ path, body, never string }

const (
	chatPath = "/v1/chat/completions"
	chatBody = `{"model":"comp/m","messages":[{"role":"user","content":"hi"}],%s}`
	drop     = `{"type":"function","function":{"name":"drop_it","parameters":{"type":"object"}}}`
)

func chatWith(model, members string) toolProbe {
	return toolProbe{chatPath, strings.Replace(fmt.Sprintf(chatBody, members), "comp/m", model, 1), "drop_it"}
}

func responsesWith(model, members string) toolProbe {
	return toolProbe{"/v1/responses", `{"model":"` + model + `","store":false,"input":"hi",` + members + `}`, "drop_it"}
}

func messagesWith(model, members string) toolProbe {
	return toolProbe{"/v1/messages",
		`{"model":"` + model + `","max_tokens":9,"messages":[{"role":"user","content":"hi"}],` + members + `}`, "drop_it"}
}

func geminiWith(model, members string) toolProbe {
	return toolProbe{"/v1beta/models/" + model + ":generateContent",
		`{"contents":[{"role":"user","parts":[{"text":"hi"}]}],` + members + `}`, "drop_it"}
}

func (p toolProbe) but(never string) toolProbe {
	p.never = never
	return p
}

// hiddenOfTools are tools in the shapes in which rules about tools have missed them, and their neighbours.
func hiddenOfTools() []toolProbe {
	all := []toolProbe{
		chatWith("comp/m", `"tools":[`+drop+`]`),
		chatWith("comp/m", `"to\u006fls":[`+drop+`]`),
		chatWith("comp/m", `"Tools":[`+drop+`]`),
		chatWith("comp/m", `"tools":[{"type":"function","name":"get_x","function":{"name":"drop_it"}}]`),
		chatWith("comp/m", `"tools":[{"type":"function","function":{"name":"get_x","Name":"drop_it"}}]`),
		chatWith("evil/m", `"tools":[{"type":"custom","custom":{"name":"drop_it"},"name":"get_x"}]`),
		chatWith("evil/m", `"functions":[{"name":"drop_it","parameters":{}}]`),
		chatWith("comp/m", `"extra_body":{"tools":[`+drop+`]}`),
		chatWith("comp/m", `"chat_template_kwargs":{"tools":[`+drop+`]}`),
		chatWith("comp/m", `"options":{"tools":[`+drop+`]}`),
		chatWith("comp/m", `"parameters":{"tools":[`+drop+`]}`),
		chatWith("comp/m@preset/drop_it", `"n":1`),
		chatWith("comp/m:online:nitro", `"n":1`).but("online"),
		{chatPath, `{"model":"comp/m","messages":[{"role":"system","content":"x","tools":[` + drop + `]}]}`, "drop_it"},
		chatWith("comp/m", `"enable_search":true`).but("enable_search"),
		chatWith("comp/m", `"plugins":[{"id":"web"}]`).but("plugins"),
		chatWith("comp/m", `"preset":"p"`).but("preset"),
		chatWith("comp/m", `"mcp_servers":[{"url":"https://x"}]`).but("mcp_servers"),
		chatWith("comp/m:online", `"n":1`).but("online"),
		chatWith("ant/claude-sonnet-4-5", `"web_search_options":{}`).but("web_search"),
		chatWith("gem/gemini-2.5-flash", `"tools":[{"type":"web_search","name":"get_x"}]`).but("oogle"),
		chatWith("evil/m", `"tools":[{"type":"web_search","name":"get_x"}]`).but("web_search"),
		responsesWith("comp/m", `"tools":[{"type":"namespace","name":"get_x","tools":[{"type":"function","name":"drop_it"}]}]`),
		responsesWith("evil/m", `"tools":[{"type":"namespace","name":"get_x","tools":[{"type":"function","name":"drop_it"}]}]`),
		responsesWith("evil/m", `"tools":[{"type":"custom","name":"drop_it"}]`),
		responsesWith("evil/m", `"tools":[{"type":"function","name":"drop_it","function":{"name":"get_x"}}]`),
		responsesWith("evil/m", `"tools":[{"type":"mcp","server_label":"get_x","server_url":"https://x"}]`).but("mcp"),
		responsesWith("evil/m", `"prompt":{"id":"drop_it"}`),
		messagesWith("ant/claude-sonnet-4-5", `"tools":[{"type":"web_search_20250305","name":"get_x"}]`).but("web_search"),
		messagesWith("ant/claude-sonnet-4-5", `"mcp_servers":[{"type":"url","url":"https://x","name":"get_x"}]`).but("mcp"),
		messagesWith("ant/claude-sonnet-4-5", `"tools":{"name":"drop_it","input_schema":{}}`),
		messagesWith("evil/m", `"tools":[{"name":"drop_it","input_schema":{"type":"object"}}]`),
		{"/v1/completions", `{"model":"comp/m","prompt":"hi","tools":[` + drop + `]}`, "drop_it"},
		{"/v1/responses", `{"model":"evil/m","store":false,"input":[{"type":"tool_search_output","call_id":"c",` +
			`"tools":[{"type":"function","name":"drop_it"}]}]}`, "drop_it"},
		// A vendor that wants definitions of what was called gets one, which is an offer.
		{chatPath, `{"model":"ant/claude-sonnet-4-5","messages":[{"role":"user","content":"hi"},{"role":"assistant",` +
			`"tool_calls":[{"id":"c","type":"function","function":{"name":"drop_it","arguments":"{}"}}]},` +
			`{"role":"tool","tool_call_id":"c","content":"x"}]}`, `"tools"`},
	}
	for _, members := range []string{
		`"Tools":[{"functionDeclarations":[{"name":"drop_it"}]}]`,
		`"tools":[{"functionDeclarations":[],"FunctionDeclarations":[{"name":"drop_it"}]}]`,
		`"tools":[{"functionDeclarations":[{"name":"get_x","Name":"drop_it"}]}]`,
		`"tools":[{"functionDeclarations":[{"name":"get_x"}],"function_declarations":[{"name":"drop_it"}]}]`,
		`"tools":[{"functionDeclarations":[{"name":"get_x"}]},{"function_declarations":[{"name":"drop_it"}]}]`,
		`"tools":{"functionDeclarations":[{"name":"drop_it"}]}`,
		`"tools":[{"name":"get_x","functionDeclarations":[{"name":"drop_it"}]}]`,
	} {
		all = append(all, geminiWith("comp/m", members), geminiWith("gem/gemini-2.5-flash", members))
	}
	for _, members := range []string{`"tools":[{"functionDeclarations":[{"name":"get_x"}],"googleSearch":{}}]`,
		`"tools":[{"functionDeclarations":[{"name":"get_x"}],"codeExecution":{}}]`, `"tools":{"googleSearch":{}}`,
		`"tools":[{"type":"function","googleSearch":{}}]`, `"tools":[{"google_search":{}}]`} {
		p := geminiWith("gem/gemini-2.5-flash", members).but("oogle")
		if strings.Contains(members, "codeExecution") {
			p = p.but("codeExecution")
		}
		all = append(all, p)
	}
	return all
}

// dear are what costs more than a budget's key may ask for without a price.
func dear() []toolProbe {
	return []toolProbe{
		geminiWith("gem/m", `"tools":[{"googleSearch":{}}]`).but("oogle"),
		geminiWith("gem/m", `"tools":{"googleSearch":{}}`).but("oogle"),
		geminiWith("gem/m", `"tools":[{"type":"function","googleSearch":{}}]`).but("oogle"),
		geminiWith("gem/m", `"Tools":[{"googleSearch":{}}]`).but("oogle"),
		geminiWith("ant/m", `"Tools":[{"googleSearch":{}}]`).but("web_search"),
		geminiWith("evil/m", `"Tools":[{"googleSearch":{}}]`).but("web_search"),
		geminiWith("evil/m", `"ServiceTier":"priority"`).but("priority"),
		geminiWith("gem/m", `"service_tier":"priority"`).but("priority"),
		geminiWith("evil/m", `"GenerationConfig":{"maxOutputTokens":90000,"candidateCount":8}`).but("90000"),
		geminiWith("gem/m", `"generationConfig":{"maxOutputTokens":"90000","candidateCount":"8"}`).but("90000"),
		geminiWith("gem/m", `"generationConfig":{"maxOutputTokens":9},"generation_config":{"maxOutputTokens":90000}`).
			but("90000"),
		chatWith("gem/m", `"generationConfig":{"maxOutputTokens":90000,"candidateCount":8}`).but("90000"),
		chatWith("gem/m", `"extra_body":{"google":{"generation_config":{"max_output_tokens":90000,"candidate_count":8}}}`).
			but("90000"),
		chatWith("comp/m", `"max_new_tokens":90000,"n":8`).but("90000"),
		messagesWith("ant/m", `"tools":{"type":"web_search_20250305","name":"web_search"}`).but("web_search"),
		messagesWith("ant/m", `"speed":"fast"`).but("fast"),
		messagesWith("ant/m", `"sp\u0065ed":"fast"`).but("fast"),
		messagesWith("ant/m", `"inference_geo":"us"`).but("inference_geo"),
		chatWith("comp/m", `"servic\u0065_tier":"priority"`).but("priority"),
		chatWith("comp/m", `"Service_Tier":"priority"`).but("priority"),
		chatWith("comp/m", `"extra_body":{"service_tier":"priority"}`).but("priority"),
		chatWith("comp/m:online", `"n":1`).but("online"),
		chatWith("comp/m:online:nitro", `"n":1`).but("online"),
		chatWith("comp/m@preset/p", `"n":1`).but("preset"),
		chatWith("comp/m", `"preset":"p"`).but("preset"),
	}
}

// others are members by which a key for one model could reach another.
func others() []toolProbe {
	var all []toolProbe
	for _, member := range []string{`"models":["dear"],"route":"fallback"`, `"mod\u0065ls":["dear"]`, `"Models":["dear"]`,
		`"plugins":[{"id":"fusion","models":["dear"]}]`, `"preset":"dear"`, `"provider":{"order":["dear"]}`,
		`"fallbacks":[{"model":"dear"}]`, `"extra_body":{"models":["dear"]}`, `"extra_body":{"model":"dear"}`,
		`"assistant_id":"dear"`, `"never_heard_of":{"dear":1}`} {
		all = append(all, chatWith("or/cheap", member), responsesWith("or/cheap", member),
			messagesWith("or/cheap", member),
			toolProbe{"/v1/completions", `{"model":"or/cheap","prompt":"x",` + member + `}`, ""},
			toolProbe{"/v1/embeddings", `{"model":"or/cheap","input":"x",` + member + `}`, ""})
	}
	all = append(all, responsesWith("evil/m", `"tools":[{"type":"image_generation","model":"dear"}]`),
		chatWith("or/cheap", `"tools":[{"type":"openrouter:image_generation","parameters":{"model":"dear"}}]`),
		messagesWith("ant/m", `"\u006dodel":"dear"`), messagesWith("ant/m", `"m\u006fdels":["dear"]`),
		geminiWith("gem/m", `"model":"models/dear"`))
	for i := range all {
		all[i].never = "dear"
	}
	return all
}

// TestNoSecondReadingOfARequest: tools, prices and models are what the vendor gets, in whatever shape a client writes
// them. A toolProbe either does not reach the vendor, or without what it hides.
func TestNoSecondReadingOfARequest(t *testing.T) {
	t.Parallel()
	vendor, g := startSeeing(t), harness.Run(t, t.TempDir())
	provider := func(name, kind, path string) *configv1.Provider {
		return &configv1.Provider{Name: name, Vendor: kind, Endpoint: vendor.url + path,
			Credential: &configv1.Credential{Source: &configv1.Credential_Value{Value: "sk-x"}}}
	}
	g.Apply(t, provider("evil", "openai", "/v1"), provider("comp", "compatible", "/v1"),
		provider("ant", "anthropic", "/v1"), provider("gem", "gemini", "/v1beta"), provider("or", "openrouter", "/v1"),
		&configv1.Catalog{Name: "default", Models: []*configv1.ModelFacts{{Models: []string{"*"},
			Price: &configv1.Price{Input: "10", Output: "30"}}}})
	_, guarded := g.CreateKey(t, "guarded", "")
	_, decided := g.CreateKey(t, "decided", "")
	g.Apply(t, &configv1.Guardrail{Name: "tools", Organization: "guarded", Rules: []*configv1.GuardRule{{Name: "t",
		Mode: configv1.GuardMode_BLOCK, AllowedTools: []string{"get_*"}}}},
		&configv1.Policy{Name: "tools", Organization: "decided", Rules: []*configv1.PolicyRule{{Name: "t",
			Deny: `tools.exists(t, !t.startsWith("get_"))`}}})
	create := func(args ...string) string {
		args = append([]string{"key", "create", "--data", g.Dir, "--name", "k", "-o", "json"}, args...)
		return harness.Decode(t, harness.Must(t, "", args...))["key"].(string)
	}
	bound, budget := create("--models", "or/cheap,evil/m,ant/m,gem/m"), create("--budget-usd-month", "0.5")
	free := create()

	send := func(t *testing.T, key string, p toolProbe) (status int, got string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.URL+p.path, strings.NewReader(p.body))
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer "+key)
		r.Header.Set("Content-Type", "application/json")
		vendor.take()
		answer, err := g.Client.Do(r)
		require.NoError(t, err)
		defer func() { _ = answer.Body.Close() }()
		_, err = io.Copy(io.Discard, answer.Body)
		require.NoError(t, err)
		return answer.StatusCode, vendor.take()
	}
	for _, c := range []struct {
		name   string
		key    string
		probes []toolProbe
		passes []toolProbe // requests that the rule lets pass
	}{
		{"guardrail", guarded, hiddenOfTools(), harmless()},
		{"policy", decided, hiddenOfTools(), harmless()},
		{"budget", budget, dear(), append(harmless(), messagesWith("ant/m", `"speed":"standard"`))},
		{"models", bound, others(), []toolProbe{chatWith("or/cheap", `"temperature":1,"metadata":{"model":"dear"}`),
			messagesWith("ant/m", `"metadata":{"user_id":"u"}`)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, p := range c.probes {
				_, got := send(t, c.key, p)
				require.NotContains(t, got, p.never, "%s %s", p.path, p.body)
			}
			for _, p := range c.passes {
				status, got := send(t, c.key, p)
				require.NotEmpty(t, got, "%s %s: %d", p.path, p.body, status)
			}
		})
	}
	_, got := send(t, free, chatWith("or/cheap", `"models":["dear"]`))
	require.Contains(t, got, "dear", "a key for all models may name others")
	_, got = send(t, free, chatWith("comp/m", `"tools":[`+drop+`]`))
	require.Contains(t, got, "drop_it")
}

// harmless are requests that no rule refuses.
func harmless() []toolProbe {
	return []toolProbe{
		chatWith("comp/m", `"tools":[{"type":"function","function":{"name":"get_x"}}],"temperature":0.5`),
		chatWith("ant/claude-sonnet-4-5", `"tools":[{"type":"function","function":{"name":"get_x"}}]`),
		chatWith("ant/claude-3-5-sonnet-latest", `"response_format":{"type":"json_schema","json_schema":{"name":"a",`+
			`"schema":{"type":"object","properties":{"a":{"type":"string"}}}}}`),
		responsesWith("comp/m", `"tools":[{"type":"namespace","name":"n","tools":[{"type":"function","name":"get_x"}]}]`),
		messagesWith("evil/m", `"tools":[{"name":"get_x","input_schema":{"type":"object"}}]`),
		geminiWith("evil/m", `"tools":[{"function_declarations":[{"name":"get_x"}]}],"generation_config":{"top_k":1}`),
		geminiWith("gem/gemini-2.5-flash", `"tools":[{"functionDeclarations":[{"name":"get_x"}]}]`),
	}
}
