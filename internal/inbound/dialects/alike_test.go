package dialects_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/chat"
	"github.com/modelgate/modelgate/internal/inbound/dialects"
)

// paths are those of the dialects into which a chat completion is translated, unary and streamed.
var paths = map[string][2]string{
	"messages":  {"/v1/messages", "/v1/messages"},
	"responses": {"/v1/responses", "/v1/responses"},
	"gemini":    {"/v1beta/models/m:generateContent", "/v1beta/models/m:streamGenerateContent"},
}

// written returns the objects that a client gets for an answer: one, or the events of a stream.
func written(t *testing.T, dialect string, stream bool, events []chat.Event) []gjson.Result {
	t.Helper()
	at, query := paths[dialect][0], ""
	if stream {
		at, query = paths[dialect][1], "alt=sse"
	}
	o := dialects.Find(at, query)
	require.NotNil(t, o)
	asked := chat.Asked{Model: "m", Created: 1, Plain: o.Dialect.Plain}
	writer := o.Document
	if stream {
		writer = o.Stream
	}
	w := writer(asked)
	for _, e := range events {
		w.Put(e)
	}
	if !stream {
		return []gjson.Result{gjson.ParseBytes(w.Take())}
	}
	var all []gjson.Result
	for line := range strings.Lines(string(w.Take())) {
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			require.True(t, gjson.Valid(data), data)
			all = append(all, gjson.Parse(data))
		}
	}
	return all
}

// found returns the values at a path in all objects.
func found(objects []gjson.Result, path string) []string {
	var values []string
	for _, o := range objects {
		if v := o.Get(path); v.Exists() {
			values = append(values, v.Raw)
		}
	}
	return values
}

var answer = []chat.Event{
	{Kind: chat.KindBegin, ID: "a"},
	{Kind: chat.KindReasoning, Text: "hm"},
	{Kind: chat.KindText, Text: "hello",
		Logprobs: []byte(`{"content":[{"token":"hello","logprob":-0.5,"top_logprobs":[]}]}`)},
	{Kind: chat.KindFinish, Text: "length"},
	{Kind: chat.KindUsage, Usage: &openai.Usage{PromptTokens: 3, CompletionTokens: 9, ReasoningTokens: 4,
		TotalTokens: 12}},
	{Kind: chat.KindEnd},
}

func TestReasoningTokensAreReportedInEveryDialect(t *testing.T) {
	for dialect, path := range map[string][2]string{
		"messages":  {"usage.output_tokens_details.thinking_tokens", "usage.output_tokens_details.thinking_tokens"},
		"responses": {"usage.output_tokens_details.reasoning_tokens", "response.usage.output_tokens_details.reasoning_tokens"},
		"gemini":    {"usageMetadata.thoughtsTokenCount", "usageMetadata.thoughtsTokenCount"},
	} {
		require.Equal(t, []string{"4"}, found(written(t, dialect, false, answer), path[0]), dialect)
		require.Equal(t, []string{"4"}, found(written(t, dialect, true, answer), path[1]), dialect)
	}
}

func TestLogprobsAreReportedInStreams(t *testing.T) {
	for dialect, path := range map[string][2]string{
		"responses": {"output.1.content.0.logprobs.0.logprob", "response.output.1.content.0.logprobs.0.logprob"},
		"gemini": {"candidates.0.logprobsResult.chosenCandidates.0.logProbability",
			"candidates.0.logprobsResult.chosenCandidates.0.logProbability"},
	} {
		require.Equal(t, []string{"-0.5"}, found(written(t, dialect, false, answer), path[0]), dialect)
		require.Equal(t, []string{"-0.5"}, found(written(t, dialect, true, answer), path[1]), dialect)
	}
}

// Only the last item of an incomplete response is incomplete, and it is so in all events that have it.
func TestTheLastItemOfAnIncompleteResponseIsIncomplete(t *testing.T) {
	calls := append(append([]chat.Event{}, answer[:3]...), chat.Event{Kind: chat.KindToolCall, ID: "c0", Name: "f"},
		chat.Event{Kind: chat.KindArguments, Text: "{}"}, chat.Event{Kind: chat.KindToolCall, ID: "c1", Name: "g", Call: 1},
		chat.Event{Kind: chat.KindArguments, Text: "{", Call: 1})
	calls = append(calls, answer[3:]...)
	for name, tc := range map[string]struct {
		events []chat.Event
		want   []string // without the reasoning, which has no status
	}{
		"text":  {answer, []string{`"incomplete"`}},
		"calls": {calls, []string{`"completed"`, `"completed"`, `"incomplete"`}},
	} {
		unary := written(t, "responses", false, tc.events)[0]
		require.Equal(t, `"incomplete"`, unary.Get("status").Raw, name)
		require.Equal(t, tc.want, raw(unary.Get("output.#.status")), name)
		events := written(t, "responses", true, tc.events)
		var done []gjson.Result
		for _, e := range events {
			if e.Get("type").Str == "response.output_item.done" {
				done = append(done, e)
			}
		}
		require.Equal(t, tc.want, found(done, "item.status"), name)
		require.Equal(t, tc.want, raw(events[len(events)-1].Get("response.output.#.status")), name)
	}
}

func raw(list gjson.Result) []string {
	var values []string
	for _, v := range list.Array() {
		values = append(values, v.Raw)
	}
	return values
}
