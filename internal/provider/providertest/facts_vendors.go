package providertest

import (
	"slices"

	"github.com/tidwall/gjson"
)

// finishReasonOf maps the finish reasons of all vendors to OpenAI's.
var finishReasonOf = map[string]string{
	"stop": "stop", "length": "length", "tool_calls": "tool_calls", "content_filter": "content_filter",
	"function_call": "function_call",
	"end_turn":      "stop", "stop_sequence": "stop", "pause_turn": "stop", "max_tokens": "length",
	"model_context_window_exceeded": "length",
	"tool_use":                      "tool_calls", "refusal": "content_filter", "guardrail_intervened": "content_filter",
	"content_filtered": "content_filter",
	"STOP":             "stop", "MAX_TOKENS": "length", "SAFETY": "content_filter", "RECITATION": "content_filter",
	"BLOCKLIST":          "content_filter",
	"PROHIBITED_CONTENT": "content_filter", "SPII": "content_filter", "IMAGE_SAFETY": "content_filter",
	"COMPLETE": "stop", "STOP_SEQUENCE": "stop", "TOOL_CALL": "tool_calls",
}

// finished takes a vendor's finish reason, if there is one.
func (f *answerFacts) finished(reasons ...gjson.Result) {
	for _, r := range reasons {
		if r.Str != "" {
			f.finish = finishReasonOf[r.Str]
		}
	}
}

// readMessages reads Anthropic's events, or a whole message. What its own servers run is none of the client's calls.
func (f *answerFacts) readMessages(rec *recording, events []gjson.Result) {
	f.known = true
	var parts fragments
	done := !rec.streamed
	usage, id := map[string]int64{}, ""
	for _, e := range events {
		// A second answer that begins within the first is not a whole one.
		if next := e.Get("message.id").Str; next != "" {
			f.fails, id = f.fails || id != "" && id != next, next
		}
		f.fails = f.fails || e.Get("type").Str == "error"
		done = done || e.Get("type").Str == "message_stop"
		f.finished(e.Get("stop_reason"), e.Get("delta.stop_reason"))
		for i, block := range e.Get("content").Array() {
			f.text += textBlock(block)
			if block.Get("type").Str == "tool_use" {
				parts.add(string(rune(i)), block.Get("name").Str, block.Get("input").Raw)
			}
		}
		index := e.Get("index").String()
		switch block := e.Get("content_block"); block.Get("type").Str {
		case "text":
			f.text += textBlock(block)
		case "tool_use":
			input := block.Get("input").Raw
			if input == "{}" {
				input = ""
			}
			parts.add(index, block.Get("name").Str, input)
		}
		if slices.Contains(parts.order, index) {
			parts.add(index, "", e.Get("delta.partial_json").Str)
		}
		if e.Get("delta.type").Str == "text_delta" {
			f.text += e.Get("delta.text").Str
		}
		for _, u := range []gjson.Result{e.Get("usage"), e.Get("message.usage")} {
			u.ForEach(func(name, n gjson.Result) bool {
				if n.Type == gjson.Number {
					usage[name.Str] = n.Int()
				}
				return true
			})
		}
	}
	f.calls, f.fails = parts.calls(), f.fails || !done
	if n, ok := usage["output_tokens"]; ok {
		f.prompt = usage["input_tokens"] + usage["cache_read_input_tokens"] + usage["cache_creation_input_tokens"]
		f.completion = n
	}
	f.iterations(events)
}

// iterations adds the requests before the last, such as compactions, except refused ones.
func (f *answerFacts) iterations(events []gjson.Result) {
	var prompt, completion int64
	for _, e := range events {
		for _, i := range append(e.Get("usage.iterations").Array(), e.Get("message.usage.iterations").Array()...) {
			if out := i.Get("output_tokens").Int(); out > 0 {
				prompt += i.Get("input_tokens").Int() + i.Get("cache_read_input_tokens").Int() +
					i.Get("cache_creation_input_tokens").Int()
				completion += out
			}
		}
	}
	f.prompt, f.completion = max(f.prompt, prompt), max(f.completion, completion)
}

func textBlock(block gjson.Result) string {
	if block.Get("type").Str == "text" {
		return block.Get("text").Str
	}
	return ""
}

