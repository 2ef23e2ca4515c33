package dialects_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/internal/chat"
	"github.com/modelgate/modelgate/internal/inbound/dialects"
)

// A reader reads what an answer of a dialect says, as facts that are the same for all. Join makes a whole answer of
// the events of a stream.
type reader struct {
	paths [2]string // whole and streamed
	join  func(events []gjson.Result) string
	read  func(whole gjson.Result) []string
}

var readers = map[string]reader{
	"chat":      {[2]string{"/v1/chat/completions", "/v1/chat/completions"}, joinChat, readChat},
	"messages":  {[2]string{"/v1/messages", "/v1/messages"}, blocksOf, readMessage},
	"responses": {[2]string{"/v1/responses", "/v1/responses"}, joinResponse, readResponse},
	"gemini": {[2]string{"/v1beta/models/m:generateContent", "/v1beta/models/m:streamGenerateContent"}, joinGemini,
		readGemini},
}

func (r *reader) written(t *testing.T, stream bool, events []chat.Event) gjson.Result {
	t.Helper()
	path, query := r.paths[0], ""
	if stream {
		path, query = r.paths[1], "alt=sse"
	}
	o := dialects.Find(path, query)
	require.NotNil(t, o)
	asked := chat.Asked{Model: "m", Created: 1, Plain: true, IncludeUsage: true, Echo: []byte(`{"includeThoughts":true}`)}
	writer := o.Document
	if stream {
		writer = o.Stream
	}
	w := writer(asked)
	for _, e := range events {
		w.Put(e)
	}
	text := string(w.Take())
	if !stream {
		require.True(t, gjson.Valid(text), text)
		return gjson.Parse(text)
	}
	var all []gjson.Result
	for line := range strings.Lines(text) {
		if data, ok := strings.CutPrefix(line, "data: "); ok && data != "[DONE]\n" {
			require.True(t, gjson.Valid(data), data)
			all = append(all, gjson.Parse(data))
		}
	}
	whole := r.join(all)
	require.True(t, gjson.Valid(whole), whole)
	return gjson.Parse(whole)
}

// facts collects facts.
type facts []string

func (f *facts) add(format string, args ...any) { *f = append(*f, fmt.Sprintf(format, args...)) }

// image adds an image by its media type and data, or by its address.
func (f *facts) image(url string) {
	if data, ok := strings.CutPrefix(url, "data:"); ok {
		f.add("image %s", strings.Replace(data, ";base64,", " ", 1))
		return
	}
	f.add("image %s", url)
}

// texts adds joined texts.
func (f *facts) texts(kind string, texts []string) {
	if text := strings.Join(texts, ""); text != "" {
		f.add("%s %s", kind, text)
	}
}

func joinChat(events []gjson.Result) string {
	members, order := map[string]string{}, []string{}
	var texts, reasonings, refusals, others, finish []string
	var id, name, arguments, extra, logprobs, tail string
	usage, tier := "null", ""
	for _, e := range events {
		if t := e.Get("service_tier"); t.Exists() {
			tier = t.Str
		}
		if u := e.Get("usage"); u.IsObject() {
			usage = u.Raw
		}
		c := e.Get("choices.0")
		d := c.Get("delta")
		if c.Get("index").Int() > 0 {
			others = append(others, d.Get("content").Str)
			continue
		}
		if f := c.Get("finish_reason"); f.Type == gjson.String {
			finish = append(finish, f.Raw)
		}
		if l := c.Get("logprobs"); l.IsObject() {
			logprobs = l.Raw
		}
		texts, reasonings = append(texts, d.Get("content").Str), append(reasonings, d.Get("reasoning_content").Str)
		refusals = append(refusals, d.Get("refusal").Str)
		if call := d.Get("tool_calls.0"); call.Exists() {
			id, name = id+call.Get("id").Str, name+call.Get("function.name").Str
			arguments += call.Get("function.arguments").Str
			if x := call.Get("extra_content"); x.Exists() {
				extra = `,"extra_content":` + x.Raw
			}
		}
		for _, n := range []string{"images", "annotations", "thinking_blocks", "audio"} {
			if v := d.Get(n); v.Exists() {
				members[n], order = v.Raw, append(order, n)
			}
		}
	}
	for _, n := range order {
		tail += fmt.Sprintf(`,%q:%s`, n, members[n])
	}
	if name != "" {
		tail += fmt.Sprintf(`,"tool_calls":[{"id":%q,"function":{"name":%q,"arguments":%q}%s}]`, id, name, arguments, extra)
	}
	if logprobs == "" {
		logprobs = "null"
	}
	return fmt.Sprintf(`{"choices":[{"message":{"content":%q,"reasoning_content":%q,"refusal":%q%s},"logprobs":%s,"finish_reason":%s},`+
		`{"message":{"content":%q}}],"usage":%s,"service_tier":%q}`, strings.Join(texts, ""), strings.Join(reasonings, ""), strings.Join(refusals, ""),
		tail, logprobs, strings.Join(finish, ","), strings.Join(others, ""), usage, tier)
}

