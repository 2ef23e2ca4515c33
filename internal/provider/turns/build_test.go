package turns

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/api/openai"
)

func messages(t testing.TB, list string) []openai.Message {
	t.Helper()
	r, err := openai.ParseChatRequest([]byte(`{"model":"m","messages":[` + list + `]}`))
	require.NoError(t, err)
	c, err := r.Chat()
	require.NoError(t, err)
	return c.Messages
}

// show writes a conversation on a line: U a user's turn, A the assistant's, S a system one; r a result, p a part, c a
// call.
func show(c *Conversation) string {
	var b strings.Builder
	for _, p := range c.System {
		fmt.Fprintf(&b, "s(%s) ", p.Text)
	}
	for _, t := range c.Turns {
		b.WriteString(strings.ToUpper(string(t.Role[:1])) + "[")
		for _, r := range t.Results {
			fmt.Fprintf(&b, " r(%s:%s)", r.Call.ID, showParts(r.Parts))
			if r.NotExecuted {
				b.WriteString("!")
			}
		}
		b.WriteString(showParts(t.Parts))
		for _, s := range t.Said {
			b.WriteString(showParts(s.Parts))
			for _, call := range s.Calls {
				fmt.Fprintf(&b, " c(%s:%s%s)", call.ID, call.Name, call.Arguments)
			}
		}
		b.WriteString(" ] ")
	}
	return strings.TrimSpace(b.String())
}

func showParts(parts []Part) string {
	var b strings.Builder
	for _, p := range parts {
		if p.Type == "text" {
			fmt.Fprintf(&b, " p(%s)", p.Text)
		} else {
			fmt.Fprintf(&b, " p<%s>", p.Type)
		}
		if p.CacheControl != nil {
			b.WriteString("*")
		}
	}
	return b.String()
}

func callOf(ids ...string) string {
	var calls []string
	for _, id := range ids {
		calls = append(calls, `{"id":"`+id+`","type":"function","function":{"name":"f","arguments":"{}"}}`)
	}
	return `{"role":"assistant","content":null,"tool_calls":[` + strings.Join(calls, ",") + `]}`
}

func say(role, text string) string { return `{"role":"` + role + `","content":"` + text + `"}` }

func result(id, text string) string {
	return `{"role":"tool","tool_call_id":"` + id + `","content":"` + text + `"}`
}

const ephemeral = `"cache_control":{"type":"ephemeral"}`

