package pitfalls

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"strings"

	"github.com/modelgate/modelgate/api/openai"
)

// A completion is what a model answers, in no dialect.
type completion struct {
	thinking, signature string
	text                string
	calls               []call
	stop                string // OpenAI's finish reason, or one of the vendor's own
	usage               counts
}

// A call is one that the model makes. Without arguments it is one that has none.
type call struct{ id, name, arguments string }

// counts are the tokens of an answer as OpenAI counts them: those of a cache are a part of the prompt, reasoning is a
// part of the output.
type counts struct{ prompt, cached, written, output, reasoning int }

// A dialect writes what a vendor sends, from the vendor's documentation.
type dialect struct {
	name string
	// stream writes the events of a stream one by one, unary the body of an answer that is not streamed.
	stream  func(s completion) []string
	unary   func(s completion) string
	endMark string // is in the event with which a stream is complete
	// failure is the event with which a stream fails, of an overloaded provider.
	failure string
}

// native returns the vendor's own word for a finish reason.
func native(words map[string]string, reason string) string { return cmp.Or(words[reason], reason) }

// quote writes a JSON string.
func quote(s string) string { return string(openai.AppendString(nil, s)) }

// pieces cuts a text in two, at a rune.
func pieces(s string) []string {
	r := []rune(s)
	if len(r) < 2 {
		return []string{s}
	}
	return []string{string(r[:len(r)/2]), string(r[len(r)/2:])}
}

func data(format string, args ...any) string { return "data: " + fmt.Sprintf(format, args...) + "\n\n" }

// chunk writes an event of OpenAI's dialect.
func chunk(delta, finish string) string {
	return data(`{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"upstream","choices":[{"index":0,"delta":%s,"logprobs":null,"finish_reason":%s}]}`, delta, finish)
}

const end = "data: [DONE]\n\n"

// openAI is the dialect of OpenAI and of the many that are compatible.
var openAI = dialect{
	name:    "openAI",
	endMark: "[DONE]",
	failure: data(`{"error":{"message":"Overloaded","type":"server_error","param":null,"code":503}}`),
	stream: func(s completion) []string {
		out := []string{chunk(`{"role":"assistant","content":""}`, "null")}
		for _, p := range pieces(s.thinking) {
			if p != "" {
				out = append(out, chunk(`{"reasoning_content":`+quote(p)+`}`, "null"))
			}
		}
		for _, p := range pieces(s.text) {
			if p != "" {
				out = append(out, chunk(`{"content":`+quote(p)+`}`, "null"))
			}
		}
		for i, c := range s.calls {
			out = append(out,
				chunk(fmt.Sprintf(`{"tool_calls":[{"index":%d,"id":%q,"type":"function","function":{"name":%q,"arguments":""}}]}`,
					i, c.id, c.name), "null"))
			for _, p := range pieces(c.arguments) {
				out = append(out, chunk(fmt.Sprintf(`{"tool_calls":[{"index":%d,"function":{"arguments":%s}}]}`, i, quote(p)),
					"null"))
			}
		}
		out = append(out, chunk(`{}`, quote(s.stop)))
		return append(out,
			data(`{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"upstream","choices":[],"usage":%s}`, openAIUsage(s.usage)), end)
	},
	unary: func(s completion) string {
		message := `"role":"assistant","content":` + quoteOrNull(s.text) + `,"refusal":null`
		if s.thinking != "" {
			message += `,"reasoning_content":` + quote(s.thinking)
		}
		if len(s.calls) > 0 {
			message += `,"tool_calls":` + openAICalls(s.calls)
		}
		return fmt.Sprintf(`{"id":"chatcmpl-1","object":"chat.completion","created":1700000000,"model":"upstream","choices":[{"index":0,"message":{%s},"logprobs":null,"finish_reason":%q}],"usage":%s}`,
			message, s.stop, openAIUsage(s.usage))
	},
}

