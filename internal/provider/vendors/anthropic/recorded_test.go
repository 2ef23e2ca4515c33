package anthropic

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/chat/chattest"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/recordings"
)

// A thinking is what an answer says of its thinking.
type thinking struct {
	text   string
	signed []string // signatures and encrypted blocks, in order
}

func (th *thinking) block(b gjson.Result) {
	th.text += b.Get("thinking").Str
	if s := b.Get("signature").Str + b.Get("data").Str; s != "" {
		th.signed = append(th.signed, s)
	}
}

// TestRecordedThinking checks of recorded answers that nothing of their thinking is lost, read here without the codec.
// What Replay checks is text, calls and usage.
func TestRecordedThinking(t *testing.T) {
	files := recordings.Of(t, "anthropic")
	thought := 0
	for _, pattern := range []string{"*/response.*", "response-only/*"} {
		for _, path := range recordings.Glob(t, files, pattern) {
			if strings.Contains(path, "spliced") { // two answers, which are none
				continue
			}
			body := recordings.Read(t, files, path)
			want := vendorThinking(string(body))
			if want.text == "" && want.signed == nil {
				continue
			}
			thought++
			t.Run("/"+path, func(t *testing.T) { require.Equal(t, want, clientThinking(t, string(body))) })
		}
	}
	require.NotZero(t, thought)
}

// vendorThinking reads a whole message, or events, each on a line.
func vendorThinking(body string) thinking {
	var th thinking
	for _, b := range gjson.Get(body, "content").Array() {
		th.block(b)
	}
	signature := ""
	for line := range strings.Lines(body) {
		e := gjson.Parse(strings.TrimPrefix(line, "data: "))
		switch e.Get("type").Str {
		case "content_block_start":
			th.block(e.Get("content_block"))
		case "content_block_delta":
			th.text += e.Get("delta.thinking").Str
			signature += e.Get("delta.signature").Str
		case "content_block_stop":
			if signature != "" {
				th.signed, signature = append(th.signed, signature), ""
			}
		}
	}
	return th
}

func clientThinking(t *testing.T, body string) thinking {
	t.Helper()
	r, err := openai.ParseChatRequest([]byte(`{"model":"m","messages":[{"role":"user","content":"x"}],"stream":true}`))
	require.NoError(t, err)
	_, answer, err := Provider().Chat.Encode(r, provider.Target{Model: "m"})
	require.NoError(t, err)
	var th thinking
	if gjson.Get(body, "content").Exists() {
		out, _, err := chattest.Decode(answer, []byte(body), "m", 1)
		require.NoError(t, err)
		message := gjson.GetBytes(out, "choices.0.message")
		th.text = message.Get("reasoning_content").Str
		for _, b := range message.Get("thinking_blocks").Array() {
			th.signed = append(th.signed, b.Get("signature").Str+b.Get("data").Str)
		}
		return th
	}
	if !strings.Contains(body, "data: ") { // recorded without the framing
		body = "data: " + strings.Join(strings.Split(strings.TrimSpace(body), "\n"), "\n\ndata: ") + "\n\n"
	}
	w := chattest.NewStream("m", 1, false)
	s := answer.Stream(w.Asked)
	require.NoError(t, s.Decode([]byte(body), w))
	require.NoError(t, s.Close(w))
	for line := range strings.Lines(string(w.Take())) {
		delta := gjson.Get(strings.TrimPrefix(line, "data: "), "choices.0.delta")
		th.text += delta.Get("reasoning_content").Str
		for _, b := range delta.Get("thinking_blocks").Array() {
			th.signed = append(th.signed, b.Get("signature").Str+b.Get("data").Str)
		}
	}
	return th
}
