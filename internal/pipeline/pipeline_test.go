package pipeline_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	apiopenai "github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/chat"
	inboundapi "github.com/modelgate/modelgate/internal/inbound"
	"github.com/modelgate/modelgate/internal/inbound/dialects"
	inbound "github.com/modelgate/modelgate/internal/inbound/openai"
	"github.com/modelgate/modelgate/internal/pipeline"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/vendors/anthropic"
	"github.com/modelgate/modelgate/internal/provider/vendors/groq"
	"github.com/modelgate/modelgate/internal/provider/vendors/openai"
)

// open returns the pipeline of the answer of a vendor to the smallest request of an operation.
func open(t *testing.T, vendor provider.Provider, path string, guard pipeline.Guard) *pipeline.Pipeline {
	t.Helper()
	o := dialects.Find("/v1/"+path, "")
	r, err := o.Parse(inboundapi.Head{}, []byte(`{"model":"m","stream":true,"messages":[{"role":"user","content":"x"}],"prompt":"x"}`))
	require.NoError(t, err)
	_, answer, err := r.Encode(&vendor, provider.Target{Model: "m"})
	require.NoError(t, err)
	asked := chat.Asked{Model: "client/m", Created: 1}
	return pipeline.New(pipeline.Options{Answer: answer, Asked: asked, Writer: o.Stream(asked), Guard: guard})
}

func chunk(choice string) string {
	return `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[` + choice +
		`],"usage":null}` + "\n\n"
}

const (
	role = `{"index":0,"delta":{"role":"assistant","content":"","refusal":null},"logprobs":null,"finish_reason":null}`
	text = `{"index":0,"delta":{"content":"x"},"logprobs":null,"finish_reason":null}`
	stop = `{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}`
	done = "data: [DONE]\n\n"
)

func TestWhatSpeaks(t *testing.T) {
	for events, want := range map[string]bool{
		"": false, ": OPENROUTER PROCESSING\n\n": false, "\r\n\r\n": false, "event: ping\nid: 1\nretry: 3\n\n": false,
		chunk(role): false,
		chunk(``):   false,
		`data: {"choices":[],"prompt_filter_results":[{"prompt_index":0}]}` + "\n\n":                               false,
		chunk(`{"index":0,"delta":{"role":"assistant"}},{"index":1,"delta":{"role":"assistant","tool_calls":[]}}`): false,
		chunk(`{"index":0,"delta":{"role":"assistant"}},{"index":1,"delta":{"role":"assistant","content":" "}}`):   true,
		chunk(text): true,
		chunk(`{"index":0,"delta":{"reasoning_content":"x"}}`):                             true,
		chunk(`{"index":0,"delta":{"refusal":"x"}}`):                                       true,
		chunk(`{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"name":"f"}}]}}`):  true,
		chunk(`{"index":0,"delta":{"audio":{"id":"x"}}}`):                                  true,
		chunk(`{"index":0,"delta":{"audio":null}}`):                                        false,
		chunk(`{"index":0,"delta":{"content":""},"logprobs":{"content":[{"token":"x"}]}}`): true,
		chunk(stop): true,
		strings.ReplaceAll(chunk(`{"index":0,"delta":{"role":"assistant"}}`), "\n", "\r"): false,
		chunk(`{"index":0,"delta":{"role":"assistant"}}`) + chunk(text):                   true,
		chunk(role) + done: true,
	} {
		p := open(t, openai.Provider(), "chat/completions", nil)
		out, err := p.Piece(t.Context(), []byte(events), false)
		require.NoError(t, err)
		require.Equal(t, want, p.HasOutput(), events)
		require.Equal(t, want, len(out) > 0, events)
	}
	for choice, want := range map[string]bool{`{"index":0,"text":"","logprobs":null,"finish_reason":null}`: false,
		`{"index":0,"text":"x"}`: true} {
		p := open(t, openai.Provider(), "completions", nil)
		_, err := p.Piece(t.Context(), []byte(chunk(choice)), false)
		require.NoError(t, err)
		require.Equal(t, want, p.HasOutput(), choice)
	}
}

func TestTheBeginningIsHeld(t *testing.T) {
	for name, vendor := range map[string]provider.Provider{"as it came": openai.Provider(),
		"put right": groq.Provider()} {
		t.Run(name, func(t *testing.T) {
			whole := open(t, vendor, "chat/completions", nil)
			want, err := whole.Piece(t.Context(), []byte(chunk(role)+chunk(text)), false)
			require.NoError(t, err)
			require.Equal(t, 2, whole.Chunks())

			p := open(t, vendor, "chat/completions", nil)
			out, err := p.Piece(t.Context(), []byte(chunk(role)), false)
			require.NoError(t, err)
			require.Empty(t, out)
			require.Equal(t, 1, p.Chunks())
			out, err = p.Piece(t.Context(), []byte(chunk(text)), false)
			require.NoError(t, err)
			require.Equal(t, string(want), string(out))

			p = open(t, vendor, "chat/completions", nil)
			_, err = p.Piece(t.Context(), []byte(chunk(role)), false)
			require.NoError(t, err)
			require.Contains(t, string(p.Release()), `"role":"assistant"`)
			require.Empty(t, p.Release())
			require.True(t, p.HasOutput())
		})
	}
}

