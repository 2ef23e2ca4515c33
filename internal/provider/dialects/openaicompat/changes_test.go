package openaicompat

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/chat/chattest"
	"github.com/modelgate/modelgate/internal/provider"
)

func untouched() provider.Target {
	return provider.Target{Model: "m", Config: &configv1.Provider{UntouchedAnswers: true}}
}

func dropping() provider.Target {
	return provider.Target{Model: "m",
		Config: &configv1.Provider{UnsupportedParameters: configv1.UnsupportedParameters_DROP}}
}

func TestValuesThatAskForNothingAreLeftOut(t *testing.T) {
	dialect := Dialect{Vendor: "v", Unsupported: []string{
		"n", "presence_penalty", "logprobs", "top_logprobs", "logit_bias", "store", "parallel_tool_calls", "tools",
		"tool_choice", "modalities",
		"response_format", "service_tier", "metadata", "stop", "user", "audio", "web_search_options", "temperature",
	}}
	const head = `{"model":"m","messages":[{"role":"user","content":"x"}]`
	for in, want := range map[string]string{
		`,"n":1`: `,"n":1`,
		`,"presence_penalty":0,"logprobs":false,"logit_bias":{ },"store":false,"parallel_tool_calls":true`:                            ``,
		`,"presence_penalty":-0.00,"temperature":1.0,"tools":[],"tool_choice":"auto","modalities":[ "text" ]`:                         ``,
		`,"response_format":{ "type" : "text" },"service_tier":"auto","metadata":{},"stop":[],"user":"","audio":null,"logprobs":null`: ``,
		`,"x":{},"seed":1`: `,"x":{},"seed":1`,
	} {
		req, _, err := New(dialect).Encode(parse(t, head+in+`}`), provider.Target{Model: "m"})
		require.NoError(t, err, in)
		require.Equal(t, head+want+`}`, string(req.Body))
	}
	for in, param := range map[string]string{
		`,"n":2`: "n", `,"presence_penalty":0.01`: "presence_penalty", `,"logprobs":true`: "logprobs",
		`,"logit_bias":{"1":1}`:        "logit_bias",
		`,"parallel_tool_calls":false`: "parallel_tool_calls",
		`,"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"none"`: "tools",
		`,"modalities":["text","audio"],"audio":{"voice":"a","format":"wav"}`:         "modalities",
		`,"response_format":{"type":"json_object"}`:                                   "response_format",
		`,"web_search_options":{}`:                                                    "web_search_options",
		`,"stop":"x"`:                                                                 "stop",
		`,"temperature":0`:                                                            "temperature",
		`,"service_tier":"flex"`:                                                      "service_tier",
	} {
		r := parse(t, head+in+`}`)
		_, _, err := New(dialect).Encode(r, provider.Target{Model: "m"})
		require.Equal(t, openai.Unsupported(param, "v"), err, in)
		req, _, err := New(dialect).Encode(r, dropping())
		require.NoError(t, err)
		require.Contains(t, req.Dropped, param)
		require.Equal(t, head+`}`, string(req.Body))
	}
}

func TestWhatAModelRefusesIsInTheCatalog(t *testing.T) {
	target := provider.Target{Model: "m",
		Facts: &configv1.ModelFacts{Capabilities: &configv1.Capabilities{UnsupportedParameters: []string{"stop"}}}}
	_, _, err := New(Dialect{Vendor: "v"}).Encode(parse(t,
		`{"model":"m","messages":[{"role":"user","content":"x"}],"stop":"x"}`), target)
	require.Equal(t, openai.Unsupported("stop", "v"), err)
	r := parse(t, `{"model":"m","messages":[{"role":"user","content":"x"}],"stop":"x"}`)
	req, _, err := New(Dialect{Vendor: "v", AsReceived: true}).Encode(r, target)
	require.NoError(t, err, "OpenAI says better what it refuses")
	require.Equal(t, string(r.Body), string(req.Body))
	drops := dropping()
	drops.Facts = target.Facts
	req, _, err = New(Dialect{Vendor: "v", AsReceived: true}).Encode(r, drops)
	require.NoError(t, err)
	require.Equal(t, []string{"stop"}, req.Dropped)
}

func TestParametersHaveTheVendorsNames(t *testing.T) {
	dialect := Dialect{Rename: map[string]string{"max_completion_tokens": "max_tokens", "seed": "random_seed"},
		NoStreamOptions: true}
	for in, want := range map[string]string{
		`,"max_completion_tokens":5,"seed":1`:                    `,"max_tokens":5,"random_seed":1`,
		`,"max_completion_tokens":5,"max_tokens":6`:              `,"max_tokens":5`,
		`,"max_completion_tokens":null,"max_tokens":6`:           `,"max_tokens":6`,
		`,"stream":true,"stream_options":{"include_usage":true}`: `,"stream":true`,
		`,"stream":true`: `,"stream":true`,
	} {
		const head = `{"model":"m","messages":[{"role":"user","content":"x"}]`
		req, _, err := New(dialect).Encode(parse(t, head+in+`}`), provider.Target{Model: "m"})
		require.NoError(t, err)
		require.Equal(t, head+want+`}`, string(req.Body))
	}
}

