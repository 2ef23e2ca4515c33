package messages

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
)

func TestPitfall61Betas(t *testing.T) {
	for name, c := range map[string]struct {
		vendor, member string
		want           []string
		dropped        []string
	}{
		"a list": {"anthropic", `["a-2025-01-01","b-2025-01-01"]`,
			[]string{"a-2025-01-01", "b-2025-01-01"}, nil},
		"a string with commas": {"anthropic", `"a-2025-01-01, b-2025-01-01,"`, []string{"a-2025-01-01", "b-2025-01-01"},
			nil},
		"each once": {"anthropic", `"a,a"`, []string{"a"}, nil},
		"what a cloud takes": {"bedrock", `["context-1m-2025-08-07","files-api-2025-04-14"]`,
			[]string{"context-1m-2025-08-07"}, []string{"anthropic_beta"}},
		"what another takes": {"vertex", `["files-api-2025-04-14","web-search-2025-03-05"]`,
			[]string{"web-search-2025-03-05"}, []string{"anthropic_beta"}},
		"what is no name of a beta": {"anthropic", `["a\r\nx-api-key: b"]`, nil, []string{"anthropic_beta"}},
		"what is no list":           {"anthropic", `{"a":1}`, nil, []string{"anthropic_beta"}},
		"nothing":                   {"anthropic", `null`, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := request(t, `"anthropic_beta":`+c.member)
			out, _, err := Encode(c.vendor, r, target(nil, middle))
			require.NoError(t, err)
			require.Equal(t, c.want, out.AnthropicBeta)
			require.Equal(t, c.dropped, out.Dropped)
		})
	}
}

func TestTheVendorsOwnMembersPass(t *testing.T) {
	testRules(t, []rule{
		{name: "as they are",
			members: `"context_management":{"edits":[{"type":"clear_tool_uses_20250919"}]},"container":"c","inference_geo":"us","mcp_servers":[],"speed":null`, path: "{context_management,container,inference_geo,mcp_servers,speed}", want: `{"context_management":{"edits":[{"type":"clear_tool_uses_20250919"}]},"container":"c","inference_geo":"us","mcp_servers":[]}`},
		{name: "output_config with what it lacks", model: adaptive,
			members: `"output_config":{"task_budget":{"type":"tokens","total":9}},"reasoning_effort":"low"`,
			path:    "output_config", want: `{"effort":"low","task_budget":{"type":"tokens","total":9}}`},
		{name: "the client's own effort wins", model: adaptive,
			members: `"output_config":{"effort":"max"},"reasoning_effort":"low"`, path: "output_config",
			want: `{"effort":"max"}`, dropped: []string{"reasoning_effort"}},
		{name: "OpenAI's format wins", model: adaptive,
			members: `"output_config":{"effort":"max","format":{"x":1}},"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object","properties":{}}}}`, path: "output_config", want: `{"format":{"type":"json_schema","schema":{"type":"object","properties":{},"additionalProperties":false}},"effort":"max"}`, dropped: []string{"output_config.format"}},
		{name: "metadata names the user", members: `"metadata":{"user_id":"u"}`, path: "metadata", want: `{"user_id":"u"}`},
		{name: "unless user does", members: `"metadata":{"user_id":"u"},"user":"v"`, path: "metadata",
			want: `{"user_id":"v"}`, dropped: []string{"metadata"}},
		{name: "other metadata has no place", members: `"metadata":{"user_id":"u","a":"b","c":"d"}`, path: "metadata",
			want: `{"user_id":"u"}`, dropped: []string{"metadata"}},
		{name: "priority is what auto takes first", members: `"service_tier":"priority"`, path: "service_tier",
			want: `"auto"`},
		{name: "the vendor's own tier", members: `"service_tier":"standard_only"`, path: "service_tier",
			want: `"standard_only"`},
	})
	_, _, _, err := encode(t, middle, `"output_config":"high"`, false)
	require.ErrorContains(t, err, "expected an object")
}

func TestURLsThatTheCloudDoesNotFetchAreRefused(t *testing.T) {
	for _, part := range []string{`{"type":"image_url","image_url":{"url":"https://e.example/a.png"}}`,
		`{"type":"file","file":{"file_data":"https://e.example/a.pdf"}}`} {
		r := request(t, `"messages":[{"role":"user","content":[`+part+`]}]`)
		_, _, err := Encode("vertex", r, provider.Target{Model: middle, Facts: facts.Facts("vertex", middle)})
		var e *openai.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, "messages[0].content[0]", e.Param)
		require.Contains(t, e.Message, "base64 data URI")
	}
	_, _, err := Encode("vertex", request(t,
		`"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo="}}]}]`), provider.Target{Model: middle, Facts: facts.Facts("vertex", middle)})
	require.NoError(t, err)
}

func TestAModelThatNobodyKnows(t *testing.T) {
	got, out, _, err := encode(t, "some-model",
		`"temperature":0.5,"top_p":0.9,"reasoning_effort":"low","messages":[{"role":"assistant","content":"Once"}]`, false)
	require.NoError(t, err)
	require.Equal(t, int64(4096), got.Get("max_tokens").Int())
	require.Equal(t, "assistant", got.Get("messages.0.role").Str)
	require.Equal(t, []string{"reasoning_effort"}, out.Dropped, "it is the beginning of an answer")
	_, _, err = Encode("acme", request(t, `"reasoning_effort":"low"`), provider.Target{Model: "some-model"})
	require.ErrorContains(t, err, "'reasoning_effort' is not supported", "without any facts nothing is known of thinking")
	out, _, err = Encode("acme", request(t, `"temperature":0.5`), provider.Target{Model: "some-model"})
	require.NoError(t, err)
	require.Equal(t, int64(4096), out.MaxTokens)
}
