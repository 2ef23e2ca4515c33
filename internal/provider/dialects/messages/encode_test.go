package messages

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/catalog"
	"github.com/modelgate/modelgate/internal/chat/chattest"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/turns"
)

// Models of each kind that the rules tell apart.
const (
	oldest   = "claude-3-haiku-20240307"    // no thinking
	budgeted = "claude-sonnet-4-20250514"   // thinking by budget, no structured output
	middle   = "claude-sonnet-4-5-20250929" // thinking by budget, structured output
	adaptive = "claude-opus-4-6"
	newest   = "claude-opus-4-8"
	always   = "claude-fable-5"
)

// carrier is of the client of the tests.
var carrier = chattest.Carrier()

// request completes a request body of which a test states only what matters.
func request(t *testing.T, members string) *openai.ChatRequest {
	t.Helper()
	if !strings.Contains(members, `"messages"`) {
		members = strings.TrimSuffix(`"messages":[{"role":"user","content":"x"}],`+members, ",")
	}
	r, err := carrier.ParseChatRequest([]byte(`{"model":"m",` + members + `}`))
	require.NoError(t, err)
	return r
}

// facts are those of the built-in catalog.
var facts = catalog.New(nil)

func target(config *configv1.Provider, model string) provider.Target {
	return provider.Target{Config: config, Model: model, Facts: facts.Facts("anthropic", model)}
}

func encode(t *testing.T, model, members string, drop bool) (gjson.Result, *Request, *Answer, error) {
	t.Helper()
	config := &configv1.Provider{}
	if drop {
		config.UnsupportedParameters = configv1.UnsupportedParameters_DROP
	}
	out, answer, err := Encode("acme", request(t, members), target(config, model))
	if err != nil {
		return gjson.Result{}, nil, nil, err
	}
	body, err := out.JSON()
	require.NoError(t, err)
	require.True(t, gjson.ValidBytes(body))
	return gjson.ParseBytes(body), out, answer, nil
}

// A rule is one rule of the encoder: what stands at a path of the vendor's request, "" meaning nothing.
type rule struct {
	name    string
	model   string // middle where empty
	members string
	path    string
	want    string
	dropped []string
}

func testRules(t *testing.T, rules []rule) {
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			if r.model == "" {
				r.model = middle
			}
			got, out, _, err := encode(t, r.model, r.members, false)
			require.NoError(t, err)
			require.Equal(t, r.want, got.Get(r.path).Raw, "%s", got.Raw)
			require.Equal(t, r.dropped, out.Dropped)
		})
	}
}

const (
	toolA  = `{"type":"function","function":{"name":"a","parameters":{"type":"object"}}}`
	toolB  = `{"type":"function","function":{"name":"b","parameters":{"type":"object"}}}`
	callA1 = `{"id":"1","type":"function","function":{"name":"a","arguments":"{}"}}`
	callA2 = `{"id":"2","type":"function","function":{"name":"a","arguments":"{}"}}`
)

func TestMaxTokensAndSampling(t *testing.T) {
	testRules(t, []rule{
		{name: "TestPitfall54 max_tokens is required, so the model's maximum is asked for", model: oldest,
			path: "max_tokens", want: "4096"},
		{name: "TestPitfall54 max_completion_tokens wins", members: `"max_tokens":5,"max_completion_tokens":7`,
			path: "max_tokens", want: "7"},
		{name: "a temperature above the vendor's range is its end", members: `"temperature":1.7`, path: "temperature",
			want: "1"},
		{name: "temperature and top_p together where the model takes both", model: budgeted,
			members: `"temperature":0.5,"top_p":0.9`, path: "top_p", want: "0.9"},
		{name: "top_p gives way to temperature", members: `"temperature":0.5,"top_p":0.9`, path: "top_p",
			dropped: []string{"top_p"}},
		{name: "a default temperature gives way to top_p", members: `"temperature":1,"top_p":0.9`, path: "top_p",
			want: "0.9"},
		{name: "a default top_p goes without a word", members: `"temperature":0.5,"top_p":1`, path: "top_p"},
		{name: "models that refuse sampling get none", model: newest, members: `"temperature":0,"top_p":0.5,"top_k":3`,
			path: "temperature", dropped: []string{"temperature", "top_p", "top_k"}},
		{name: "their default temperature goes without a word", model: newest, members: `"temperature":1`,
			path: "temperature"},
		{name: "thinking takes no temperature", members: `"temperature":0,"reasoning_effort":"low"`, path: "temperature",
			dropped: []string{"temperature"}},
		{name: "top_k passes", members: `"top_k":40`, path: "top_k", want: "40"},
		{name: "blank stop sequences are left out", members: `"stop":["\n","END"]`, path: "stop_sequences", want: `["END"]`,
			dropped: []string{"stop"}},
		{name: "only blank stop sequences are none", members: `"stop":"\n\n"`, path: "stop_sequences",
			dropped: []string{"stop"}},
		{name: "the user's id", members: `"user":"u"`, path: "metadata", want: `{"user_id":"u"}`},
		{name: "the safety identifier is the user's id", members: `"safety_identifier":"s"`, path: "metadata",
			want: `{"user_id":"s"}`},
		{name: "two identifiers do not both fit", members: `"user":"u","safety_identifier":"s"`, path: "metadata.user_id",
			want: `"u"`, dropped: []string{"safety_identifier"}},
		{name: "service tier auto", members: `"service_tier":"auto"`, path: "service_tier", want: `"auto"`},
		{name: "service tier default", members: `"service_tier":"default"`, path: "service_tier", want: `"standard_only"`},
		{name: "automatic caching passes", members: `"cache_control":{"type":"ephemeral"}`, path: "cache_control",
			want: `{"type":"ephemeral"}`},
	})
}

