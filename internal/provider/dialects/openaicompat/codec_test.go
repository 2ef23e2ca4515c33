package openaicompat

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/chat"
	"github.com/modelgate/modelgate/internal/chat/chattest"
	"github.com/modelgate/modelgate/internal/provider"
)

func parse(t testing.TB, body string) *openai.ChatRequest {
	t.Helper()
	r, err := chattest.Carrier().ParseChatRequest([]byte(body))
	require.NoError(t, err)
	return r
}

func TestEncodeChangesOnlyWhatMustChange(t *testing.T) {
	thinks := &configv1.ModelFacts{Capabilities: &configv1.Capabilities{MaxCompletionTokens: new(true)}}
	const head = `{"messages":[{"role":"user","content":"x"}],"model":"m"`
	for name, c := range map[string]struct{ model, in, want string }{ // without head
		"usage is asked for": {"m", `,"stream":true}`,
			`,"stream":true,"stream_options":{"include_usage":true}}`},
		"usage is asked for against the client's wish": {"m", `,"stream":true,"stream_options":{"include_usage":false}}`,
			`,"stream":true,"stream_options":{"include_usage":true}}`},
		"include_usage null is none": {"m", `,"stream":true,"stream_options":{"include_usage":null}}`,
			`,"stream":true,"stream_options":{"include_usage":true}}`},
		"other stream options stay": {"m", `,"stream_options": { "x" : 1 },"stream":true}`,
			`,"stream_options": { "x" : 1 ,"include_usage":true},"stream":true}`},
		"empty stream options": {"m", `,"stream_options":{ },"stream":true}`,
			`,"stream_options":{"include_usage":true},"stream":true}`},
		"stream options of null": {"m", `,"stream_options":null,"stream":true}`,
			`,"stream_options":{"include_usage":true},"stream":true}`},
		"usage asked for already": {"m", `,"stream":true,"stream_options":{"include_usage":true}}`,
			`,"stream":true,"stream_options":{"include_usage":true}}`},
		"no stream, no stream options": {"m", `,"stream":false,"x":null}`, `,"stream":false,"x":null}`},
		"max_tokens renamed":           {"think-1", `,"max_tokens":5}`, `,"max_completion_tokens":5}`},
		"max_tokens renamed where the other is null": {"think-1", `,"max_completion_tokens":null,"max_tokens":5}`,
			`,"max_completion_tokens":5}`},
		"max_tokens dropped where the other is there": {"think-1", `,"max_tokens":5,"max_completion_tokens":6}`,
			`,"max_completion_tokens":6}`},
		"max_tokens of null stays":                  {"think-1", `,"max_tokens":null}`, `,"max_tokens":null}`},
		"max_tokens stays where the model takes it": {"other", `,"max_tokens":5}`, `,"max_tokens":5}`},
	} {
		t.Run(name, func(t *testing.T) {
			r := parse(t, head+c.in)
			target := provider.Target{Model: c.model}
			if c.model == "think-1" {
				target.Facts = thinks
			}
			req, _, err := New(Dialect{}).Encode(r, target)
			require.NoError(t, err)
			require.Equal(t, strings.Replace(head, `"m"`, `"`+c.model+`"`, 1)+c.want, string(req.Body))
			require.Equal(t, head+c.in, string(r.Body), "the client's body is not modified")
			require.Equal(t, "/chat/completions", req.Path)
			require.Equal(t, http.Header{"Content-Type": {"application/json"}}, req.Header)
		})
	}
}

func TestEncodeGivesTheBodyItselfWhereNothingChanges(t *testing.T) {
	r := parse(t, `{"model":"m","messages":[{"role":"user","content":"x"}]}`)
	req, _, err := New(Dialect{Locate: func(path string, _ provider.Target) string { return "/v2" + path }}).Encode(r,
		provider.Target{Model: "m"})
	require.NoError(t, err)
	require.Same(t, &r.Body[0], &req.Body[0])
	require.Equal(t, "/v2/chat/completions", req.Path)
}