// readGemini reads answers, a stream has several. A stream is complete with a finishReason or a blocked prompt.
func (f *answerFacts) readGemini(rec *recording, events []gjson.Result) {
	f.known = true
	for _, e := range events {
		f.fails = f.fails || e.Get("error").Exists()
		f.finished(e.Get("candidates.0.finishReason"))
		for _, part := range e.Get("candidates.0.content.parts").Array() {
			if !part.Get("thought").Bool() {
				f.text += part.Get("text").Str
			}
			if call := part.Get("functionCall"); call.Exists() {
				f.pieced = f.pieced || call.Get("partialArgs").Exists() || call.Get("willContinue").Exists()
				f.calls = append(f.calls, call.Get("name").Str+" "+compact(call.Get("args").Raw))
			}
		}
		if u := e.Get("usageMetadata"); u.Exists() {
			f.prompt = u.Get("promptTokenCount").Int() + u.Get("toolUsePromptTokenCount").Int()
			f.completion = u.Get("candidatesTokenCount").Int() + u.Get("thoughtsTokenCount").Int()
		}
	}
	f.fails = f.fails || rec.streamed && !ends(events, "candidates.0.finishReason", "promptFeedback.blockReason")
}

// readConverse reads Bedrock's events, named by their only member, or a whole answer.
func (f *answerFacts) readConverse(rec *recording, events []gjson.Result) {
	f.known = true
	var parts fragments
	for _, e := range events {
		f.finished(e.Get("stopReason"), e.Get("messageStop.stopReason"))
		for i, block := range e.Get("output.message.content").Array() {
			f.text += block.Get("text").Str
			if use := block.Get("toolUse"); use.Exists() && use.Get("type").Str != "server_tool_use" {
				parts.add(string(rune(i)), use.Get("name").Str, use.Get("input").Raw)
			}
		}
		if start := e.Get("contentBlockStart"); start.Get("start.toolUse").Exists() &&
			start.Get("start.toolUse.type").Str != "server_tool_use" {
			parts.add(start.Get("contentBlockIndex").String(), start.Get("start.toolUse.name").Str, "")
		}
		delta := e.Get("contentBlockDelta")
		f.text += delta.Get("delta.text").Str
		if index := delta.Get("contentBlockIndex").String(); slices.Contains(parts.order, index) {
			parts.add(index, "", delta.Get("delta.toolUse.input").Str)
		}
		for _, u := range []gjson.Result{e.Get("usage"), e.Get("metadata.usage")} {
			if u.Exists() {
				f.prompt = u.Get("inputTokens").Int() + u.Get("cacheReadInputTokens").Int() + u.Get("cacheWriteInputTokens").Int()
				f.completion = u.Get("outputTokens").Int()
			}
		}
	}
	f.calls = parts.calls()
	f.fails = rec.streamed && !ends(events, "messageStop")
}

// readCohere reads the events of its second API, or a whole answer.
func (f *answerFacts) readCohere(rec *recording, events []gjson.Result) {
	f.known = true
	var parts fragments
	for _, e := range events {
		f.finished(e.Get("finish_reason"), e.Get("delta.finish_reason"))
		for _, block := range e.Get("message.content").Array() {
			f.text += textBlock(block)
		}
		f.text += e.Get("delta.message.content.text").Str
		for i, call := range e.Get("message.tool_calls").Array() {
			parts.add(string(rune(i)), call.Get("function.name").Str, call.Get("function.arguments").Str)
		}
		if call := e.Get("delta.message.tool_calls.function"); call.Exists() {
			parts.add(e.Get("index").String(), call.Get("name").Str, call.Get("arguments").Str)
		}
		for _, u := range []gjson.Result{e.Get("usage"), e.Get("delta.usage")} {
			if n := u.Get("tokens.input_tokens"); n.Exists() {
				f.prompt, f.completion = n.Int(), u.Get("tokens.output_tokens").Int()
			}
		}
	}
	f.calls = parts.calls()
	f.fails = rec.streamed && !slices.ContainsFunc(events,
		func(e gjson.Result) bool { return e.Get("type").Str == "message-end" })
}
