package metering

import (
	"bytes"
	"slices"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/chat"
	"github.com/modelgate/modelgate/internal/sse"
	"github.com/modelgate/modelgate/internal/tokens"
)

// A Text keeps of an exchange what its tokens can be counted by where the vendor does not say how many there were: the
// request, and what the answer has said so far, or samples of them. Nothing is counted before Usage is called. It is
// used by one goroutine at a time, as the exchange is; the zero Text is ready for use.
type Text struct {
	body   []byte // the request, where it is small
	prompt prompt // or what was read of it

	voices []voice
	said   int64 // bytes of the voices as JSON has them, and of those for which there was no room
	calls  int64 // of tools

	scratch []byte

	reported openai.Usage // when said was covered
	covered  int64
}

// A voice is what one choice says of one kind.
type voice struct {
	choice int
	kind   kind
	said   tokens.Sample // as JSON has it
}

type kind uint8

const (
	spoken kind = iota // content and refusal
	thought
	called // names and arguments
)

// maxVoices bounds what an exchange keeps. Of an answer with more choices the others are taken to be like the first.
const maxVoices = 3

// maxBody is how large a request is at most that is kept as it is, until it is known whether it must be counted. Most
// never must be. It takes little more than the sample of a larger one.
const maxBody = 32 << 10

// Request takes the request's body, plain JSON of any operation, and keeps it or a sample of it. Any other body, a
// form say, counts for nothing.
func (t *Text) Request(body []byte) {
	if len(body) > maxBody {
		t.prompt.text.Expect(len(body))
		t.prompt.read(body)
		return
	}
	t.body = body
}

// Put implements chat.Sink: it takes what an answer says.
func (t *Text) Put(e chat.Event) {
	switch e.Kind {
	case chat.KindText, chat.KindRefusal:
		t.say(&e, spoken)
	case chat.KindReasoning:
		t.say(&e, thought)
	case chat.KindArguments:
		t.say(&e, called)
	case chat.KindToolCall:
		t.calls++
		t.scratch = openai.AppendString(t.scratch[:0], e.Name)
		t.add(e.Choice, called, t.scratch[1:len(t.scratch)-1])
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

// Events takes whole server-sent events of a stream of responses, which pass as they came, and the usage that is known
// by now. It keeps no reference to them.
func (t *Text) Events(events []byte, reported openai.Usage) {
	for data := range sse.Data(events) {
		t.event(data)
	}
	t.Report(reported)
}

// event keeps the piece of text that an event of a stream of responses has.
func (t *Text) event(data []byte) {
	w := walker{data: data}
	var typ []byte
	for s, ok := w.next(); ok; s, ok = w.next() {
		switch {
		case w.depth == 1 && string(w.name) == "type":
			typ = s
		case w.depth == 1 && string(w.name) == "delta" && !bytes.Contains(typ, []byte("audio.")):
			t.add(0, spoken, s)
		}
	}
}

// Report takes the usage that the vendor has reported so far.
func (t *Text) Report(u openai.Usage) {
	if u != t.reported {
		t.reported, t.covered = u, t.said
	}
}

// add keeps what a choice says.
func (t *Text) add(choice int, k kind, s []byte) {
	t.said += int64(len(s))
	i := slices.IndexFunc(t.voices, func(v voice) bool { return v.choice == choice && v.kind == k })
	if i < 0 {
		if i = len(t.voices); i == maxVoices {
			return
		}
		t.voices = append(t.voices, voice{choice: choice, kind: k})
	}
	t.voices[i].said.Add(s)
}

// HasOutput reports whether the answer has said anything.
func (t *Text) HasOutput() bool { return t.said > 0 }

// Usage returns what is to be charged, and whether that, or a part of it, is an estimate. Vendor is the kind of the
// provider (Provider.Vendor.Name) and model its own name of the model. Reported is what the vendor has said of it, and
// complete that the answer has ended as it should: then what is reported stands. Of an answer that was cut, the prompt
// is what is reported, and counted where it is not; the output is what is reported, and what came after that report,
// counted.
//
// It takes a millisecond for every thousand tokens that it must count, 15 at most, and the first time in a process 25
// more: it is not for a goroutine that others wait for. An exchange that a provider has refused has nothing to be
// charged: then Usage must not be called.
func (t *Text) Usage(vendor, model string, reported openai.Usage, complete bool) (u openai.Usage, estimated bool) {
	u = reported
	t.Report(reported)
	if u.PromptTokens == 0 && (!complete || u.IsZero()) {
		if t.body != nil {
			t.prompt.read(t.body)
			t.body = nil
		}
		u.PromptTokens, estimated = t.prompt.count(vendor, model), true
	}
	if open := t.said - t.covered; open > 0 && !complete || complete && u.CompletionTokens == 0 && t.said > 0 {
		t.output(vendor, model, &u)
		if complete {
			u.CompletionTokens++ // the one that ends it
		}
		estimated = true
	}
	if estimated {
		u.TotalTokens = u.PromptTokens + u.CompletionTokens
	}
	return u, estimated
}

// output adds to what was reported what was said since.
func (t *Text) output(vendor, model string, u *openai.Usage) {
	var all, thoughts, sampled int64
	for i := range t.voices {
		v := &t.voices[i]
		n := v.said.CountJSON(vendor, model)
		if all, sampled = all+n, sampled+v.said.Len(); v.kind == thought {
			thoughts += n
		}
	}
	f := tokens.FramingOf(vendor, model)
	all = all*t.said/max(sampled, 1) + f.Answer + t.calls*f.Call
	if t.covered == 0 || u.CompletionTokens == 0 { // what was reported then is no more than how the answer begins
		u.CompletionTokens, u.ReasoningTokens = max(u.CompletionTokens, all), max(u.ReasoningTokens, thoughts)
		return
	}
	u.CompletionTokens += all * (t.said - t.covered) / t.said
}

// Salvage takes a whole answer that could not be read, of any dialect: no more is known of it than what its members
// are called.
func (t *Text) Salvage(body []byte) {
	w := walker{data: body}
	for s, ok := w.next(); ok; s, ok = w.next() {
		switch string(w.name) {
		case "content", "text", "refusal":
			t.add(w.index, spoken, s)
		case "reasoning_content", "reasoning", "thinking":
			t.add(w.index, thought, s)
		case "arguments":
			t.add(w.index, called, s)
		}
	}
}