func TestConversation(t *testing.T) {
	testRules(t, []rule{
		{name: "TestPitfall46 results are one turn, in the order of the calls, before text", path: "messages.2.content",
			members: `"tools":[` + toolA + `],"messages":[{"role":"user","content":"x"},
			{"role":"assistant","content":null,"tool_calls":[` + callA1 + `,` + callA2 + `]},{"role":"user","content":"hm"},{"role":"tool","tool_call_id":"2","content":"two"},{"role":"tool","tool_call_id":"1","content":"one"},{"role":"user","content":"so?"}]`,
			want: `[{"type":"tool_result","tool_use_id":"1","content":"one"},{"type":"tool_result","tool_use_id":"2","content":"two"},{"type":"text","text":"hm"},{"type":"text","text":"so?"}]`},
		{name: "TestPitfall46 a missing result is synthesised", path: "messages.2.content.0", members: `"tools":[` + toolA +
			`],"messages":[{"role":"user","content":"x"},{"role":"assistant","tool_calls":[` + callA1 + `]}]`,
			want: `{"type":"tool_result","tool_use_id":"1","content":"The tool call was not executed.","is_error":true}`},
		{name: "an orphan result becomes text", path: "messages.0.content",
			members: `"messages":[{"role":"user","content":"x"},{"role":"tool","tool_call_id":"9","content":"r"}]`,
			want:    `[{"type":"text","text":"x"},{"type":"text","text":"Tool result (9):"},{"type":"text","text":"r"}]`},
		{name: "a result that comes too late is an orphan", path: "messages.4.content.0.text", members: `"tools":[` + toolA +
			`],"messages":[{"role":"user","content":"x"},{"role":"assistant","tool_calls":[` + callA1 +
			`]},{"role":"user","content":"y"},{"role":"assistant","content":"z"},{"role":"tool","tool_call_id":"1","content":"late"}]`,
			want: `"Tool result (1):"`},
		{name: "TestPitfall47 a result in parts with an image", path: "messages.1.content.0.content", members: `"tools":[` +
			toolA + `],"messages":[{"role":"assistant","tool_calls":[` + callA1 +
			`]},{"role":"tool","tool_call_id":"1","content":[{"type":"text","text":"a"},{"type":"text","text":""},{"type":"image_url","image_url":{"url":"https://e.example/i.png"}}]}]`,
			want: `[{"type":"text","text":"a"},{"type":"image","source":{"type":"url","url":"https://e.example/i.png"}}]`},
		{name: "TestPitfall47 an empty result has no content", path: "messages.1.content.0", members: `"tools":[` + toolA +
			`],"messages":[{"role":"assistant","tool_calls":[` + callA1 + `]},{"role":"tool","tool_call_id":"1","content":""}]`,
			want: `{"type":"tool_result","tool_use_id":"1"}`},
		{name: "TestPitfall48 blank text blocks are left out", path: "messages",
			members: `"messages":[{"role":"user","content":[{"type":"text","text":""},{"type":"text","text":" \n"},{"type":"text","text":"x"}]},{"role":"assistant","content":""},{"role":"user","content":"y"}]`,
			want:    `[{"role":"user","content":[{"type":"text","text":"x"},{"type":"text","text":"y"}]}]`},
		{name: "TestPitfall48 a user's empty turn is not empty", path: "messages",
			members: `"messages":[{"role":"user","content":""}]`,
			want:    `[{"role":"user","content":[{"type":"text","text":"."}]}]`},
		{name: "TestPitfall48 a conversation of system messages only", path: "messages",
			members: `"messages":[{"role":"system","content":"s"}]`,
			want:    `[{"role":"user","content":[{"type":"text","text":"."}]}]`},
		{name: "consecutive assistant messages are one turn", path: "messages.1.content.#",
			members: `"messages":[{"role":"user","content":"x"},{"role":"assistant","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"y"}]`, want: `2`},
		{name: "a refusal is the assistant's text", path: "messages.1.content",
			members: `"messages":[{"role":"user","content":"x"},{"role":"assistant","refusal":"no"},{"role":"user","content":"y"}]`, want: `[{"type":"text","text":"no"}]`},
		{name: "the beginning of an answer loses white space at its end", path: "messages.1.content.0.text",
			members: `"messages":[{"role":"user","content":"x"},{"role":"assistant","content":"a \n"}]`, want: `"a"`},
		{name: "a model that begins its own answers is told to go on", model: newest, path: "messages.2",
			members: `"messages":[{"role":"user","content":"x"},{"role":"assistant","content":"a"}]`,
			want:    `{"role":"user","content":[{"type":"text","text":"Continue."}]}`},
		{name: "a legacy function call and its result", path: "messages.#.content.0.{type,id,tool_use_id}",
			members: `"messages":[{"role":"user","content":"x"},{"role":"assistant","content":null,"function_call":{"name":"a","arguments":"{}"}},{"role":"function","name":"a","content":"r"}]`,
			want: `[{"type":"text"},{"type":"tool_use","id":"` + turns.Identifier("fn:a") +
				`"},{"type":"tool_result","tool_use_id":"` + turns.Identifier("fn:a") + `"}]`},
		{name: "an id that is used again is sent as another, on both sides", path: "messages.#.content.0.{id,tool_use_id}",
			members: `"tools":[` + toolA + `],"messages":[{"role":"assistant","tool_calls":[` + callA1 +
				`]},{"role":"tool","tool_call_id":"1","content":"r"},{"role":"assistant","tool_calls":[` + callA1 +
				`]},{"role":"tool","tool_call_id":"1","content":"s"}]`,
			want: `[{"id":"1"},{"tool_use_id":"1"},{"id":"` + turns.Identifier("1 again 2") + `"},{"tool_use_id":"` +
				turns.Identifier("1 again 2") + `"}]`},
		{name: "TestPitfall13 arguments that are not JSON are kept within an object", path: "messages.0.content.0.input",
			members: `"tools":[` + toolA +
				`],"messages":[{"role":"assistant","tool_calls":[{"id":"1","type":"function","function":{"name":"a","arguments":"{\"x\":"}}]}]`, want: `{"_raw":"{\"x\":"}`},
		{name: "arguments that are no object are kept within one", path: "messages.0.content.0.input", members: `"tools":[` +
			toolA +
			`],"messages":[{"role":"assistant","tool_calls":[{"id":"1","type":"function","function":{"name":"a","arguments":"[1]"}}]}]`, want: `{"_raw":"[1]"}`},
		{name: "arguments keep their order and numbers", path: "messages.0.content.0.input", members: `"tools":[` + toolA +
			`],"messages":[{"role":"assistant","tool_calls":[{"id":"1","type":"function","function":{"name":"a","arguments":"{\"z\":1.0,\"a\":\"<&>\"}"}}]}]`, want: `{"z":1.0,"a":"<&>"}`},
	})
}

