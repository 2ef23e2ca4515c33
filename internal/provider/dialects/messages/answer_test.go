package messages

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/chat/chattest"
	"github.com/modelgate/modelgate/internal/provider"
)

func TestPitfall9StopReasons(t *testing.T) {
	for _, c := range []struct {
		stop  string
		calls bool
		want  string
	}{
		{"end_turn", false, "stop"},
		{"stop_sequence", false, "stop"},
		{"pause_turn", false, "stop"},
		{"tool_use", true, "tool_calls"},
		{"tool_use", false, "stop"}, // the hidden tool, or the vendor's own
		{"max_tokens", false, "length"},
		{"max_tokens", true, "length"}, // pitfall 12
		{"model_context_window_exceeded", false, "length"},
		{"refusal", false, "content_filter"},
		{"end_turn", true, "tool_calls"},
		{"something_new", false, "stop"},
		{"", false, "stop"},
	} {
		require.Equal(t, c.want, finishReason(c.stop, c.calls), "%+v", c)
	}
}

func TestDecode(t *testing.T) {
	message := func(content, stop string) string {
		return `{"type":"message","id":"msg_1","content":[` + content + `],"stop_reason":"` + stop +
			`","usage":{"input_tokens":1,"output_tokens":2}}`
	}
	for name, c := range map[string]struct {
		answerTool string
		body       string
		path, want string
	}{
		"text blocks join without a separator": {body: message(
			`{"type":"text","text":"a"},{"type":"text","text":"b","citations":[]}`, "end_turn"),
			path: "choices.0.message.content", want: `"ab"`},
		"nothing is an empty text": {body: message(``, "end_turn"), path: "choices.0.message.content",
			want: `""`},
		"only calls have null content": {body: message(`{"type":"tool_use","id":"t","name":"n","input":{}}`,
			"tool_use"), path: "choices.0.message.content", want: `null`},
		"TestPitfall5 no input is an empty object": {body: message(`{"type":"tool_use","id":"t","name":"n"}`,
			"tool_use"), path: "choices.0.message.tool_calls.0.function.arguments", want: `"{}"`},
		"TestPitfall13 input keeps its order": {body: message(
			`{"type":"tool_use","id":"t","name":"n","input":{"z": 1.0, "a": "<\u00e9>"}}`, "tool_use"),
			path: "choices.0.message.tool_calls.0.function.arguments", want: `"{\"z\":1.0,\"a\":\"<\\u00e9>\"}"`},
		"calls have no index": {body: message(`{"type":"tool_use","id":"t","name":"n","input":{}}`,
			"tool_use"), path: "choices.0.message.tool_calls.0.index"},
		"server tools are not the client's": {body: message(`{"type":"server_tool_use","id":"s","name":"web_search","input":{}},{"type":"web_search_tool_result","tool_use_id":"s","content":[]}`, "end_turn"), path: "choices.0.message.tool_calls"},
		"TestPitfall15 the hidden tool is the content": {answerTool: "give_answer",
			body: message(`{"type":"text","text":"Sure:"},{"type":"tool_use","id":"t","name":"give_answer","input":{"a":1}}`,
				"tool_use"), path: "choices.0.{message,finish_reason}",
			want: `{"message":{"role":"assistant","content":"{\"a\":1}","refusal":null},"finish_reason":"stop"}`},
		"TestPitfall15 the client's own tools are not": {answerTool: "give_answer",
			body: message(`{"type":"tool_use","id":"t","name":"a","input":{}}`, "tool_use"), path: "choices.0.finish_reason",
			want: `"tool_calls"`},
		"the hidden tool called twice is one answer": {answerTool: "give_answer",
			body: message(`{"type":"tool_use","id":"t","name":"give_answer","input":{"a":1}},{"type":"tool_use","id":"u","name":"give_answer","input":{"a":2}}`, "tool_use"), path: "choices.0.message.content", want: `"{\"a\":1}"`},
		"a hidden tool that was not called": {answerTool: "give_answer",
			body: message(`{"type":"text","text":"No."}`, "end_turn"), path: "choices.0.message.content", want: `"No."`},
		"thinking without a text is given to be echoed": {body: message(`{"type":"thinking","thinking":"","signature":"s"}`,
			"end_turn"), path: "choices.0.message.thinking_blocks",
			want: `[{"type":"thinking","thinking":"","signature":"s"}]`},
		"unsigned thinking is only shown": {body: message(`{"type":"thinking","thinking":"t"}`, "end_turn"),
			path: "choices.0.message.thinking_blocks"},
		"a refusal without an explanation": {body: message(``, "refusal"), path: "choices.0.message.refusal",
			want: `"The model declined to answer."`},
		"a refusal in mid-answer keeps what was said": {body: message(`{"type":"text","text":"a"}`, "refusal"),
			path: "choices.0.message.content", want: `"a"`},
		"half of a surrogate pair is no error": {body: message(`{"type":"text","text":"\ud83c"}`, "end_turn"),
			path: "choices.0.message.content", want: `"�"`},
	} {
		t.Run(name, func(t *testing.T) {
			a := &Answer{answerTool: c.answerTool}
			out, u, err := chattest.Decode(a, []byte(c.body), "public", 7)
			require.NoError(t, err)
			require.True(t, gjson.ValidBytes(out), "%s", out)
			require.Equal(t, int64(3), u.TotalTokens)
			require.Equal(t, c.want, gjson.GetBytes(out, c.path).Raw, "%s", out)
			require.Equal(t, `"public"`, gjson.GetBytes(out, "model").Raw)
		})
	}
	for _, body := range []string{"", "[]", "{}", `{"type":"completion"}`, `{"type":"message","content":["x"]}`} {
		_, _, err := chattest.Decode((&Answer{}), []byte(body), "m", 1)
		require.ErrorIs(t, err, provider.ErrNotAnAnswer, body)
	}
}

