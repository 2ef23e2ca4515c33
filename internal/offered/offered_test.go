package offered_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/offered"
)

// read returns what a request has the vendor do; an empty list if it is nothing.
func read(body string) *offered.List {
	if l := offered.Read([]byte(body)); l != nil {
		return l
	}
	return &offered.List{}
}

// TestToolsAreReadInEveryShape has the names that policies see for each shape of tools.
func TestToolsAreReadInEveryShape(t *testing.T) {
	for body, want := range map[string][]string{
		`{"messages":[],"tools":[]}`:   {},
		`{"messages":[],"tools":null}`: {},
		// chat completions
		`{"tools":[{"type":"function","function":{"name":"a"}}]}`:                {"a"},
		`{"\u0074ools":[{"type":"function","functio\u006e":{"n\u0061me":"a"}}]}`: {"a"},
		`{"tools":[{"type":"function","name":"get","function":{"name":"a"}}]}`:   {"a", "get"},
		`{"tools":[{"type":"custom","custom":{"name":"a"},"name":"get"}]}`:       {"a", "get"},
		`{"tools":{"type":"function","function":{"name":"a"}}}`:                  {"a"},
		`{"tools":[{"type":"function","function":{"name":"get","Name":"a"}}]}`:   {"get", "unknown:tools[].Name"},
		`{"tools":[{"type":"function","function":{"name":5}}]}`:                  {"unknown:tools"},
		`{"tools":["a"]}`:                                                              {"unknown:tools"},
		`{"tools":"a"}`:                                                                {"unknown:tools"},
		`{"functions":[{"name":"a"}]}`:                                                 {"a"},
		`{"functions":{"name":"a"}}`:                                                   {"a"},
		`{"web_search_options":{}}`:                                                    {"web_search_options"},
		`{"enable_search":true,"plugins":[{"id":"web"}]}`:                              {"enable_search", "plugins"},
		`{"enable_search":false,"plugins":[],"search_parameters":null}`:                {},
		`{"extra_body":{"tools":[{"type":"function","function":{"name":"a"}}]}}`:       {"a"},
		`{"extra_body":{"extra_body":{"enable_search":1}}}`:                            {"extra_body.extra_body.enable_search"},
		`{"model":"x/y:online"}`:                                                       {"web_search"},
		`{"Tools":[{"type":"function","function":{"name":"a"}}],"frobnicate":{"a":1}}`: {"unknown:Tools", "unknown:frobnicate"},
		`{"tools":[{"type":"builtin_function","function":{"name":"$web_search"}}]}`:    {"builtin_function", "$web_search"},
		`{"tools":[{"type":"get_x","name":"a"}]}`:                                      {"get_x", "a"},
		`{"tools":[{"type":"web_search","name":"a","parameters":{"type":"object"}}]}`:  {"web_search", "a"},
		`{"tools":[{"type":["web_search"],"name":"get"}]}`:                             {"unknown:tools[].type", "get"},
		`{"tools":[{"type":"function","function":{"name":"get"},"googleSearch":{}}]}`:  {"get", "googleSearch"},
		`{"tools":[{"type":"function","function":{"name":"get"},"GoogleSearch":{}}]}`:  {"get", "GoogleSearch"},
		`{"tools":[{"type":"function","function":{"name":"get"},"strict":true}]}`:      {"get"},
		`{"preset":"p"}`: {"preset"},
		// responses
		`{"input":"hi","tools":[{"type":"function","name":"a"}]}`:                                 {"a"},
		`{"tools":[{"type":"namespace","name":"get","tools":[{"type":"function","name":"a"}]}]}`:  {"a"},
		`{"tools":[{"type":"namespace","name":"get","tools":{"type":"function","name":"a"}}]}`:    {"unknown:tools[].tools"},
		`{"tools":[{"type":"web_search","name":"get"},{"type":"mcp","server_label":"get"}]}`:      {"web_search", "mcp"},
		`{"tools":[{"type":"web_search_preview_2025_03_11"}]}`:                                    {"web_search_preview_2025_03_11", "web_search"},
		`{"input":[{"type":"tool_search_output","tools":[{"type":"function","name":"a"}]}]}`:      {"a"},
		`{"input":[{"type":"tool_search_output","t\u006fols":[{"type":"function","name":"a"}]}]}`: {"a"},
		`{"input":[{"type":"message","role":"user","content":"tools"}],"prompt":{"id":"p"}}`:      {"prompt"},
		`{"input":"hi","prompt":"hi","container":"c"}`:                                            {},
		// messages
		`{"tools":[{"name":"a","input_schema":{}},{"type":"custom","name":"b","input_schema":{}}]}`: {"a", "b"},
		`{"tools":[{"type":"web_search_20250305","name":"get"}]}`:                                   {"web_search_20250305", "web_search"},
		`{"mcp_servers":[{"type":"url","url":"https://x","name":"get"}]}`:                           {"mcp_servers"},
		`{"container":{"skills":[{"type":"anthropic","skill_id":"pptx"}]}}`:                         {"container"},
		// Gemini
		`{"tools":[{"functionDeclarations":[{"name":"a"}]},{"function_declarations":[{"name":"b"}]}]}`: {"a", "b"},
		`{"tools":{"functionDeclarations":[{"name":"a"}]}}`:                                            {"a"},
		`{"tools":{"functionDeclarations":{"name":"a"}}}`:                                              {"a"},
		`{"tools":[{"functionDeclarations":[{"name":"get"}],"googleSearch":{},"code_execution":{}}]}`:  {"get", "googleSearch", "code_execution"},
		`{"tools":[{"functionDeclarations":[]}]}`:                                                      {},
		`{"tools":[{"name":"get","functionDeclarations":[{"name":"a"}]}]}`:                             {"a", "get"},
		`{"tools":[{"FunctionDeclarations":[{"name":"a"}]}]}`:                                          {"unknown:tools[].FunctionDeclarations"},
		`{"tools":[{"functionDeclarations":[{"name":"get","Name":"a"}]}]}`:                             {"get", "unknown:tools[].Name"},
		`{"generationConfig":{"temperature":1},"toolConfig":{"functionCallingConfig":{}}}`:             {},
		// Converse
		`{"toolConfig":{"tools":[{"toolSpec":{"name":"a"}},{"cachePoint":{"type":"default"}}]}}`:        {"a"},
		`{"toolConfig":{"tools":[{"systemTool":{"name":"nova_grounding"}}]}}`:                           {"systemTool"},
		`{"additionalModelRequestFields":{"tools":[{"type":"bash_20250124","name":"bash"}],"top_k":1}}`: {"bash_20250124", "bash"},
	} {
		got := read(body).Names()
		if len(want) == 0 {
			require.Empty(t, got, body)
			continue
		}
		require.Equal(t, want, got, body)
	}
}

