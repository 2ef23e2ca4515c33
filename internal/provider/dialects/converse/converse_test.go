package converse

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/catalog"
	"github.com/modelgate/modelgate/internal/chat"
	"github.com/modelgate/modelgate/internal/chat/chattest"
	"github.com/modelgate/modelgate/internal/eventstream"
	"github.com/modelgate/modelgate/internal/provider"
)

const claude = "us.anthropic.claude-sonnet-4-6"

// encode encodes a chat completion for a model.
func encode(t *testing.T, model, body string) (provider.Request, provider.Answer) {
	t.Helper()
	r, err := chattest.Carrier().ParseChatRequest([]byte(body))
	require.NoError(t, err)
	req, a, err := Codec{}.Encode(r, provider.Target{Config: &configv1.Provider{Vendor: name}, Model: model,
		Facts: catalog.New(nil).Facts(name, model)})
	require.NoError(t, err)
	return req, a
}

// A stock client gives back text and calls alone: what the model signed comes back with the ids.
func TestSignedReasoningSurvivesAStockClient(t *testing.T) {
	const content = `[{"reasoningContent":{"reasoningText":{"text":"First: \u00e9","signature":"c2lnMQ=="}}},` +
		`{"reasoningContent":{"redactedContent":"` + "YWJjZA==" + `"}},{"text":"Let me see."},` +
		`{"toolUse":{"toolUseId":"tooluse_1","name":"w","input":{"c":"Paris"}}},` +
		`{"reasoningContent":{"reasoningText":{"text":"Second","signature":"c2lnMg=="}}},{"toolUse":{"toolUseId":"tooluse_2","name":"w","input":{}}}]`
	const head = `{"model":"m","tools":[{"type":"function","function":{"name":"w"}}],"messages":[{"role":"user","content":"Weather?"}`
	_, a := encode(t, claude, head+`]}`)
	out, _, err := chattest.Decode(a, []byte(`{"output":{"message":{"content":`+content+
		`}},"stopReason":"tool_use","usage":{}}`), "m", 1)
	require.NoError(t, err)
	message := gjson.GetBytes(out, "choices.0.message")
	require.Equal(t, "First: éSecond", message.Get("reasoning_content").Str)
	ids := message.Get("tool_calls.#.id").Array()
	require.Len(t, ids, 2)
	results := ""
	for _, id := range ids {
		results += `,{"role":"tool","tool_call_id":` + id.Raw + `,"content":"15"}`
	}
	stock := `,{"role":"assistant","content":` + message.Get("content").Raw + `,"tool_calls":` +
		message.Get("tool_calls").Raw + `}` + results
	knowing := strings.Replace(stock, `{"role":"assistant"`, `{"role":"assistant","thinking_blocks":`+
		message.Get("thinking_blocks").Raw, 1)
	for client, said := range map[string]string{"stock": stock, "knowing": knowing} {
		t.Run(client, func(t *testing.T) {
			req, _ := encode(t, claude, head+said+`]}`)
			require.JSONEq(t, content, gjson.GetBytes(req.Body, "messages.1.content").Raw)
			require.Equal(t, []string{"tooluse_1", "tooluse_2"},
				strs(gjson.GetBytes(req.Body, "messages.2.content.#.toolResult.toolUseId")))
		})
	}
	t.Run("another model", func(t *testing.T) {
		req, _ := encode(t, "us.amazon.nova-lite-v1:0", head+knowing+`]}`)
		require.NotContains(t, string(req.Body), "reasoningContent")
		require.NotContains(t, string(req.Body), "c2lnMQ")
	})
}

func strs(list gjson.Result) []string {
	var out []string
	for _, v := range list.Array() {
		out = append(out, v.Str)
	}
	return out
}

func TestFinishReasons(t *testing.T) {
	for stop, want := range map[string][2]string{ // without and with calls
		"end_turn": {"stop", "tool_calls"}, "tool_use": {"stop", "tool_calls"}, "stop_sequence": {"stop", "tool_calls"},
		"max_tokens": {"length", "length"}, "model_context_window_exceeded": {"length", "length"},
		"guardrail_intervened": {"content_filter", "content_filter"},
		"content_filtered":     {"content_filter", "content_filter"},
		"refusal":              {"content_filter", "content_filter"}, "pause_turn": {"stop", "tool_calls"},
		"":           {"stop", "tool_calls"},
		"new_reason": {"stop", "tool_calls"},
	} {
		for i, calls := range []bool{false, true} {
			got, err := finishReason(stop, calls)
			require.NoError(t, err)
			require.Equal(t, want[i], got, "%s, calls %v", stop, calls)
		}
	}
	for _, stop := range []string{"malformed_model_output", "malformed_tool_use"} {
		_, err := finishReason(stop, true)
		require.ErrorContains(t, err, "could not read")
	}
}

func TestAnExceptionIsTheSameInAStreamAndAsAnAnswer(t *testing.T) {
	for class, want := range map[string]struct {
		status int
		code   string
	}{
		"ThrottlingException": {429, "rate_limit_exceeded"}, "ServiceQuotaExceededException": {429, "rate_limit_exceeded"},
		"ValidationException": {400, ""}, "ModelTimeoutException": {504, "upstream_timeout"},
		"ServiceUnavailableException": {503, "overloaded"},
		"InternalServerException":     {500, ""}, "ModelStreamErrorException": {502, ""},
		"ResourceNotFoundException": {404, "model_not_found"},
		"ExpiredTokenException":     {502, "upstream_auth_failed"}, "SomeNewException": {502, ""},
	} {
		e := DecodeError(502, http.Header{"X-Amzn-Errortype": {class + ":http://internal.amazon.com/"}},
			[]byte(`{"message":"what happened"}`))
		require.Equal(t, want.status, e.Status, class)
		require.Equal(t, want.code, string(e.Code), class)
		again := DecodeError(502, nil, []byte(`{"__type":"com.amazon.bedrock#`+class+`","Message":"what happened"}`))
		require.Equal(t, e, again)
		if want.code != "upstream_auth_failed" {
			require.Equal(t, "what happened", e.Message)
		}
	}
}

