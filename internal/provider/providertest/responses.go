package providertest

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
)

// askResponses returns the request of a client of the Responses API.
func askResponses(rec *recording, want *answerFacts) []byte {
	body := fmt.Sprintf(`{"model":%q,"input":"x","max_output_tokens":64000,"stream":%t`, replayed, rec.streamed)
	list, seen := "", map[string]bool{}
	for _, tool := range gjson.Get("{"+want.tools()[min(1, len(want.tools())):]+"}", "tools").Array() {
		if name := tool.Get("function.name").Str; !seen[name] {
			seen[name] = true
			list += fmt.Sprintf(`,{"type":"function","name":%q,"parameters":{"type":"object"}}`, name)
		}
	}
	if list != "" {
		body += `,"tools":[` + list[1:] + "]"
	}
	return []byte(body + "}")
}

// readResponses reads a response, or the last event of a stream, which has the whole response.
func (f *answerFacts) readResponses(streamed bool, events []gjson.Result) {
	f.known = true
	r := events[len(events)-1]
	if streamed {
		r = r.Get("response")
	}
	status := r.Get("status").Str
	f.fails = status != "completed" && status != "incomplete"
	for _, item := range r.Get("output").Array() {
		switch item.Get("type").Str {
		case "message":
			f.text += item.Get("content.0.text").Str + item.Get("content.0.refusal").Str
		case "function_call":
			f.calls = append(f.calls, item.Get("name").Str+" "+compact(item.Get("arguments").Str))
		}
	}
	f.finish = map[string]string{"max_output_tokens": "length", "content_filter": "content_filter"}[r.Get(
		"incomplete_details.reason").Str]
	f.prompt, f.completion = r.Get("usage.input_tokens").Int(), r.Get("usage.output_tokens").Int()
}

// requireResponseEvents checks that the events of a stream are counted, that each item and each part begins, grows
// and ends, and that the pieces add up to the last event.
func requireResponseEvents(t testing.TB, o outcome, model string, events []gjson.Result) {
	t.Helper()
	state, texts, ended := map[int64]string{}, map[int64]string{}, ""
	for n, e := range events {
		require.EqualValues(t, n, e.Get("sequence_number").Int())
		require.Empty(t, ended, "nothing comes after the end")
		index := e.Get("output_index").Int()
		switch typ := e.Get("type").Str; typ {
		case "response.created", "response.in_progress":
			require.Equal(t, model, e.Get("response.model").Str)
			require.Less(t, n, 2)
		case "response.output_item.added":
			require.Empty(t, state[index])
			require.EqualValues(t, len(state), index, "items are counted")
			state[index] = e.Get("item.id").Str
		case "response.output_item.done":
			require.Equal(t, state[index], e.Get("item.id").Str)
			item := e.Get("item")
			require.Equal(t, texts[index], item.Get("content.0.text").Str+item.Get("content.0.refusal").Str+
				item.Get("summary.0.text").Str+item.Get("arguments").Str+item.Get("input").Str, "the pieces are the whole")
			state[index] = "done"
		case "response.completed", "response.incomplete", "response.failed":
			ended = typ
			require.Equal(t, o.Err != "", typ == "response.failed")
			require.Equal(t, "response."+e.Get("response.status").Str, typ)
			if o.Err == "" {
				require.EqualValues(t, len(state), e.Get("response.output.#").Int())
				for _, s := range state {
					require.Equal(t, "done", s, "every item has ended")
				}
			}
		default:
			require.Equal(t, state[index], e.Get("item_id").Str, typ)
			texts[index] += e.Get("delta").Str
		}
	}
	require.Equal(t, o.Err == "" || o.Client != nil, ended != "", "the client learns how it ended")
}
