package providertest

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/internal/translate"
)

// requireChunks checks a stream.
func (e envelope) requireChunks(t testing.TB, o outcome) {
	t.Helper()
	if e.bytes {
		return
	}
	if e.request.Endpoint == translate.Messages {
		requireMessageEvents(t, o, e.request.Model, readNamedEvents(t, o.Body))
		return
	}
	events := readEvents(t, o.Body)
	require.Equal(t, o.Err == "", slices.Contains(events, "[DONE]"), "a stream has [DONE] where it is complete")
	if o.Err == "" {
		require.Equal(t, "[DONE]", events[len(events)-1], "[DONE] comes last")
		events = events[:len(events)-1]
		require.NotEmpty(t, events, "a complete stream has chunks")
	} else if o.Client != nil && len(events) > 0 {
		requireErrorBody(t, gjson.Parse(events[len(events)-1]))
		events = events[:len(events)-1]
	}
	s := streamFacts{envelope: e, choices: map[int64]*choiceFacts{}}
	for i, data := range events {
		require.NotEqual(t, "[DONE]", data, "[DONE] comes once")
		require.True(t, gjson.Valid(data), "a chunk is not JSON: %s", data)
		if chunk := gjson.Parse(data); e.untouched {
			e.requireUntouched(t, chunk)
		} else {
			s.chunk(t, chunk, i == len(events)-1 && o.Err == "")
		}
	}
	if o.Err != "" || e.untouched {
		return
	}
	require.NotEmpty(t, s.choices)
	for index, c := range s.choices {
		require.True(t, c.finished, "choice %d has a finish_reason", index)
	}
	require.Equal(t, e.request.IncludeUsage && !o.Usage.IsZero(), s.usageChunks == 1,
		"one usage chunk where it was asked for")
}

// requireUntouched checks a chunk of a vendor whose answers pass as they came.
func (e envelope) requireUntouched(t testing.TB, chunk gjson.Result) {
	t.Helper()
	e.requireModel(t, chunk)
	require.False(t, chunk.Get("usage").IsObject() && !e.request.IncludeUsage, "usage was not asked for: %s", chunk.Raw)
}

// streamFacts are the facts of a stream so far.
type streamFacts struct {
	envelope
	identity    string
	choices     map[int64]*choiceFacts
	usageChunks int
}

type choiceFacts struct {
	started, finished bool
	calls             map[int64]bool
	ids               map[string]bool
}

func (s *streamFacts) chunk(t testing.TB, chunk gjson.Result, last bool) {
	t.Helper()
	identity := strings.Join([]string{chunk.Get("id").Raw, chunk.Get("created").Raw, chunk.Get("model").Raw,
		chunk.Get("object").Raw}, " ")
	if s.identity == "" {
		s.identity = identity
		require.NotEmpty(t, chunk.Get("id").String())
	}
	require.Equal(t, s.identity, identity, "id, created, model and object stay the same")
	object := s.object()
	if s.request.Endpoint == translate.Chat {
		object += ".chunk"
	}
	require.Equal(t, object, chunk.Get("object").String())
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

func (s *streamFacts) choice(t testing.TB, choice gjson.Result) {
	t.Helper()
	require.Equal(t, gjson.Number, choice.Get("index").Type, "a choice has an index: %s", choice.Raw)
	index := choice.Get("index").Int()
	c := s.choices[index]
	if c == nil {
		c = &choiceFacts{calls: map[int64]bool{}, ids: map[string]bool{}}
		s.choices[index] = c
	}
	require.False(t, c.finished, "nothing comes after finish_reason: %s", choice.Raw)
	require.True(t, choice.Get("finish_reason").Exists(), "finish_reason is there, though it may be null: %s", choice.Raw)
	if s.request.Endpoint == translate.Completions {
		require.Equal(t, gjson.String, choice.Get("text").Type, "text is there: %s", choice.Raw)
	} else {
		s.delta(t, c, choice)
	}
	c.started = true
	if reason := choice.Get("finish_reason"); reason.Type != gjson.Null {
		require.Contains(t, finishReasons(s.request.Endpoint), reason.String())
		c.finished = true
	}
}

func (s *streamFacts) delta(t testing.TB, c *choiceFacts, choice gjson.Result) {
	t.Helper()
	require.True(t, choice.Get("delta").IsObject(), "a chunk has a delta: %s", choice.Raw)
	if role := choice.Get("delta.role"); role.Exists() {
		require.Equal(t, "assistant", role.String())
		require.False(t, c.started, "the role comes once: %s", choice.Raw)
	} else {
		require.True(t, c.started, "the role comes first: %s", choice.Raw)
	}
	for _, call := range choice.Get("delta.tool_calls").Array() {
		require.Equal(t, gjson.Number, call.Get("index").Type, "a call has an index: %s", choice.Raw)
		n := call.Get("index").Int()
		if !c.calls[n] {
			require.Len(t, c.calls, int(n), "tool calls are counted from 0: %s", choice.Raw)
			id := call.Get("id").String()
			require.NotEmpty(t, id)
			require.False(t, c.ids[id], "two calls have the id %s", id)
			require.NotEmpty(t, call.Get("function.name").String())
			c.ids[id] = true
		}
		c.calls[n] = true
	}
}