func TestSystemMessages(t *testing.T) {
	const between = `"messages":[{"role":"system","content":"a"},{"role":"user","content":"x"},{"role":"developer","content":[{"type":"text","text":"b","cache_control":{"type":"ephemeral"}}]},{"role":"assistant","content":"y"},{"role":"system","content":"c"},{"role":"user","content":"z"}]`
	testRules(t, []rule{
		{name: "TestPitfall59 the first is the system's", members: between, path: "system",
			want: `[{"type":"text","text":"a"}]`},
		{name: "TestPitfall59 others stay where they stand, with their cache breakpoints", members: between,
			path: "messages.0.content.1",
			want: `{"type":"text","text":"<system-message>\nb\n</system-message>","cache_control":{"type":"ephemeral"}}`},
		{name: "TestPitfall59 a model that takes one after the user's turn gets it there", model: newest, members: between,
			path: "messages.#.role", want: `["user","system","assistant","user"]`},
		{name: "TestPitfall59 and only there", model: newest, members: between, path: "messages.3.content.0.text",
			want: `"<system-message>\nc\n</system-message>"`},
	})
}

func TestPitfall60CacheControlIsKept(t *testing.T) {
	const e = `"cache_control":{"type":"ephemeral"}`
	testRules(t, []rule{
		{name: "on a part", members: `"messages":[{"role":"user","content":[{"type":"text","text":"x",` + e + `}]}]`,
			path: "messages.0.content.0.cache_control.type", want: `"ephemeral"`},
		{name: "on an image",
			members: `"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://e.example/"},` + e +
				`}]}]`, path: "messages.0.content.0.cache_control.type", want: `"ephemeral"`},
		{name: "on a message with a string", members: `"messages":[{"role":"user","content":"x",` + e + `}]`,
			path: "messages.0.content.0.cache_control.type", want: `"ephemeral"`},
		{name: "on a tool message", members: `"messages":[{"role":"assistant","tool_calls":[` + callA1 +
			`]},{"role":"tool","tool_call_id":"1","content":"r",` + e + `}]`, path: "messages.1.content.0",
			want: `{"type":"tool_result","tool_use_id":"1","content":"r",` + e + `}`},
		{name: "on a part of a tool message", members: `"messages":[{"role":"assistant","tool_calls":[` + callA1 +
			`]},{"role":"tool","tool_call_id":"1","content":[{"type":"text","text":"r",` + e + `}]}]`,
			path: "messages.1.content.0", want: `{"type":"tool_result","tool_use_id":"1","content":"r",` + e + `}`},
		{name: "on a call", members: `"messages":[{"role":"assistant","tool_calls":[` + callA1 + `],` + e + `}]`,
			path: "messages.0.content.0.cache_control.type", want: `"ephemeral"`},
		{name: "on a tool", members: `"tools":[{"type":"function","function":{"name":"a"},` + e + `}]`,
			path: "tools.0.cache_control.type", want: `"ephemeral"`},
	})
}

