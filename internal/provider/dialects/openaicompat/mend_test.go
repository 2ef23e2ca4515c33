package openaicompat

import (
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/chat/chattest"
	"github.com/modelgate/modelgate/internal/provider"
)

// What Azure's filter leaves of answers, and what passes of them: the vendor's own bytes but for what is missing.
func TestAnswersThatPassAreMended(t *testing.T) {
	const filtered, message = `"content_filter_results":{"hate":{"filtered":true,"severity":"high"}}`,
		`"message":{"role":"assistant","content":null,"refusal":null}`
	for name, c := range map[string]struct{ in, want string }{
		"whole": {`{"model":"m","choices":[{"index":0,"message":{"content":"x"}}]}`,
			`{"model":"m","choices":[{"index":0,"message":{"content":"x"}}]}`},
		"no message": {`{"model":"m", "choices":[{"index":0,"finish_reason":"content_filter",` + filtered + ` } ]}`,
			`{"model":"m", "choices":[{"index":0,"finish_reason":"content_filter",` + filtered + ` ,` + message + `} ]}`},
		"null for a message": {`{"choices":[{"message":null,"index":0}],"model":"m"}`, `{"choices":[{` + message +
			`,"index":0}],"model":"m"}`},
		"nothing at all": {`{"choices":[{},7,{"message":{}}],"model":"m"}`, `{"choices":[{` + message +
			`},7,{"message":{}}],"model":"m"}`},
		"the last of two": {`{"choices":[{"message":{}},{"index":1}]}`, `{"choices":[{"message":{}},{"index":1,` +
			message + `}]}`},
	} {
		t.Run(name, func(t *testing.T) {
			for untouched, want := range map[bool]string{false: c.want, true: c.in} {
				d := Dialect{AsReceived: true}
				a := d.answer(&chatShape, "m", provider.Target{Model: "m",
					Config: &configv1.Provider{UntouchedAnswers: untouched}}, false)
				out, _, err := chattest.Decode(a, []byte(c.in), "m", 1)
				require.NoError(t, err)
				require.Equal(t, want, string(out))
			}
		})
	}
	d := Dialect{AsReceived: true}
	a := d.answer(&chatShape, "client/m", provider.Target{Model: "m", Config: &configv1.Provider{}}, false)
	out, _, err := chattest.Decode(a, []byte(` {"choices":[{}],"model":"m"} `), "client/m", 1)
	require.NoError(t, err)
	require.Equal(t, `{"choices":[{`+message+`}],"model":"client/m"}`, string(out))
}

func TestChunksThatPassAreMended(t *testing.T) {
	const first = `{"choices":[],"created":0,"id":"","model":"m","object":"","prompt_filter_results":[]}`
	const offsets = `{"id":"","object":"","created":0,"model":"m","choices":[{"index":0,"finish_reason":null,"content_filter_offsets":{"check_offset":1}}]}`
	const text = `{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"x"},"finish_reason":"stop"}]}`
	in := "data: " + first + "\n\ndata: " + text + "\n\ndata: " + offsets + "\n\ndata: [DONE]\n\n"
	d := Dialect{AsReceived: true}
	for untouched, want := range map[bool]string{
		true: in,
		false: `data: {"choices":[],"created":0,"id":"","model":"m","object":"chat.completion.chunk","prompt_filter_results":[]}` + "\n\ndata: " + text +
			"\n\n" +
			`data: {"id":"","object":"chat.completion.chunk","created":0,"model":"m","choices":[{"index":0,"finish_reason":null,"content_filter_offsets":{"check_offset":1},"delta":{}}]}` + "\n\ndata: [DONE]\n\n",
	} {
		a := d.answer(&chatShape, "m", provider.Target{Model: "m", Config: &configv1.Provider{UntouchedAnswers: untouched}},
			false)
		w := chattest.NewStream("m", 1, false)
		s := a.Stream(w.Asked)
		require.NoError(t, s.Decode([]byte(in), w))
		require.NoError(t, s.Close(w))
		require.Equal(t, want, string(w.Take()))
	}
}