func TestMessagesOfAStrictVendor(t *testing.T) {
	dialect := Dialect{Vendor: "v", SystemRole: true, Reasoning: "reasoning", MessageMembers: []string{"role", "content",
		"tool_calls", "reasoning"}}
	for in, want := range map[string]string{
		`[ {"role":"developer", "content":"developer"} , {"role":"user","content":"\u00e9"}]`:                                      `[ {"role":"system", "content":"developer"} , {"role":"user","content":"\u00e9"}]`,
		`[{"annotations":[],"refusal":null,"role":"assistant","audio":null,"content":"x"}]`:                                        `[{"role":"assistant","content":"x"}]`,
		`[{"role":"assistant","content":"x","thinking_blocks":[{}],"reasoning_content":"so","refusal":null}]`:                      `[{"role":"assistant","content":"x","reasoning":"so"}]`,
		`[{"role":"assistant","reasoning_content":"so","content":"x","reasoning":"other","name":""}]`:                              `[{"role":"assistant","reasoning":"so","content":"x"}]`,
		`[{"role":"assistant","content":null,"refusal":"no"},{"refusal":"no","role":"assistant"}]`:                                 `[{"role":"assistant","content":"no"},{"content":"no","role":"assistant"}]`,
		`[{"role":"assistant","reasoning":"other","content":"x","reasoning_content":"so"}]`:                                        `[{"role":"assistant","reasoning":"other","content":"x"}]`,
		`[{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":""}}]}]`: `[{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":""}}]},{"role":"tool","tool_call_id":"a","content":"The tool call was not executed."}]`,
	} {
		req, _, err := New(dialect).Encode(parse(t, `{"model":"m","messages":`+in+`}`), provider.Target{Model: "m"})
		require.NoError(t, err, in)
		require.Equal(t, `{"model":"m","messages":`+want+`}`, string(req.Body))
	}
	r := parse(t,
		`{"model":"m","messages":[{"role":"user","content":"x"},{"weight":1,"role":"user","content":"x","name":"n"}]}`)
	req, _, err := New(dialect).Encode(r, provider.Target{Model: "m"})
	require.NoError(t, err)
	require.Equal(t, []string{"messages[1].weight", "messages[1].name"}, req.Dropped)
	require.Equal(t, `{"model":"m","messages":[{"role":"user","content":"x"},{"role":"user","content":"x"}]}`,
		string(req.Body))
	r = parse(t,
		`{"model":"m","messages":[{"role":"assistant","content":null,"function_call":{"name":"f","arguments":""}}]}`)
	_, _, err = New(dialect).Encode(r, provider.Target{Model: "m"})
	require.Equal(t, openai.Unsupported("messages[0].function_call", "v"), err)
	req, _, err = New(dialect).Encode(r, dropping())
	require.NoError(t, err)
	require.Equal(t, []string{"messages[0].function_call"}, req.Dropped)
}

func TestHintsAreLeftOutAndNamedWhereTheVendorRefusesThem(t *testing.T) {
	const body = `{"model":"m","messages":[{"cache_control":{"type":"ephemeral"},"role":"user","content":[{"type":"text","text":"\"cache_control\"","cache_control":{}},{"cache_control":null,"type":"text","text":"y"}]}],` +
		`"tools":[{"cache_control":{},"type":"function","function":{"name":"f"}}],"prompt_cache_key":"k","safety_identifier":"s"}`
	req, _, err := New(Dialect{Vendor: "v", Hints: AllHints}).Encode(parse(t, body), provider.Target{Model: "m"})
	require.NoError(t, err)
	require.Equal(t,
		`{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"\"cache_control\""},{"type":"text","text":"y"}]}],"tools":[{"type":"function","function":{"name":"f"}}]}`, string(req.Body))
	require.Equal(t, []string{"prompt_cache_key", "safety_identifier", "cache_control"}, req.Dropped)
	req, _, err = New(Dialect{Vendor: "v"}).Encode(parse(t, body), provider.Target{Model: "m"})
	require.NoError(t, err)
	require.Equal(t, body, string(req.Body), "elsewhere they pass")
}

