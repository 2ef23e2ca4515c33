package gemini

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/chat/chattest"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/private"
)

// third and second are targets of a model that thinks by level, and of one that thinks by a budget.
func third() provider.Target  { return target(configv1.Thinking_LEVEL) }
func second() provider.Target { return target(configv1.Thinking_BUDGET) }

func target(thinking configv1.Thinking) provider.Target {
	return provider.Target{Config: &configv1.Provider{Name: "gemini", Vendor: "gemini"}, Model: "m",
		Facts: &configv1.ModelFacts{Capabilities: &configv1.Capabilities{Thinking: &thinking}}}
}

// encode encodes a request with the members, and returns it and the reader of its answer.
func encode(t *testing.T, members string, to provider.Target) (gjson.Result, provider.Answer) {
	t.Helper()
	r, err := chattest.Carrier().ParseChatRequest([]byte(`{"model":"public",` + members + `}`))
	require.NoError(t, err)
	m, answer, err := Encode(Service{Vendor: "gemini"}, r, to)
	require.NoError(t, err)
	body, err := m.JSON()
	require.NoError(t, err)
	return gjson.ParseBytes(body), answer
}

const signedCalls = `{"candidates":[{"content":{"parts":[
	{"functionCall":{"name":"a","args":{"x":1},"id":"8hd01vsf"},"thoughtSignature":"c2lnbmF0dXJl"},
	{"functionCall":{"name":"a","args":{"x":2}}}]},"finishReason":"STOP"}],"modelVersion":"m","responseId":"r"}`

func TestPitfall57SignaturesComeBackFromAStockClient(t *testing.T) {
	_, answer := encode(t, `"messages":[{"role":"user","content":"x"}]`, third())
	out, _, err := chattest.Decode(answer, []byte(signedCalls), "public", 1)
	require.NoError(t, err)
	calls := gjson.GetBytes(out, "choices.0.message.tool_calls")
	first, second := calls.Get("0"), calls.Get("1")
	for name, extra := range map[string]string{
		"kept by the id alone":         "",
		"echoed":                       `,"extra_content":{"google":{"thought_signature":"c2lnbmF0dXJl"}}`,
		"the echo wins over the id's":  `,"extra_content":{"google":{"thought_signature":"ZWNobw=="}}`,
		"an echo of another's is none": `,"extra_content":{"other":{}}`,
	} {
		t.Run(name, func(t *testing.T) {
			call := func(c gjson.Result, extra string) string {
				return `{"id":` + c.Get("id").Raw + `,"type":"function","function":` + c.Get("function").Raw + extra + `}`
			}
			body, _ := encode(t, `"messages":[{"role":"user","content":"x"},{"role":"assistant","content":null,"tool_calls":[`+
				call(first, extra)+`,`+call(second, "")+`]},
				{"role":"tool","tool_call_id":`+second.Get("id").Raw+`,"content":"two"},{"role":"tool","tool_call_id":`+first.Get("id").Raw+`,"content":"one"}]`, third())
			want := "c2lnbmF0dXJl"
			if strings.Contains(extra, "ZWNobw==") {
				want = "ZWNobw=="
			}
			parts := body.Get("contents.1.parts")
			require.Equal(t, want, parts.Get("0.thoughtSignature").String())
			require.Equal(t, "8hd01vsf", parts.Get("0.functionCall.id").String(), "the vendor's id")
			require.False(t, parts.Get("1.thoughtSignature").Exists(), "only the first of parallel calls is signed")
			require.False(t, parts.Get("1.functionCall.id").Exists(), "the vendor gave it no id")
			require.Equal(t, `["one","two"]`, body.Get("contents.2.parts.#.functionResponse.response.output").Raw)
		})
	}
}

