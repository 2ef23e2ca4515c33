package responses

import (
	"slices"
	"strconv"

	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/chat"
	"github.com/modelgate/modelgate/internal/inbound/compose"
)

// maxIdleBuffer bounds the buffer that an idle stream keeps: there are thousands of them.
const maxIdleBuffer = 16 << 10

// A stream writes an answer as the events of a response. Items have their output_index in the order in which they
// begin. It implements chat.Writer and is not safe for concurrent use.
type stream struct {
	response
	buf      []byte
	sequence int64
	begun    bool
	open     *output // the open item of text or reasoning, or nil
	calls    []*output
}

func newStream(asked chat.Asked) *stream { return &stream{response: newResponse(asked)} }

// Take implements chat.Writer.
func (w *stream) Take() []byte {
	b := w.buf
	w.buf = w.buf[:0]
	if cap(b) > maxIdleBuffer {
		w.buf = nil
	}
	return b
}

// Len implements chat.Writer.
func (w *stream) Len() int { return len(w.buf) }

// Put implements chat.Sink.
func (w *stream) Put(e chat.Event) {
	if e.Choice > 0 {
		return // a response is one choice
	}
	switch e.Kind {
	case chat.KindBegin:
		w.begin(e.ID)
	case chat.KindText:
		w.piece(textItem, &e)
	case chat.KindRefusal:
		w.piece(refusalItem, &e)
	case chat.KindReasoning:
		w.piece(reasoningItem, &e)
	case chat.KindToolCall:
		w.call(&e)
	case chat.KindArguments:
		w.arguments(&e)
	case chat.KindMember:
		switch e.Name {
		case "annotations":
			w.annotate(e.JSON)
		case "images":
			for _, image := range compose.Images(e.JSON) {
				w.image(image)
			}
		}
	case chat.KindFinish:
		w.finished = e.Text
	case chat.KindUsage:
		w.usage = *e.Usage
	case chat.KindTier:
		w.tier = e.Text
	case chat.KindEnd:
		w.end()
	case chat.KindError:
		w.fail(e.Error)
	}
}

// begin writes the first two events. Only the first call has an effect.
func (w *stream) begin(id string) {
	if w.begun {
		return
	}
	w.begun = true
	w.setID(id)
	for _, name := range []string{"response.created", "response.in_progress"} {
		w.event(name)
		w.buf = append(w.appendJSON(append(w.buf, `,"response":`...), "in_progress", nil), "}\n\n"...)
	}
}

// event begins an event.
func (w *stream) event(name string) {
	w.buf = append(append(w.buf, "event: "...), name...)
	w.buf = append(append(w.buf, "\ndata: {\"type\":\""...), name...)
	w.buf = strconv.AppendInt(append(w.buf, `","sequence_number":`...), w.sequence, 10)
	w.sequence++
}

// of begins an event of an item.
func (w *stream) of(name string, o *output) {
	w.event(name)
	w.buf = openai.AppendString(append(w.buf, `,"item_id":`...), o.id)
	w.buf = strconv.AppendInt(append(w.buf, `,"output_index":`...), int64(o.index), 10)
}

// item writes an event with a whole item.
func (w *stream) item(name, status string, o *output) {
	w.event(name)
	w.buf = strconv.AppendInt(append(w.buf, `,"output_index":`...), int64(o.index), 10)
	w.buf = append(o.appendJSON(append(w.buf, `,"item":`...), status), "}\n\n"...)
}

// names are the parts of the names of events, and the member that says which part of the item they are about.
var names = [...]struct{ part, text, index string }{
	textItem:      {"response.content_part", "response.output_text", `,"content_index":0`},
	refusalItem:   {"response.content_part", "response.refusal", `,"content_index":0`},
	reasoningItem: {"response.reasoning_summary_part", "response.reasoning_summary_text", `,"summary_index":0`},
}

// piece writes a piece of text, of a refusal or of reasoning.
func (w *stream) piece(kind itemKind, e *chat.Event) {
	text := e.String()
	if text == "" {
		return
	}
	w.openItem(kind)
	w.open.text = append(w.open.text, text...)
	w.of(names[kind].text+".delta", w.open)
	w.buf = append(append(w.buf, names[kind].index...), `,"delta":`...)
	w.buf = openai.AppendString(w.buf, text)
	if kind == textItem {
		w.buf = append(append(append(w.buf, `,"logprobs":[`...), w.open.addLogprobs(e.Logprobs)...), ']')
	}
	w.buf = append(w.buf, "}\n\n"...)
}

// openItem begins an item of text, of a refusal or of reasoning, unless one of the kind is open.
func (w *stream) openItem(kind itemKind) {
	w.begin("")
	if w.open != nil && w.open.kind == kind {
		return
	}
	w.close("completed")
	o := w.add(kind)
	w.open = o
	w.item("response.output_item.added", "in_progress", o)
	w.of(names[kind].part+".added", o)
	w.buf = append(append(w.buf, names[kind].index...), `,"part":`...)
	w.buf = append(o.appendPart(w.buf, false), "}\n\n"...)
}

