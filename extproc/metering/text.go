package metering

import (
	"bytes"
	"slices"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/chat"
	"github.com/modelgate/modelgate/internal/sse"
	"github.com/modelgate/modelgate/internal/tokens"
)

// A Text stores what an exchange needs to count its tokens if the vendor reports no usage: the request and the answer
// so far, or samples of them. Counting happens only in Usage. A Text is used by one goroutine at a time. The zero
// value is ready for use.
type Text struct {
	body   []byte  // the request, if it is small
	prompt *prompt // or a sample of it

	parts  []part
	length int64 // bytes of all parts as JSON, including parts that are not stored
	calls  int64 // of tools

	scratch []byte

	reported openai.Usage // the usage when the text had covered bytes
	covered  int64
}

// A part is the text of one choice and one kind.
type part struct {
	choice int
	kind   kind
	sample tokens.Sample // as JSON
}

type kind uint8

const (
	kindContent kind = iota // content and refusal
	kindReasoning
	kindCall // names and arguments
)

// maxParts bounds the stored parts. Further choices are assumed to be like the first.
const maxParts = 3

// maxBody bounds the size of a request that is stored as it is until it is known whether it must be counted. Most
// requests need no counting. It takes little more memory than a sample.
const maxBody = 32 << 10

// Request stores the body that goes to the vendor, or a sample of it, in place of an earlier attempt's. It is plain
// JSON of any operation and any vendor. Other bodies, such as forms, are ignored.
func (t *Text) Request(body []byte) {
	t.body, t.prompt = nil, nil
	if len(body) > maxBody {
		t.prompt = &prompt{}
		t.prompt.text.Expect(len(body))
		t.prompt.read(body)
		return
	}
	t.body = body
}

// Retried is Request for the body of an attempt after the first, or nil.
func (t *Text) Retried(body []byte) {
	if body != nil {
		t.Request(body)
	}
}

// Put implements chat.Sink: it stores the text of an event.
func (t *Text) Put(e chat.Event) {
	switch e.Kind {
	case chat.KindText, chat.KindRefusal:
		t.say(&e, kindContent)
	case chat.KindReasoning:
		t.say(&e, kindReasoning)
	case chat.KindArguments:
		t.say(&e, kindCall)
	case chat.KindToolCall:
		t.calls++
		t.scratch = openai.AppendString(t.scratch[:0], e.Name)
		t.add(e.Choice, kindCall, t.scratch[1:len(t.scratch)-1])
	}
}

func (t *Text) say(e *chat.Event, k kind) {
	s := e.JSON
	if s == nil {
		t.scratch = openai.AppendString(t.scratch[:0], e.Text)
		s = t.scratch
	}
	if len(s) > len(`""`) {
		t.add(e.Choice, k, s[1:len(s)-1])
	}
}

// Events stores the text of complete server-sent events of a stream of responses, and the usage so far. It keeps no
// reference to them.
func (t *Text) Events(events []byte, reported openai.Usage) {
	for data := range sse.Data(events) {
		t.event(data)
	}
	t.Report(reported)
}

// event stores the text of an event of a stream of responses.
func (t *Text) event(data []byte) {
	w := walker{data: data}
	var typ []byte
	for s, ok := w.next(); ok; s, ok = w.next() {
		switch {
		case w.depth == 1 && string(w.name) == "type":
			typ = s
		case w.depth == 1 && string(w.name) == "delta" && !bytes.Contains(typ, []byte("audio.")):
			t.add(0, kindContent, s)
		}
	}
}

// Report stores the usage that the vendor has reported so far.
func (t *Text) Report(u openai.Usage) {
	if u != t.reported {
		t.reported, t.covered = u, t.length
	}
}

// add stores text of a choice.
func (t *Text) add(choice int, k kind, s []byte) {
	t.length += int64(len(s))
	i := slices.IndexFunc(t.parts, func(v part) bool { return v.choice == choice && v.kind == k })
	if i < 0 {
		if i = len(t.parts); i == maxParts {
			return
		}
		t.parts = append(t.parts, part{choice: choice, kind: k})
	}
	t.parts[i].sample.Add(s)
}

// HasOutput reports whether the answer has content.
func (t *Text) HasOutput() bool { return t.length > 0 }

// Usage returns the usage to charge, and whether a part of it is estimated. Vendor is the kind of the provider
// (Provider.Vendor.Name) and model its own name of the model. Reported is the usage that the vendor reported. If the
// answer is complete, the reported usage is final. For an answer that was cut, the prompt is the reported one, or else
// counted. The output is the reported one, plus the counted text after that report.
//
// It takes a millisecond per thousand counted tokens, at most 15, and 25 more for the first call in a process. Do not
// call it in a goroutine that others wait for. Do not call it for an exchange that a provider refused, because nothing
// is charged.
func (t *Text) Usage(vendor, model string, reported openai.Usage, complete bool) (u openai.Usage, estimated bool) {
	u = reported
	t.Report(reported)
	if u.PromptTokens == 0 {
		if t.prompt == nil {
			t.prompt = &prompt{}
			t.prompt.read(t.body)
			t.body = nil
		}
		u.PromptTokens = t.prompt.count(vendor, model)
		estimated = u.PromptTokens > 0 || !complete || u.IsZero()
	}
	if open := t.length - t.covered; open > 0 && !complete || complete && u.CompletionTokens == 0 && t.length > 0 {
		t.output(vendor, model, &u)
		if complete {
			u.CompletionTokens++ // the token that ends it
		}
		estimated = true
	}
	if estimated {
		u.TotalTokens = u.PromptTokens + u.CompletionTokens
	}
	return u, estimated
}

// output adds the text since the last report to the reported output.
func (t *Text) output(vendor, model string, u *openai.Usage) {
	var all, thoughts, sampled int64
	for i := range t.parts {
		v := &t.parts[i]
		n := v.sample.CountJSON(vendor, model)
		if all, sampled = all+n, sampled+v.sample.Len(); v.kind == kindReasoning {
			thoughts += n
		}
	}
	f := tokens.FramingOf(vendor, model)
	all = all*t.length/max(sampled, 1) + f.Answer + t.calls*f.Call
	if t.covered == 0 || u.CompletionTokens == 0 { // the reported output was only the beginning of the answer
		u.CompletionTokens, u.ReasoningTokens = max(u.CompletionTokens, all), max(u.ReasoningTokens, thoughts)
		return
	}
	u.CompletionTokens += all * (t.length - t.covered) / t.length
}

// Salvage stores the text of a complete answer that could not be decoded, of any dialect. Only the names of its
// members are known.
func (t *Text) Salvage(body []byte) {
	w := walker{data: body}
	for s, ok := w.next(); ok; s, ok = w.next() {
		switch string(w.name) {
		case "content", "text", "refusal":
			t.add(w.index, kindContent, s)
		case "reasoning_content", "reasoning", "thinking":
			t.add(w.index, kindReasoning, s)
		case "arguments":
			t.add(w.index, kindCall, s)
		}
	}
}