func TestDecodeError(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		header http.Header
		body   string
		want   openai.Error
	}{
		"as OpenAI says it": {400, nil, `{"error":{"message":"m","type":"invalid_request_error","param":"p","code":"c"}}`,
			openai.Error{Status: 400, Message: "m", Type: "invalid_request_error", Param: "p", Code: "c"}},
		"a number as code becomes a string": {400, nil,
			`{"error":{"message":"m","type":"BadRequestError","param":null,"code":400}}`,
			openai.Error{Status: 400, Message: "m", Type: openai.TypeInvalidRequest, Code: "400"}},
		"a number as code where the gateway knows a word": {429, nil, `{"error":{"message":"m","code":429,"metadata":{}}}`,
			openai.Error{Status: 429, Message: "m", Type: openai.TypeRequests, Code: "rate_limit_exceeded"}},
		"at the top, as vLLM and Mistral do": {404, nil,
			`{"object":"error","message":"m","type":"NotFoundError","param":null,"code":404}`,
			openai.Error{Status: 404, Message: "m", Type: openai.TypeInvalidRequest, Code: "model_not_found"}},
		"a text, as Ollama does": {404, nil, `{"error":"model 'x' not found"}`,
			openai.Error{Status: 404, Message: "model 'x' not found", Type: openai.TypeInvalidRequest,
				Code: "model_not_found"}},
		"a detail": {422, nil, `{"detail":"m"}`,
			openai.Error{Status: 400, Message: "m", Type: openai.TypeInvalidRequest}},
		"in an array": {503, nil, `[{"error":{"code":503,"message":"m","status":"UNAVAILABLE"}}]`,
			openai.Error{Status: 503, Message: "m", Type: openai.TypeServer, Code: "overloaded"}},
		"white space around it": {500, nil, "\n\n{\"error\":{\"message\":\"m\"}} \n",
			openai.Error{Status: 500, Message: "m", Type: openai.TypeServer}},
		"a type without a code": {404, nil,
			`{"error":{"message":"m","type":"not_found_error","param":"model","code":null}}`,
			openai.Error{Status: 404, Message: "m", Type: openai.TypeInvalidRequest, Param: "model", Code: "model_not_found"}},
		"too many tokens": {429, nil, `{"message":"m","type":"too_many_tokens_error","code":"slow"}`,
			openai.Error{Status: 429, Message: "m", Type: openai.TypeTokens, Code: "slow"}},
		"too many requests": {429, nil, `{"error":{"message":"m","type":"rate_limit_error"}}`,
			openai.Error{Status: 429, Message: "m", Type: openai.TypeRequests, Code: "rate_limit_exceeded"}},
		"a waiting time": {429, http.Header{"Retry-After": {"3"}},
			`{"error":{"message":"m","type":"tokens","code":"rate_limit_exceeded"}}`,
			openai.Error{Status: 429, Message: "m", Type: "tokens", Code: "rate_limit_exceeded", RetryAfter: 3 * time.Second}},
		"an empty account": {429, nil,
			`{"error":{"message":"m","type":"insufficient_quota","code":"insufficient_quota"}}`,
			openai.Error{Status: 429, Message: "m", Type: "insufficient_quota", Code: "insufficient_quota", NoRetry: true}},
		"payment required": {402, nil,
			`{"error":{"message":"Insufficient Balance","type":"unknown_error","code":"invalid_request_error"}}`,
			openai.Error{Status: 429, Message: "Insufficient Balance", Type: openai.TypeInsufficientQuota,
				Code: "insufficient_quota", NoRetry: true}},
		"a refused credential": {401, nil,
			`{"error":{"message":"Incorrect API key provided: sk-abc***xyz.","type":"invalid_request_error","code":"invalid_api_key"}}`, refused},
		"a refused credential 400": {400, nil, `{"code":"invalid-argument","error":"Incorrect API key provided: xa***cd."}`,
			refused},
		"a refused credential 403": {403, nil, `{"error":{"message":"no","type":"authentication_error"}}`, refused},
		"keys are blotted out": {403, nil,
			`{"error":{"message":"Key 'sk-proj-0123456789' or Bearer abc-0123456789 has no access to it","type":"invalid_request_error"}}`,
			openai.Error{Status: 403, Message: "Key [redacted] or Bearer [redacted] has no access to it",
				Type: "invalid_request_error"}},
		"plain text": {429, nil, "Too many requests\n", openai.Error{Status: 429, Message: "Too many requests",
			Type: openai.TypeRequests, Code: "rate_limit_exceeded"}},
		"several texts": {400, nil, `{"error":["a","b"]}`, openai.Error{Status: 400, Message: "a; b",
			Type: openai.TypeInvalidRequest}},
		"several errors": {400, nil, `{"errors":[{"message":"a"},{"message":"b"}]}`,
			openai.Error{Status: 400, Message: "a; b", Type: openai.TypeInvalidRequest}},
		"half of an answer": {502, nil, `{"error":`,
			openai.Error{Status: 502, Message: "The provider answered with an error (status 502) and did not say more.",
				Type: openai.TypeServer}},
		"HTML": {502, nil, `<html>`,
			openai.Error{Status: 502, Message: "The provider answered with an error (status 502) and did not say more.",
				Type: openai.TypeServer}},
		"nothing": {504, nil, ``,
			openai.Error{Status: 504, Message: "The provider answered with an error (status 504) and did not say more.",
				Type: openai.TypeServer, Code: "upstream_timeout"}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, &c.want, DecodeError(c.status, c.header, []byte(c.body)))
		})
	}
}

