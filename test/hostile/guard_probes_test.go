package hostile

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
)

func quoted(text string) string {
	b, _ := json.Marshal(text)
	return string(b)
}

func packed(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

// guardedRequests are requests that hide something, by what they try.
func guardedRequests() map[string]probe {
	all := map[string]probe{}
	const nested = `{"a":"{\"b\":\"x\\n` + hiddenCard + `\"}"}`
	user := func(content string) string { return `[{"role":"user","content":` + content + `}]` }
	for _, model := range []string{"rc/m", "ro/m", "ra/claude-sonnet-4-5"} {
		chat := func(name, members string) {
			all["chat "+name+" "+model] = probe{"/v1/chat/completions", `{"model":"` + model + `",` + members + `}`}
		}
		messages := func(name, content string) {
			all["messages "+name+" "+model] = probe{"/v1/messages",
				`{"model":"` + model + `","max_tokens":9,"messages":` + user(content) + `}`}
		}
		responses := func(name, input string) {
			all["responses "+name+" "+model] = probe{"/v1/responses",
				`{"model":"` + model + `","store":false,"input":` + input + `}`}
		}
		call := func(name, id, arguments string) {
			chat(name, `"messages":[{"role":"user","content":"x"},{"role":"assistant","content":null,"tool_calls":[{"id":"`+id+
				`","type":"function","function":{"name":"f","arguments":`+quoted(arguments)+`}}]},{"role":"tool","tool_call_id":"`+id+`","content":"ok"}]`)
		}
		chat("text", `"messages":`+user(quoted(hidden)))
		chat("as pasted", `"messages":`+user(`"４１１１\u00a01111–1111 - 1111 SESAME"`))
		chat("escaped name", `"messages":[{"role":"user","\u0063ontent":`+quoted(hidden)+`}]`)
		chat("name of a person", `"messages":[{"role":"user","name":"SESAME","content":"x"}]`)
		chat("metadata", `"messages":`+user(`"x"`)+`,"metadata":{"a":`+hiddenCard+`},"store":true`)
		chat("metadata key", `"messages":`+user(`"x"`)+`,"metadata":{"`+hiddenCard+`":"x"},"store":true`)
		chat("stop", `"messages":`+user(`"x"`)+`,"stop":[`+quoted(hidden)+`]`)
		chat("format", `"messages":`+user(`"x"`)+`,"response_format":{"type":"json_schema","json_schema":{"name":"x","description":`+quoted(hidden)+`,"schema":{"type":"object"}}}`)
		chat("definitions", `"messages":`+user(`"x"`)+`,"tools":[{"type":"function","function":{"name":"f","description":`+quoted(hidden)+`}}]`)
		chat("tool", `"messages":`+user(`"x"`)+`,"tools":[{"type":"function","function":{"name":"SESAME"}}]`)
		chat("cache key", `"messages":`+user(`"x"`)+`,"prompt_cache_key":`+quoted(hidden))
		chat("unknown", `"messages":`+user(`"x"`)+`,"extra":{"url":{"text":`+quoted(hidden)+`},"data":[`+quoted(hidden)+`]}`)
		chat("address", `"messages":`+user(`[{"type":"image_url","image_url":{"url":"https://x/?q=ann%40example.com"}}]`))
		chat("data address", `"messages":`+user(`[{"type":"image_url","image_url":{"url":"data:text/plain,`+hiddenCard+`"}}]`))
		chat("file", `"messages":`+user(`[{"type":"file","file":{"filename":"a.txt","file_data":"data:text/plain;base64,`+packed(hidden)+`"}}]`))
		chat("file that claims", `"messages":`+user(`[{"type":"file","file":{"filename":"a","file_data":"`+hiddenCard+`"}}]`))
		call("arguments", "c", nested)
		call("arguments that are cut", "c", `{"a":"x\n`+hiddenMail)
		call("a number", "c", `{"a":`+hiddenCard+`}`)
		call("id", hiddenCard, `{}`)
		messages("document", `[{"type":"document","title":`+quoted(hidden)+`,"source":{"type":"text","media_type":"text/plain","data":"`+hiddenCard+`"}}]`)
		messages("escaped document", `[{"type":"document","source":{"type":"text","media_type":"text/plain","data":"pay\u0020`+hiddenCard+`\u0020ann\u0040example.com"}}]`)
		messages("packed document", `[{"type":"document","source":{"type":"base64","media_type":"text/plain","data":"`+packed(hidden)+`"}}]`)
		messages("image that is none", `[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"`+hiddenCard+`"}}]`)
		responses("output", `[{"type":"function_call","call_id":"c","name":"f","arguments":`+quoted(nested)+`},{"type":"function_call_output","call_id":"c","output":`+quoted(nested)+`}]`)
		responses("file", `[{"role":"user","content":[{"type":"input_file","filename":"a.txt","file_data":"`+hiddenCard+`"}]}]`)
	}
	for name, part := range map[string]string{
		"inlineData":       `{"inlineData":{"mimeType":"text/plain","data":"` + packed(hidden) + `"}}`,
		"inline_data":      `{"inline_data":{"mime_type":"image/png","data":"` + hiddenCard + `"}}`,
		"fileData":         `{"fileData":{"fileUri":"https://x/` + hiddenCard + `"}}`,
		"functionResponse": `{"functionResponse":{"name":"f","response":{"data":"` + hiddenCard + `"}}}`,
		"thoughtSignature": `{"text":"x","thoughtSignature":"` + hiddenCard + `"}`,
		"other case":       `{"Text":"` + hiddenCard + `"}`,
	} {
		all["gemini "+name] = probe{"/v1beta/models/rg/gemini-2.5-flash:generateContent", `{"contents":[{"role":"user","parts":[` + part + `]}]}`}
	}
	all["gemini config"] = probe{"/v1beta/models/rg/gemini-2.5-flash:generateContent",
		`{"contents":[{"role":"user","parts":[{"text":"x"}]}],"generationConfig":{"stopSequences":["` + hiddenCard + `"],"responseSchema":{"description":"` + hiddenMail + `"}}}`}
	all["tokens"] = probe{"/v1/completions", `{"model":"rc/m","prompt":[1,2,3]}`}
	all["tokens to embed"] = probe{"/v1/embeddings", `{"model":"ro/m","input":[[1,2]]}`}
	return all
}

// A guardedAnswer is what a vendor says.
type guardedAnswer struct {
	model  string
	status int
	body   string
	path   string // the only one, with what is asked
	ask    string
}

// guardedAnswers are answers that say what a rule has to find.
func guardedAnswers() map[string]guardedAnswer {
	all := map[string]guardedAnswer{}
	text := quoted(hidden)
	add := func(name, model, body string) {
		all[name] = guardedAnswer{model: model, status: http.StatusOK, body: body}
	}
	for name, members := range map[string]string{
		"content": `"content":` + text, "reasoning": `"reasoning":` + text,
		"reasoning_content": `"reasoning_content":` + text,
		"refusal":           `"refusal":` + text, "details": `"reasoning_details":[{"type":"reasoning.text","text":` + text + `}]`,
		"thinking": `"thinking_blocks":[{"type":"thinking","thinking":` + text + `}]`, "audio": `"audio":{"id":"a","data":"aGk=","transcript":` + text + `}`,
		"annotations": `"annotations":[{"type":"url_citation","url_citation":{"url":"http://x/` + hiddenMail + `","title":` + text + `}}]`,
		"arguments":   `"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{\"a\":\"x\\nann\\u0040example.com\",\"n\":` + hiddenCard + `}"}}]`,
		"call":        `"tool_calls":[{"id":` + text + `,"type":"function","function":{"name":"SESAME","arguments":"{}"}}]`,
		"unknown":     `"extra":{"a":[` + text + `]}`, "images": `"images":[{"type":"image_url","image_url":{"url":"data:text/plain;base64,` + packed(hidden) + `"}}]`,
	} {
		add("chat "+name, "rc/m", chatAnswer(`{"role":"assistant",`+members+`}`))
		add("openai "+name, "ro/m", chatAnswer(`{"role":"assistant",`+members+`}`))
	}
	add("top", "rc/m", `{"id":`+text+`,"model":`+text+`,"system_fingerprint":`+text+`,"service_tier":`+text+`,"x":`+text+
		`,"choices":[{"index":0,"message":{"content":"x"},"finish_reason":`+text+`}]}`)
	for name, block := range map[string]string{
		"text": `{"type":"text","text":` + text + `}`, "thinking": `{"type":"thinking","thinking":` + text + `,"signature":"s"},{"type":"tool_use","id":"t","name":"f","input":{"a":` + text + `}}`,
		"redacted": `{"type":"redacted_thinking","data":` + text + `},{"type":"tool_use","id":"t","name":"f","input":{}}`,
		"server":   `{"type":"server_tool_use","id":"t","name":"web_search","input":{"query":` + text + `}}`,
		"cited":    `{"type":"text","text":"x","citations":[{"type":"char_location","cited_text":` + text + `,"document_index":0,"start_char_index":0,"end_char_index":1}]}`,
	} {
		add("claude "+name, "ra/claude-sonnet-4-5", `{"id":"m","type":"message","role":"assistant","model":"x","content":[`+block+`],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}`)
	}
	for name, part := range map[string]string{
		"text": `{"text":` + text + `}`, "thought": `{"text":` + text + `,"thought":true}`, "call": `{"functionCall":{"name":"f","args":{"a":` + text + `}},"thoughtSignature":` + text + `}`,
		"data": `{"inlineData":{"mimeType":"text/plain","data":"` + packed(hidden) + `"}}`, "file": `{"fileData":{"fileUri":` + text + `}}`,
	} {
		add("gemini "+name, "rg/gemini-2.5-pro", `{"candidates":[{"content":{"role":"model","parts":[`+part+`]},"finishReason":"STOP","index":0,"citationMetadata":{"citationSources":[{"uri":`+text+
			`}]}}],"modelVersion":`+text+`,"responseId":`+text+`,"usageMetadata":{"promptTokenCount":1,"candidatesTokenCount":1,"totalTokenCount":2}}`)
	}
	guardedStreams(add)
	all["error"] = guardedAnswer{model: "rx/m", status: http.StatusBadRequest,
		body: `{"error":{"message":` + text + `,"type":` + text + `,"code":` + text + `}}`}
	for name, of := range map[string]guardedAnswer{
		"images":      {path: "/v1/images/generations", ask: `{"model":"rc/m","prompt":"x"}`, body: `{"created":1,"data":[{"b64_json":"aGk=","revised_prompt":` + text + `}]}`},
		"moderations": {path: "/v1/moderations", ask: `{"model":"rc/m","input":"x"}`, body: `{"id":"m","model":"x","results":[{"flagged":false,"categories":{` + text + `:false}}]}`},
		"speech":      {path: "/v1/audio/speech", ask: `{"model":"rx/m","input":"x","voice":"a"}`, body: `{"note":` + text + `}`},
		"completions": {path: "/v1/completions", ask: `{"model":"rc/m","prompt":"x","echo":true}`, body: `{"id":"c","choices":[{"index":0,"text":` + text + `,"logprobs":{"tokens":["` + hiddenMail + `"]}}]}`},
		"rerank":      {path: "/v1/rerank", ask: `{"model":"rh/m","query":"q","documents":["a"],"return_documents":true}`, body: `{"results":[{"index":0,"relevance_score":1,"document":{"text":` + text + `}}],"id":` + text + `}`},
	} {
		of.status = http.StatusOK
		all[name] = of
	}
	return all
}

// guardedStreams adds answers in pieces, which take turns.
func guardedStreams(add func(name, model, body string)) {
	chunk := func(delta string) string {
		return `data: {"id":"a","object":"chat.completion.chunk","created":1,"model":"x","choices":[{"index":0,"delta":` + delta + `,"finish_reason":null}]}` + "\n\n"
	}
	const end = `data: {"id":"a","object":"chat.completion.chunk","created":1,"model":"x","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n"
	forms := map[string]func(piece string) string{
		"content":   func(p string) string { return `{"content":` + quoted(p) + `}` },
		"reasoning": func(p string) string { return `{"reasoning_content":` + quoted(p) + `}` },
		"spoken":    func(p string) string { return `{"audio":{"id":"a","transcript":` + quoted(p) + `}}` },
		"unknown":   func(p string) string { return `{"extra":` + quoted(p) + `}` },
		"thinking":  func(p string) string { return `{"thinking_blocks":[{"type":"thinking","thinking":` + quoted(p) + `}]}` },
	}
	var pieces []string
	for rest := hidden; rest != ""; rest = rest[min(5, len(rest)):] {
		pieces = append(pieces, rest[:min(5, len(rest))])
	}
	turns := ""
	for _, p := range pieces {
		turns += chunk(forms["content"](p)) + chunk(forms["reasoning"](p)) + chunk(forms["spoken"](p))
	}
	add("streamed turns", "rc/m", turns+end)
	for name, form := range forms {
		body := ""
		for _, p := range pieces {
			body += chunk(form(p))
		}
		add("streamed "+name, "ro/m", body+end)
	}
	calls := chunk(`{"tool_calls":[{"index":0,"id":"c0","type":"function","function":{"name":"f","arguments":""}},{"index":1,"id":"c1","type":"function","function":{"name":"f","arguments":""}}]}`)
	arguments := `{"a":"x\nann\u0040example.com","n":` + hiddenCard + `}`
	for rest := arguments; rest != ""; rest = rest[min(6, len(rest)):] {
		p := quoted(rest[:min(6, len(rest))])
		calls += chunk(`{"tool_calls":[{"index":0,"function":{"arguments":`+p+`}}]}`) + chunk(`{"tool_calls":[{"index":1,"function":{"arguments":`+p+`}}]}`)
	}
	add("streamed calls", "rc/m", calls+end)
	add("streamed error", "rx/m", chunk(`{"content":"x"}`)+`data: {"error":{"message":`+quoted(hidden)+`}}`+"\n\n")
	claude := `event: message_start` + "\n" + `data: {"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"x","content":[],"usage":{"input_tokens":1,"output_tokens":1}}}` + "\n\n" +
		`event: content_block_start` + "\n" + `data: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}` + "\n\n"
	for _, p := range pieces {
		claude += `event: content_block_delta` + "\n" + `data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":` + quoted(p) + `}}` + "\n\n"
	}
	claude += `event: content_block_stop` + "\n" + `data: {"type":"content_block_stop","index":0}` + "\n\n" +
		`event: content_block_start` + "\n" + `data: {"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"t","name":"f","input":{}}}` + "\n\n" +
		`event: content_block_stop` + "\n" + `data: {"type":"content_block_stop","index":1}` + "\n\n" +
		`event: message_delta` + "\n" + `data: {"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":9}}` + "\n\n" + "event: message_stop\n" + `data: {"type":"message_stop"}` + "\n\n"
	add("streamed claude", "ra/claude-sonnet-4-5", claude)
	gemini := ""
	for _, p := range pieces {
		gemini += `data: {"candidates":[{"content":{"role":"model","parts":[{"text":` + quoted(p) + `,"thought":true}]},"index":0}]}` + "\n\n" +
			`data: {"candidates":[{"content":{"role":"model","parts":[{"text":` + quoted(p) + `}]},"index":0}]}` + "\n\n"
	}
	add("streamed gemini", "rg/gemini-2.5-pro", gemini+`data: {"candidates":[{"content":{"role":"model","parts":[{"text":""}]},"finishReason":"STOP","index":0}],"responseId":`+quoted(hidden)+"}\n\n")
}