func readChat(whole gjson.Result) []string {
	var f facts
	c := whole.Get("choices.0")
	m := c.Get("message")
	f.texts("text", []string{m.Get("content").Str, m.Get("refusal").Str})
	f.texts("reasoning", []string{m.Get("reasoning_content").Str})
	for _, b := range m.Get("thinking_blocks").Array() {
		f.add("signed %s", b.Get("signature").Str+b.Get("data").Str)
	}
	for _, call := range m.Get("tool_calls").Array() {
		f.add("call %s %s %s", call.Get("id").Str, call.Get("function.name").Str, call.Get("function.arguments").Str)
		f.texts("google", []string{call.Get("extra_content.google.thought_signature").Str})
	}
	for _, i := range m.Get("images").Array() {
		f.image(i.Get("image_url.url").Str)
	}
	for _, a := range m.Get("annotations").Array() {
		f.add("cites %s %s", a.Get("url_citation.url").Str, a.Get("url_citation.title").Str)
	}
	f.texts("audio", []string{m.Get("audio.data").Str})
	f.texts("choice", []string{whole.Get("choices.1.message.content").Str})
	f.texts("logprob", []string{c.Get("logprobs.content.0.logprob").Raw})
	finish := c.Get("finish_reason").Str
	if m.Get("refusal").Str != "" {
		finish = "content_filter"
	}
	f.finish(finish, "length", "tool_calls", "content_filter")
	u := whole.Get("usage")
	f.add("tokens %d %d %d %d", u.Get("prompt_tokens").Int(), u.Get("prompt_tokens_details.cached_tokens").Int(),
		u.Get("completion_tokens").Int(), u.Get("completion_tokens_details.reasoning_tokens").Int())
	f.texts("written", []string{u.Get("prompt_tokens_details.cache_write_tokens").Raw})
	f.texts("tier", []string{whole.Get("service_tier").Str})
	return f
}

// finish adds the reason why an answer ends, of which the dialect has these names.
func (f *facts) finish(got, length, calls, refused string) {
	for name, fact := range map[string]string{length: "length", calls: "calls", refused: "refused"} {
		if got == name {
			f.add("finish %s", fact)
		}
	}
}

func readMessage(whole gjson.Result) []string {
	var f facts
	var texts, thoughts []string
	for _, b := range whole.Get("content").Array() {
		switch b.Get("type").Str {
		case "text":
			texts = append(texts, b.Get("text").Str)
			for _, c := range b.Get("citations").Array() {
				f.add("cites %s %s", c.Get("url").Str, c.Get("title").Str)
			}
		case "thinking":
			thoughts = append(thoughts, b.Get("thinking").Str)
			f.texts("signed", []string{b.Get("signature").Str})
		case "redacted_thinking":
			f.add("signed %s", b.Get("data").Str)
		case "tool_use":
			f.add("call %s %s %s", b.Get("id").Str, b.Get("name").Str, b.Get("input").Raw)
		case "image":
			f.image(b.Get("source.url").Str + strings.TrimPrefix("data:"+b.Get("source.media_type").Str+";base64,"+
				b.Get("source.data").Str, "data:;base64,"))
		}
	}
	f.texts("text", texts)
	f.texts("reasoning", thoughts)
	f.finish(whole.Get("stop_reason").Str, "max_tokens", "tool_use", "refusal")
	u := whole.Get("usage")
	written, cached := u.Get("cache_creation_input_tokens"), u.Get("cache_read_input_tokens").Int()
	f.add("tokens %d %d %d %d", u.Get("input_tokens").Int()+cached+written.Int(), cached, u.Get("output_tokens").Int(),
		u.Get("output_tokens_details.thinking_tokens").Int())
	f.texts("written", []string{written.Raw})
	f.texts("tier", []string{u.Get("service_tier").Str})
	return f
}

// joinResponse returns the response of the last event. Its items are those that were announced as done.
func joinResponse(events []gjson.Result) string {
	last := events[len(events)-1].Get("response").Raw
	for _, e := range events {
		if e.Get("type").Str != "response.output_item.done" {
			continue
		}
		done := gjson.Get(last, "output."+e.Get("output_index").Raw)
		if d, l := e.Get("item.content.0.text").Str+e.Get("item.arguments").Str, done.Get("content.0.text").Str+
			done.Get("arguments").Str; d != l || e.Get("item.id").Str != done.Get("id").Str {
			return "an item that is done differs: " + e.Raw
		}
	}
	return last
}