func TestDecodeError(t *testing.T) {
	body := func(typ, message string) string {
		return `{"type":"error","error":{"type":"` + typ + `","message":"` + message + `"},"request_id":"r"}`
	}
	for name, c := range map[string]struct {
		status int
		body   string
		want   openai.Error
	}{
		"an invalid request": {400, body("invalid_request_error", "tools.0: bad"),
			openai.Error{Status: 400, Type: "invalid_request_error", Message: "tools.0: bad"}},
		"a context that is too long": {400, body("invalid_request_error",
			"input length and `max_tokens` exceed context limit: 1 + 2 > 2"),
			openai.Error{Status: 400, Type: "invalid_request_error", Param: "messages", Code: "context_length_exceeded",
				Message: "input length and `max_tokens` exceed context limit: 1 + 2 > 2"}},
		"no credit": {400, body("invalid_request_error", "Your credit balance is too low"),
			openai.Error{Status: 429, Type: "insufficient_quota", Code: "insufficient_quota",
				Message: "Your credit balance is too low", NoRetry: true}},
		"billing": {402, body("billing_error", "pay"),
			openai.Error{Status: 429, Type: "insufficient_quota", Code: "insufficient_quota", Message: "pay", NoRetry: true}},
		"a credential": {401, body("authentication_error", "invalid x-api-key"),
			openai.Error{Status: 502, Type: "server_error", Code: "upstream_auth_failed",
				Message: "The provider refused the gateway's credential."}},
		"a permission": {403, body("permission_error", "no"),
			openai.Error{Status: 403, Type: "invalid_request_error", Code: "permission_denied", Message: "no"}},
		"a block by a proxy": {403, "<html>", openai.Error{Status: 403, Type: "invalid_request_error",
			Code: "permission_denied", Message: "The provider answered with status 403."}},
		"a model": {404, body("not_found_error", "model: x"),
			openai.Error{Status: 404, Type: "invalid_request_error", Code: "model_not_found", Message: "model: x"}},
		"a rate of requests": {429, body("rate_limit_error", "slow down"),
			openai.Error{Status: 429, Type: "requests", Code: "rate_limit_exceeded", Message: "slow down",
				RetryAfter: 3 * time.Second}},
		"a rate of tokens": {429, body("rate_limit_error", "Too many tokens"),
			openai.Error{Status: 429, Type: "tokens", Code: "rate_limit_exceeded", Message: "Too many tokens",
				RetryAfter: 3 * time.Second}},
		"the vendor's own failure": {500, body("api_error", "oops"), openai.Error{Status: 500, Type: "server_error",
			Message: "oops"}},
		"a timeout": {504, body("timeout_error", "late"), openai.Error{Status: 504, Type: "server_error",
			Code: "upstream_timeout", Message: "late"}},
		"overload": {529, body("overloaded_error", "Overloaded"),
			openai.Error{Status: 503, Type: "server_error", Code: "overloaded", Message: "Overloaded"}},
		"overload under another sky": {500, body("overloaded_error", "Overloaded"),
			openai.Error{Status: 503, Type: "server_error", Code: "overloaded", Message: "Overloaded"}},
		"HTML": {502, "<html>", openai.Error{Status: 502, Type: "server_error",
			Message: "The provider answered with status 502."}},
		"nothing": {413, "", openai.Error{Status: 413, Type: "invalid_request_error",
			Code: "request_too_large", Message: "The provider answered with status 413."}},
	} {
		t.Run(name, func(t *testing.T) {
			header := http.Header{}
			if c.status == 429 {
				header.Set("Retry-After", "3")
			}
			require.Equal(t, c.want, *DecodeError(c.status, header, []byte(c.body)))
		})
	}
	e := DecodeError(500, http.Header{"X-Should-Retry": {"false"}}, nil)
	require.True(t, e.NoRetry)
}

