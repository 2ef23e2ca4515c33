package fit

import (
	"bytes"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/jsonwalk"
	"github.com/modelgate/modelgate/internal/provider/schema"
	"github.com/modelgate/modelgate/internal/provider/turns"
)

// A talk is a conversation whose results are put in order.
type talk struct {
	messages []jsontext.Value
	used     []bool           // results that have their place
	results  map[string][]int // by the id of the call, in order
	out      []jsontext.Value
}

// Results returns the messages with each call's result right after the message with the calls, in the order of the
// calls. What stood between them comes after them. A result without a call becomes a text of the user, and a call
// without a result gets one that says so.
func Results(list jsontext.Value) []byte {
	if inOrder(list) {
		return nil
	}
	t := talk{messages: schema.Elements(list), results: map[string][]int{}}
	t.used = make([]bool, len(t.messages))
	for i, m := range t.messages {
		if role(m) == "tool" {
			id := gjson.GetBytes(m, "tool_call_id").Str
			t.results[id] = append(t.results[id], i)
		}
	}
	for i, m := range t.messages {
		if t.used[i] {
			continue
		}
		if role(m) == "tool" {
			m = orphan(m)
		}
		t.out = append(t.out, m)
		for _, id := range gjson.GetBytes(m, "tool_calls.#.id").Array() {
			t.result(id.Str, i)
		}
	}
	return schema.AppendArray(nil, t.out)
}

// result appends the result of a call of the i-th message: the first after it that has no place yet.
func (t *talk) result(id string, i int) {
	all := t.results[id]
	at := slices.IndexFunc(all, func(n int) bool { return n > i })
	if at < 0 {
		m := openai.AppendString([]byte(`{"role":"tool","tool_call_id":`), id)
		t.out = append(t.out, append(openai.AppendString(append(m, `,"content":`...), turns.NotExecuted), '}'))
		return
	}
	t.used[all[at]] = true
	t.out = append(t.out, t.messages[all[at]])
	t.results[id] = slices.Delete(all, at, at+1)
}

// orphan returns a result without a call as the user's text.
func orphan(m jsontext.Value) jsontext.Value {
	note := "Tool result (" + gjson.GetBytes(m, "tool_call_id").Str + "):"
	content := gjson.GetBytes(m, "content")
	if content.Type == gjson.String {
		return append(openai.AppendString([]byte(`{"role":"user","content":`), note+"\n"+content.Str), '}')
	}
	parts := append([]jsontext.Value{append(openai.AppendString([]byte(`{"type":"text","text":`), note), '}')},
		schema.Elements(jsontext.Value(content.Raw))...)
	return append(schema.AppendArray([]byte(`{"role":"user","content":`), parts), '}')
}

// inOrder reports whether every message with calls is followed by their results, and no other result is there.
func inOrder(list []byte) bool {
	var room [8][]byte
	waiting, ordered := room[:0], true
	jsonwalk.Array(list, 0, func(start int) int {
		if list[start] != '{' {
			return jsonwalk.Value(list, start)
		}
		var role, result, calls []byte
		end := jsonwalk.Object(list, start, func(name, nameEnd, start int) int {
			end := jsonwalk.Value(list, start)
			switch string(list[name+1 : nameEnd-1]) {
			case "role":
				role = list[start:end]
			case "tool_call_id":
				result = list[start:end]
			case "tool_calls":
				calls = list[start:end]
			}
			return end
		})
		if string(role) == `"tool"` {
			i := slices.IndexFunc(waiting, func(id []byte) bool { return bytes.Equal(id, result) })
			if ordered = ordered && i >= 0; i >= 0 {
				waiting = slices.Delete(waiting, i, i+1)
			}
			return end
		}
		ordered = ordered && len(waiting) == 0
		if len(calls) > 0 && calls[0] == '[' {
			waiting = appendIDs(waiting, calls)
		}
		return end
	})
	return ordered && len(waiting) == 0
}

// appendIDs appends the ids of calls, as JSON.
func appendIDs(ids [][]byte, calls []byte) [][]byte {
	jsonwalk.Array(calls, 0, func(start int) int {
		if calls[start] != '{' {
			return jsonwalk.Value(calls, start)
		}
		return jsonwalk.Object(calls, start, func(name, nameEnd, start int) int {
			end := jsonwalk.Value(calls, start)
			if string(calls[name+1:nameEnd-1]) == "id" {
				ids = append(ids, calls[start:end])
			}
			return end
		})
	})
	return ids
}