func TestAnAnswerThatFailsBeforeItSpeaksGivesNothing(t *testing.T) {
	for _, first := range []string{"", chunk(role)} {
		p := open(t, groq.Provider(), "chat/completions", nil)
		out, err := p.Piece(t.Context(), []byte(first+`data: {"error":{"message":"no"}}`+"\n\n"), false)
		require.ErrorContains(t, err, "no")
		require.Empty(t, out)
		require.False(t, p.HasOutput())
	}
	p := open(t, groq.Provider(), "chat/completions", nil)
	out, err := p.Piece(t.Context(), []byte(chunk(role)+chunk(text)), true)
	require.ErrorIs(t, err, provider.ErrTruncated)
	require.Contains(t, string(out), `"content":"x"`)
	require.Equal(t, `data: {"error":{"message":"gone","type":"","param":null,"code":null}}`+"\n\n",
		string(p.Fail(&apiopenai.Error{Message: "gone"})))
}

func TestWhatIsHeldIsBounded(t *testing.T) {
	p := open(t, openai.Provider(), "chat/completions", nil)
	var out []byte
	held, chunks := 0, 0
	for len(out) == 0 {
		piece := []byte(chunk(role))
		held, chunks = held+len(piece), chunks+1
		require.Less(t, held, 128<<10)
		var err error
		out, err = p.Piece(t.Context(), piece, false)
		require.NoError(t, err)
	}
	require.Greater(t, len(out), 64<<10)
	require.Equal(t, chunks, strings.Count(string(out), "data: "), "nothing is lost")
}

func TestNothingCountsAfterTheEnd(t *testing.T) {
	p := open(t, openai.Provider(), "chat/completions", nil)
	out, err := p.Piece(t.Context(), []byte(chunk(text)+chunk(stop)+done+"data: {\n\n"), false)
	require.NoError(t, err)
	require.True(t, p.HasEnded())
	require.True(t, strings.HasSuffix(string(out), done))
}

// louder is a guard that changes what is said, and stops where it is to.
type louder struct{ stop string }

var errStopped = errors.New("stopped")

func (l louder) Changes() bool { return true }

func (l louder) Document(_ context.Context, body []byte) ([]byte, error) { return body, nil }

func (l louder) Put(ctx context.Context, e chat.Event, next chat.Sink) error {
	if e.Kind == chat.KindText {
		if e.String() == l.stop {
			return errStopped
		}
		e.Text, e.JSON = strings.ToUpper(e.String()), nil
	}
	next.Put(e)
	return ctx.Err()
}

func TestAGuardSeesWhatEveryVendorSays(t *testing.T) {
	claude := `data: {"type":"message_start","message":{"id":"c","type":"message","role":"assistant","model":"m","content":[],"usage":{"input_tokens":1,"output_tokens":1}}}` + "\n\n" +
		`data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}` + "\n\n" +
		`data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"x"}}` + "\n\n" +
		`data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":9}}` + "\n\n" +
		`data: {"type":"message_stop"}` + "\n\n"
	var want string
	for _, v := range []struct {
		vendor provider.Provider
		stream string
	}{
		{openai.Provider(), chunk(role) + chunk(text) + chunk(stop) + done},
		{groq.Provider(), chunk(role) + chunk(text) + chunk(stop) + done},
		{anthropic.Provider(), claude},
	} {
		p := open(t, v.vendor, "chat/completions", louder{})
		out, err := p.Piece(t.Context(), []byte(v.stream), true)
		require.NoError(t, err)
		require.Contains(t, string(out), `"content":"X"`)
		if want == "" {
			want = string(out)
		}
		require.Equal(t, want, string(out), v.vendor.Name)

		p = open(t, v.vendor, "chat/completions", louder{stop: "x"})
		_, err = p.Piece(t.Context(), []byte(v.stream), true)
		require.ErrorIs(t, err, errStopped)

		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = open(t, v.vendor, "chat/completions", louder{}).Piece(ctx, []byte(v.stream), true)
		require.ErrorIs(t, err, context.Canceled)
	}
}

func TestAGuardSeesAnswersThatComeWhole(t *testing.T) {
	openAI := `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"x","refusal":null},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":9,"total_tokens":10}}`
	claude := `{"type":"message","id":"c","content":[{"type":"text","text":"x"}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":9}}`
	var want string
	for _, v := range []struct {
		vendor provider.Provider
		body   string
	}{{openai.Provider(), openAI}, {groq.Provider(), openAI}, {anthropic.Provider(), claude}} {
		p := open(t, v.vendor, "chat/completions", louder{})
		p.Writer = inbound.NewChatDocument(p.Asked)
		out, err := p.Whole(t.Context(), []byte(v.body))
		require.NoError(t, err)
		require.Contains(t, string(out), `"content":"X"`)
		if want == "" {
			want = string(out)
		}
		require.Equal(t, want, string(out), v.vendor.Name)
		require.EqualValues(t, 9, p.Usage().CompletionTokens)
	}
}
