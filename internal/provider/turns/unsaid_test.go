package turns

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/api/openai"
)

func TestUnsaid(t *testing.T) {
	const user = `"messages":[{"role":"user","content":"x"}]`
	for members, want := range map[string][]string{
		`"messages":[{"role":"user","name":"bob","content":"x"}]`:                                                          {UnsaidName},
		`"messages":[{"role":"assistant","audio":{"id":"a"}},{"role":"tool","tool_call_id":"1","name":"f","content":"x"}]`: {UnsaidAudio},
		`"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"u","detail":"low"}}]}]`:             {UnsaidDetail},
		`"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"u","detail":"auto"}}]}]`:            nil,
		`"messages":[{"role":"user","content":[{"type":"text","text":"x","cache_control":{"type":"ephemeral"}}]}]`:         {UnsaidCache},
		`"messages":[{"role":"user","content":"x","cache_control":null}]`:                                                  nil,
		user +
			`,"tools":[{"type":"function","function":{"name":"f"},"cache_control":{"type":"ephemeral"}}]`: {UnsaidCache},
		user +
			`,"tools":[{"type":"function","function":{"name":"f","cache_control":{"type":"ephemeral"}}}]`: {UnsaidCache},
		`"messages":[{"role":"assistant","content":"x","reasoning_content":"r"}]`:                                                                  {UnsaidReason},
		`"messages":[{"role":"assistant","content":"x","reasoning_content":"r","thinking_blocks":[{"type":"thinking","signature":"s"}]}]`:          nil,
		`"messages":[{"role":"assistant","reasoning_content":"r","tool_calls":[{"id":"1","function":{"name":"f"},"extra_content":{"google":1}}]}]`: nil,
	} {
		r, err := openai.ParseChatRequest([]byte(`{"model":"m",` + members + `}`))
		require.NoError(t, err, members)
		c, err := r.Chat()
		require.NoError(t, err, members)
		require.Equal(t, want, Unsaid(c), members)
	}
}