func TestWhatIsNoEventStreamIsNoAnswer(t *testing.T) {
	_, a := encode(t, claude, `{"model":"m","stream":true,"messages":[{"role":"user","content":"x"}]}`)
	for _, body := range []string{`{"message":"something went wrong"}`, "<html><body>Bad Gateway</body></html>",
		strings.Repeat("\xff", 64)} {
		w := chattest.NewStream("m", 1, false)
		s := a.Stream(w.Asked)
		require.ErrorIs(t, s.Decode([]byte(body), w), provider.ErrNotAnAnswer)
		require.Empty(t, w.Take())
	}
	w := chattest.NewStream("m", 1, false)
	require.ErrorIs(t, a.Stream(w.Asked).Decode([]byte("0123456789ab"), w), eventstream.ErrPrelude)
	require.ErrorIs(t, a.Stream(w.Asked).Close(w), provider.ErrTruncated)
}

func TestWhoMadeAModel(t *testing.T) {
	for model, want := range map[string]string{
		"amazon.nova-lite-v1:0": "amazon", "us.anthropic.claude-sonnet-4-6": "anthropic",
		"global.anthropic.claude-opus-5":                                                            "anthropic",
		"arn:aws:bedrock:us-east-1::foundation-model/meta.llama3-1-8b-instruct-v1:0":                "meta",
		"arn:aws:bedrock:us-east-1:012345678901:inference-profile/eu.mistral.pixtral-large-2502-v1": "mistral",
		"arn:aws:bedrock:us-east-1:012345678901:application-inference-profile/abc123":               "",
		"": "", "anthropic": "anthropic", "my-anthropic-model": "",
	} {
		require.Equal(t, want, publisher(model), model)
	}
	adaptive := &configv1.Capabilities{Thinking: configv1.Thinking_ADAPTIVE.Enum()}
	require.Equal(t, families["anthropic"], familyOf("arn:aws:bedrock:us-east-1:1:application-inference-profile/abc",
		adaptive))
	require.Equal(t, other, familyOf("arn:aws:bedrock:us-east-1:1:application-inference-profile/abc", nil))
}

func TestTheIdOfAnAnswer(t *testing.T) {
	const body = `{"output":{"message":{"content":[{"text":"x"}]}},"stopReason":"end_turn"}`
	id := func(request, answer string, created int64) string {
		_, a := encode(t, claude, request)
		out, _, err := chattest.Decode(a, []byte(answer), "m", created)
		require.NoError(t, err)
		return gjson.GetBytes(out, "id").Str
	}
	const request = `{"model":"m","messages":[{"role":"user","content":"x"}]}`
	first := id(request, body, 1)
	require.Regexp(t, "^chatcmpl-[0-9a-f]{32}$", first)
	require.Equal(t, first, id(request, body, 1))
	require.NotEqual(t, first, id(request, body, 2))
	require.NotEqual(t, first, id(request, body+" ", 1))
	require.NotEqual(t, first, id(strings.Replace(request, "x", "y", 1), body, 1))
}

// Time and memory grow with a request, and not faster.
func TestManyDocumentsOfOneName(t *testing.T) {
	part := `,{"type":"file","file":{"filename":"a.txt","file_data":"aGk="}}`
	req, _ := encode(t, claude, `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"x"}`+
		strings.Repeat(part, 10_000)+`]}]}`)
	names := map[string]bool{}
	for _, n := range gjson.GetBytes(req.Body, "messages.0.content.#.document.name").Array() {
		names[n.Str] = true
	}
	require.Len(t, names, 10_000)
}

func TestErrorsOfAnyDepth(t *testing.T) {
	e := DecodeError(500, nil, bytes.Repeat([]byte(`{"error":[`), 4<<20))
	require.Equal(t, "The provider answered with status 500.", e.Message)
}

// Some models announce a block of text with an empty start; blocks of other kinds are not the client's.
func TestABlockThatBeginsWithAnEmptyStart(t *testing.T) {
	_, a := encode(t, claude, `{"model":"m","stream":true,"messages":[{"role":"user","content":"x"}]}`)
	for start, want := range map[string]string{`{}`: "kept", `{"image":{"format":"png"}}`: "",
		`{"toolResult":{"toolUseId":"t"}}`: ""} {
		w := chattest.NewStream("m", 1, false)
		s := a.Stream(w.Asked).(*stream)
		w.Put(chat.Begin("id"))
		var began, said event
		require.NoError(t, json.Unmarshal([]byte(`{"contentBlockIndex":0,"start":`+start+`}`), &began, provider.Lenient))
		s.startBlock(&began, w)
		require.NoError(t, json.Unmarshal([]byte(`{"contentBlockIndex":0,"delta":{"text":"kept"}}`), &said, provider.Lenient))
		s.delta(&said, w)
		require.Equal(t, want != "", strings.Contains(string(w.Take()), `"content":"kept"`), start)
	}
}
