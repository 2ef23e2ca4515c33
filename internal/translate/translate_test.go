package translate

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/chat"
	"github.com/modelgate/modelgate/internal/inbound/dialects"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/dialects/openaicompat"
)

func acme() provider.Provider {
	d := openaicompat.Dialect{Vendor: "acme"}
	return provider.Provider{
		Name: "acme", DefaultEndpoint: "https://acme.example:8443/v1",
		Sign: openaicompat.Bearer, DecodeError: openaicompat.DecodeError, Chat: openaicompat.New(d),
	}
}

// exchange is one of acme's, for the smallest request.
func exchange(t *testing.T, e Endpoint, stream bool) *Exchange {
	t.Helper()
	r, err := Parse(acme(), e, Ask(e, nil, "public/name", stream, stream))
	require.NoError(t, err)
	_, answer, err := r.Encode(provider.Target{Config: Complete(acme(), &configv1.Provider{}), Model: "m"})
	require.NoError(t, err)
	return &Exchange{Provider: acme(), Request: r, Answer: answer, Created: 1}
}

func TestRequestsToEndpointsThatAVendorLacks(t *testing.T) {
	r, err := Parse(acme(), Embeddings, []byte(`{"model":"m","input":"x"}`))
	require.NoError(t, err)
	_, _, err = r.Encode(provider.Target{Config: Complete(acme(), &configv1.Provider{}), Model: "m"})
	require.ErrorContains(t, err, "The provider 'acme' does not serve embeddings.")
	r, err = Parse(acme(), Completions, []byte(`{"model":"m","prompt":"x"}`))
	require.NoError(t, err)
	req, _, err := r.Encode(provider.Target{Model: "m"})
	require.NoError(t, err)
	require.Equal(t, "/chat/completions", req.Path, "completions go over chat completions")
	_, err = Parse(acme(), "images", nil)
	require.ErrorContains(t, err, "choose chat, completions, embeddings, messages, responses, gemini or rerank")
}

func TestWithModelAddsAModelOnlyWhereThereIsNone(t *testing.T) {
	for body, want := range map[string]string{
		`{"messages": []}`:    `{"model":"a\"b","messages": []}`,
		` { } `:               ` {"model":"a\"b" } `,
		`{"x":{"model":"y"}}`: `{"model":"a\"b","x":{"model":"y"}}`,
		`{"model":"other"}`:   `{"model":"other"}`,
		`{"model":null}`:      `{"model":null}`,
		`[1]`:                 `[1]`,
		`{"a":`:               `{"a":`,
		``:                    ``,
	} {
		require.Equal(t, want, string(WithModel([]byte(body), `a"b`)), body)
	}
}

func TestAskKeepsWhatTheClientSaid(t *testing.T) {
	require.JSONEq(t, `{"model":"m","messages":[],"n":2,"stream":true,"stream_options":{"include_usage":true}}`,
		string(Ask(Chat, []byte(`{"model":"other","messages":[],"n":2}`), "m", true, true)))
	require.JSONEq(t, `{"model":"m","prompt":"x"}`, string(Ask(Completions, nil, "m", false, true)),
		"only streams report usage when asked")
	require.Equal(t, `null`, string(Ask(Chat, []byte(`null`), "m", true, true)))
}

func TestCredentialsAreMasked(t *testing.T) {
	p := acme()
	p.Sign = func(r *provider.Request, s provider.Signing) error {
		r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=AKIA/x, Signature=0123")
		r.Header.Set("X-Token", s.Credential.Reveal())
		r.Header.Set("X-Date", "20260101")
		return nil
	}
	config := Complete(p, &configv1.Provider{Headers: map[string]string{"X-Team": "blue"}})
	got, err := Sign(p, config, provider.Request{Path: "/chat", Header: http.Header{"Acme-Version": {"3"}},
		Body: []byte("{\"a\": 1}\n"), Dropped: []string{"seed", "n"}}, time.Unix(1, 0))
	require.NoError(t, err)
	require.Equal(t, `{"method":"POST","url":"https://acme.example:8443/v1/chat","headers":{"acme-version":"3",`+
		`"authorization":"AWS4-HMAC-SHA256 ***","x-date":"20260101","x-team":"blue","x-token":"***"},"dropped":["seed","n"],"body":{"a": 1}}`, string(got.AppendJSON(nil)))
	got.Body, got.Dropped = []byte("\x00\x01"), nil
	require.Contains(t, string(got.AppendJSON(nil)), `},"body_base64":"AAE="}`)
}

func TestAddresses(t *testing.T) {
	for base, want := range map[string]string{
		"https://a.example":         "https://a.example",
		"https://a.example:443/v1/": "https://a.example/v1",
		"http://a.example:8080/x":   "http://a.example:8080/x",
		"http://[::1]":              "http://[::1]",
		"https://[::1]:8443":        "https://[::1]:8443",
		"unix:///run/models.sock":   "unix:///run/models.sock",
	} {
		e, err := provider.ParseEndpoint(base)
		require.NoError(t, err)
		require.Equal(t, want, Address(e))
	}
}

const chunks = `data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"é"},"logprobs":null,"finish_reason":null}]}

`