func TestPitfall62Media(t *testing.T) {
	part := func(p string) string { return `"messages":[{"role":"user","content":[` + p + `]}]` }
	img := func(url string) string { return part(`{"type":"image_url","image_url":{"url":"` + url + `"}}`) }
	file := func(data string) string {
		return part(`{"type":"file","file":{"filename":"f","file_data":"` + data + `"}}`)
	}
	const png = "iVBORw0KGgoAAAANSUhEUgAAAAE="
	testRules(t, []rule{
		{name: "a data URI", members: img("data:image/png;base64," + png), path: "messages.0.content.0.source",
			want: `{"type":"base64","media_type":"image/png","data":"` + png + `"}`},
		{name: "the bytes say what it is", members: img("data:image/jpeg;base64," + png),
			path: "messages.0.content.0.source.media_type", want: `"image/png"`},
		{name: "nobody else says what it is", members: img("data:;base64," + png),
			path: "messages.0.content.0.source.media_type", want: `"image/png"`},
		{name: "a usual misspelling", members: img("data:image/jpg;base64,AAAA"),
			path: "messages.0.content.0.source.media_type", want: `"image/jpeg"`},
		{name: "percent-encoded", members: img("data:image/gif,GIF89a%01"), path: "messages.0.content.0.source",
			want: `{"type":"base64","media_type":"image/gif","data":"R0lGODlhAQ=="}`},
		{name: "an image that is a PDF", members: img("data:application/pdf;base64,JVBERi0xLjcK"),
			path: "messages.0.content.0.type", want: `"document"`},
		{name: "a file that is an image", members: file("data:image/png;base64," + png), path: "messages.0.content.0.type",
			want: `"image"`},
		{name: "a file by URL", members: file("https://e.example/a.pdf"), path: "messages.0.content.0",
			want: `{"type":"document","source":{"type":"url","url":"https://e.example/a.pdf"},"title":"f"}`},
		{name: "a PDF without a data URI", members: file("JVBERi0xLjcK"), path: "messages.0.content.0.source.media_type",
			want: `"application/pdf"`},
		{name: "text", members: file("aMOpbGxv"), path: "messages.0.content.0.source",
			want: `{"type":"text","media_type":"text/plain","data":"héllo"}`},
	})
	for name, members := range map[string]string{
		"an image by a scheme that is not the web's": img("file:///etc/passwd"),
		"an image format that the vendor lacks":      img("data:image/bmp;base64,AAAA"),
		"a data URI without data":                    img("data:image/png;base64,"),
		"a data URI without a comma":                 img("data:image/png"),
		"audio": part(
			`{"type":"input_audio","input_audio":{"data":"AAAA","format":"wav"}}`),
		"a file by id":                 part(`{"type":"file","file":{"file_id":"file-1"}}`),
		"a file of bytes":              file("AAECAw=="),
		"a file that is not base64":    file("%%%"),
		"a part of another provider":   part(`{"type":"video_url","video_url":{"url":"https://e.example/"}}`),
		"an image in a system message": `"messages":[{"role":"system","content":[{"type":"image_url","image_url":{"url":"https://e.example/"}}]}]`,
	} {
		t.Run(name, func(t *testing.T) {
			_, _, _, err := encode(t, middle, members, true)
			e, ok := errors.AsType[*openai.Error](err)
			require.True(t, ok, "%v", err)
			require.Equal(t, 400, e.Status)
			require.Equal(t, openai.TypeInvalidRequest, e.Type)
			require.True(t, strings.HasPrefix(e.Param, "messages[0].content[0]"), "%s", e.Param)
		})
	}
}

