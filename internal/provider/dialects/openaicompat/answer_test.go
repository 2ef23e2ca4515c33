package openaicompat

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/chat/chattest"
	"github.com/modelgate/modelgate/internal/provider"
)

// decode reads an answer with an id, which was made at 1, and returns what is behind its model.
func decode(t *testing.T, d Dialect, members string) string {
	t.Helper()
	a := &answer{dialect: &d, shape: &chatShape, choices: 1, renamed: true}
	out, _, err := chattest.Decode(a, []byte(`{"id":"c","created":1,`+members+`}`), "client/m", 7)
	require.NoError(t, err)
	rest, found := strings.CutPrefix(string(out), `{"id":"c","object":"chat.completion","created":1,"model":"client/m",`)
	require.True(t, found, "%s", out)
	return strings.TrimSuffix(rest, "}")
}

func TestAnAnswerIsPutRight(t *testing.T) {
	dialect := Dialect{FinishReasons: map[string]string{"max": "length"}}
	choice := func(members string) string {
		return `"choices":[{"index":0,"message":{"role":"assistant",` + members + `}]`
	}
	for name, c := range map[string]struct{ in, want string }{
		"no choices": {`"choices":null`, `"choices":[]`},
		"content, refusal, logprobs, index and finish_reason are there": {`"choices":[{"message":{}}]`,
			choice(`"content":null,"refusal":null},"logprobs":null,"finish_reason":"stop"`)},
		"a finish reason of the vendor's": {`"choices":[{"message":{"content":"x"},"finish_reason":"max"}]`,
			choice(`"content":"x","refusal":null},"logprobs":null,"finish_reason":"length"`)},
		"a finish reason that nobody knows": {`"choices":[{"message":{"content":"x"},"finish_reason":"eos"}]`,
			choice(`"content":"x","refusal":null},"logprobs":null,"finish_reason":"stop"`)},
		"reasoning by its other name":             {`"choices":[{"message":{"content":"x","reasoning":"so"},"finish_reason":"stop"}]`, choice(`"content":"x","refusal":null,"reasoning_content":"so"},"logprobs":null,"finish_reason":"stop"`)},
		"reasoning by both names":                 {`"choices":[{"message":{"content":"x","reasoning":"so","reasoning_content":"so"},"finish_reason":"stop"}]`, choice(`"content":"x","refusal":null,"reasoning_content":"so"},"logprobs":null,"finish_reason":"stop"`)},
		"reasoning in details alone":              {`"choices":[{"message":{"content":"x","reasoning":null,"reasoning_details":[{"type":"reasoning.summary","summary":"so"}]},"finish_reason":"stop"}]`, choice(`"content":"x","refusal":null,"reasoning_content":"so","reasoning_details":[{"type":"reasoning.summary","summary":"so"}]},"logprobs":null,"finish_reason":"stop"`)},
		"content in parts":                        {`"choices":[{"message":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"so"}]},{"type":"text","text":"x"}]},"finish_reason":"stop"}]`, choice(`"content":"x","refusal":null,"reasoning_content":"so"},"logprobs":null,"finish_reason":"stop"`)},
		"a call":                                  {`"choices":[{"message":{"content":"","tool_calls":[{"index":4,"id":"a","function":{"name":"f","arguments":"{\"x\":1}"}}],"function_call":null},"finish_reason":"tool_calls"}]`, choice(`"content":"","refusal":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}}]},"logprobs":null,"finish_reason":"tool_calls"`)},
		"a call though it says stop":              {`"choices":[{"message":{"content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":""}}]},"finish_reason":"stop"}]`, choice(`"content":null,"refusal":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]},"logprobs":null,"finish_reason":"tool_calls"`)},
		"calls that are cut":                      {`"choices":[{"message":{"content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{\"x"}}]},"finish_reason":"length"}]`, choice(`"content":null,"refusal":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{\"x"}}]},"logprobs":null,"finish_reason":"length"`)},
		"no calls though it says so":              {`"choices":[{"message":{"content":"x","tool_calls":[]},"finish_reason":"tool_calls"}]`, choice(`"content":"x","refusal":null},"logprobs":null,"finish_reason":"stop"`)},
		"arguments that are an object":            {`"choices":[{"message":{"tool_calls":[{"id":"a","function":{"name":"f","arguments":{ "x" : "é\n" }},"extra_content":{"y":1}}]}}]`, choice(`"content":null,"refusal":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{\"x\":\"é\\n\"}"},"extra_content":{"y":1}}]},"logprobs":null,"finish_reason":"tool_calls"`)},
		"calls without ids, or with one for two":  {`"choices":[{"message":{"tool_calls":[{"function":{"name":"f","arguments":null}},{"id":"a","function":{"name":"g"}},{"id":"a","function":{"name":"g"}}]}}]`, choice(`"content":null,"refusal":null,"tool_calls":[{"id":"call_MADE","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"a","type":"function","function":{"name":"g","arguments":"{}"}},{"id":"call_MADE","type":"function","function":{"name":"g","arguments":"{}"}}]},"logprobs":null,"finish_reason":"tool_calls"`)},
		"a call of a tool that takes text":        {`"choices":[{"message":{"tool_calls":[{"id":"a","type":"custom","custom":{"name":"f","input":"x"}}]}}]`, choice(`"content":null,"refusal":null,"tool_calls":[{"id":"a","type":"custom","custom":{"name":"f","input":"x"}}]},"logprobs":null,"finish_reason":"tool_calls"`)},
		"a call without a name is none":           {`"choices":[{"message":{"content":"x","tool_calls":[{"id":"a","function":{"arguments":"{}"}},null]},"finish_reason":"tool_calls"}]`, choice(`"content":"x","refusal":null},"logprobs":null,"finish_reason":"stop"`)},
		"what can be neither content nor refusal": {`"choices":[{"message":{"content":{"a":1},"refusal":false},"logprobs":[]}]`, choice(`"content":null,"refusal":null},"logprobs":null,"finish_reason":"stop"`)},
		"members of the same name":                {`"choices":[{"message":{"content":"x"}}],"choices":[{"message":{"content":"y"}}]`, choice(`"content":"y","refusal":null},"logprobs":null,"finish_reason":"stop"`)},
		"what is not UTF-8": {"\"choices\":[{\"message\":{\"content\":\"a\xffb\"}}]",
			choice("\"content\":\"a\uFFFDb\",\"refusal\":null},\"logprobs\":null,\"finish_reason\":\"stop\"")},
		"what nobody has heard of stays": {`"x":1.50e1,"choices":[{"seed":12479678939117453000,"message":{"role":"model","y":"\u00e9\/","content":"x"},"finish_reason":"stop"}]`, choice(`"content":"x","refusal":null,"y":"\u00e9\/"},"logprobs":null,"finish_reason":"stop","seed":12479678939117453000`) + `,"x":1.50e1`},
		"what a search has found":        {`"search_results":[{"url":"u","title":"t"}],"choices":[{"message":{"content":"x"},"delta":{"content":""}}]`, choice(`"content":"x","refusal":null,"annotations":[{"type":"url_citation","url_citation":{"start_index":0,"end_index":0,"url":"u","title":"t"}}]},"logprobs":null,"finish_reason":"stop"`) + `,"search_results":[{"url":"u","title":"t"}]`},
		"an error of null is none":       {`"error":null,"choices":[]`, `"choices":[]`},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, madeID.ReplaceAllString(decode(t, dialect, c.in), "call_MADE"))
		})
	}
}

