package offered_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestToolsBesideTheList: vendors read tools in other places than the request's list.
func TestToolsBesideTheList(t *testing.T) {
	const tools = `"tools":[{"type":"function","function":{"name":"a"}}]`
	for body, want := range map[string][]string{
		`{"messages":[{"role":"system",` + tools + `}]}`:                          {"a"}, // Kimi
		`{"messages":[{"role":"system","type":"mcp_list_tools",` + tools + `}]}`:  {"a"},
		`{"messages":[{"role":"system","t\u006fols":[{"name":"a"}]}]}`:            {"a"},
		`{"messages":[{"role":"user","content":"my \"tools\" are"}],"input":[]}`:  nil,
		`{"chat_template_kwargs":{` + tools + `}}`:                                {"a"}, // vLLM
		`{"chat_template_kwargs":{"builtin_tools":["browser"]}}`:                  {"unknown:chat_template_kwargs.builtin_tools"},
		`{"chat_template_kwargs":{"enable_thinking":false}}`:                      nil,
		`{"parameters":{` + tools + `,"top_p":1}}`:                                {"a"},
		`{"options":{` + tools + `}}`:                                             {"a"},
		`{"model":"a:online:nitro"}`:                                              {"web_search"}, // OpenRouter
		`{"model":"a:free:online"}`:                                               {"web_search"},
		`{"model":"a@preset/p"}`:                                                  {"preset"},
		`{"model":"@preset/p"}`:                                                   {"preset"},
		`{"model":"a:online@preset/p"}`:                                           {"web_search", "preset"},
		`{"model":"a:free"}`:                                                      nil,
		`{"model":"publishers/anthropic/models/claude-sonnet-4-5@20250929"}`:      nil,
		`{"parameters":{"outputDimensionality":5},"options":{"temperature":0.5}}`: nil,
	} {
		if got := read(body).Names(); len(want) == 0 {
			require.Empty(t, got, body)
		} else {
			require.Equal(t, want, got, body)
		}
	}
	require.Empty(t, read(`{"chat_template_kwargs":{"identity":"x"}}`).Models, "a template reaches no other model")
	require.Equal(t, "stored", read(`{"model":"a@preset/p"}`).Fees[0].Tool, "a preset may search the web")
}