// openAIItself is the dialect of those whose answers pass as they come: where usage is asked for, every chunk says
// that it is null.
var openAIItself = dialect{name: openAI.name, endMark: openAI.endMark, failure: openAI.failure, unary: openAI.unary,
	stream: func(s completion) []string {
		events := openAI.stream(s)
		for i, e := range events {
			events[i] = strings.Replace(e, "null}]}\n", `null}],"usage":null}`+"\n", 1)
			events[i] = strings.Replace(events[i], `"}]}`+"\n", `"}],"usage":null}`+"\n", 1)
		}
		return events
	}}

func quoteOrNull(s string) string {
	if s == "" {
		return "null"
	}
	return quote(s)
}

func openAICalls(calls []call) string {
	var out []string
	for _, c := range calls {
		out = append(out, fmt.Sprintf(`{"id":%q,"type":"function","function":{"name":%q,"arguments":%s}}`, c.id, c.name,
			quote(c.arguments)))
	}
	return "[" + strings.Join(out, ",") + "]"
}

func openAIUsage(u counts) string {
	return fmt.Sprintf(`{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d,"prompt_tokens_details":{"cached_tokens":%d},"completion_tokens_details":{"reasoning_tokens":%d}}`,
		u.prompt, u.output, u.prompt+u.output, u.cached, u.reasoning)
}

// messages is Anthropic's dialect.
var messages = dialect{
	name:    "messages",
	endMark: "message_stop",
	failure: event(`error`, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`),
	stream: func(s completion) []string {
		input := s.usage.prompt - s.usage.cached - s.usage.written
		out := []string{event("message_start",
			`{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"upstream","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":%d,"cache_creation_input_tokens":%d,"cache_read_input_tokens":%d,"output_tokens":1}}}`,
			input, s.usage.written, s.usage.cached)}
		n := 0
		block := func(start, typ, member string, deltas []string, last ...string) {
			out = append(out, event("content_block_start", `{"type":"content_block_start","index":%d,"content_block":%s}`, n,
				start))
			for _, p := range deltas {
				out = append(out, event("content_block_delta",
					`{"type":"content_block_delta","index":%d,"delta":{"type":%q,%q:%s}}`, n, typ, member, quote(p)))
			}
			for _, l := range last {
				out = append(out, event("content_block_delta",
					`{"type":"content_block_delta","index":%d,"delta":{"type":"signature_delta","signature":%s}}`, n, quote(l)))
			}
			out = append(out, event("content_block_stop", `{"type":"content_block_stop","index":%d}`, n))
			n++
		}
		if s.thinking != "" {
			block(`{"type":"thinking","thinking":"","signature":""}`, "thinking_delta", "thinking", pieces(s.thinking),
				s.signature)
		}
		if s.text != "" {
			block(`{"type":"text","text":""}`, "text_delta", "text", pieces(s.text))
		}
		for _, c := range s.calls {
			block(fmt.Sprintf(`{"type":"tool_use","id":%q,"name":%q,"input":{}}`, c.id, c.name), "input_json_delta",
				"partial_json", pieces(c.arguments))
		}
		return append(out,
			event("message_delta",
				`{"type":"message_delta","delta":{"stop_reason":%q,"stop_sequence":null},"usage":{"output_tokens":%d,"output_tokens_details":{"thinking_tokens":%d}}}`, native(messagesStops, s.stop), s.usage.output, s.usage.reasoning),
			event("message_stop", `{"type":"message_stop"}`))
	},
	unary: func(s completion) string {
		var content []string
		if s.thinking != "" {
			content = append(content, fmt.Sprintf(`{"type":"thinking","thinking":%s,"signature":%q}`, quote(s.thinking),
				s.signature))
		}
		if s.text != "" {
			content = append(content, `{"type":"text","text":`+quote(s.text)+`}`)
		}
		for _, c := range s.calls {
			content = append(content, fmt.Sprintf(`{"type":"tool_use","id":%q,"name":%q,"input":%s}`, c.id, c.name,
				cmp.Or(c.arguments, "{}")))
		}
		return fmt.Sprintf(`{"id":"msg_1","type":"message","role":"assistant","model":"upstream","content":[%s],"stop_reason":%q,"stop_sequence":null,"usage":{"input_tokens":%d,"cache_creation_input_tokens":%d,"cache_read_input_tokens":%d,"output_tokens":%d,"output_tokens_details":{"thinking_tokens":%d}}}`,
			strings.Join(content, ","), native(messagesStops, s.stop), s.usage.prompt-s.usage.cached-s.usage.written,
			s.usage.written, s.usage.cached, s.usage.output, s.usage.reasoning)
	},
}

var messagesStops = map[string]string{"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use",
	"content_filter": "refusal"}

func event(name, format string, args ...any) string {
	return "event: " + name + "\n" + data(format, args...)
}

// google is Gemini's dialect. Its calls come whole, and a turn of calls ends with STOP.
var google = dialect{
	name:    "google",
	endMark: "finishReason",
	failure: data(`{"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}`),
	stream: func(s completion) []string {
		var out []string
		parts := googleParts(s)
		for i, p := range parts {
			last := ""
			if i == len(parts)-1 {
				last = fmt.Sprintf(`,"finishReason":%q`, native(googleStops, s.stop))
			}
			out = append(out,
				data(`{"candidates":[{"content":{"parts":[%s],"role":"model"}%s,"index":0}],"usageMetadata":%s,"modelVersion":"upstream","responseId":"r1"}`, p, last, googleUsage(s.usage)))
		}
		return out
	},
	unary: func(s completion) string {
		return fmt.Sprintf(`{"candidates":[{"content":{"parts":[%s],"role":"model"},"finishReason":%q,"index":0}],"usageMetadata":%s,"modelVersion":"upstream","responseId":"r1"}`,
			strings.Join(googleParts(s), ","), native(googleStops, s.stop), googleUsage(s.usage))
	},
}

