package openaicompat

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/internal/provider"
)

func TestWhatMustComeBackTravelsInTheIDOfTheFirstCall(t *testing.T) { // pitfalls 56, 57
	const whole = `[{"type":"reasoning.text","text":"so it is","index":0,"format":"f","signature":"s=="},{"type":"reasoning.encrypted","data":"d","index":1}]`
	dialect := Dialect{Carry: []string{"reasoning_details"}}
	delta := func(members string) string {
		return chunkOf(`{"index":0,"delta":{` + members + `},"logprobs":null,"finish_reason":null}`)
	}
	out, err := play(dialect, 1, false, []byte(
		delta(`"role":"assistant","reasoning":"so","reasoning_details":[{"type":"reasoning.text","text":"so","index":0,"format":"f"}]`)+
			delta(`"reasoning":" it is","reasoning_details":[{"type":"reasoning.text","text":" it is","index":0,"format":"f","signature":null}]`)+
			delta(`"reasoning_details":[{"type":"reasoning.text","signature":"s==","index":0,"format":"f"},{"type":"reasoning.encrypted","data":"d","index":1}]`)+
			calls(`{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":"{}"}},{"index":1,"id":"b","type":"function","function":{"name":"f","arguments":"{}"}}`)+done))
	require.NoError(t, err)
	streamed := madeCalls(t, out)
	body := decode(t, dialect,
		`"choices":[{"message":{"tool_calls":[{"id":"a","function":{"name":"f"}},{"id":"b","function":{"name":"f"}}],"reasoning_details":`+whole+`}}]`)
	complete := gjson.Get(`{`+body+`}`, "choices.0.message.tool_calls").Array()
	for _, ids := range [][]string{streamed, {complete[0].Get("id").Str, complete[1].Get("id").Str}} {
		require.NotEqual(t, "a", ids[0])
		require.Equal(t, "b", ids[1])
		turn := func(members string) string {
			return `{"model":"m","messages":[{"role":"user","content":"x"},{"role":"assistant","content":null,"tool_calls":[{"id":"` + ids[0] + `","type":"function","function":{"name":"f","arguments":"{}"}}]` + members + `},{"role":"tool","tool_call_id":"` + ids[0] + `","content":"y"}]}`
		}
		for members, want := range map[string]string{
			"":                          `,"reasoning_details":` + whole,
			`,"reasoning_details":null`: `,"reasoning_details":` + whole, // what a client echoes that knows of no such thing
			`,"reasoning_details":[]`:   `,"reasoning_details":` + whole,
			`,"reasoning_details":[{}]`: `,"reasoning_details":` + whole, // a client that keeps the last piece of a stream
		} {
			req, _, err := New(dialect).Encode(parse(t, turn(members)), provider.Target{Model: "m"})
			require.NoError(t, err)
			require.Equal(t,
				`{"model":"m","messages":[{"role":"user","content":"x"},{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]`+want+`},{"role":"tool","tool_call_id":"a","content":"y"}]}`, string(req.Body))
		}
		req, _, err := New(Dialect{}).Encode(parse(t, turn("")), provider.Target{Model: "m"})
		require.NoError(t, err)
		require.NotContains(t, string(req.Body), "reasoning_details", "it says nothing to another vendor")
	}
}

func TestTextThatMustComeBack(t *testing.T) { // pitfall 58
	dialect := Dialect{Carry: []string{"reasoning_content"}}
	body := decode(t, dialect,
		`"choices":[{"message":{"reasoning_content":"so \"it\" is","tool_calls":[{"id":"a","function":{"name":"f"}}]}}]`)
	id := gjson.Get(`{`+body+`}`, "choices.0.message.tool_calls.0.id").Str
	req, _, err := New(dialect).Encode(parse(t,
		`{"model":"m","messages":[{"role":"user","content":"x"},{"role":"assistant","tool_calls":[{"id":"`+id+
			`","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"`+id+
			`","content":"y"}]}`), provider.Target{Model: "m"})
	require.NoError(t, err)
	require.Equal(t, `so "it" is`, gjson.GetBytes(req.Body, "messages.1.reasoning_content").Str)
}

func TestReasoningThatAnybodyCanReadNeedNotComeBack(t *testing.T) {
	body := decode(t, Dialect{Carry: []string{"reasoning_details"}},
		`"choices":[{"message":{"reasoning_details":[{"type":"reasoning.text","text":"so"}],"tool_calls":[{"id":"a","function":{"name":"f"}}]}}]`)
	require.Equal(t, "a", gjson.Get(`{`+body+`}`, "choices.0.message.tool_calls.0.id").Str)
}

// madeCalls returns the ids of the calls that a stream begins.
func madeCalls(t *testing.T, stream string) (ids []string) {
	t.Helper()
	for _, event := range events(stream) {
		for _, call := range gjson.Get(event, "choices.0.delta.tool_calls").Array() {
			ids = append(ids, call.Get("id").Str)
		}
	}
	require.Len(t, ids, 2)
	return ids
}