func TestTurns(t *testing.T) {
	for name, c := range map[string]struct {
		messages []string
		want     string
	}{
		"a question": {[]string{say("user", "x")}, "U[ p(x) ]"},
		"TestPitfall46 results are one turn, in the order of the calls, before text": {
			[]string{say("user", "x"), callOf("1", "2"), say("user", "hm"), result("2", "two"), result("1", "one"),
				say("user", "so?")},
			"U[ p(x) ] A[ c(1:f{}) c(2:f{}) ] U[ r(1: p(one)) r(2: p(two)) p(hm) p(so?) ]"},
		"TestPitfall46 a call that is left unanswered has a result that says so": {
			[]string{callOf("1", "2"), result("2", "two"), say("assistant", "z")},
			"A[ c(1:f{}) c(2:f{}) ] U[ r(1:)! r(2: p(two)) ] A[ p(z) ]"},
		"TestPitfall46 so has one at the end": {[]string{say("user", "x"), callOf("1")},
			"U[ p(x) ] A[ c(1:f{}) ] U[ r(1:)! ]"},
		"a result without its call is text": {[]string{say("user", "x"), result("9", "r")},
			"U[ p(x) p(Tool result (9):) p(r) ]"},
		"a result that comes too late is text": {
			[]string{callOf("1"), say("user", "y"), say("assistant", "z"), result("1", "late")},
			"A[ c(1:f{}) ] U[ r(1:)! p(y) ] A[ p(z) ] U[ p(Tool result (1):) p(late) ]"},
		"a second result of a call is text": {[]string{callOf("1"), result("1", "a"), result("1", "b")},
			"A[ c(1:f{}) ] U[ r(1: p(a)) p(Tool result (1):) p(b) ]"},
		"TestPitfall47 a result in parts": {[]string{callOf("1"),
			`{"role":"tool","tool_call_id":"1","content":[{"type":"text","text":"a"},{"type":"text","text":""},{"type":"image_url","image_url":{"url":"u"}}]}`},
			"A[ c(1:f{}) ] U[ r(1: p(a) p<image_url>) ]"},
		"TestPitfall47 an empty result is one all the same": {[]string{callOf("1"), result("1", "")},
			"A[ c(1:f{}) ] U[ r(1:) ]"},
		"TestPitfall48 blank text is left out, and the assistant's turn that says nothing": {
			[]string{
				`{"role":"user","content":[{"type":"text","text":""},{"type":"text","text":" \n"},{"type":"text","text":"x"}]}`,
				say("assistant", ""), say("user", "y")},
			"U[ p(x) p(y) ]"},
		"TestPitfall48 a turn of the user stays": {[]string{say("user", ""), say("assistant", "a"), say("user", " ")},
			"U[ ] A[ p(a) ] U[ ]"},
		"no turns at all": {[]string{say("system", "s"), say("assistant", " ")}, "s(s)"},
		"TestPitfall49 calls of a conversation": {[]string{say("user", "x"), callOf("1"), result("1", "r")},
			"U[ p(x) ] A[ c(1:f{}) ] U[ r(1: p(r)) ]"},
		"turns of one side are one": {[]string{say("assistant", "a"), say("assistant", "b"), callOf("1"), result("1", "r"),
			say("user", "x"), say("user", "y")},
			"A[ p(a) p(b) c(1:f{}) ] U[ r(1: p(r)) p(x) p(y) ]"},
		"calls of merged messages are all answered": {[]string{callOf("1"), callOf("2"), result("2", "b"), result("1", "a")},
			"A[ c(1:f{}) c(2:f{}) ] U[ r(1: p(a)) r(2: p(b)) ]"},
		"an id that two calls of a turn have": {[]string{callOf("1", "1"), result("1", "a"), result("1", "b")},
			"A[ c(1:f{}) c(1:f{}) ] U[ r(1: p(a)) r(1: p(b)) ]"},
		"a refusal is text, in either place": {[]string{say("user", "x"),
			`{"role":"assistant","content":[{"type":"refusal","refusal":"no"}],"refusal":"never"}`},
			"U[ p(x) ] A[ p(no) p(never) ]"},
		"a legacy function call and its result": {[]string{
			`{"role":"assistant","content":null,"function_call":{"name":"g","arguments":""}}`,
			`{"role":"function","name":"g","content":"r"}`},
			"A[ c(fn:g:g{}) ] U[ r(fn:g: p(r)) ]"},
		"TestPitfall59 system messages stay where they stand": {
			[]string{say("system", "a"), say("user", "x"),
				`{"role":"developer","content":[{"type":"text","text":"b"},{"type":"text","text":"c"}]}`, say("assistant", "y"),
				say("system", " ")},
			"s(a) U[ p(x) p(" + Marked("b") + ") p(" + Marked("c") + ") ] A[ p(y) ]"},
		"TestPitfall60 a message's cache breakpoint is its last part's": {[]string{`{"role":"user",` + ephemeral +
			`,"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`},
			"U[ p(a) p(b)* ]"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Build(messages(t, strings.Join(c.messages, ",")), Options{})
			require.NoError(t, err)
			require.Equal(t, c.want, show(got))
		})
	}
}

func TestPitfall59SystemMessagesInTheMiddle(t *testing.T) {
	got, err := Build(messages(t, strings.Join([]string{
		say("system", "a"), say("user", "x"), say("developer", "b"), say("assistant", "y"), say("system", "c"),
		say("user", "z"), say("system", "d"),
	}, ",")), Options{InlineSystem: true})
	require.NoError(t, err)
	require.Equal(t, "s(a) U[ p(x) ] S[ p(b) ] A[ p(y) ] U[ p("+Marked("c")+") p(z) ] S[ p(d) ]", show(got))
}

func TestIDsAndNamesAsSent(t *testing.T) {
	var names Names
	list := callOf("1", "a b") + `,` + result("a b", "r") + `,` + result("1", "s") + `,` + callOf("1") + `,` +
		result("1", "t")
	got, err := Build(messages(t, strings.ReplaceAll(list, `"name":"f"`, `"name":"f.g"`)),
		Options{ID: ID, Name: names.Use})
	require.NoError(t, err)
	f, again, ab := Identifier("f.g"), Identifier("1 again 2"), Identifier("a b")
	require.Equal(t, fmt.Sprintf("A[ c(1:%s{}) c(%s:%s{}) ] U[ r(1: p(s)) r(%s: p(r)) ] A[ c(%s:%s{}) ] U[ r(%s: p(t)) ]",
		f, ab, f, ab, again, f, again), show(got))
	require.Equal(t, []string{f}, names.Used())
	require.Equal(t, "f.g", names.Client(f))
}

