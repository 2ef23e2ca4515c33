package providertest

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/sse"
)

// finishReasons are all that OpenAI's clients know.
var finishReasons = []string{"stop", "length", "tool_calls", "content_filter", "function_call"}

// requireAnswer checks what clients rely on in a whole answer.
func requireAnswer(t *testing.T, r *openai.ChatRequest, o outcome) {
	t.Helper()
	require.Empty(t, o.Err)
	require.True(t, gjson.Valid(o.Body), "the answer is not JSON: %s", o.Body)
	root := gjson.Parse(o.Body)
	require.Equal(t, "chat.completion", root.Get("object").String())
	require.Equal(t, r.Model, root.Get("model").String(), "the client's name of the model")
	require.NotEmpty(t, root.Get("id").String())
	require.True(t, root.Get("choices").IsArray(), "choices is an array")
	for _, choice := range root.Get("choices").Array() {
		require.Equal(t, "assistant", choice.Get("message.role").String())
		require.True(t, choice.Get("message.content").Exists(), "content is there, though it may be null")
		require.Contains(t, finishReasons, choice.Get("finish_reason").String())
		for _, call := range choice.Get("message.tool_calls").Array() {
			require.NotEmpty(t, call.Get("id").String())
			require.Equal(t, gjson.String, call.Get("function.arguments").Type)
		}
	}
}

// requireChunks checks what clients rely on in a stream.
func requireChunks(t *testing.T, r *openai.ChatRequest, o outcome) {
	t.Helper()
	events := readEvents(t, o.Body)
	require.Equal(t, o.Err == "", slices.Contains(events, "[DONE]"), "a stream has [DONE] where it is complete")
	if o.Err == "" {
		require.Equal(t, "[DONE]", events[len(events)-1], "[DONE] comes last")
		events = events[:len(events)-1]
		require.NotEmpty(t, events, "a complete stream has chunks")
	} else if o.Client != nil && len(events) > 0 {
		require.True(t, gjson.Get(events[len(events)-1], "error.message").Exists(), "an error comes last")
		events = events[:len(events)-1]
	}
	s := streamFacts{request: r, choices: map[int64]*choiceFacts{}}
	for i, e := range events {
		require.NotEqual(t, "[DONE]", e, "[DONE] comes once")
		require.True(t, gjson.Valid(e), "a chunk is not JSON: %s", e)
		s.chunk(t, gjson.Parse(e), i == len(events)-1 && o.Err == "")
	}
	if o.Err != "" {
		return
	}
	require.NotEmpty(t, s.choices)
	for index, c := range s.choices {
		require.True(t, c.finished, "choice %d has a finish_reason", index)
	}
	require.Equal(t, r.IncludeUsage && !o.Usage.IsZero(), s.usageChunks == 1, "one usage chunk where it was asked for")
}

// streamFacts are what is known of a stream so far.
type streamFacts struct {
	request     *openai.ChatRequest
	identity    string
	choices     map[int64]*choiceFacts
	usageChunks int
}

type choiceFacts struct {
	started, finished bool
	calls             map[int64]bool
}

func (s *streamFacts) chunk(t *testing.T, chunk gjson.Result, last bool) {
	t.Helper()
	identity := strings.Join([]string{chunk.Get("id").Raw, chunk.Get("created").Raw, chunk.Get("model").Raw, chunk.Get("object").Raw}, " ")
	if s.identity == "" {
		s.identity = identity
		require.NotEmpty(t, chunk.Get("id").String())
	}
	require.Equal(t, s.identity, identity, "id, created, model and object stay the same")
	require.Equal(t, "chat.completion.chunk", chunk.Get("object").String())
	require.Equal(t, s.request.Model, chunk.Get("model").String(), "the client's name of the model")
	require.True(t, chunk.Get("choices").IsArray(), "choices is an array: %s", chunk.Raw)
	choices := chunk.Get("choices").Array()
	usage := chunk.Get("usage")
	switch {
	case !s.request.IncludeUsage:
		require.False(t, usage.Exists(), "usage was not asked for: %s", chunk.Raw)
		require.NotEmpty(t, choices, "a chunk without choices: %s", chunk.Raw)
	case len(choices) == 0:
		require.True(t, usage.IsObject(), "a chunk without choices: %s", chunk.Raw)
		require.True(t, last, "the usage chunk comes last")
		s.usageChunks++
	default:
		require.Equal(t, "null", usage.Raw, "usage is null until the last chunk: %s", chunk.Raw)
	}
	for _, choice := range choices {
		s.choice(t, choice)
	}
}

func (s *streamFacts) choice(t *testing.T, choice gjson.Result) {
	t.Helper()
	index := choice.Get("index").Int()
	c := s.choices[index]
	if c == nil {
		c = &choiceFacts{calls: map[int64]bool{}}
		s.choices[index] = c
	}
	require.False(t, c.finished, "nothing comes after finish_reason: %s", choice.Raw)
	if role := choice.Get("delta.role"); role.Exists() {
		require.Equal(t, "assistant", role.String())
		require.False(t, c.started, "the role comes once: %s", choice.Raw)
	} else {
		require.True(t, c.started, "the role comes first: %s", choice.Raw)
	}
	c.started = true
	for _, call := range choice.Get("delta.tool_calls").Array() {
		n := call.Get("index").Int()
		if !c.calls[n] {
			require.Len(t, c.calls, int(n), "tool calls are counted from 0")
			require.NotEmpty(t, call.Get("id").String())
			require.NotEmpty(t, call.Get("function.name").String())
		}
		c.calls[n] = true
	}
	if reason := choice.Get("finish_reason"); reason.Type != gjson.Null {
		require.Contains(t, finishReasons, reason.String())
		c.finished = true
	}
}

// readEvents returns the data of each event of a stream that the gateway wrote. It has nothing but data lines.
func readEvents(t *testing.T, body string) []string {
	t.Helper()
	var events []string
	var d sse.Decoder
	d.Feed([]byte(body))
	for {
		e, ok, err := d.Next()
		require.NoError(t, err)
		if !ok {
			break
		}
		require.Empty(t, e.Name)
		require.NotContains(t, string(e.Data), "\n")
		events = append(events, string(bytes.Clone(e.Data)))
	}
	_, rest := d.Close()
	require.False(t, rest, "the stream ends with a blank line")
	return events
}

// requireError checks what clients rely on in an error.
func requireError(t *testing.T, e *openai.Error) {
	t.Helper()
	require.NotNil(t, e)
	require.GreaterOrEqual(t, e.Status, 400)
	require.LessOrEqual(t, e.Status, 599)
	require.NotEmpty(t, e.Message)
	require.NotEmpty(t, e.Type)
	require.True(t, gjson.ValidBytes(e.AppendJSON(nil)))
}