func TestUnsupportedParameters(t *testing.T) {
	for param, members := range map[string]string{
		"n":                  `"n":2`,
		"logprobs":           `"logprobs":true`,
		"frequency_penalty":  `"frequency_penalty":0.1`,
		"presence_penalty":   `"presence_penalty":-1`,
		"logit_bias":         `"logit_bias":{"1":2}`,
		"modalities":         `"modalities":["text","audio"],"audio":{"voice":"a","format":"wav"}`,
		"prediction":         `"prediction":{"type":"content","content":"x"}`,
		"web_search_options": `"web_search_options":{}`,
		"functions":          `"functions":[{"name":"f"}]`,
		"verbosity":          `"verbosity":"high"`,
		"service_tier":       `"service_tier":"flex"`,
		"reasoning_effort":   `"reasoning_effort":"high"`,
	} {
		t.Run(param, func(t *testing.T) {
			_, _, _, err := encode(t, oldest, members, false)
			e, ok := errors.AsType[*openai.Error](err)
			require.True(t, ok, "%v", err)
			require.Equal(t, "unsupported_parameter", string(e.Code))
			require.Equal(t, param, e.Param)
			require.Contains(t, e.Message, "'acme'")
			got, out, _, err := encode(t, oldest, members, true)
			require.NoError(t, err)
			require.Contains(t, out.Dropped, param)
			require.False(t, got.Get(param).Exists())
		})
	}
}

func TestWhatMessagesHoldBesidesIsNamed(t *testing.T) {
	_, out, _, err := encode(t, middle,
		`"messages":[{"role":"user","name":"ann","content":[{"type":"image_url","image_url":{"url":"https://e.example/","detail":"auto"}}]},{"role":"user","name":"bob","content":[{"type":"image_url","image_url":{"url":"https://e.example/","detail":"high"}}]}]`, false)
	require.NoError(t, err)
	require.Equal(t, []string{"messages.name", "messages.content.image_url.detail"}, out.Dropped)
}

func TestIgnoredMembersAreNamed(t *testing.T) {
	_, out, _, err := encode(t, middle, `"seed":1,"store":true,"logit_bias":null,"a\r\nb":1,"empty":{ },"off":false`,
		false)
	require.NoError(t, err)
	require.Equal(t, []string{"seed", "store", "other"}, out.Dropped, "a name with a line end does not reach a header")
	var many strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&many, `"m%d":1,`, i)
	}
	_, out, _, err = encode(t, middle, strings.TrimSuffix(many.String(), ","), false)
	require.NoError(t, err)
	require.Len(t, out.Dropped, turns.MaxNoted)
}

// Requests of many members must not take time in proportion to the square of their number.
func TestLargeRequestsAreEncodedInTime(t *testing.T) {
	const n = 10000
	var calls, results, turns strings.Builder
	for i := range n {
		fmt.Fprintf(&calls, `{"id":"c%d","type":"function","function":{"name":"f%d","arguments":"{}"}},`, i, i)
		fmt.Fprintf(&results, `{"role":"tool","tool_call_id":"c%d","content":"r"},`, n-1-i)
		turns.WriteString(`{"role":"assistant","tool_calls":[` + callA1 + `]},{"role":"user","content":"x"},`)
	}
	members := `"messages":[{"role":"user","content":"x"},{"role":"assistant","tool_calls":[` +
		strings.TrimSuffix(calls.String(), ",") + `]},` + results.String() + turns.String() +
		`{"role":"user","content":"y"}]`
	r := request(t, members)
	_, err := r.Chat()
	require.NoError(t, err)
	begun := time.Now()
	out, _, err := Encode("acme", r, target(nil, middle))
	require.NoError(t, err)
	require.Less(t, time.Since(begun), 5*time.Second, "in proportion it takes a tenth of a second")
	require.Len(t, out.Messages, 2+1+2*n)
	require.Equal(t, "c0", out.Messages[2].content[0].toolUseID)
}