// stream plays events through a decoder and returns what the client gets, without the parts of chunks that are the
// same everywhere, and the error that ended it.
func stream(t *testing.T, a *Answer, events ...string) (string, *chattest.Stream, error) {
	t.Helper()
	w := chattest.NewStream("m", 1, false)
	s := a.Stream(w.Asked)
	err := s.Decode([]byte("data:"+strings.Join(events, "\r\n\r\ndata:")), w) // no space (pitfall 19), no last blank line
	if err == nil {
		err = s.Close(w)
	}
	var deltas []string
	written, marked := strings.CutSuffix(string(w.Take()), "data: [DONE]\n\n")
	require.Equal(t, err == nil, marked, "the end mark goes with an answer that is complete")
	for line := range strings.Lines(written) {
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			require.True(t, gjson.Valid(data), data)
			require.Equal(t, int64(0), gjson.Get(data, "choices.0.index").Int(), "pitfall 2")
			d := gjson.Get(data, "choices.0.delta").Raw
			if reason := gjson.Get(data, "choices.0.finish_reason").Str; reason != "" {
				d += reason
			}
			deltas = append(deltas, d)
		}
	}
	return strings.Join(deltas, "\n"), w, err
}

const (
	started = `{"type":"message_start","message":{"id":"msg_1","usage":{"input_tokens":5,"output_tokens":1}}}`
	stopped = `{"type":"message_stop"   }`
	role    = `{"role":"assistant","content":""}` + "\n"
)