// TestModelsThatARequestNames has the members by which a request may reach another model.
func TestModelsThatARequestNames(t *testing.T) {
	for body, want := range map[string][]offered.Model{
		`{"model":"a","messages":[],"metadata":{"model":"b"}}`:        nil,
		`{"models":["b","c"]}`:                                        {{Name: "b", Member: "models"}, {Name: "c", Member: "models"}},
		`{"m\u006fdels":["b"]}`:                                       {{Name: "b", Member: "models"}},
		`{"Models":["b"]}`:                                            {{Member: "Models"}},
		`{"models":[]}`:                                               nil,
		`{"fallbacks":[{"model":"b"}]}`:                               {{Member: "fallbacks"}},
		`{"fallback_model":"b"}`:                                      {{Name: "b", Member: "fallback_model"}},
		`{"preset":"p"}`:                                              {{Member: "preset"}},
		`{"route":"fallback"}`:                                        {{Member: "route"}},
		`{"provider":{"order":["x"]}}`:                                {{Member: "provider"}},
		`{"assistant_id":"x"}`:                                        {{Member: "assistant_id"}},
		`{"some_choice":"x"}`:                                         {{Member: "some_choice"}},
		`{"some_number":1,"some_flag":true}`:                          nil,
		`{"extra_body":{"models":["b"]}}`:                             {{Name: "b", Member: "extra_body.models"}},
		`{"extra_body":{"model":"b"}}`:                                {{Name: "b", Member: "extra_body.model"}},
		`{"plugins":[{"id":"f","models":["b"]}]}`:                     {{Member: "plugins"}, {Name: "b", Member: "plugins.models"}},
		`{"tools":[{"type":"image_generation","model":"b"}]}`:         {{Name: "b", Member: "tools[].model"}},
		`{"tools":[{"type":"x_agent","config":{"judge_model":"b"}}]}`: {{Name: "b", Member: "tools[].config.judge_model"}},
		`{"tools":[{"type":"function","function":{"name":"f","parameters":{"properties":{"model":{}}}}}]}`: nil,
	} {
		require.Equal(t, want, read(body).Models, body)
	}
}

