package gemini

import (
	"slices"
	"strconv"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/chat"
)

// A framing is what stands around the chunks of a stream.
type framing struct{ first, next, after, end string }

var (
	events = framing{first: "data: ", next: "data: ", after: "\n\n"}
	array  = framing{first: "[", next: ",\n", end: "]"}
)

// A stream writes an answer as Google's chunks: each is an answer with a piece of the text. It implements chat.Writer
// and is not safe for concurrent use.
type stream struct {
	chat.Buffer
	asked    chat.Asked
	framing  framing
	thoughts bool // the client wants them

	native  bool // the vendor's own chunks are passed
	begun   bool
	id      string
	usage   openai.Usage
	choices []choice
}

// A choice has the unwritten part of a candidate.
type choice struct {
	finished    string // OpenAI's finish reason
	refused     bool
	annotations []byte
	calls       []call
}

// A call is a call of a function, which is written whole.
type call struct {
	id, name  string
	arguments []byte
	extra     []byte // extra_content, or nil
}

func newStream(asked chat.Asked, f framing) chat.Writer {
	return &stream{asked: asked, framing: f, thoughts: wantsThoughts(asked.Echo)}
}

// Put implements chat.Sink.
func (w *stream) Put(e chat.Event) {
	switch {
	case e.Kind == chat.KindError:
		w.open()
		w.Buf = appendError(w.Buf, e.Error)
		w.close()
		w.Buf = append(w.Buf, w.framing.end...)
	case e.Kind == chat.KindNative:
		w.passed(e.JSON)
	case e.Kind == chat.KindEnd && w.native:
		w.Buf = append(w.Buf, w.framing.end...)
	case !w.native && !e.IsRaw():
		w.put(&e)
	}
}

// passed writes the vendor's own chunk. The first event of such an answer has none.
func (w *stream) passed(chunk []byte) {
	if w.native = true; len(chunk) > 0 {
		w.open()
		w.Buf = append(w.Buf, chunk...)
		w.close()
	}
}

func (w *stream) put(e *chat.Event) {
	switch e.Kind {
	case chat.KindBegin:
		w.id = e.ID
	case chat.KindUsage:
		w.usage = *e.Usage
	case chat.KindEnd:
		w.end()
	case chat.KindText, chat.KindRefusal, chat.KindReasoning, chat.KindToolCall, chat.KindArguments, chat.KindMember,
		chat.KindFinish:
		for len(w.choices) <= e.Choice {
			w.choices = append(w.choices, choice{})
		}
		w.piece(&w.choices[e.Choice], e)
	}
}

// piece writes or keeps a piece of a candidate.
func (w *stream) piece(c *choice, e *chat.Event) {
	switch e.Kind {
	case chat.KindText:
		w.text(`{"text":`, e)
	case chat.KindRefusal:
		c.refused = true
		w.text(`{"text":`, e)
	case chat.KindReasoning:
		if w.thoughts {
			w.text(`{"thought":true,"text":`, e)
		}
	case chat.KindToolCall:
		c.calls = append(c.calls, call{id: e.ID, name: e.Name, extra: slices.Clone(e.JSON)})
	case chat.KindArguments:
		if e.Call < len(c.calls) {
			c.calls[e.Call].arguments = append(c.calls[e.Call].arguments, e.String()...)
		}
	case chat.KindMember:
		switch e.Name {
		case "images":
			w.begin()
			w.Buf = appendImages(w.Buf, e.JSON)
			w.finish(e.Choice, nil)
		case "annotations":
			c.annotations = append(c.annotations[:0], e.JSON...)
		}
	case chat.KindFinish:
		c.finished = e.Text
	}
}

// text writes a chunk with a part that has a piece of text.
func (w *stream) text(open string, e *chat.Event) {
	if e.JSON == nil && e.Text == "" || string(e.JSON) == `""` {
		return
	}
	w.begin()
	if w.Buf = append(w.Buf, open...); e.JSON != nil {
		w.Buf = append(w.Buf, e.JSON...)
	} else {
		w.Buf = openai.AppendString(w.Buf, e.Text)
	}
	w.Buf = append(w.Buf, '}')
	w.finish(e.Choice, e.Logprobs)
}

// open and close write what stands around a chunk.
func (w *stream) open() {
	if !w.begun {
		w.begun, w.Buf = true, append(w.Buf, w.framing.first...)
	} else {
		w.Buf = append(w.Buf, w.framing.next...)
	}
}

func (w *stream) close() { w.Buf = append(w.Buf, w.framing.after...) }

// begin begins a chunk up to the parts of a candidate. finish ends it.
func (w *stream) begin() {
	w.open()
	w.Buf = append(w.Buf, `{"candidates":[{"content":{"parts":[`...)
}

func (w *stream) finish(index int, logprobs []byte) {
	w.Buf = append(w.Buf, `],"role":"model"}`...)
	if logprobs != nil {
		w.Buf = appendLogprobs(w.Buf, logprobs)
	}
	w.Buf = strconv.AppendInt(append(w.Buf, `,"index":`...), int64(index), 10)
	w.Buf = appendTail(append(w.Buf, "}]"...), w.asked.Model, w.id)
	w.close()
}

// end writes the last chunk, with the calls, the reasons why the candidates end, and the usage.
func (w *stream) end() {
	w.open()
	w.Buf = append(w.Buf, `{"candidates":[`...)
	for i := range w.choices {
		c := &w.choices[i]
		w.Buf = append(next(w.Buf), `{"content":{"parts":[`...)
		for n := range c.calls {
			call := &c.calls[n]
			w.Buf = appendCall(next(w.Buf), call.id, call.name, string(call.arguments), call.extra)
		}
		if len(c.calls) == 0 {
			w.Buf = append(w.Buf, `{"text":""}`...)
		}
		w.Buf = append(w.Buf, `],"role":"model"},"finishReason":`...)
		w.Buf = openai.AppendString(w.Buf, finishReason(c.finished, c.refused))
		w.Buf = appendGrounding(w.Buf, c.annotations)
		w.Buf = append(strconv.AppendInt(append(w.Buf, `,"index":`...), int64(i), 10), '}')
	}
	w.Buf = appendTail(appendUsage(append(w.Buf, `],"usageMetadata":`...), &w.usage), w.asked.Model, w.id)
	w.close()
	w.Buf = append(w.Buf, w.framing.end...)
}