func TestNoAnswerAtAll(t *testing.T) {
	for name, in := range map[string]string{
		"nothing": "", "no JSON": "<html>", "cut": `{"choices":[]`, "an array": `[]`, "a string": `"x"`, "no choices": `{}`,
		"choices that are an object": `{"choices":{}}`,
	} {
		for _, asReceived := range []bool{false, true} {
			_, _, err := chattest.Decode((&answer{dialect: &Dialect{}, shape: &chatShape, choices: 1, asReceived: asReceived}),
				[]byte(in), "m", 1)
			require.ErrorIs(t, err, provider.ErrNotAnAnswer, name)
		}
	}
	for in, status := range map[string]int{
		`{"choices":[{"message":{"content":""},"finish_reason":"error"}]}`:                                      502,
		`{"choices":[{"message":{"content":null},"finish_reason":"error","error":{"code":503,"message":"m"}}]}`: 503,
		`{"detail":"m"}`: 502,
		`{"choices":[{"message":{"content":"some of it"},"finish_reason":"error"}]}`:                        502,
		`{"choices":[{"message":{"content":"some of it"},"finish_reason":"abort"}]}`:                        502,
		`{"choices":[{"message":{"content":"some of it"},"finish_reason":"network_error"}]}`:                502,
		`{"choices":[{"message":{"content":"some of it"},"finish_reason":"insufficient_system_resource"}]}`: 502,
	} {
		_, _, err := chattest.Decode((&answer{dialect: &Dialect{}, shape: &chatShape, choices: 1}), []byte(in), "m", 1)
		var failed *openai.Error
		require.ErrorAs(t, err, &failed, in)
		require.Equal(t, status, failed.Status, in)
	}
}