func TestToolsAsTheVendorTakesThem(t *testing.T) {
	const head, f, g = `{"model":"m","messages":[{"role":"user","content":"x"}]`,
		`{"type":"function","function":{"name":"f"}}`, `{"type":"function","function":{"name":"g"}}`
	const custom, own = `{"type":"custom","custom":{"name":"c"}}`, `{"type":"web_search"}`
	allowed := func(mode, tools string) string {
		return `,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"` + mode + `","tools":[` + tools + `]}}`
	}
	for name, c := range map[string]struct {
		dialect  Dialect
		in, want string // without head; want is a parameter where that is unsupported
	}{
		"none, and a choice among them": {Dialect{}, `,"tools":[],"tool_choice":"auto","parallel_tool_calls":false`, ``},
		"only a choice":                 {Dialect{}, `,"tool_choice":"none"`, ``},
		"a vendor's own":                {Dialect{}, `,"tools":[` + f + `,` + own + `]`, `,"tools":[` + f + `,` + own + `]`},
		"OpenAI's stay as they are": {Dialect{AsReceived: true}, `,"tools":[],"tool_choice":"auto"`,
			`,"tools":[],"tool_choice":"auto"`},
		"tools that take text": {Dialect{}, `,"tools":[` + f + `,` + custom + `]`, "tools[1]"},
		"where they are known": {Dialect{AllTools: true}, `,"tools":[` + custom + `]`, `,"tools":[` + custom + `]`},
		"allowed tools": {Dialect{}, `,"tools":[` + f + `,` + g + `]` + allowed("auto", g), `,"tools":[` +
			g + `],"tool_choice":"auto"`},
		"allowed tools, one of which": {Dialect{}, `,"tools":[` + f + `,` + g + `]` + allowed("required", g),
			`,"tools":[` + g + `],"tool_choice":"required"`},
		"all tools are allowed": {Dialect{}, `,"tools":[` + f + `]` + allowed("auto", f), `,"tools":[` + f +
			`],"tool_choice":"auto"`},
		"allowed tools that are none": {Dialect{}, `,"tools":[` + f + `]` + allowed("auto", g), "tool_choice"},
		"a choice of nothing but auto": {Dialect{AutoTools: true}, `,"tools":[` + f + `],"tool_choice":"auto"`,
			`,"tools":[` + f + `],"tool_choice":"auto"`},
		"no tool": {Dialect{AutoTools: true}, `,"tools":[` + f + `],"tool_choice":"none"`, ``},
		"a forced tool": {Dialect{AutoTools: true}, `,"tools":[` + f + `],"tool_choice":"required"`,
			"tool_choice"},
		"a named tool": {Dialect{AutoTools: true}, `,"tools":[` + f +
			`],"tool_choice":{"type":"function","function":{"name":"f"}}`, "tool_choice"},
		"allowed tools of auto": {Dialect{AutoTools: true}, `,"tools":[` + f + `,` + g + `]` + allowed("auto", g),
			`,"tools":[` + g + `],"tool_choice":"auto"`},
	} {
		t.Run(name, func(t *testing.T) {
			c.dialect.Vendor = "v"
			r := parse(t, head+c.in+`}`)
			req, _, err := New(c.dialect).Encode(r, provider.Target{Model: "m"})
			if c.want != "" && c.want[0] != ',' {
				require.Equal(t, openai.Unsupported(c.want, "v"), err)
				req, _, err = New(c.dialect).Encode(r, dropping())
				require.NoError(t, err)
				require.Equal(t, []string{c.want}, req.Dropped)
				return
			}
			require.NoError(t, err)
			require.Equal(t, head+c.want+`}`, string(req.Body))
		})
	}
}

func TestTextThatComesInPartsIsJoined(t *testing.T) {
	for in, want := range map[string]string{
		`[{"type":"text","text":"a\n"},{"type":"text","text":"é"}]`:                `"a\n\né"`,
		`[{"type":"refusal","refusal":"no"}]`:                                      `"no"`,
		`[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":""}}]`: `[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":""}}]`,
		`"a"`: `"a"`,
	} {
		req, _, err := New(Dialect{JoinText: true}).Encode(parse(t, `{"model":"m","messages":[{"role":"user","content":`+in+
			`}]}`), provider.Target{Model: "m"})
		require.NoError(t, err)
		require.Equal(t, `{"model":"m","messages":[{"role":"user","content":`+want+`}]}`, string(req.Body))
	}
}

func TestASchemaIsStatedWhereTheVendorKnowsNone(t *testing.T) {
	req, _, err := New(Dialect{NoSchemas: true}).Encode(parse(t,
		`{"model":"m","messages":[{"role":"user","content":"x"}],"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object"}}}}`), provider.Target{Model: "m"})
	require.NoError(t, err)
	require.Equal(t,
		`{"model":"m","messages":[{"role":"system","content":"Answer with nothing but a JSON object that conforms to this JSON Schema: {\"type\":\"object\"}"},{"role":"user","content":"x"}],"response_format":{"type":"json_object"}}`, string(req.Body))
}