func TestUnsignedCallsAreMarkedOnlyWhereTheModelDemandsIt(t *testing.T) {
	const members = `"messages":[{"role":"user","content":"x"},{"role":"assistant","tool_calls":[{"id":"toolu_1","type":"function","function":{"name":"a","arguments":"{}"}}]}]`
	body, _ := encode(t, members, third())
	require.Equal(t, private.Unsigned, body.Get("contents.1.parts.0.thoughtSignature").String())
	body, _ = encode(t, members, second())
	require.False(t, body.Get("contents.1.parts.0.thoughtSignature").Exists())
}

func TestPitfall6And9And12FinishReasons(t *testing.T) {
	for _, c := range []struct {
		vendor enum
		calls  bool
		want   string
	}{
		{"STOP", false, "stop"}, {"STOP", true, "tool_calls"}, {"1", false, "stop"}, {"MAX_TOKENS", false, "length"},
		{"MAX_TOKENS", true, "length"}, {"2", false, "length"}, {"SAFETY", false, "content_filter"},
		{"3", true, "content_filter"},
		{"RECITATION", false, "content_filter"}, {"LANGUAGE", false, "content_filter"},
		{"BLOCKLIST", false, "content_filter"},
		{"PROHIBITED_CONTENT", false, "content_filter"}, {"SPII", false, "content_filter"},
		{"IMAGE_SAFETY", false, "content_filter"},
		{"IMAGE_PROHIBITED_CONTENT", false, "content_filter"}, {"IMAGE_RECITATION", false, "content_filter"},
		{"MODEL_ARMOR", false, "content_filter"}, {"OTHER", false, "stop"}, {"FINISH_REASON_UNSPECIFIED", false, "stop"},
		{"UNEXPECTED_TOOL_CALL", true, "tool_calls"}, {"SOMETHING_NEW", false, "stop"}, {"", true, "tool_calls"},
	} {
		require.Equal(t, c.want, finishReason(c.vendor, c.calls), "%+v", c)
	}
}

func TestPitfall52Schemas(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"what is understood stays": {`{"type":"object","properties":{"a":{"type":["string","null"],"enum":["x"]}},"required":["a"],"additionalProperties":false}`, `{"type":"object","properties":{"a":{"type":["string","null"],"enum":["x"]}},"required":["a"],"additionalProperties":false}`},
		"a reference is replaced": {`{"$defs":{"a":{"type":"string"}},"properties":{"x":{"$ref":"#/$defs/a"}}}`,
			`{"properties":{"x":{"type":"string"}}}`},
		"with what stands beside it": {`{"definitions":{"a":{"type":"string","title":"A"}},"properties":{"x":{"$ref":"#/definitions/a","title":"X","description":"d"}}}`, `{"properties":{"x":{"type":"string","title":"X","description":"d"}}}`},
		"a circle becomes an object": {`{"type":"object","properties":{"x":{"$ref":"#"}}}`,
			`{"type":"object","properties":{"x":{"type":"object","properties":{"x":{"type":"object"}}}}}`},
		"a circle through the root": {`{"$ref":"#/$defs/n","$defs":{"n":{"type":"object","properties":{"n":{"$ref":"#/$defs/n"}}}}}`, `{"type":"object","properties":{"n":{"type":"object"}}}`},
		"a reference to nowhere": {`{"properties":{"x":{"$ref":"#/$defs/none"},"y":{"$ref":7}}}`,
			`{"properties":{"x":{"type":"object"},"y":{"type":"object"}}}`},
		"a constant": {`{"const":"a"}`, `{"enum":["a"]}`},
		"a constant that is no string": {`{"type":"boolean","const":true}`,
			`{"type":"boolean","description":"{\"const\":true}"}`},
		"null in an enumeration": {`{"type":["string","null"],"enum":["a",null]}`,
			`{"type":["string","null"],"enum":["a"]}`},
		"one of": {`{"oneOf":[{"const":1},{"type":"null"}]}`,
			`{"anyOf":[{"enum":[1]},{"type":"null"}]}`},
		"all of one": {`{"allOf":[{"$ref":"#/$defs/a"}],"description":"d","$defs":{"a":{"type":"string"}}}`,
			`{"type":"string","description":"d"}`},
		"all of two": {`{"allOf":[{"properties":{"a":{"type":"string"}},"required":["a"]},{"properties":{"b":{"type":"string"}},"required":["b"]}]}`, `{"properties":{"a":{"type":"string"},"b":{"type":"string"}},"required":["a","b"]}`},
		"what is not enforced is told": {`{"type":"string","description":"d","minLength":1,"pattern":"a"}`,
			`{"type":"string","description":"d\n\n{\"minLength\":1,\"pattern\":\"a\"}"}`},
		"what says nothing is left out": {`{"$schema":"x","$id":"y","title":"t","examples":[1],"x-order":1}`,
			`{"title":"t"}`},
		"nullable": {`{"type":"string","nullable":true}`, `{"type":["string","null"]}`},
		"anything goes": {`{"properties":{"a":true},"additionalProperties":true,"items":true}`,
			`{"properties":{"a":{}},"additionalProperties":true}`},
		"a property that is named so": {`{"properties":{"const":{"type":"string"},"$ref":{"type":"string"}}}`,
			`{"properties":{"const":{"type":"string"},"$ref":{"type":"string"}}}`},
		"escapes in references": {`{"$defs":{"a/b":{"type":"string"}},"items":{"$ref":"#/$defs/a~1b"}}`,
			`{"items":{"type":"string"}}`},
		"formats that the vendor knows": {`{"type":"string","format":"date-time"}`,
			`{"type":"string","format":"date-time"}`},
		"places in an array": {`{"type":"array","items":[{"type":"string"},{"const":2}]}`,
			`{"type":"array","prefixItems":[{"type":"string"},{"enum":[2]}]}`},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, string(cleaned([]byte(c.in)))) })
	}
}