// close completes the open item, with a status.
func (w *stream) close(status string) {
	o := w.open
	if o == nil {
		return
	}
	w.open = nil
	n := &names[o.kind]
	w.of(n.text+".done", o)
	w.buf = append(w.buf, n.index...)
	if o.kind == refusalItem {
		w.buf = openai.AppendString(append(w.buf, `,"refusal":`...), string(o.text))
	} else {
		w.buf = openai.AppendString(append(w.buf, `,"text":`...), string(o.text))
	}
	if o.kind == textItem {
		w.buf = append(append(append(w.buf, `,"logprobs":[`...), o.logprobs...), ']')
	}
	w.buf = append(w.buf, "}\n\n"...)
	w.of(n.part+".done", o)
	w.buf = append(append(w.buf, n.index...), `,"part":`...)
	w.buf = append(o.appendPart(w.buf, true), "}\n\n"...)
	w.done(o, status)
}

// done completes an item. Its status stays, whatever becomes of the response.
func (w *stream) done(o *output, status string) {
	o.status = status
	w.item("response.output_item.done", status, o)
}

// annotate adds the annotations of a text, which come when it is complete. If its item has ended already, the response
// has them in the item.
func (w *stream) annotate(list []byte) {
	annotations := gjson.ParseBytes(list).Array()
	if len(annotations) == 0 {
		return
	}
	w.begin("")
	o := w.lastText()
	if o == nil {
		w.openItem(textItem)
		o = w.open
	}
	for _, a := range annotations {
		flat := appendAnnotation(nil, a)
		w.of("response.output_text.annotation.added", o)
		w.buf = append(w.buf, `,"content_index":0,"annotation_index":`...)
		w.buf = strconv.AppendInt(w.buf, int64(len(o.annotations)), 10)
		w.buf = append(append(append(w.buf, `,"annotation":`...), flat...), "}\n\n"...)
		o.annotations = append(o.annotations, flat)
	}
}

// lastText returns the last item of text, or nil.
func (w *stream) lastText() *output {
	for _, o := range slices.Backward(w.items) {
		if o.kind == textItem {
			return o
		}
	}
	return nil
}

// image writes an image that the model has made.
func (w *stream) image(i compose.Image) {
	w.begin("")
	w.close("completed")
	o := w.addImage(i)
	if o.kind == textItem {
		w.items = w.items[:len(w.items)-1]
		w.piece(textItem, &chat.Event{Text: string(o.text)})
		return
	}
	w.item("response.output_item.added", "in_progress", o)
	w.of("response.image_generation_call.completed", o)
	w.buf = append(w.buf, "}\n\n"...)
	w.done(o, "completed")
}

func (w *stream) call(e *chat.Event) {
	w.begin("")
	if e.Call < len(w.calls) {
		return
	}
	w.close("completed")
	o := w.addCall(e.ID, e.Name)
	w.calls = append(w.calls, o)
	w.item("response.output_item.added", "in_progress", o)
}

// arguments writes a fragment of a call's arguments. The input of a custom tool is a string within them. It is written
// when it is complete.
func (w *stream) arguments(e *chat.Event) {
	if e.Call >= len(w.calls) {
		return
	}
	o, text := w.calls[e.Call], e.String()
	o.text = append(o.text, text...)
	if o.kind != callItem || text == "" {
		return
	}
	w.of("response.function_call_arguments.delta", o)
	w.buf = append(openai.AppendString(append(w.buf, `,"delta":`...), text), "}\n\n"...)
}

func (w *stream) endCall(o *output, status string) {
	switch o.kind {
	case clientItem: // it has no events of its own
		w.done(o, status)
		return
	case customItem:
		o.text = []byte(customInput(o.text))
		w.of("response.custom_tool_call_input.delta", o)
		w.buf = append(openai.AppendString(append(w.buf, `,"delta":`...), string(o.text)), "}\n\n"...)
		w.of("response.custom_tool_call_input.done", o)
		w.buf = openai.AppendString(append(w.buf, `,"input":`...), string(o.text))
	default:
		w.of("response.function_call_arguments.done", o)
		w.buf = openai.AppendString(append(w.buf, `,"name":`...), o.name)
		w.buf = openai.AppendString(append(w.buf, `,"arguments":`...), string(o.text))
	}
	w.buf = append(w.buf, "}\n\n"...)
	w.done(o, status)
}

// end completes the response.
func (w *stream) end() {
	w.begin("")
	status := w.status()
	w.close(w.ends(w.open))
	for _, o := range w.calls {
		w.endCall(o, w.ends(o))
	}
	w.event("response." + status)
	w.buf = append(w.appendJSON(append(w.buf, `,"response":`...), status, nil), "}\n\n"...)
}

// fail ends the response with an error.
func (w *stream) fail(e *openai.Error) {
	w.begin("")
	w.event("response.failed")
	w.buf = append(w.appendJSON(append(w.buf, `,"response":`...), "failed", e), "}\n\n"...)
}
