package providertest

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/internal/translate"
)

// answerFacts are what an answer says of its first choice, in whatever dialect: read here without a codec, so that
// codecs can be held to it.
type answerFacts struct {
	known bool // facts of this dialect are read at all
	// pieced says that arguments came in pieces of JSON, which are not read here.
	pieced bool
	fails  bool // the answer is an error, or ends without its end mark
	open   bool // the end mark is missing, which some vendors of the dialect never send
	text   string
	calls  []string // of each call the name, a space, and the arguments as compact JSON
	// finish is OpenAI's finish reason, empty if the vendor's is not in the table.
	finish string
	// prompt and completion are tokens as OpenAI counts them; -1 if the answer does not say.
	prompt, completion int64
}

// readFacts reads what the vendor said.
func readFacts(rec *recording) *answerFacts {
	f := &answerFacts{prompt: -1, completion: -1}
	events := recordedEvents(rec)
	switch rec.dialect {
	case openAI:
		f.readOpenAI(rec, events)
	case messages:
		f.readMessages(rec, events)
	case gemini:
		f.readGemini(rec, events)
	case converse:
		f.readConverse(rec, events)
	case cohere:
		f.readCohere(rec, events)
	}
	if f.finish == "stop" && len(f.calls) > 0 {
		f.finish = map[dialect]string{gemini: "tool_calls"}[rec.dialect] // Gemini has no reason of its own for calls
	}
	return f
}

// recordedEvents returns the JSON of each event of a stream, or the whole answer as one. A frame of AWS's becomes an
// object with its event's name, as lines of the recorder are; a payload with bytes, the event in them.
func recordedEvents(rec *recording) []gjson.Result {
	body := rec.response.body
	var events []gjson.Result
	switch {
	case !rec.streamed:
		return []gjson.Result{gjson.ParseBytes(body)}
	case len(body) > 16 && body[0] == 0:
		for len(body) >= 16 {
			total, headers := binary.BigEndian.Uint32(body), binary.BigEndian.Uint32(body[4:])
			if int(total) > len(body) {
				return events
			}
			payload := body[12+headers : total-4]
			if packed := gjson.GetBytes(payload, "bytes"); packed.Exists() {
				var event []byte
				_ = json.Unmarshal([]byte(packed.Raw), &event)
				events = append(events, gjson.ParseBytes(event))
			} else {
				name := headerValue(body[12:12+headers], ":event-type")
				events = append(events, gjson.Parse(`{"`+name+`":`+string(payload)+`}`))
			}
			body = body[total:]
		}
	default:
		var rest []byte // Google's errors come without data:
		for line := range bytes.Lines(body) {
			if data, ok := bytes.CutPrefix(line, []byte("data:")); ok {
				events = append(events, gjson.ParseBytes(bytes.TrimSpace(data)))
			} else if !bytes.HasPrefix(line, []byte("event:")) && !bytes.HasPrefix(line, []byte(":")) {
				rest = append(rest, line...)
			}
		}
		if gjson.ValidBytes(rest) {
			events = append(events, gjson.ParseBytes(rest))
		}
	}
	return events
}

func headerValue(headers []byte, name string) string {
	i := bytes.Index(headers, []byte(name))
	if i < 0 {
		return ""
	}
	rest := headers[i+len(name)+1:]
	return string(rest[2 : 2+binary.BigEndian.Uint16(rest)])
}

// fragments collects calls that come in pieces.
type fragments struct {
	order []string
	names map[string]string
	texts map[string]string
}

func (s *fragments) add(key, name, text string) {
	if s.names == nil {
		s.names, s.texts = map[string]string{}, map[string]string{}
	}
	if _, ok := s.texts[key]; !ok {
		s.order = append(s.order, key)
	}
	s.names[key] += name
	s.texts[key] += text
}

func (s *fragments) calls() []string {
	var calls []string
	for _, key := range s.order {
		calls = append(calls, s.names[key]+" "+compact(s.texts[key]))
	}
	return calls
}

// compact returns JSON with its members sorted, or the text itself.
func compact(text string) string {
	if strings.TrimSpace(text) == "" {
		return "{}"
	}
	var v any
	if json.Unmarshal([]byte(text), &v) != nil {
		return text
	}
	out, _ := json.Marshal(v)
	return string(out)
}