func TestAnAnswerPassesAsItCame(t *testing.T) {
	odd := " \n" +
		`{"x": 1.50e1, "choices" : null,"model":"m-2024" , "usage":{"prompt_tokens":3,"completion_tokens":4}}` + "\n"
	a := &answer{dialect: &Dialect{}, shape: &chatShape, choices: 1, asReceived: true}
	out, usage, err := chattest.Decode(a, []byte(odd), "m", 1)
	require.NoError(t, err)
	require.Equal(t, odd, string(out))
	require.Equal(t, openai.Usage{PromptTokens: 3, CompletionTokens: 4, TotalTokens: 7}, usage)
	a.renamed = true
	out, _, err = chattest.Decode(a, []byte(odd), "client/m", 1)
	require.NoError(t, err)
	require.Equal(t, strings.Replace(odd, "m-2024", "client/m", 1), string(out))
}

func TestAStreamPassesAsItCame(t *testing.T) {
	chunks := ": keep-alive\n\n" +
		`data: {"choices":[],"id":"","model":"","object":"","prompt_filter_results":[{}]}` + "\n\n" +
		"event: chunk\nid: 7\n" +
		`data:{"choices":[{"delta":{"content":"a"},"finish_reason":"odd","index":0}],"model":"m-2024","usage":null}  ` +
		"\nretry: 5\n\n\n" +
		`data: {"choices":[{"delta":{"content":"b"},"index":0}],"id":"other","model":"m-2024","usage" : null }` +
		"\r\n\r\n" +
		"event: ping\ndata: {}\n\ndata:\n\n: a comment\n" +
		"data: {\"choices\":[{\"delta\":{},\ndata: \"index\":0}],\"model\":\"m-2024\"}\n\n"
	usage := ": ping\n\nevent: chunk\n" + `data: {"choices":[],"model":"m-2024","usage":{"prompt_tokens":3}}` + "\r\n\r\n"
	oneLine := strings.NewReplacer("data: {\"choices\":[{\"delta\":{},\ndata: ", `data: {"choices":[{"delta":{}, `,
		": a comment\n", "")
	for name, c := range map[string]struct {
		renamed, forced bool
		want            string
	}{
		"byte for byte": {false, false, chunks + usage},
		"but for usage that the client does not want": {false, true, strings.NewReplacer(`,"usage":null`, "",
			`,"usage" : null`, "").Replace(chunks) + ": ping\n\n\n"},
		"and the name of the model": {true, false, strings.NewReplacer(`"model":""`, `"model":"client/m"`,
			"m-2024", "client/m").Replace(oneLine.Replace(chunks) + usage)},
	} {
		t.Run(name, func(t *testing.T) {
			eachCut([]byte(chunks+usage+": bye\n"+done+": too late\n\n"), func(pieces ...[]byte) {
				w := chattest.NewStream("client/m", 1, !c.forced)
				s := (&answer{dialect: &Dialect{}, shape: &chatShape, choices: 1, asReceived: true, renamed: c.renamed,
					forced: c.forced}).Stream(w.Asked)
				for _, p := range pieces {
					require.NoError(t, s.Decode(p, w))
				}
				require.Equal(t, c.want+": bye\n"+done, string(w.Take()))
				require.Equal(t, int64(3), w.Usage().PromptTokens)
				require.True(t, w.IsDone())
			})
		})
	}
}

// eachCut calls f with the body whole, in single bytes, and cut at every place.
func eachCut(body []byte, f func(pieces ...[]byte)) {
	f(body)
	f(bytes.SplitAfter(body, nil)...)
	for i := range body {
		f(body[:i], body[i:])
	}
}