func cleaned(text []byte) []byte {
	v, err := new(encoder).cleanSchema(text, "p")
	if err != nil {
		panic(err)
	}
	return v
}

func TestSchemasDoNotGrowWithoutMeasure(t *testing.T) {
	in := `{"type":"object","properties":{"x":{"$ref":"#/$defs/d0"}},"$defs":{"d40":{"type":"string"}`
	for i := range 40 {
		d, next := `"d`+string(rune('0'+i/10))+string(rune('0'+i%10))+`"`, `{"$ref":"#/$defs/d`+
			string(rune('0'+(i+1)/10))+string(rune('0'+(i+1)%10))+`"}`
		in += `,` + strings.Replace(d, `"d0`, `"d`, 1) + `:{"type":"object","properties":{"a":` +
			strings.Replace(next, "/d0", "/d", 1) + `,"b":` + strings.Replace(next, "/d0", "/d", 1) + `,"c":` +
			strings.Replace(next, "/d0", "/d", 1) + `}}`
	}
	start := time.Now()
	require.Less(t, len(cleaned([]byte(in+`}}`))), 3*256<<10)
	require.Less(t, time.Since(start), 5*time.Second)
	nested := `{"type":"string"}`
	for range 1000 {
		nested = `{"items":` + nested + `}`
	}
	require.Contains(t, string(cleaned([]byte(nested))), `{"type":"object"}`)
}

func TestPitfall28AStreamRequestAnsweredWithOneObject(t *testing.T) {
	_, answer := encode(t, `"stream":true,"messages":[{"role":"user","content":"x"}]`, second())
	w := chattest.NewStream("public", 1, false)
	s := answer.Stream(w.Asked)
	require.NoError(t, s.Decode([]byte(`{"candidates":[{"content":{"parts":[{"text":"a"}]},"finishReason":"STOP"}]}`), w))
	require.NoError(t, s.Close(w))
	require.Contains(t, string(w.Take()), `"content":"a"`)
}