// require compares the facts with the client's answer.
func (f *answerFacts) require(t *testing.T, r *translate.Request, o outcome) {
	t.Helper()
	if !f.known || r.Endpoint == translate.Embeddings || r.Endpoint == translate.Rerank {
		return
	}
	require.Equal(t, max(f.prompt, f.completion) > 0, !o.Usage.IsZero(), "usage is recorded where the vendor reports it")
	got := &answerFacts{prompt: -1, completion: -1}
	var events []gjson.Result
	if r.Stream {
		for _, e := range readEvents(t, o.Body) {
			events = append(events, gjson.Parse(e))
		}
	} else {
		events = []gjson.Result{gjson.Parse(o.Body)}
	}
	got.readOpenAI(&recording{streamed: r.Stream, endpoint: r.Endpoint}, events)
	require.Equal(t, f.text, got.text, "the text")
	if !f.pieced {
		require.Equal(t, f.calls, got.calls, "the calls")
	}
	if f.finish != "" {
		require.Equal(t, f.finish, got.finish, "the finish reason")
	}
	if f.prompt > 0 {
		require.Equal(t, f.prompt, o.Usage.PromptTokens, "the tokens of the prompt")
	}
	if f.completion > 0 {
		require.Equal(t, f.completion, o.Usage.CompletionTokens, "the tokens of the answer")
	}
}

// readOpenAI reads chunks, or a whole answer. Only the first choice counts.
func (f *answerFacts) readOpenAI(rec *recording, events []gjson.Result) {
	f.known = true
	var parts fragments
	done := !rec.streamed
	for _, e := range events {
		f.fails = f.fails || e.Get("error").Exists() && e.Get("error").Type != gjson.Null
		done = done || e.Raw == "[DONE]"
		for _, c := range e.Get("choices").Array() {
			if c.Get("index").Int() != 0 {
				continue
			}
			m := c.Get("message")
			if rec.streamed {
				m = c.Get("delta")
			}
			if rec.endpoint == translate.Completions {
				f.text += c.Get("text").Str
			} else {
				f.text += textOf(m.Get("content"))
			}
			f.finished(c.Get("finish_reason"))
			for i, call := range m.Get("tool_calls").Array() {
				key := call.Get("index").String()
				if !rec.streamed {
					key = call.Get("id").String() + string(rune('0'+i))
				}
				arguments := call.Get("function.arguments")
				if arguments.IsObject() {
					parts.add(key, call.Get("function.name").Str, arguments.Raw)
				} else {
					parts.add(key, call.Get("function.name").Str, arguments.Str)
				}
			}
		}
		f.usageOpenAI(e.Get("usage"), e.Get("x_groq.usage"))
	}
	f.calls = parts.calls()
	f.open = !done && slices.ContainsFunc(events,
		func(e gjson.Result) bool { return e.Get("choices.0.finish_reason").Str != "" })
	f.fails = f.fails || !done && !f.open
}

// textOf returns content that is text, or the text parts of a list (Mistral's, whose thinking is not text).
func textOf(content gjson.Result) string {
	if content.Type == gjson.String {
		return content.Str
	}
	var s string
	for _, p := range content.Array() {
		if p.Get("type").Str == "text" {
			s += p.Get("text").Str
		}
	}
	return s
}

func (f *answerFacts) usageOpenAI(places ...gjson.Result) {
	for _, u := range places {
		if u.Get("prompt_tokens").Exists() {
			f.prompt = u.Get("prompt_tokens").Int()
			f.completion = u.Get("completion_tokens").Int()
			// Vendors that do not count reasoning among the answer's tokens say so by their total, or by the reasoning.
			reasoning := u.Get("completion_tokens_details.reasoning_tokens").Int()
			if u.Get("total_tokens").Int() == f.prompt+f.completion+reasoning || reasoning > f.completion {
				f.completion += reasoning
			}
		}
	}
}

// ends reports whether any event has one of the members.
func ends(events []gjson.Result, members ...string) bool {
	return slices.ContainsFunc(events, func(e gjson.Result) bool {
		return slices.ContainsFunc(members, func(m string) bool { return e.Get(m).Exists() })
	})
}