func TestAStreamThatPassesAsItCameEndsAsItDoes(t *testing.T) {
	const chunk = `data: {"choices":[{"delta":{"content":"a"},"finish_reason":"stop","index":0}]}`
	for in, want := range map[string]struct {
		out string
		err error
	}{
		chunk + "\n\ndata: [DONE]":             {chunk + "\n\ndata: [DONE]", nil},
		chunk + "\r\n\r\ndata: [DONE]\r\n\r\n": {chunk + "\r\n\r\ndata: [DONE]\r\n\r\n", nil},
		chunk + "\n\n":                         {chunk + "\n\n", provider.ErrTruncated},
		chunk:                                  {chunk + "\n\n", provider.ErrTruncated},
		chunk + "\n\n" + chunk[:20]:            {chunk + "\n\n", provider.ErrTruncated},
		"data: [DONE]\n\n":                     {"", provider.ErrTruncated},
		": ping\n\ndata: {\"error\":\"no\"}\n\n": {"", &openai.Error{Status: 502, Type: openai.TypeServer,
			Message: "no"}},
		chunk + "\n\n: ping\r\n\r\n\n" + chunk[:20]: {chunk + "\n\n: ping\r\n\r\n\n", provider.ErrTruncated},
		chunk + "\n\n: ping\n\ndata: {\"error\":\"no\"}\n\n": {chunk + "\n\n: ping\n\n",
			&openai.Error{Status: 502, Type: openai.TypeServer, Message: "no"}},
		": only a comment\n\ndata: {}\n\n": {"", provider.ErrTruncated},
		chunk + "\n\ndata: {\"error\":{}}\n\n": {chunk + "\n\n" + "data: {\"error\":{}}\n\n",
			provider.ErrTruncated},
		chunk + "\n\ndata: {\"error\":\"no\"}\n\n": {chunk + "\n\n",
			&openai.Error{Status: 502, Type: openai.TypeServer, Message: "no"}},
		chunk + "\n\nerror: {\"message\":\"no\"}\n\n": {chunk + "\n\n",
			&openai.Error{Status: 502, Type: openai.TypeServer, Message: "no"}},
	} {
		eachCut([]byte(in), func(pieces ...[]byte) {
			w := chattest.NewStream("m", 1, true)
			s := (&answer{dialect: &Dialect{}, shape: &chatShape, choices: 1, asReceived: true}).Stream(w.Asked)
			var err error
			for _, p := range pieces {
				if err == nil {
					err = s.Decode(p, w)
				}
			}
			if err == nil && !w.IsDone() {
				err = s.Close(w)
			}
			require.Equal(t, want.err, err, in)
			require.Equal(t, strings.TrimRight(want.out, "\r\n"), strings.TrimRight(string(w.Take()), "\r\n"), in)
		})
	}
}

func TestCommentsKeepConnectionsAlive(t *testing.T) {
	w := chattest.NewStream("m", 1, true)
	s := (&answer{dialect: &Dialect{}, shape: &chatShape, choices: 1, asReceived: true}).Stream(w.Asked)
	require.NoError(t, s.Decode([]byte(": ping\n\n"), w))
	require.Empty(t, w.Take(), "what comes may be an error")
	chunk := "data: {\"choices\":[{\"index\":0,\"delta\":{}}]}\n\n"
	require.NoError(t, s.Decode([]byte(chunk), w))
	require.Equal(t, ": ping\n\n"+chunk, string(w.Take()))
	require.NoError(t, s.Decode([]byte(": ping\n\n"), w))
	require.Equal(t, ": ping\n\n", string(w.Take()), "not only with the next event")
	require.NoError(t, s.Decode([]byte("event: chunk\n"), w))
	require.Empty(t, w.Take(), "the event may have to be left out")
}

func TestAnOperatorMayWantAnyVendorsBytes(t *testing.T) {
	r := parse(t, `{"model":"m","messages":[{"role":"user","content":"x"}]}`)
	_, a, err := New(Dialect{}).Encode(r, untouched())
	require.NoError(t, err)
	out, _, err := chattest.Decode(a, []byte(`{"choices":[{"message":{"reasoning":"so"}}]}`), "m", 1)
	require.NoError(t, err)
	require.Equal(t, `{"choices":[{"message":{"reasoning":"so"}}]}`, string(out))
}