var googleStops = map[string]string{"stop": "STOP", "length": "MAX_TOKENS", "tool_calls": "STOP",
	"content_filter": "SAFETY"}

func googleParts(s completion) []string {
	var out []string
	for _, p := range pieces(s.thinking) {
		if p != "" {
			out = append(out, `{"text":`+quote(p)+`,"thought":true}`)
		}
	}
	for _, p := range pieces(s.text) {
		if p != "" {
			out = append(out, `{"text":`+quote(p)+`}`)
		}
	}
	for i, c := range s.calls {
		args, signature := "", ""
		if c.arguments != "" {
			args = `,"args":` + c.arguments
		}
		if i == 0 && s.signature != "" {
			signature = fmt.Sprintf(`,"thoughtSignature":%q`, s.signature)
		}
		out = append(out, fmt.Sprintf(`{"functionCall":{"id":%q,"name":%q%s}%s}`, c.id, c.name, args, signature))
	}
	return append(out, `{"text":""}`)
}

func googleUsage(u counts) string {
	return fmt.Sprintf(`{"promptTokenCount":%d,"cachedContentTokenCount":%d,"candidatesTokenCount":%d,"thoughtsTokenCount":%d,"totalTokenCount":%d}`,
		u.prompt, u.cached, u.output-u.reasoning, u.reasoning, u.prompt+u.output)
}