func TestCompletions(t *testing.T) {
	r, err := openai.ParseCompletionRequest([]byte(`{"model":"client/m","prompt":["a","b"],"n":2,"stream":true}`))
	require.NoError(t, err)
	req, a, err := NewCompletion(Dialect{}).Encode(r, provider.Target{Model: "m"})
	require.NoError(t, err)
	require.Equal(t, "/completions", req.Path)
	require.Equal(t, http.Header{"Content-Type": {"application/json"}}, req.Header)
	require.Equal(t, `{"model":"m","prompt":["a","b"],"n":2,"stream":true,"stream_options":{"include_usage":true}}`,
		string(req.Body))
	require.Equal(t, 4, a.(*answer).choices)
	out, usage, err := chattest.Decode(a,
		[]byte(`{"choices":[{"text":"x","finish_reason":"tool_calls"},{"text":"y","index":1,"logprobs":{"tokens":["y"]},"finish_reason":"length"}],"id":"c","created":1,"usage":{"prompt_tokens":3}}`), "client/m", 1)
	require.NoError(t, err)
	require.Equal(t, int64(3), usage.PromptTokens)
	require.JSONEq(t,
		`{"id":"c","object":"text_completion","created":1,"model":"client/m","choices":[{"index":0,"text":"x","logprobs":null,"finish_reason":"stop"},{"index":1,"text":"y","logprobs":{"tokens":["y"]},"finish_reason":"length"}],
		"usage":{"prompt_tokens":3,"completion_tokens":0,"total_tokens":3,"prompt_tokens_details":{"cached_tokens":0,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":0,"audio_tokens":0}}}`, string(out))
}

func TestEmbeddings(t *testing.T) {
	for name, c := range map[string]struct {
		dialect                Dialect
		request, sent, in, out string
	}{
		"numbers": {Dialect{}, `{"model":"m","input":[1,2]}`, `{"model":"m","input":[1,2]}`,
			`{"data":[{"embedding":[0.5,-1]}],"x":1}`,
			`{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.5,-1]}],"model":"m","usage":{"prompt_tokens":0,"total_tokens":0},"x":1}`},
		"base64 of a vendor that gives it": {Dialect{AsReceived: true}, `{"model":"m","input":"a","encoding_format":"base64"}`,
			`{"model":"m","input":"a","encoding_format":"base64"}`, `{"data":[{"embedding":"AAAAPw=="}]}`,
			`{"data":[{"embedding":"AAAAPw=="}]}`},
		"base64 that nobody asked for": {Dialect{}, `{"model":"m","input":"a","encoding_format":"float"}`,
			`{"model":"m","input":"a"}`, `{"data":[{"embedding":"AAAAPwAAgL8="}]}`,
			`{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.5,-1]}],"model":"m","usage":{"prompt_tokens":0,"total_tokens":0}}`},
		"base64 of one that does not": {Dialect{}, `{"model":"m","input":"a","encoding_format":"base64"}`,
			`{"model":"m","input":"a"}`, `{"data":[{"embedding":[ 0.5, 1e400 ],"index":0}],"usage":{"prompt_tokens":3}}`,
			`{"object":"list","data":[{"object":"embedding","index":0,"embedding":"AAAAPwAAgH8="}],"model":"m","usage":{"prompt_tokens":3,"total_tokens":3}}`},
		"as received": {Dialect{AsReceived: true}, `{"model":"m","input":"a"}`, `{"model":"m","input":"a"}`,
			`{"data":[{}]}`, `{"data":[{}]}`},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := openai.ParseEmbeddingRequest([]byte(c.request))
			require.NoError(t, err)
			req, a, err := NewEmbedding(c.dialect).Encode(r, provider.Target{Model: "m"})
			require.NoError(t, err)
			require.Equal(t, "/embeddings", req.Path)
			require.Equal(t, c.sent, string(req.Body))
			out, _, err := chattest.Decode(a, []byte(c.in), "m", 1)
			require.NoError(t, err)
			require.Equal(t, c.out, string(out))
			for _, bad := range []string{"", `{}`, `{"data":{}}`, `{"data":null}`, `{"data":[]}`} {
				_, _, err = chattest.Decode(a, []byte(bad), "m", 1)
				require.ErrorIs(t, err, provider.ErrNotAnAnswer)
			}
		})
	}
	_, _, err := chattest.Decode(&embeddings{answer: &answer{dialect: &Dialect{}}}, []byte(`{"data":[{"index":0}]}`), "m",
		1)
	require.ErrorIs(t, err, provider.ErrNotAnAnswer)
}
