package dialects_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/chat"
	"github.com/modelgate/modelgate/internal/inbound/kinds"
)

// A said is one kind of content, by the name that the table of lacks has for it. Want are the facts that a client must
// find in the answer.
type said struct {
	content string
	events  []chat.Event
	want    []string
}

func member(name, value string) chat.Event { return chat.Member(0, name, []byte(value)) }

const (
	png   = `{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}`
	page  = `{"type":"url_citation","url_citation":{"start_index":0,"end_index":2,"title":"A","url":"https://a.example/"}}`
	other = `{"type":"url_citation","url_citation":{"start_index":0,"end_index":2,"title":"B","url":"https://b.example/","content":"b"}}`
)

var call = []chat.Event{chat.ToolCall(0, 0, "c1", "f"), chat.Arguments(0, 0, `{"a":`), chat.Arguments(0, 0, `1}`)}

var all = []said{
	{"text", []chat.Event{chat.Text(0, "he"), chat.Text(0, "llo")}, []string{"text hello"}},
	{"a refusal", []chat.Event{chat.Refusal(0, "no")}, []string{"text no", "finish refused"}},
	{"reasoning", []chat.Event{chat.Reasoning(0, "h"), chat.Reasoning(0, "m"), chat.Text(0, "hi")},
		[]string{"reasoning hm", "text hi"}},
	{"signatures of thinking", []chat.Event{chat.Reasoning(0, "hm"),
		chat.Signed(0, []byte(`{"type":"thinking","thinking":"hm","signature":"s"}`)),
		chat.Signed(0, []byte(`{"type":"redacted_thinking","data":"d"}`)), chat.Text(0, "hi"),
		member("thinking_blocks", `[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"redacted_thinking","data":"d"}]`)},
		[]string{"signed s", "signed d"}},
	{"calls", call, []string{`call c1 f {"a":1}`, "finish calls"}},
	{"text and calls", slices.Concat([]chat.Event{chat.Text(0, "hi")}, call), []string{"text hi", `call c1 f {"a":1}`}},
	{"images", []chat.Event{chat.Text(0, "hi"), member("images", "["+png+","+png+"]")},
		[]string{"text hi", "image image/png AAAA", "image image/png AAAA"}},
	{"images alone", []chat.Event{member("images", "["+png+"]")}, []string{"image image/png AAAA"}},
	{"images and calls", slices.Concat(call, []chat.Event{member("images", "["+png+"]")}),
		[]string{`call c1 f {"a":1}`, "image image/png AAAA"}},
	{"images by address", []chat.Event{member("images", `[{"type":"image_url","image_url":{"url":"https://i.example/"}}]`)},
		[]string{"image https://i.example/"}},
	{"citations", []chat.Event{chat.Text(0, "hi"), member("annotations", "["+page+","+other+"]")},
		[]string{"cites https://a.example/ A", "cites https://b.example/ B"}},
	{"citations after calls", slices.Concat([]chat.Event{chat.Text(0, "hi")}, call,
		[]chat.Event{member("annotations", "["+page+"]")}),
		[]string{"text hi", "cites https://a.example/ A", `call c1 f {"a":1}`}},
	{"citations alone", []chat.Event{member("annotations", "["+page+"]")}, []string{"cites https://a.example/ A"}},
	{"audio", []chat.Event{member("audio", `{"id":"a","data":"AAAA","transcript":"hi"}`)}, []string{"audio AAAA"}},
	{"log probabilities", []chat.Event{{Kind: chat.KindText, Text: "hi",
		Logprobs: []byte(`{"content":[{"token":"hi","logprob":-0.5,"top_logprobs":[]}]}`)}}, []string{"logprob -0.5"}},
	{"further choices", []chat.Event{chat.Text(0, "hi"), chat.Text(1, "ho"), chat.Finish(1, "stop")},
		[]string{"choice ho"}},
	{"thought signatures of Google", []chat.Event{{Kind: chat.KindToolCall, ID: "c1", Name: "f",
		JSON: []byte(`{"google":{"thought_signature":"g"}}`)}, chat.Arguments(0, 0, "{}")}, []string{"google g"}},
	{"the end", []chat.Event{chat.Text(0, "hi"), chat.Finish(0, "length")}, []string{"finish length"}},
	{"a filter", []chat.Event{chat.Text(0, "hi"), chat.Finish(0, "content_filter")}, []string{"finish refused"}},
	{"usage", []chat.Event{chat.Text(0, "hi"), chat.Usage(openai.Usage{PromptTokens: 100, CompletionTokens: 20,
		TotalTokens: 120, CachedTokens: 60, ReasoningTokens: 5})}, []string{"tokens 100 60 20 5"}},
	{"tokens written to a cache", []chat.Event{chat.Text(0, "hi"), chat.Usage(openai.Usage{PromptTokens: 100,
		CompletionTokens: 20, TotalTokens: 120, CacheWriteTokens: 30})}, []string{"written 30"}},
	{"the service tier", []chat.Event{chat.Text(0, "hi"), chat.Tier("priority")}, []string{"tier priority"}},
}

