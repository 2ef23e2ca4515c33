package openai_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/testenv/work"
)

const hello = `{"model":"m","messages":[{"role":"user","content":"hi"}]}`

// with returns the hello request with one more member.
func with(member string) string { return hello[:len(hello)-1] + "," + member + "}" }

func message(m string) string { return `{"model":"m","messages":[` + m + `]}` }

func TestParseChatRequestAccepts(t *testing.T) {
	for name, body := range map[string]string{
		"the least":                   hello,
		"white space around":          " \n" + hello + "\n\t ",
		"defaults spelled out":        with(`"n":1,"frequency_penalty":0,"presence_penalty":0.0,"logprobs":false,"stop":null,"temperature":1,"tools":null,"user":null`),
		"members of a provider's own": with(`"top_k":5,"thinking":{"type":"enabled"},"x":[1,{"y":null}]`),
		"stop as a string":            with(`"stop":"END"`),
		"stop as an array":            with(`"stop":["a","b"]`),
		"tool choice by name":         with(`"tool_choice":{"type":"function","function":{"name":"f"}}`),
		"top_logprobs with logprobs":  with(`"logprobs":true,"top_logprobs":20`),
		"stream options with stream": with(
			`"stream":true,"stream_options":{"include_usage":true,"include_obfuscation":false}`),
		"stream options null": with(`"stream_options":null`),
		"a JSON schema": with(
			`"response_format":{"type":"json_schema","json_schema":{"name":"s","schema":{"type":"object"}}}`),
		"assistant with calls, no text": message(`{"role":"user","content":"x"},{"role":"assistant","tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":""}}]},{"role":"tool","tool_call_id":"1","content":""}`),
		"assistant null content":        message(`{"role":"assistant","content":null,"refusal":"no"}`),
		"parts":                         message(`{"role":"user","content":[{"type":"text","text":""},{"type":"image_url","image_url":{"url":"data:,"}},{"type":"input_audio","input_audio":{"data":"","format":"wav"}},{"type":"file","file":{}},{"type":"other"}]}`),
		"every role": message(
			`{"role":"system","content":"a"},{"role":"developer","content":"a"},{"role":"function","name":"f","content":null}`),
		"escaped member names": `{"mod\u0065l":"m","messages":[{"r\u006fle":"user","content":"hi"}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			before := strings.Clone(body)
			r, err := openai.ParseChatRequest([]byte(body))
			require.NoError(t, err)
			require.Equal(t, "m", r.Model)
			_, err = r.Chat()
			require.NoError(t, err)
			require.Equal(t, before, string(r.Body))
			require.Equal(t, before, string(r.Edit()), "no edit, no change")
		})
	}
}

func TestParseChatRequestRefuses(t *testing.T) {
	for _, c := range []struct{ name, body, param, code string }{
		{"nothing", ``, "", "invalid_json"},
		{"not JSON", `{"model":`, "", "invalid_json"},
		{"form data", `model=m&messages=x`, "", "invalid_json"},
		{"more after the end", hello + `{}`, "", "invalid_json"},
		{"invalid UTF-8", with("\"user\":\"\xff\""), "", "invalid_json"},
		{"an array", `[]`, "", "invalid_type"},
		{"null", `null`, "", "invalid_type"},
		{"no model", `{"messages":[{"role":"user","content":"x"}]}`, "model", "missing_required_parameter"},
		{"null model", `{"model":null,"messages":[{"role":"user","content":"x"}]}`, "model", "missing_required_parameter"},
		{"model in another case is no model", `{"Model":"m","messages":[{"role":"user","content":"x"}]}`, "model",
			"missing_required_parameter"},
		{"model twice", `{"model":"a","model":"b","messages":[{"role":"user","content":"x"}]}`, "model",
			"duplicate_parameter"},
		{"model twice, once escaped", `{"model":"a","mod\u0065l":"b","messages":[{"role":"user","content":"x"}]}`, "model",
			"duplicate_parameter"},
		{"role twice", message(`{"role":"user","role":"system","content":"x"}`), "messages[0].role", "duplicate_parameter"},
		{"empty model", `{"model":" ","messages":[{"role":"user","content":"x"}]}`, "model", "invalid_value"},
		{"model a number", `{"model":1,"messages":[{"role":"user","content":"x"}]}`, "model", "invalid_type"},
		{"no messages", `{"model":"m"}`, "messages", "missing_required_parameter"},
		{"null messages", `{"model":"m","messages":null}`, "messages", "missing_required_parameter"},
		{"empty messages", message(``), "messages", "empty_array"},
		{"messages a string", `{"model":"m","messages":"hi"}`, "messages", "invalid_type"},
		{"a message a string", message(`"hi"`), "messages[0]", "invalid_type"},
		{"no role", message(`{"content":"x"}`), "messages[0].role", "missing_required_parameter"},
		{"unknown role", message(`{"role":"user","content":"x"},{"role":"boss","content":"x"}`), "messages[1].role",
			"invalid_value"},
		{"role a number", message(`{"role":1,"content":"x"}`), "messages[0].role", "invalid_type"},
		{"no content", message(`{"role":"user"}`), "messages[0].content", "missing_required_parameter"},
		{"null content of a user", message(`{"role":"user","content":null}`), "messages[0].content",
			"missing_required_parameter"},
		{"content a number", message(`{"role":"user","content":5}`), "messages[0].content", "invalid_type"},
		{"content an object", message(`{"role":"user","content":{}}`), "messages[0].content", "invalid_type"},
		{"a part a string", message(`{"role":"user","content":["x"]}`), "messages[0].content[0]", "invalid_type"},
		{"a part without type", message(`{"role":"user","content":[{"text":"x"}]}`), "messages[0].content[0].type",
			"missing_required_parameter"},
		{"a text part without text", message(`{"role":"user","content":[{"type":"text"}]}`), "messages[0].content[0].text",
			"missing_required_parameter"},
		{"an image URL a string", message(`{"role":"user","content":[{"type":"image_url","image_url":"x"}]}`),
			"messages[0].content[0].image_url", "invalid_type"},
		{"a tool message without id", message(`{"role":"tool","content":"x"}`), "messages[0].tool_call_id",
			"missing_required_parameter"},
		{"max_tokens 0", with(`"max_tokens":0`), "max_tokens", "integer_below_min_value"},
		{"max_tokens -1", with(`"max_tokens":-1`), "max_tokens", "integer_below_min_value"},
		{"max_tokens 1.5", with(`"max_tokens":1.5`), "max_tokens", "invalid_type"},
		{"max_tokens a string", with(`"max_tokens":"5"`), "max_tokens", "invalid_type"},
		{"max_tokens beyond int64", with(`"max_tokens":99999999999999999999`), "max_tokens", "integer_above_max_value"},
		{"max_completion_tokens 0", with(`"max_completion_tokens":0`), "max_completion_tokens", "integer_below_min_value"},
		{"top_logprobs 21", with(`"logprobs":true,"top_logprobs":21`), "top_logprobs", "integer_above_max_value"},
		{"top_logprobs -1", with(`"logprobs":true,"top_logprobs":-1`), "top_logprobs", "integer_below_min_value"},
		{"top_logprobs without logprobs", with(`"top_logprobs":2`), "top_logprobs", "invalid_value"},
		{"n 0", with(`"n":0`), "n", "integer_below_min_value"},
		{"temperature 2.1", with(`"temperature":2.1`), "temperature", "decimal_above_max_value"},
		{"temperature a string", with(`"temperature":"hot"`), "temperature", "invalid_type"},
		{"top_p -0.1", with(`"top_p":-0.1`), "top_p", "decimal_below_min_value"},
		{"stream a string", with(`"stream":"true"`), "stream", "invalid_type"},
		{"stream options without stream", with(`"stream_options":{"include_usage":true}`), "stream_options",
			"invalid_value"},
		{"include_usage a number", with(`"stream":true,"stream_options":{"include_usage":1}`),
			"stream_options.include_usage", "invalid_type"},
		{"tools an object", with(`"tools":{}`), "tools", "invalid_type"},
		{"a tool a string", with(`"tools":["x"]`), "tools[0]", "invalid_type"},
		{"unknown tool choice", with(`"tool_choice":"maybe"`), "tool_choice", "invalid_value"},
		{"stop a number", with(`"stop":1`), "stop", "invalid_type"},
		{"stop of numbers", with(`"stop":["a",1]`), "stop[1]", "invalid_type"},
		{"unknown response format", with(`"response_format":{"type":"xml"}`), "response_format.type", "invalid_value"},
		{"JSON schema missing", with(`"response_format":{"type":"json_schema"}`), "response_format.json_schema",
			"missing_required_parameter"},
		{"JSON schema without name", with(`"response_format":{"type":"json_schema","json_schema":{}}`),
			"response_format.json_schema.name", "missing_required_parameter"},
		{"a wrong type before bad syntax", with(`"n":"x","y":01`), "", "invalid_json"},
		{"a member of anything twice", with(`"x":[{"a":1,"\u0061":2}]`), "x[0].a", "duplicate_parameter"},
		{"half a surrogate pair", with(`"user":"\ud83d"`), "", "invalid_json"},
		{"no object, and more after its end", `[] {}`, "", "invalid_type"},
		{"tool calls an object", message(`{"role":"assistant","tool_calls":{}}`), "messages[0].tool_calls", "invalid_type"},
		{"a tool call a string", message(`{"role":"assistant","tool_calls":[{},"x"]}`), "messages[0].tool_calls[1]",
			"invalid_type"},
		{"audio wanted, not described", with(`"modalities":["text","audio"]`), "audio", "missing_required_parameter"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := openai.ParseChatRequest([]byte(c.body))
			if err == nil { // what other vendors may take
				err = r.RejectDeviations()
			}
			var e *openai.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, 400, e.Status)
			require.Equal(t, openai.TypeInvalidRequest, e.Type)
			require.Equal(t, c.param, e.Param, e.Message)
			require.Equal(t, c.code, string(e.Code), e.Message)
			require.NotEmpty(t, e.Message)
		})
	}
}

func TestEdit(t *testing.T) {
	body := ` { "model" : "m" , "a":1, "messages":[{"role":"user","content":"hi"}] , "z" : {"model":"not this"} } `
	set := func(name, value string) openai.Edit { return openai.Edit{Name: name, Value: []byte(value)} }
	for _, c := range []struct {
		name  string
		edits []openai.Edit
		want  string
	}{
		{"replace", []openai.Edit{set("model", `"x"`)},
			` { "model" : "x" , "a":1, "messages":[{"role":"user","content":"hi"}] , "z" : {"model":"not this"} } `},
		{"remove in the middle", []openai.Edit{{Name: "a"}},
			` { "model" : "m" , "messages":[{"role":"user","content":"hi"}] , "z" : {"model":"not this"} } `},
		{"remove the first", []openai.Edit{{Name: "model"}},
			` { "a":1, "messages":[{"role":"user","content":"hi"}] , "z" : {"model":"not this"} } `},
		{"remove the last", []openai.Edit{{Name: "z"}},
			` { "model" : "m" , "a":1, "messages":[{"role":"user","content":"hi"}] } `},
		{"remove the last two", []openai.Edit{{Name: "z"}, {Name: "messages"}}, ` { "model" : "m" , "a":1 } `},
		{"remove all", []openai.Edit{{Name: "z"}, {Name: "messages"}, {Name: "a"}, {Name: "model"}}, ` {  } `},
		{"remove all and add", []openai.Edit{{Name: "z"}, {Name: "messages"}, {Name: "a"}, {Name: "model"}, set("b", `2`)},
			` {  "b":2} `},
		{"add", []openai.Edit{set("b", `2`), set("c", `"d"`)},
			` { "model" : "m" , "a":1, "messages":[{"role":"user","content":"hi"}] , "z" : {"model":"not this"} ,"b":2,"c":"d"} `},
		{"remove what is not there", []openai.Edit{{Name: "b"}}, body},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := openai.ParseChatRequest([]byte(body))
			require.NoError(t, err)
			require.Equal(t, c.want, string(r.Edit(c.edits...)))
			require.Equal(t, body, string(r.Body), "the body itself is not changed")
		})
	}
}

func TestGetReturnsTheValueAsItStands(t *testing.T) {
	r, err := openai.ParseChatRequest([]byte(with(`"top_p": 1e-1 , "user":"\u0041"`)))
	require.NoError(t, err)
	require.Equal(t, `1e-1`, string(r.Get("top_p")))
	require.Equal(t, `"\u0041"`, string(r.Get("user")))
	require.Nil(t, r.Get("absent"))
}

func FuzzParseChatRequest(f *testing.F) {
	f.Add([]byte(hello))
	f.Add(
		[]byte(
			with(`"stream":true,"stream_options":{"include_usage":true},"stop":["a"],"response_format":{"type":"json_schema","json_schema":{"name":"s"}}`)))
	f.Add([]byte(message(`{"role":"user","content":[{"type":"text","text":"x"}]}`)))
	f.Add(
		[]byte(
			with(`"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"function":{"name":"f"}}]}},"top_k":1.5,"x":"\ud83d\ude00\/"`)))
	f.Add([]byte(message(`{"role":"assistant","tool_calls":[{"id":"` + team.Carry("a", []byte(`{"x":[1]}`)) +
		`"}]},{"role":"tool","tool_call_id":"a_-mg-\u005fx","content":[]}`)))
	f.Add(conversation(0))
	f.Fuzz(func(t *testing.T, body []byte) {
		sent := string(body)
		var r *openai.ChatRequest
		var err error
		work.Require(t, len(body), 200, func() {
			if r, err = openai.ParseChatRequest(body); err == nil {
				_, err = r.Chat()
			}
		})
		require.Equal(t, sent, string(body))
		var e *openai.Error
		if err != nil {
			require.ErrorAs(t, err, &e)
			require.Equal(t, 400, e.Status)
		}
		if r == nil {
			return
		}
		require.True(t, json.Valid(body))
		// What was accepted can be edited, and is then accepted with the edit.
		edited, err := openai.ParseChatRequest(r.Edit(openai.Edit{Name: "model", Value: []byte(`"other"`)}))
		require.NoError(t, err)
		require.Equal(t, "other", edited.Model)
	})
}

// FuzzChat compares the typed form with what the reader of the standard library makes of a text and a number.
func FuzzChat(f *testing.F) {
	f.Add(`a \n \" \\ \/ \u00e9 \ud83d\ude00`, "1.5e3")
	f.Add(`\ud83d`, "-0")
	f.Fuzz(func(t *testing.T, text, number string) {
		body := `{"model":"m","user":"` + text + `","top_k":` + number + `,"messages":[{"role":"user","content":"` + text +
			`"}],"metadata":{"` + text + `":` + number + `}}`
		r, err := openai.ParseChatRequest([]byte(body))
		if err != nil || !json.Valid([]byte(number)) || !json.Valid([]byte(`"`+text+`"`)) {
			return
		}
		var want struct {
			User string `json:"user"`
			TopK *int64 `json:"top_k"`
		}
		wrong := json.Unmarshal([]byte(body), &want)
		chat, err := r.Chat()
		require.Equal(t, wrong == nil, err == nil, "%v, %v", wrong, err)
		if err != nil {
			return
		}
		require.Equal(t, want.User, chat.User)
		require.Equal(t, want.TopK, chat.TopK)
		require.Equal(t, want.User, chat.Messages[0].Content.Text())
		require.Equal(t, `{"`+text+`":`+number+`}`, string(chat.Metadata))
	})
}

func BenchmarkParseChatRequest(b *testing.B) {
	long := message(`{"role":"system","content":"` + strings.Repeat("lorem ipsum ", 400) +
		`"},{"role":"user","content":"` + strings.Repeat("dolor sit ", 1500) + `"}`)
	for name, body := range map[string]string{
		"200B": with(`"temperature":0.5,"max_tokens":100,"stream":true,"user":"somebody-or-other-with-a-longish-name"`),
		"20KB": long} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := openai.ParseChatRequest([]byte(body)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
