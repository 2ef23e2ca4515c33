package turns

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/api/openai"
)

func TestUnsupported(t *testing.T) {
	const user = `"messages":[{"role":"user","content":"x"}]`
	for members, want := range map[string][]string{
		`"messages":[{"role":"user","name":"bob","content":"x"}]`:                                                          {UnsupportedName},
		`"messages":[{"role":"assistant","audio":{"id":"a"}},{"role":"tool","tool_call_id":"1","name":"f","content":"x"}]`: {UnsupportedAudio},
		`"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"u","detail":"low"}}]}]`:             {UnsupportedDetail},
		`"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"u","detail":"auto"}}]}]`:            nil,
		`"messages":[{"role":"user","content":[{"type":"text","text":"x","cache_control":{"type":"ephemeral"}}]}]`:         {UnsupportedCache},
		`"messages":[{"role":"user","content":"x","cache_control":null}]`:                                                  nil,
		user +
			`,"tools":[{"type":"function","function":{"name":"f"},"cache_control":{"type":"ephemeral"}}]`: {UnsupportedCache},
		user +
			`,"tools":[{"type":"function","function":{"name":"f","cache_control":{"type":"ephemeral"}}}]`: {UnsupportedCache},
		`"messages":[{"role":"assistant","content":"x","reasoning_content":"r"}]`:                                                                  {UnsupportedReason},
		`"messages":[{"role":"assistant","content":"x","reasoning_content":"r","thinking_blocks":[{"type":"thinking","signature":"s"}]}]`:          nil,
		`"messages":[{"role":"assistant","reasoning_content":"r","tool_calls":[{"id":"1","function":{"name":"f"},"extra_content":{"google":1}}]}]`: nil,
	} {
		r, err := openai.ParseChatRequest([]byte(`{"model":"m",` + members + `}`))
		require.NoError(t, err, members)
		c, err := r.Chat()
		require.NoError(t, err, members)
		require.Equal(t, want, Unsupported(c), members)
	}
}
