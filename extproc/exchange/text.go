package exchange

import (
	"bytes"
	"slices"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/sse"
	"github.com/modelgate/modelgate/internal/tokens"
)

// A text keeps of an exchange what its tokens can be counted by where the vendor does not say how many there were: the
// request, and what the answer has said so far, or samples of them. Nothing is counted before usage is called. It is used by one
// goroutine at a time, as the exchange is; the zero text is ready for use.
type text struct {
	body   []byte // the request, where it is small
	prompt prompt // or what was read of it

	voices []voice
	said   int64 // bytes of the voices as JSON has them, and of those for which there was no room
	calls  int64 // of tools

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

// maxBody is how large a request is at most that is kept as it is, until it is known whether it must be counted.
const maxBody = 16 << 10

// request takes the request's body, plain JSON of any operation, and keeps it or a sample of it. Any other body, a form say,
// counts for nothing.
func (t *text) request(body []byte) {
	if len(body) > maxBody {
		t.prompt.read(body)
		return
	}
	t.body = body
}

// answer takes whole server-sent events that the client gets, of chunks or of a stream of responses, and the usage that is
// known by now. It keeps no reference to them.
func (t *text) answer(events []byte, reported openai.Usage) {
	for data := range sse.Data(events) {
		t.read(data)
	}
	t.report(reported)
}

// document is answer for an answer that came whole. Where its output is reported, it is not looked at.
func (t *text) document(body []byte, reported openai.Usage) {
	if reported.CompletionTokens == 0 && bytes.Contains(body, []byte(`"choices"`)) {
		t.read(body)
	}
	t.report(reported)
}

func (t *text) report(u openai.Usage) {
	if u != t.reported {
		t.reported, t.covered = u, t.said
	}
}

// read walks over a chunk, an answer or an event of a stream of responses, and keeps the strings in which the model speaks: which
// these are follows from how deep they lie, and below which name.
func (t *text) read(data []byte) {
	w := walker{data: data}
	if i := bytes.Index(data, []byte(`"choices"`)); i >= 0 { // what comes before is the same in every chunk
		w.at, w.depth = i, 1
	}
	var typ []byte
	for s, ok := w.next(); ok; s, ok = w.next() {
		if w.depth == 1 && string(w.name) == "type" {
			typ = s
		}
		if k, ok := spokenAt(w.depth, w.name, typ); ok {
			t.add(w.index, k, s)
			if k == called && string(w.name) == "name" {
				t.calls++
			}
		}
	}
}

// spokenAt says what a string is that lies so deep below a name, in an event of a type.
func spokenAt(depth int, name, typ []byte) (kind, bool) {
	switch depth {
	case 1: // an event
		return spoken, string(name) == "delta" && !bytes.Contains(typ, []byte("audio."))
	case 3: // a choice of a completion
		return spoken, string(name) == "text"
	case 4: // a delta or message
		switch string(name) {
		case "content", "refusal":
			return spoken, true
		case "reasoning_content":
			return thought, true
		}
	case 5, 7: // function_call, tool_calls[].function
		switch string(name) {
		case "name", "arguments":
			return called, true
		}
	}
	return 0, false
}

// add keeps what a choice says.
func (t *text) add(choice int, k kind, s []byte) {
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

// usage returns what is to be charged, and whether that, or a part of it, is an estimate. Vendor is the kind of the provider
// (Provider.Vendor.Name) and model its own name of the model. Reported is what the vendor has said (StreamWriter.Usage), and
// complete that the answer has ended as it should: then what is reported stands. Of an answer that was cut, the prompt is what
// is reported, and counted where it is not; the output is what is reported, and what came after that report, counted.
//
// It takes a millisecond for every thousand tokens that it must count, 15 at most, and the first time in a process 25 more: it is
// not for a goroutine that others wait for. An exchange that a provider has refused has nothing to be charged: then usage must not
// be called.
func (t *text) usage(vendor, model string, reported openai.Usage, complete bool) (u openai.Usage, estimated bool) {
	u = reported
	t.report(reported)
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
func (t *text) output(vendor, model string, u *openai.Usage) {
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