func TestTheErrorsOfOpenAIAreItsOwn(t *testing.T) {
	d := Dialect{AsReceived: true}
	for in, want := range map[string]openai.Error{
		`{"message":"m","type":"invalid_request_error","param":"model","code":null}`: {Status: 404, Message: "m",
			Type: "invalid_request_error", Param: "model"},
		`{"message":"m","type":"some_new_error","param":null,"code":"x"}`: {Status: 404, Message: "m",
			Type: "some_new_error", Code: "x"},
		`{"message":"m","code":"DeploymentNotFound"}`: {Status: 404, Message: "m",
			Type: openai.TypeInvalidRequest, Code: "model_not_found"},
		// An empty account is one, whatever the status.
		`{"message":"m","type":"insufficient_quota","code":"organization_spend_limit_exceeded"}`: {Status: 429, Message: "m",
			Type: "insufficient_quota", Code: "organization_spend_limit_exceeded", NoRetry: true},
	} {
		require.Equal(t, &want, d.DecodeError(404, nil, []byte(`{"error":`+in+`}`)), in)
	}
}

func TestAVendorsOwnCodesAndTypes(t *testing.T) {
	d := Dialect{Codes: map[string]openai.Code{"1113": "insufficient_quota", "engine_busy": "overloaded",
		"filtered": "content_filter", "1211": "model_not_found"}}
	for in, want := range map[string]openai.Error{
		`{"message":"m","code":1113}`: {Status: 429, Message: "m", Type: openai.TypeInsufficientQuota,
			Code: "insufficient_quota", NoRetry: true},
		`{"message":"m","code":"1211"}`: {Status: 404, Message: "m", Type: openai.TypeInvalidRequest,
			Code: "model_not_found"},
		`{"message":"m","type":"engine_busy"}`: {Status: 503, Message: "m", Type: openai.TypeServer, Code: "overloaded"},
		`{"message":"m","type":"filtered"}`: {Status: 400, Message: "m", Type: openai.TypeInvalidRequest,
			Code: "content_filter"},
		`{"message":"m","code":"other"}`: {Status: 400, Message: "m", Type: openai.TypeInvalidRequest, Code: "other"},
	} {
		require.Equal(t, &want, d.DecodeError(400, nil, []byte(`{"error":`+in+`}`)), in)
	}
	require.Equal(t, 503, d.inBand([]byte(`{"error":{"message":"m","type":"engine_busy"}}`)).Status, "also in band")
}

var refused = openai.Error{Status: 502, Message: "The provider refused the gateway's credential.",
	Type: openai.TypeServer, Code: "upstream_auth_failed"}

func TestAnErrorInBandHasTheStatusThatTheVendorMeans(t *testing.T) { // pitfalls 24, 27
	for body, want := range map[string]int{
		`{"error":{"message":"m","code":400,"type":"BadRequestError"}}`:                       400,
		`{"error":{"message":"m","code":"503"}}`:                                              503,
		`{"error":{"message":"m","type":"requests","code":"rate_limit_exceeded"}}`:            429,
		`{"error":{"message":"m","type":"tokens","code":null}}`:                               429,
		`{"error":{"message":"m","type":"insufficient_quota","code":"insufficient_quota"}}`:   429,
		`{"error":{"message":"m","type":"overloaded_error"}}`:                                 503,
		`{"error":{"message":"m","type":"server_error","code":null}}`:                         500,
		`{"error":{"message":"m","type":"invalid_request_error","code":"invalid_api_key"}}`:   502,
		`{"error":{"message":"m","type":"invalid_request_error","code":"something of ours"}}`: 400,
		`{"error":{"message":"m","type":"timeout","code":null}}`:                              504,
		`{"error":"m"}`: 502,
		`{"error":{"message":"m","http_status_code":429}}`:                           429,
		`{"error":{"message":"m","http_status_code":422}}`:                           502, // TGI's, whatever has happened
		`{"error":{"message":"m","type":"invalid_request_error","status_code":503}}`: 503,
		`{"error":{"message":"m","type":"some_new_error"},"status_code":429}`:        429,
		`{"error":"m","error_type":"overloaded"}`:                                    503,
		`{"error":{"message":"m","type":"upstream_error"}}`:                          502,
		`{"object":"error","message":"m","type":"NotFoundError","code":404}`:         404,
		`{"error":{"message":"m","code":200}}`:                                       502,
		`[{"error":{"message":"m","code":429}}]`:                                     429,
	} {
		t.Run(body, func(t *testing.T) {
			_, a, err := New(Dialect{}).Encode(parse(t, `{"model":"m","messages":[{"role":"user","content":"x"}]}`),
				provider.Target{Model: "m"})
			require.NoError(t, err)
			_, _, err = chattest.Decode(a, []byte(body), "m", 1)
			var unary, streamed *openai.Error
			require.ErrorAs(t, err, &unary)
			require.Equal(t, want, unary.Status)
			require.ErrorAs(t, a.Stream(chat.Asked{}).Decode([]byte("data: "+body+"\n\n"), chattest.NewStream("m", 1, false)),
				&streamed)
			require.Equal(t, unary, streamed)
		})
	}
}