func readResponse(whole gjson.Result) []string {
	var f facts
	var texts []string
	calls := false
	for _, o := range whole.Get("output").Array() {
		switch o.Get("type").Str {
		case "message":
			for _, p := range o.Get("content").Array() {
				text := p.Get("text").Str
				if address, ok := strings.CutPrefix(text, "![image]("); ok {
					f.image(strings.TrimSuffix(address, ")"))
					continue
				}
				texts = append(texts, text, p.Get("refusal").Str)
				for _, a := range p.Get("annotations").Array() {
					f.add("cites %s %s", a.Get("url").Str, a.Get("title").Str)
				}
				f.texts("logprob", []string{p.Get("logprobs.0.logprob").Raw})
				if p.Get("type").Str == "refusal" {
					f.add("finish refused")
				}
			}
		case "reasoning":
			f.texts("reasoning", []string{o.Get("summary.0.text").Str})
		case "function_call":
			calls = true
			f.add("call %s %s %s", o.Get("call_id").Str, o.Get("name").Str, o.Get("arguments").Str)
		case "image_generation_call":
			f.image("data:image/png;base64," + o.Get("result").Str)
		}
	}
	f.texts("text", texts)
	f.finish(whole.Get("incomplete_details.reason").Str, "max_output_tokens", "", "content_filter")
	if calls {
		f.add("finish calls")
	}
	u := whole.Get("usage")
	f.add("tokens %d %d %d %d", u.Get("input_tokens").Int(), u.Get("input_tokens_details.cached_tokens").Int(),
		u.Get("output_tokens").Int(), u.Get("output_tokens_details.reasoning_tokens").Int())
	f.texts("written", []string{u.Get("input_tokens_details.cache_write_tokens").Raw})
	f.texts("tier", []string{whole.Get("service_tier").Str})
	return f
}

func joinGemini(events []gjson.Result) string {
	var parts [2][]string
	tails := [2]string{}
	usage := "{}"
	for _, e := range events {
		if u := e.Get("usageMetadata"); u.Exists() {
			usage = u.Raw
		}
		for _, c := range e.Get("candidates").Array() {
			i := c.Get("index").Int()
			for _, p := range c.Get("content.parts").Array() {
				parts[i] = append(parts[i], p.Raw)
			}
			for _, n := range []string{"finishReason", "groundingMetadata", "logprobsResult"} {
				if v := c.Get(n); v.Exists() {
					tails[i] += fmt.Sprintf(`,%q:%s`, n, v.Raw)
				}
			}
		}
	}
	var candidates []string
	for i := range parts {
		candidates = append(candidates, `{"content":{"parts":[`+strings.Join(parts[i], ",")+`]}`+tails[i]+`}`)
	}
	return `{"candidates":[` + strings.Join(candidates, ",") + `],"usageMetadata":` + usage + `}`
}

func readGemini(whole gjson.Result) []string {
	var f facts
	var texts, thoughts []string
	calls := false
	c := whole.Get("candidates.0")
	for _, p := range c.Get("content.parts").Array() {
		switch text := p.Get("text"); {
		case p.Get("thought").Bool():
			thoughts = append(thoughts, text.Str)
		case text.Exists():
			texts = append(texts, text.Str)
		case p.Get("functionCall").Exists():
			calls = true
			f.add("call %s %s %s", p.Get("functionCall.id").Str, p.Get("functionCall.name").Str, p.Get("functionCall.args").Raw)
			f.texts("google", []string{p.Get("thoughtSignature").Str})
		case p.Get("inlineData").Exists():
			f.image("data:" + p.Get("inlineData.mimeType").Str + ";base64," + p.Get("inlineData.data").Str)
		case p.Get("fileData").Exists():
			f.image(p.Get("fileData.fileUri").Str)
		}
	}
	f.texts("text", texts)
	f.texts("reasoning", thoughts)
	for _, chunk := range c.Get("groundingMetadata.groundingChunks").Array() {
		f.add("cites %s %s", chunk.Get("web.uri").Str, chunk.Get("web.title").Str)
	}
	f.texts("logprob", []string{c.Get("logprobsResult.chosenCandidates.0.logProbability").Raw})
	f.texts("choice", []string{whole.Get("candidates.1.content.parts.0.text").Str})
	f.finish(c.Get("finishReason").Str, "MAX_TOKENS", "", "SAFETY")
	if calls {
		f.add("finish calls")
	}
	u := whole.Get("usageMetadata")
	thoughtTokens := u.Get("thoughtsTokenCount").Int()
	f.add("tokens %d %d %d %d", u.Get("promptTokenCount").Int(), u.Get("cachedContentTokenCount").Int(),
		u.Get("candidatesTokenCount").Int()+thoughtTokens, thoughtTokens)
	return f
}