func TestStream(t *testing.T) {
	block := func(i, b string) string {
		return `{"type":"content_block_start","index":` + i + `,"content_block":` + b + `}`
	}
	delta := func(i, d string) string {
		return `{"type":"content_block_delta","index":` + i + `,"delta":` + d + `}`
	}
	end := func(i string) string { return `{"type":"content_block_stop","index":` + i + `}` }
	stop := func(reason string) string {
		return `{"type":"message_delta","delta":{"stop_reason":"` + reason + `"},"usage":{"output_tokens":9}}`
	}
	call := func(i, id string) string {
		return `{"tool_calls":[{"index":` + i + `,"id":"` + id +
			`","type":"function","function":{"name":"n","arguments":""}}]}` + "\n"
	}
	for name, c := range map[string]struct {
		answerTool string
		events     []string
		want       string
	}{
		"TestPitfall1And4 calls are counted from 0, whatever blocks there are": {events: []string{
			block("0", `{"type":"text","text":""}`), end("0"),
			block("1", `{"type":"server_tool_use","id":"s","name":"x","input":{}}`),
			delta("1", `{"type":"input_json_delta","partial_json":"{}"}`), end("1"),
			block("2", `{"type":"tool_use","id":"t","name":"n","input":{}}`),
			delta("2", `{"type":"input_json_delta","partial_json":""}`),
			delta("2", `{"type":"input_json_delta","partial_json":"{\"a\":"}`),
			block("3", `{"type":"tool_use","id":"u","name":"n","input":{}}`),
			delta("3", `{"type":"input_json_delta","partial_json":"{}"}`),
			delta("2", `{"type":"input_json_delta","partial_json":"1}"}`), end("2"), end("3"), stop("tool_use"), stopped},
			want: role + call("0", "t") + `{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\":"}}]}` + "\n" +
				call("1", "u") + `{"tool_calls":[{"index":1,"function":{"arguments":"{}"}}]}` + "\n" +
				`{"tool_calls":[{"index":0,"function":{"arguments":"1}"}}]}` + "\n{}tool_calls"},
		"TestPitfall5 no arguments are an empty object": {events: []string{block("0",
			`{"type":"tool_use","id":"t","name":"n","input":{}}`), end("0"), stop("tool_use"), stopped},
			want: role + call("0", "t") + `{"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]}` + "\n{}tool_calls"},
		"arguments that came with the start": {events: []string{block("0",
			`{"type":"tool_use","id":"t","name":"n","input":{"b": 1, "a": 2}}`), stop("tool_use"), stopped},
			want: role + call("0", "t") + `{"tool_calls":[{"index":0,"function":{"arguments":"{\"b\":1,\"a\":2}"}}]}` +
				"\n{}tool_calls"},
		"TestPitfall20 pings and unknown events are ignored": {events: []string{`{"type": "ping"}`,
			`{"type":"new","delta":7,"index":"x"}`, `{"delta":[]}`, block("0", `{"type":"new_block","text":"x"}`),
			delta("0", `{"type":"text_delta","text":"y"}`), delta("9", `{"type":"text_delta","text":"z"}`), end("0"), end("9"),
			stop("end_turn"), stopped},
			want: role + "{}stop"},
		"text that came with the start": {events: []string{block("0", `{"type":"text","text":"a"}`),
			delta("0", `{"type":"citations_delta","citation":{"type":"x"}}`), stop("pause_turn"), stopped},
			want: role + `{"content":"a"}` + "\n{}stop"},
		"signed thinking": {events: []string{block("0", `{"type":"thinking","thinking":"","signature":""}`),
			delta("0", `{"type":"thinking_delta","thinking":"a\"b"}`),
			delta("0", `{"type":"signature_delta","signature":"s="}`), end("0"), stop("end_turn"), stopped},
			want: role + `{"reasoning_content":"a\"b"}` + "\n" +
				`{"thinking_blocks":[{"type":"thinking","thinking":"a\"b","signature":"s="}]}` + "\n{}stop"},
		"TestPitfall15 what is said before the hidden tool is no part of the answer": {answerTool: "give_answer",
			events: []string{block("0", `{"type":"text","text":"Sure"}`), end("0"),
				block("1", `{"type":"tool_use","id":"t","name":"give_answer","input":{}}`),
				delta("1", `{"type":"input_json_delta","partial_json":"{\"a\":1}"}`), end("1"),
				block("2", `{"type":"text","text":"Done"}`), end("2"), stop("tool_use"), stopped},
			want: role + `{"content":"{\"a\":1}"}` + "\n{}stop"},
		"TestPitfall15 a hidden tool without arguments": {answerTool: "give_answer",
			events: []string{block("0", `{"type":"tool_use","id":"t","name":"give_answer","input":{}}`), end("0"),
				block("1", `{"type":"tool_use","id":"u","name":"give_answer","input":{}}`), end("1"), stop("tool_use"), stopped},
			want: role + `{"content":"{}"}` + "\n{}stop"},
		"TestPitfall15 text where the hidden tool was not called": {answerTool: "give_answer",
			events: []string{block("0", `{"type":"text","text":"No"}`), end("0"), stop("end_turn"), stopped},
			want:   role + `{"content":"No"}` + "\n{}stop"},
		"TestPitfall15 another tool beside the hidden one": {answerTool: "give_answer",
			events: []string{block("0", `{"type":"tool_use","id":"t","name":"n","input":{}}`), end("0"), stop("tool_use"),
				stopped},
			want: role + call("0", "t") + `{"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]}` + "\n{}tool_calls"},
		"what comes after the end is ignored": {events: []string{stop("end_turn"), stopped, stopped, stop("max_tokens"),
			`{"type":"error","error":{"type":"api_error"}}`},
			want: role + "{}stop"},
		"an end without a reason": {events: []string{stopped}, want: role + "{}stop"},
		"a refusal": {events: []string{
			`{"type":"message_delta","delta":{"stop_reason":"refusal","stop_details":null}}`, stopped}, want: role +
			`{"refusal":"The model declined to answer."}` + "\n{}content_filter"},
	} {
		t.Run(name, func(t *testing.T) {
			got, _, err := stream(t, &Answer{answerTool: c.answerTool}, append([]string{started}, c.events...)...)
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
}

func TestPitfall22And27StreamsThatFail(t *testing.T) {
	inBand := func(typ string) string {
		return `{"type":"error","error":{"type":"` + typ + `","message":"why"}}`
	}
	for typ, status := range map[string]int{
		"overloaded_error": 503, "rate_limit_error": 429, "api_error": 500, "timeout_error": 504,
		"invalid_request_error": 400, "authentication_error": 502, "new_error": 500,
	} {
		got, w, err := stream(t, &Answer{}, started, inBand(typ))
		var e *openai.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, status, e.Status, typ)
		require.Equal(t, strings.TrimSpace(role), got)
		require.Equal(t, int64(6), w.Usage().TotalTokens, "what is known of the usage is kept")
	}
	for name, events := range map[string][]string{
		"TestPitfall23 nothing at all": {`{"type":"ping"}`},
		"no end mark": {started,
			`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":9}}`},
	} {
		t.Run(name, func(t *testing.T) {
			got, _, err := stream(t, &Answer{}, events...)
			require.ErrorIs(t, err, provider.ErrTruncated)
			require.NotContains(t, got, "stop", "no finish_reason")
		})
	}
	for _, events := range [][]string{
		{stopped}, {started, `{"type":"message_delta","delta":`, stopped},
		{started, `{"type":"content_block_delta","index":"0","delta":{"type":"text_delta","text":"x"}}`, stopped},
	} {
		_, _, err := stream(t, &Answer{}, events...)
		require.ErrorIs(t, err, provider.ErrNotAnAnswer)
	}
	_, _, err := stream(t, &Answer{}, started, `{"type":"new","index":"0"}`, `{"type":1}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"new_delta","text":1}}`,
		`{"type":"content_block_start","index":0,"content_block":{"type":"new","id":1}}`, stopped)
	require.NoError(t, err, "what means nothing here may have members of any kind")
}

func TestErrorsOfAnyDepth(t *testing.T) {
	e := DecodeError(500, nil, bytes.Repeat([]byte(`{"error":[`), 4<<20))
	require.Equal(t, "The provider answered with status 500.", e.Message)
}
