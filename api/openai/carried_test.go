package openai_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/api/openai"
)

func TestWhatAnIDCarriesComesBack(t *testing.T) {
	data := []byte(strings.Repeat(`{"type":"thinking","thinking":"a \u00e9","signature":"c2ln"}`, 50))
	id := openai.CarryID("toolu_1", data)
	require.Less(t, len(id), len(data))
	bare, got := openai.SplitID(id)
	require.Equal(t, "toolu_1", bare)
	require.Equal(t, data, got)

	body := `{"model":"m","messages":[{"role":"user","content":"` + id + `"},{"role":"assistant","tool_calls":[{"id":"` + id +
		`","type":"function","function":{"name":"f","arguments":"` + id + `"}}]},{"role":"tool","tool_call_id":"` + id + `","content":"` + id + `"}]}`
	r, err := openai.ParseChatRequest([]byte(body))
	require.NoError(t, err)
	want := strings.Replace(body, `{"id":"`+id, `{"id":"toolu_1`, 1)
	want = strings.Replace(want, `"tool_call_id":"`+id, `"tool_call_id":"toolu_1`, 1)
	require.Equal(t, want, string(r.Body), "only ids are changed")
	chat, err := r.Chat()
	require.NoError(t, err)
	require.Equal(t, "toolu_1", chat.Messages[1].ToolCalls[0].ID)
	require.Equal(t, data, chat.Messages[1].ToolCalls[0].Carried)
	require.Equal(t, "toolu_1", chat.Messages[2].ToolCallID)
	require.Equal(t, id, chat.Messages[2].Content.Text())
}

func TestAnIDThatCarriesNothing(t *testing.T) {
	require.Equal(t, "x", openai.CarryID("x", nil))
	require.Equal(t, "x", openai.CarryID("x", bytes.Repeat([]byte("a"), 1<<20)), "too much")
	for _, id := range []string{"", "call_1", "call_1~mg1.", "call_1~mg1.!!", "call_1~mg1.AAAA"} {
		bare, data := openai.SplitID(id)
		require.Equal(t, strings.TrimSuffix(id[:min(len(id), 6)], "~"), bare)
		require.Nil(t, data, id)
	}
	bomb := openai.CarryID("x", bytes.Repeat([]byte("a"), 256<<10))
	bare, data := openai.SplitID(bomb)
	require.Equal(t, "x", bare)
	require.Len(t, data, 256<<10)
}