// TestWhatHasAPriceOfItsOwn has the members that change what a request costs.
func TestWhatHasAPriceOfItsOwn(t *testing.T) {
	for body, want := range map[string][]offered.Fee{
		`{"tools":[{"type":"function","function":{"name":"a"}},{"type":"mcp"},{"urlContext":{}}]}`: nil,
		`{"tools":[{"type":"bash_20250124","name":"bash"},{"type":"computer_use_preview"}]}`:       nil,
		`{"tools":[{"google_search":{}},{"type":"web_search_20250305"}]}`:                          {{Tool: "web_search", Member: "tools"}},
		`{"tools":[{"type":"code_execution_20250825","name":"x"}]}`:                                {{Tool: "code_execution_20250825", Member: "tools"}},
		`{"tools":[{"type":"never_heard_of"}]}`:                                                    {{Tool: "never_heard_of", Member: "tools"}},
		`{"tools":{"googleSearch":{}}}`:                                                            {{Tool: "web_search", Member: "tools"}},
		`{"Service_Tier":"priority"}`:                                                              {{Tool: "unknown:Service_Tier", Member: "Service_Tier"}},
		`{"service_tier":["priority"]}`:                                                            {{Tool: "unknown:service_tier", Member: "service_tier"}},
		`{"speed":["fast"]}`:                                                                       {{Tool: "unknown:speed", Member: "speed"}},
		`{"speed":"fast","inference_geo":"us"}`:                                                    {{Tool: "unknown:inference_geo", Member: "inference_geo"}},
		`{"speed":"fast","service_tier":"priority"}`:                                               {{Tool: "unknown:service_tier", Member: "service_tier"}},
		`{"speed":1.5}`: nil,
		`{"speed":"standard","inference_geo":"global"}`: nil,
		`{"models":["b"]}`:     {{Tool: "models", Member: "models"}},
		`{"model":"b:online"}`: {{Tool: "web_search", Member: "model"}},
	} {
		require.Equal(t, want, read(body).Fees, body)
	}
	for _, body := range []string{`{"service_tier":"flex"}`, `{"serviceTier":"flex"}`, `{"servic\u0065_tier":"flex"}`,
		`{"serviceTier":{"type":"flex"}}`} {
		require.Equal(t, "flex", read(body).Tier, body)
	}
	for body, want := range map[string]string{
		`{"speed":"fast"}`: "fast", `{"speed":"Fast"}`: "fast", `{"sp\u0065ed":"fast","service_tier":"auto"}`: "fast",
		`{"service_tier":"standard_only","speed":"fast"}`: "fast", `{"extra_body":{"speed":"fast"}}`: "fast",
		`{"inference_geo":"us"}`: "us", `{"performanceConfig":{"latency":"optimized"}}`: "optimized",
	} {
		l := read(body)
		require.Equal(t, want, l.Tier, body)
		require.True(t, l.BySpeed, body)
		require.Empty(t, l.Fees, body)
	}
}

func TestWhatGoesOutIsCovered(t *testing.T) {
	asked := read(`{"tools":[{"type":"function","name":"a b"},{"type":"namespace","name":"n","tools":[{"type":"function","name":"c"}]},{"googleSearch":{}}]}`)
	cover := asked.Cover(func(*offered.Tool) bool { return true })
	for body, want := range map[string]bool{
		`{"tools":[{"name":"n__c"}]}`: true, `{"tools":[{"name":"d"}]}`: false, `{"tools":[{"name":"a_b"}]}`: false,
		`{"tools":[{"type":"web_search_20250305"}]}`: true, `{"web_search_options":{}}`: true,
		`{"tools":[{"type":"code_execution"}]}`: false, `{"frobnicate":"x"}`: false,
	} {
		require.Equal(t, want, cover.Has(&read(body).Tools[0]), body)
	}
}

// TestDeepRequestsAreReadOnce: what is within one another is not read again at each level.
func TestDeepRequestsAreReadOnce(t *testing.T) {
	for _, open := range []string{`{"tools":[`, `{"extra_body":`, `{"tools":[{"type":"x","a":`, `{"plugins":[`,
		`{"models":[`} {
		body := strings.Repeat(open, 20) + `{"name":"a"}`
		for i := len(body) - 1; i >= 0; i-- {
			if i >= 20*len(open) {
				continue
			}
			switch body[i] {
			case '[':
				body += "]"
			case '{':
				body += "}"
			}
		}
		require.True(t, json.Valid([]byte(body)), body)
		l := read(body)
		require.Less(t, len(l.Tools)+len(l.Models), 60, open)
		require.True(t, len(l.Models) > 0 || slices.ContainsFunc(l.Tools,
			func(t offered.Tool) bool { return t.Kind == offered.Unknown }), "what is too deep is unknown")
	}
}