// converse is Bedrock's dialect: frames in place of events.
var converse = dialect{
	name:    "converse",
	endMark: "messageStop",
	failure: frame("exception", "serviceUnavailableException", `{"message":"Overloaded"}`),
	stream: func(s completion) []string {
		out := []string{frame("event", "messageStart", `{"role":"assistant","p":"abcd"}`)}
		n := 0
		delta := func(format string, args ...any) {
			out = append(out, frame("event", "contentBlockDelta", fmt.Sprintf(`{"contentBlockIndex":%d,"delta":%s,"p":"ab"}`, n,
				fmt.Sprintf(format, args...))))
		}
		stop := func() {
			out = append(out, frame("event", "contentBlockStop", fmt.Sprintf(`{"contentBlockIndex":%d}`, n)))
			n++
		}
		if s.thinking != "" {
			for _, p := range pieces(s.thinking) {
				delta(`{"reasoningContent":{"text":%s}}`, quote(p))
			}
			delta(`{"reasoningContent":{"signature":%q}}`, s.signature)
			stop()
		}
		if s.text != "" {
			for _, p := range pieces(s.text) {
				delta(`{"text":%s}`, quote(p))
			}
			stop()
		}
		for _, c := range s.calls {
			out = append(out, frame("event", "contentBlockStart",
				fmt.Sprintf(`{"contentBlockIndex":%d,"start":{"toolUse":{"toolUseId":%q,"name":%q}}}`, n, c.id, c.name)))
			for _, p := range pieces(c.arguments) {
				if p != "" {
					delta(`{"toolUse":{"input":%s}}`, quote(p))
				}
			}
			stop()
		}
		return append(out,
			frame("event", "messageStop", fmt.Sprintf(`{"stopReason":%q}`, native(converseStops, s.stop))),
			frame("event", "metadata", fmt.Sprintf(`{"usage":%s,"metrics":{"latencyMs":1}}`, converseUsage(s.usage))))
	},
	unary: func(s completion) string {
		var content []string
		if s.thinking != "" {
			content = append(content, fmt.Sprintf(`{"reasoningContent":{"reasoningText":{"text":%s,"signature":%q}}}`,
				quote(s.thinking), s.signature))
		}
		if s.text != "" {
			content = append(content, `{"text":`+quote(s.text)+`}`)
		}
		for _, c := range s.calls {
			content = append(content, fmt.Sprintf(`{"toolUse":{"toolUseId":%q,"name":%q,"input":%s}}`, c.id, c.name,
				cmp.Or(c.arguments, "{}")))
		}
		return fmt.Sprintf(`{"output":{"message":{"role":"assistant","content":[%s]}},"stopReason":%q,"usage":%s,"metrics":{"latencyMs":1}}`,
			strings.Join(content, ","), native(converseStops, s.stop), converseUsage(s.usage))
	},
}

var converseStops = map[string]string{"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use",
	"content_filter": "guardrail_intervened"}

func converseUsage(u counts) string {
	return fmt.Sprintf(`{"inputTokens":%d,"outputTokens":%d,"totalTokens":%d,"cacheReadInputTokens":%d,"cacheWriteInputTokens":%d}`,
		u.prompt-u.cached-u.written, u.output, u.prompt+u.output, u.cached, u.written)
}

// frame builds one of AWS's event-stream messages.
func frame(messageType, eventType, payload string) string {
	kind := map[string]string{"event": ":event-type", "exception": ":exception-type"}[messageType]
	var headers []byte
	for _, h := range [][2]string{{":message-type", messageType}, {kind, eventType},
		{":content-type", "application/json"}} {
		headers = append(append(append(headers, byte(len(h[0]))), h[0]...), 7)
		headers = append(binary.BigEndian.AppendUint16(headers, uint16(len(h[1]))), h[1]...)
	}
	b := binary.BigEndian.AppendUint32(nil, uint32(16+len(headers)+len(payload)))
	b = binary.BigEndian.AppendUint32(b, uint32(len(headers)))
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	b = append(append(b, headers...), payload...)
	return string(binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b)))
}