// Every kind of content is told alike in each dialect, whole and streamed, unless the table of lacks has it.
func TestContentIsToldAlike(t *testing.T) {
	found := map[kinds.Lack]bool{}
	for _, c := range all {
		for dialect, d := range readers {
			lacks := slices.ContainsFunc(kinds.Lacks, func(l kinds.Lack) bool {
				return l.Content == c.content && l.Dialect == dialect
			})
			for _, stream := range []bool{false, true} {
				var got []string
				answer := d.read(d.written(t, stream, c.whole(stream)))
				for _, fact := range c.want {
					if !slices.Contains(answer, fact) {
						got = append(got, fact)
					}
				}
				if lacks {
					require.NotEmpty(t, got, "%s has %s (streamed %v): take it out of the table", dialect, c.content, stream)
					found[kinds.Lack{Content: c.content, Dialect: dialect}] = true
					continue
				}
				require.Empty(t, got, "%s lacks %s (streamed %v): %q", dialect, c.content, stream, answer)
			}
		}
	}
	require.Len(t, found, len(kinds.Lacks), "each lack is of a dialect and a content that are tried")
}

// whole returns the events of an answer with the content. A whole answer has the calls after all else, as
// chat.Answer.Emit has.
func (c *said) whole(stream bool) []chat.Event {
	events := []chat.Event{chat.Begin("a"), chat.Role(0)}
	var calls []chat.Event
	finish := "stop"
	for _, e := range c.events {
		if e.Kind == chat.KindToolCall || e.Kind == chat.KindArguments {
			finish = "tool_calls"
			if !stream {
				calls = append(calls, e)
				continue
			}
		}
		events = append(events, e)
	}
	events = append(events, calls...)
	if !slices.ContainsFunc(events, func(e chat.Event) bool { return e.Kind == chat.KindFinish && e.Choice == 0 }) {
		events = append(events, chat.Finish(0, finish))
	}
	return append(events, chat.End())
}

// blocksOf puts the blocks of a streamed message together, as Anthropic's SDKs do.
func blocksOf(events []gjson.Result) string {
	var blocks []map[string]string // members as JSON
	set := func(i int, name, value string, joined bool) {
		if joined {
			value = string(openai.AppendString(nil, gjson.Parse(blocks[i][name]).Str+gjson.Parse(value).Str))
		}
		blocks[i][name] = value
	}
	usage, stop := "{}", "null"
	for _, e := range events {
		i := int(e.Get("index").Int())
		switch d := e.Get("delta"); e.Get("type").Str {
		case "message_start":
			usage = e.Get("message.usage").Raw
		case "content_block_start":
			blocks = append(blocks, map[string]string{})
			e.Get("content_block").ForEach(func(name, v gjson.Result) bool { blocks[i][name.Str] = v.Raw; return true })
		case "content_block_delta":
			switch d.Get("type").Str {
			case "text_delta":
				set(i, "text", d.Get("text").Raw, true)
			case "thinking_delta":
				set(i, "thinking", d.Get("thinking").Raw, true)
			case "signature_delta":
				set(i, "signature", d.Get("signature").Raw, false)
			case "input_json_delta":
				if blocks[i]["input"] == "{}" {
					blocks[i]["input"] = `""`
				}
				set(i, "input", d.Get("partial_json").Raw, true)
			case "citations_delta":
				list := strings.TrimSuffix(strings.TrimPrefix(blocks[i]["citations"], "["), "]")
				if list != "" {
					list += ","
				}
				set(i, "citations", "["+list+d.Get("citation").Raw+"]", false)
			}
		case "message_delta":
			stop = d.Get("stop_reason").Raw
			last := e.Get("usage").Raw
			if !gjson.Get(usage, "service_tier").Exists() || gjson.Get(last, "service_tier").Exists() {
				usage = last
			}
		}
	}
	var out []string
	for _, b := range blocks {
		if b["type"] == `"tool_use"` && gjson.Parse(b["input"]).Type == gjson.String {
			b["input"] = gjson.Parse(b["input"]).Str
		}
		var ms []string
		for name, v := range b {
			ms = append(ms, `"`+name+`":`+v)
		}
		out = append(out, "{"+strings.Join(ms, ",")+"}")
	}
	return `{"content":[` + strings.Join(out, ",") + `],"stop_reason":` + stop + `,"usage":` + usage + `}`
}