func TestWhereThingsStand(t *testing.T) {
	list := messages(t, say("user", "x")+`,`+callOf("1")+`,{"role":"tool","tool_call_id":"1",`+ephemeral+
		`,"content":[{"type":"text","text":""},{"type":"text","text":"a"}]},{"role":"assistant","content":"y","function_call":{"name":"g","arguments":"[1]"}}`)
	got, err := Build(list, Options{})
	require.NoError(t, err)
	require.Equal(t, "messages[0].content[0]", got.Turns[0].Parts[0].Param)
	call := got.Turns[1].Calls()[0]
	require.Equal(t, "messages[1].tool_calls[0]", call.Param)
	require.Same(t, &list[1].ToolCalls[0], call.Source)
	result := got.Turns[2].Results[0]
	require.Equal(t, "messages[2].content[1]", result.Parts[0].Param)
	require.Equal(t, `{"type":"ephemeral"}`, string(result.CacheControl))
	require.Nil(t, result.Parts[0].CacheControl)
	require.Same(t, &list[3], got.Turns[3].Said[0].Message)
	legacy := got.Turns[3].Calls()[0]
	require.Nil(t, legacy.Source)
	require.Equal(t, "messages[3].function_call", legacy.Param)
	require.JSONEq(t, `{"_raw":"[1]"}`, string(legacy.Arguments))
}

func TestContentWithoutAPlaceIsRefused(t *testing.T) {
	for param, list := range map[string]string{
		"messages[0].content[1].type":    `{"role":"system","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"u"}}]}`,
		"messages[0].content[0].type":    `{"role":"assistant","content":[{"type":"input_audio","input_audio":{"data":"","format":"wav"}}]}`,
		"messages[0].tool_calls[0].type": `{"role":"assistant","tool_calls":[{"id":"1","type":"custom","custom":{"name":"c"}}]}`,
	} {
		_, err := Build(messages(t, list), Options{})
		e, ok := errors.AsType[*openai.Error](err)
		require.True(t, ok, "%v", err)
		require.Equal(t, param, e.Param)
		require.Equal(t, "unsupported_value", string(e.Code))
	}
}

func TestBuildDoesNotModifyTheMessages(t *testing.T) {
	list := `{"role":"user",` + ephemeral + `,"content":[{"type":"text","text":" "},{"type":"text","text":"a"}]},` +
		callOf("1") + `,{"role":"tool","tool_call_id":"1","content":[{"type":"text","text":"a",` + ephemeral +
		`}]},{"role":"assistant","content":[{"type":"refusal","refusal":"no"}]}`
	given := messages(t, list)
	_, err := Build(given, Options{InlineSystem: true, ID: ID})
	require.NoError(t, err)
	require.Equal(t, messages(t, list), given)
}

// Conversations of many messages and calls must not take time in proportion to the square of their number.
func TestLongConversationsAreBuiltInTime(t *testing.T) {
	const n = 10000
	var list []string
	var ids []string
	for i := range n {
		ids = append(ids, fmt.Sprint("c", i))
	}
	list = append(list, callOf(ids...))
	for i := range n {
		list = append(list, result(ids[n-1-i], "r"))
	}
	for range n {
		list = append(list, callOf("1"), say("user", "x"))
	}
	given := messages(t, strings.Join(list, ","))
	begun := time.Now()
	got, err := Build(given, Options{ID: ID})
	require.NoError(t, err)
	require.Less(t, time.Since(begun), 5*time.Second, "in proportion it takes a tenth of a second")
	require.Len(t, got.Turns, 2+2*n)
	require.Equal(t, "c0", got.Turns[1].Results[0].Call.ID)
}

func FuzzBuild(f *testing.F) {
	f.Add(say("user", "x") + `,` + callOf("1", "1") + `,` + result("1", "r") + `,` + result("2", "r"))
	f.Add(
		`{"role":"assistant","refusal":"no","function_call":{"name":"g","arguments":"{"}},{"role":"function","name":"g"}`)
	f.Add(say("system", "a") + `,` + say("user", "") + `,` + say("system", "b") + `,` + say("assistant", "c"))
	f.Fuzz(func(t *testing.T, list string) {
		r, err := openai.ParseChatRequest([]byte(`{"model":"m","messages":[` + list + `]}`))
		if err != nil {
			return
		}
		chat, err := r.Chat()
		if err != nil {
			return
		}
		for _, inline := range []bool{false, true} {
			c, err := Build(chat.Messages, Options{InlineSystem: inline, ID: ID})
			if err != nil {
				require.True(t, errors.As(err, new(*openai.Error)))
				continue
			}
			requireAlternating(t, c)
		}
	})
}

// requireAlternating checks what every conversation promises.
func requireAlternating(t *testing.T, c *Conversation) {
	t.Helper()
	var calls []Call
	var before Role
	for i := range c.Turns {
		turn := &c.Turns[i]
		if turn.Role == System {
			require.Equal(t, User, before)
			require.NotEmpty(t, turn.Parts)
			continue // it takes no side
		}
		require.NotEqual(t, before, turn.Role)
		before = turn.Role
		require.Len(t, turn.Results, len(calls))
		for j, r := range turn.Results {
			require.Equal(t, calls[j].ID, r.Call.ID)
		}
		calls = turn.Calls()
		for _, call := range calls {
			require.True(t, Identifier(call.ID) == call.ID)
			require.Equal(t, "{", call.Arguments.Kind().String())
		}
	}
	require.Empty(t, calls, "the last calls have no results")
}