// cohere is Cohere's dialect, version 2.
var cohere = dialect{
	name:    "cohere",
	endMark: "message-end",
	failure: event("message-end",
		`{"type":"message-end","delta":{"finish_reason":"ERROR","error":"Overloaded","usage":{}}}`),
	stream: func(s completion) []string {
		out := []string{event("message-start",
			`{"id":"m1","type":"message-start","delta":{"message":{"role":"assistant","content":[],"tool_plan":"","tool_calls":[],"citations":[]}}}`)}
		content := func(index int, typ, text string) {
			if text == "" {
				return
			}
			out = append(out, event("content-start",
				`{"type":"content-start","index":%d,"delta":{"message":{"content":{"type":%q,%q:""}}}}`, index, typ, typ))
			for _, p := range pieces(text) {
				out = append(out, event("content-delta",
					`{"type":"content-delta","index":%d,"delta":{"message":{"content":{%q:%s}}}}`, index, typ, quote(p)))
			}
			out = append(out, event("content-end", `{"type":"content-end","index":%d}`, index))
		}
		content(0, "thinking", s.thinking)
		content(1, "text", s.text)
		for i, c := range s.calls {
			out = append(out, event("tool-call-start",
				`{"type":"tool-call-start","index":%d,"delta":{"message":{"tool_calls":{"id":%q,"type":"function","function":{"name":%q,"arguments":""}}}}}`, i, c.id, c.name))
			for _, p := range pieces(c.arguments) {
				if p != "" {
					out = append(out, event("tool-call-delta",
						`{"type":"tool-call-delta","index":%d,"delta":{"message":{"tool_calls":{"function":{"arguments":%s}}}}}`, i,
						quote(p)))
				}
			}
			out = append(out, event("tool-call-end", `{"type":"tool-call-end","index":%d}`, i))
		}
		return append(out, event("message-end", `{"type":"message-end","delta":{"finish_reason":%q,"usage":%s}}`,
			native(cohereStops, s.stop), cohereUsage(s.usage)), end)
	},
	unary: func(s completion) string {
		message := `"role":"assistant"`
		var content []string
		if s.thinking != "" {
			content = append(content, `{"type":"thinking","thinking":`+quote(s.thinking)+`}`)
		}
		if s.text != "" {
			content = append(content, `{"type":"text","text":`+quote(s.text)+`}`)
		}
		if len(content) > 0 {
			message += `,"content":[` + strings.Join(content, ",") + `]`
		}
		if len(s.calls) > 0 {
			message += `,"tool_calls":` + openAICalls(s.calls)
		}
		return fmt.Sprintf(`{"id":"m1","message":{%s},"finish_reason":%q,"usage":%s}`, message, native(cohereStops, s.stop),
			cohereUsage(s.usage))
	},
}

var cohereStops = map[string]string{"stop": "COMPLETE", "length": "MAX_TOKENS", "tool_calls": "TOOL_CALL",
	"content_filter": "ERROR_TOXIC"}

func cohereUsage(u counts) string {
	return fmt.Sprintf(`{"billed_units":{"input_tokens":1,"output_tokens":1},"tokens":{"input_tokens":%d,"output_tokens":%d,"reasoning_tokens":%d},"cached_tokens":%d}`,
		u.prompt, u.output, u.reasoning, u.cached)
}

// mistral is Mistral's dialect: calls come whole, in one chunk with the finish reason and the usage, and thinking is a
// part of the content.
var mistral = dialect{
	name:    "mistral",
	endMark: "[DONE]",
	failure: data(`{"object":"error","message":"Overloaded: service tier capacity exceeded for this model.","type":"service_tier_capacity_exceeded","param":null,"code":"3505","raw_status_code":503}`),
	stream: func(s completion) []string {
		out := []string{chunk(`{"role":"assistant","content":""}`, "null")}
		for _, p := range pieces(s.thinking) {
			if p != "" {
				out = append(out, chunk(`{"content":[{"type":"thinking","thinking":[{"type":"text","text":`+quote(p)+
					`}],"closed":true}]}`, "null"))
			}
		}
		for _, p := range pieces(s.text) {
			if p != "" {
				out = append(out, chunk(`{"content":`+quote(p)+`}`, "null"))
			}
		}
		last := chunk(`{"content":""`+mistralCalls(s.calls)+`}`, quote(s.stop))
		return append(out, strings.TrimSuffix(last, "}\n\n")+`,"p":"abcdef","usage":`+openAIUsage(s.usage)+"}\n\n", end)
	},
	unary: func(s completion) string {
		content := quote(s.text)
		if s.thinking != "" {
			content = `[{"type":"thinking","thinking":[{"type":"text","text":` + quote(s.thinking) +
				`}]},{"type":"text","text":` + quote(s.text) + `}]`
		}
		return fmt.Sprintf(`{"id":"m1","object":"chat.completion","created":1700000000,"model":"upstream","choices":[{"index":0,"message":{"role":"assistant","content":%s%s},"finish_reason":%q}],"usage":%s}`,
			content, mistralCalls(s.calls), s.stop, openAIUsage(s.usage))
	},
}

func mistralCalls(calls []call) string {
	var out []string
	for i, c := range calls {
		out = append(out, fmt.Sprintf(`{"id":%q,"function":{"name":%q,"arguments":%s},"index":%d}`, c.id, c.name,
			quote(c.arguments), i))
	}
	if out == nil {
		return ""
	}
	return `,"tool_calls":[` + strings.Join(out, ",") + `]`
}
