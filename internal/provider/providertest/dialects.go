package providertest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/translate"
)

// A clientDialect is a dialect of clients besides chat completions. A client of it gets what a client of chat
// completions gets, in other words.
type clientDialect struct {
	endpoint translate.Endpoint
	// asks returns a client's request, as a recording's own does for chat completions.
	asks func(rec *recording, want *answerFacts) []byte
	// read reads the facts of an answer: the events of a stream, or a document as one.
	read func(got *answerFacts, streamed bool, events []gjson.Result)
	// split returns the data of the events of a stream.
	split func(t testing.TB, body string) []gjson.Result
	// check checks the order of a stream's events.
	check func(t testing.TB, o outcome, model string, events []gjson.Result)
}

var otherDialects = []clientDialect{
	{translate.Messages, askMessages, func(got *answerFacts, streamed bool, events []gjson.Result) {
		got.readMessages(&recording{streamed: streamed}, events)
	}, readNamedEvents, requireMessageEvents},
	{translate.Responses, askResponses, (*answerFacts).readResponses, readNamedEvents, requireResponseEvents},
	{translate.Gemini, askGemini, func(got *answerFacts, streamed bool, events []gjson.Result) {
		got.readGemini(&recording{streamed: streamed}, events)
		if got.finish == "stop" && len(got.calls) > 0 { // Google has one reason for both
			got.finish = "tool_calls"
		}
	}, readChunks, requireGeminiChunks},
}

func askMessages(rec *recording, want *answerFacts) []byte {
	return rec.client(strings.NewReplacer(`{"type":"function","function":`, "", `"parameters":`, `"input_schema":`, "}}}",
		"}}").Replace(want.tools()), false)
}

func (d *clientDialect) replay(t *testing.T, p provider.Provider, rec *recording, want *answerFacts, fails bool) {
	t.Helper()
	if rec.dialect != messages {
		p.Messages = nil // what was recorded is the answer to a request that was translated
	}
	if rec.dialect != gemini {
		p.Gemini = nil
	}
	r, err := translate.Parse(p, d.endpoint, d.asks(rec, want))
	require.NoError(t, err)
	_, answer, err := r.Encode(replayTarget(p, rec.model))
	require.NoError(t, err)
	if answer == nil {
		return // the vendor serves the dialect, and its answer passes
	}
	var whole outcome
	if r.Stream {
		whole = playStream(answer, r, [][]byte{rec.response.body})
	} else {
		whole = playUnary(answer, r, rec.response.body)
	}
	require.Equal(t, fails, whole.Err != "", whole.Err)
	if whole.Status != 200 {
		return
	}
	events := []gjson.Result{gjson.Parse(whole.Body)}
	if r.Stream {
		events = d.split(t, whole.Body)
		d.check(t, whole, replayed, events)
		eachCutting(rec.response.body, 64<<10, func(pieces [][]byte) {
			o := playStream(answer, r, pieces)
			require.True(t, same(whole, o, rec.response.body), "the outcome depends on where the body was cut")
		})
	}
	if !fails {
		got := &answerFacts{prompt: -1, completion: -1}
		d.read(got, r.Stream, events)
		want.requireSame(t, got, whole)
	}
}

// requireSame compares the facts with those of a client's answer.
func (f *answerFacts) requireSame(t *testing.T, got *answerFacts, o outcome) {
	t.Helper()
	require.False(t, got.fails, "the answer is complete: %s", o.Body)
	if !f.known {
		return
	}
	require.Contains(t, got.text, f.text, "the text, and after it a refusal")
	if !f.pieced && f.finish != "function_call" { // the deprecated calls are not among the facts
		require.Equal(t, f.calls, got.calls, "the calls")
	}
	if f.finish != "" && got.finish != "" {
		require.Equal(t, strings.Replace(f.finish, "function_call", "tool_calls", 1), got.finish, "the stop reason")
	}
	if f.prompt > 0 {
		require.Equal(t, f.prompt, got.prompt, "the tokens of the prompt")
		require.Equal(t, f.completion, got.completion, "the tokens of the answer")
	}
}

// readNamedEvents returns the data of each event. Each has its type as its name.
func readNamedEvents(t testing.TB, body string) []gjson.Result {
	t.Helper()
	var events []gjson.Result
	for event := range strings.SplitSeq(strings.TrimSuffix(body, "\n\n"), "\n\n") {
		name, data, ok := strings.Cut(event, "\ndata: ")
		require.True(t, ok && !strings.Contains(data, "\n"), "not a name and a line of data: %q", event)
		require.True(t, gjson.Valid(data), "not JSON: %s", data)
		require.Equal(t, "event: "+gjson.Get(data, "type").Str, name)
		events = append(events, gjson.Parse(data))
	}
	return events
}

// requireMessageEvents checks that the events of a stream come in Anthropic's order: the message, its blocks one after
// another, how it ended, and the end.
func requireMessageEvents(t testing.TB, o outcome, model string, events []gjson.Result) {
	t.Helper()
	require.NotEmpty(t, events)
	open, blocks, state := int64(-1), int64(0), "nothing"
	for i, e := range events {
		data := e.Raw
		typ, index := e.Get("type").Str, e.Get("index").Int()
		switch typ {
		case "message_start":
			require.Equal(t, 0, i, "the message begins first, and once")
			require.Equal(t, model, e.Get("message.model").Str)
			require.NotEmpty(t, e.Get("message.id").Str)
			state = "begun"
		case "content_block_start":
			require.Equal(t, "begun", state)
			require.EqualValues(t, -1, open, "a block begins within another: %s", data)
			require.Equal(t, blocks, index, "blocks are counted")
			open = index
			blocks++
		case "content_block_delta":
			require.Equal(t, open, index, "a piece of a block that is not open: %s", data)
		case "content_block_stop":
			require.Equal(t, open, index)
			open = -1
		case "message_delta":
			require.EqualValues(t, -1, open, "the message ends within a block")
			state = "ending"
		case "message_stop":
			require.Equal(t, "ending", state)
			require.Empty(t, o.Err)
			require.Equal(t, len(events)-1, i, "nothing comes after the end")
			state = "ended"
		case "error":
			require.NotEmpty(t, o.Err)
			require.NotEmpty(t, e.Get("error.type").Str)
			require.NotEmpty(t, e.Get("error.message").Str)
		default:
			require.Equal(t, "ping", typ)
		}
	}
	require.Equal(t, o.Err == "", state == "ended", "a stream ends with message_stop where it is complete")
}