func TestWhatTheClientGets(t *testing.T) {
	const slowDown = `data: {"error":{"message":"Slow down.","code":"rate_limit_exceeded"}}` + "\n\n"
	const truncated = `data: {"error":{"message":"The provider's answer ended before it was complete.","type":"server_error","param":null,"code":"upstream_truncated"}}`
	for name, c := range map[string]struct {
		stream bool
		from   Response
		status int
		body   string // a part of it
		header string
	}{
		"an answer": {false,
			Response{Status: 200,
				Body: []byte(
					`{"id":"c1","choices":[{"index":0,"message":{"role":"assistant","content":"x"},"finish_reason":"stop"}]}`)}, 200,
			`"model":"public/name"`, "application/json"},
		"no answer": {false, Response{Status: 200, Body: []byte(`[]`)}, 502,
			`"code":"upstream_invalid_response"`, "application/json"},
		"an empty answer": {false, Response{Status: 200}, 502, `"code":"upstream_invalid_response"`,
			"application/json"},
		"an error with status 200": {false,
			Response{Status: 200, Body: []byte(`{"error":{"message":"Slow down.","code":"rate_limit_exceeded"}}`)}, 429,
			`"message":"Slow down."`, "application/json"},
		"an error": {true, Response{Status: 529, Body: []byte(`{"error":{"message":"Busy."}}`)}, 503,
			`"code":"overloaded"`, "application/json"},
		"a redirect": {true, Response{Status: 302}, 502, `"type":"server_error"`, "application/json"},
		"a whole answer for a stream": {true,
			Response{Status: 200, Header: http.Header{"Content-Type": {"application/json; charset=utf-8"}}, Body: []byte(`{}`)},
			502, `"code":"upstream_not_a_stream"`, "application/json"},
		"a stream that ends too early": {true, Response{Status: 200, Body: []byte(chunks)}, 200, truncated,
			"text/event-stream; charset=utf-8"},
		"a stream that ends before it says something": {true,
			Response{Status: 200, Body: []byte(strings.Replace(chunks, "é", "", 1))}, 502, `"code":"upstream_truncated"`,
			"application/json"},
		"a stream": {true,
			Response{Status: 200, Body: []byte(chunks + "data: [DONE]\n\ndata: more\n\n")}, 200, "data: [DONE]\n\n",
			"text/event-stream; charset=utf-8"},
		"an error as the first event": {true, Response{Status: 200, Body: []byte(slowDown)}, 429,
			`{"error":{"message":"Slow down."`, "application/json"},
		"an error after the role": {true,
			Response{Status: 200, Body: []byte(strings.Replace(chunks, "é", "", 1) + slowDown)}, 429,
			`{"error":{"message":"Slow down."`, "application/json"},
		"an error after the first text": {true, Response{Status: 200, Body: []byte(chunks + slowDown)}, 200,
			`data: {"error":{"message":"Slow down."`, "text/event-stream; charset=utf-8"},
	} {
		t.Run(name, func(t *testing.T) {
			x := exchange(t, Chat, c.stream)
			x.Dropped = []string{"seed"}
			got := x.Respond(c.from, c.from.Body)
			require.Equal(t, c.status, got.Status, string(got.Body))
			require.Contains(t, string(got.Body), c.body)
			require.Equal(t, c.header, got.Header.Get("content-type"))
			require.Contains(t, string(got.Head()), "x-modelgate-dropped: seed\r\nx-modelgate-provider: acme\r\n\r\n")
			require.NoError(t, x.Cuts(c.from, got))
		})
	}
}

func TestHeadsAreThoseOfHTTP(t *testing.T) {
	e := &openai.Error{Status: 429, Message: "m", Type: "t", RetryAfter: 1500 * time.Millisecond}
	require.Equal(t,
		"HTTP/1.1 429 Too Many Requests\r\ncontent-length: 61\r\ncontent-type: application/json\r\nretry-after: 2\r\nretry-after-ms: 1500\r\n\r\n", string(failed(dialects.Default, e).Head()))
}

// forgetful is a codec that reads each piece by itself.
type forgetful struct{ provider.Answer }

func (forgetful) Stream(chat.Asked) provider.Stream { return forgetfulStream{} }

type forgetfulStream struct{}

func (forgetfulStream) Decode(piece []byte, out chat.Sink) error {
	out.Put(chat.Begin("x"))
	out.Put(chat.Text(0, string(piece)))
	return nil
}

func (forgetfulStream) Close(chat.Sink) error { return nil }

func TestCutsFindACodecThatDependsOnThem(t *testing.T) {
	x := exchange(t, Chat, true)
	x.Answer = forgetful{}
	from := Response{Status: 200, Body: []byte("abc")}
	require.EqualError(t, x.Cuts(from, x.Respond(from, from.Body)),
		"the answer differs where the body comes in 3 pieces, the first of 1 bytes")
}

func TestCuttingsCutAtEveryPlace(t *testing.T) {
	cuttings := func(limit int) (got []string) {
		for pieces := range Cuttings([]byte("abcde"), limit) {
			got = append(got, string(bytes.Join(pieces, []byte("|"))))
		}
		return got
	}
	require.Equal(t, []string{"a|b|c|d|e", "a|bcde", "ab|cde", "abc|de", "abcd|e"}, cuttings(1000))
	require.Equal(t, []string{"a|b|c|d|e", "a|bc|de", "ab|cd|e"}, cuttings(10))
	require.Equal(t, []string{"a|b|c|d|e", "a|b|c|d|e"}, cuttings(1))
	for range Cuttings([]byte("a"), 1000) {
		t.Error("there is nothing to cut")
	}
}
