package messages

import (
	"errors"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
)

// FuzzEncode checks of any request that it is refused or becomes one that the vendor can read. What comes back is
// fuzzed by the vendors that use the codec.
func FuzzEncode(f *testing.F) {
	for _, members := range []string{
		agentRequest(1 << 10),
		`"messages":[{"role":"user","content":"x"}],"reasoning_effort":"low","thinking":{"type":"enabled","budget_tokens":1},"max_tokens":1`,
		`"messages":[{"role":"assistant","thinking_blocks":[{"type":"thinking","signature":"s"}],"tool_calls":[{"id":"` +
			CarryThoughts(carrier, "1", []Thought{{Redacted: "r"}}) +
			`","function":{"name":"a","arguments":"{"}}]}],"anthropic_beta":"a,b"`,
		`"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:,a"}},{"type":"file","file":{"file_data":"YQ=="}}],"cache_control":{"type":"ephemeral"}}],"output_config":{"effort":"low","format":1}`,
		`"messages":[{"role":"user","content":"x"}],"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object","properties":{"a":{"minLength":1}}}}},"web_search_options":{"user_location":{"approximate":{"city":"x"}}}`,
		`"messages":[{"role":"user","content":"x"}],"tools":[{"type":"bash_20250124","name":"bash"},{"type":"function","function":{"name":"a b","strict":true,"parameters":{"anyOf":[]}}}],"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"function":{"name":"a b"}}]}},"metadata":{"user_id":7},"mcp_servers":[1]`,
	} {
		f.Add(members, uint8(0))
		f.Add(members, uint8(5))
	}
	models := []string{oldest, budgeted, middle, adaptive, newest, always, "claude-opus-5-5", "claude-haiku-5-5"}
	f.Fuzz(func(t *testing.T, members string, model uint8) {
		r, err := openai.ParseChatRequest([]byte(`{"model":"m",` + members + `}`))
		if err != nil {
			return
		}
		out, answer, err := Encode("vertex", r, target(nil, models[int(model)%len(models)]))
		if err != nil {
			require.True(t, errors.As(err, new(*openai.Error)), "%v", err)
			return
		}
		require.NotNil(t, answer)
		body, err := out.JSON()
		require.NoError(t, err)
		require.True(t, jsontext.Value(body).IsValid(jsontext.AllowDuplicateNames(true)), "%s", body)
		role := ""
		for _, turn := range gjson.GetBytes(body, "messages").Array() {
			require.NotEmpty(t, turn.Get("content").Array())
			if now := turn.Get("role").Str; now != "system" {
				require.NotEqual(t, role, now)
				role = now
			}
		}
	})
}