func TestErrors(t *testing.T) {
	body := func(code, status, message, details string) string {
		return `{"error":{"code":` + code + `,"message":"` + message + `","status":"` + status + `","details":[` + details +
			`]}}`
	}
	credential := openai.Error{Status: 502, Type: openai.TypeServer, Code: "upstream_auth_failed",
		Message: "The provider refused the gateway's credential."}
	for name, c := range map[string]struct {
		status int
		body   string
		want   openai.Error
	}{
		"a leaked key": {403, body("403", "PERMISSION_DENIED",
			"Your API key was reported as leaked. Please use another API key.", ""), credential},
		"a permission of ours": {403, body("403", "PERMISSION_DENIED", "Permission 'aiplatform.endpoints.predict' denied",
			`{"reason":"IAM_PERMISSION_DENIED"}`), credential},
		"a token that expired": {401, body("401", "UNAUTHENTICATED", "Request had invalid authentication credentials.",
			""), credential},
		"in an array": {404, `[` + body("404", "NOT_FOUND", "none", "") + `]`,
			openai.Error{Status: 404, Type: "invalid_request_error", Code: "model_not_found", Message: "none"}},
		"a precondition": {400, body("400", "FAILED_PRECONDITION",
			"User location is not supported for the API use.", ""), openai.Error{Status: 400, Type: "invalid_request_error",
			Message: "User location is not supported for the API use."}},
		"cancelled": {499, body("499", "CANCELLED", "cancelled", ""),
			openai.Error{Status: 504, Type: "server_error", Code: "upstream_timeout", Message: "cancelled"}},
		"a deadline": {504, body("504", "DEADLINE_EXCEEDED", "late", ""),
			openai.Error{Status: 504, Type: "server_error", Code: "upstream_timeout", Message: "late"}},
		"a delay that is no time": {429, body("429", "RESOURCE_EXHAUSTED", "wait",
			`{"retryDelay":"soon"},{"retryDelay":7},7`), openai.Error{Status: 429, Type: "requests",
			Code: "rate_limit_exceeded", Message: "wait"}},
		"an error that is text": {500, `{"error":"bad"}`, openai.Error{Status: 500, Type: "server_error", Message: "bad"}},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, &c.want, DecodeError(c.status, nil, []byte(c.body))) })
	}
	e := DecodeError(429, http.Header{"Retry-After": {"3"}},
		[]byte(body("429", "RESOURCE_EXHAUSTED", "wait", `{"retryDelay":"48s"}`)))
	require.Equal(t, 3*time.Second, e.RetryAfter, "the header is nearer")
}

func TestPathsOfModels(t *testing.T) {
	for model, want := range map[string]string{
		"gemini-2.5-flash":        "/models/gemini-2.5-flash",
		"models/gemini-2.5-flash": "/models/gemini-2.5-flash",
		"tunedModels/mine":        "/tunedModels/mine",
		"a/b/c?d":                 "/a/b%2Fc%3Fd",
	} {
		require.Equal(t, want, Resource(model))
	}
}

func TestArgumentsInPieces(t *testing.T) {
	text := func(s string) *string { return &s }
	for want, args := range map[string][]partialArg{
		`{"a":{"b":[1,{"c d":true}],"e":null},"f":"xy"}`: {
			{Path: "$.a.b[0]", Number: []byte("1")}, {Path: "$.a.b[1]['c d']", Bool: []byte("true")}, {Path: "$.a.e"},
			{Path: "$.f", String: text("x"), WillContinue: true}, {Path: "$.f", String: text("y"), WillContinue: true},
			{Path: "$.f", String: text("")},
		},
		`"x"`:                     {{Path: "$", String: text("x")}},
		`{"a":{"b":"x"},"c":"z"}`: {{Path: "$.a.b", String: text("x")}, {Path: "c", String: text("z")}},
	} {
		var o openCall
		for i := range args {
			o.add(args[i : i+1])
		}
		require.Equal(t, want, string(o.arguments()))
	}
}

func TestErrorsOfAnyDepth(t *testing.T) {
	e := DecodeError(500, nil, bytes.Repeat([]byte(`{"error":[`), 4<<20))
	require.Equal(t, "The provider answered with status 500.", e.Message)
}
