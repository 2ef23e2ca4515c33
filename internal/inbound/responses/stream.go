package responses

import (
	"slices"
	"strconv"

	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/chat"
	"github.com/modelgate/modelgate/internal/inbound/compose"
)

// A stream writes an answer as the events of a response. Items have their output_index in the order in which they
// begin. It implements chat.Writer and is not safe for concurrent use.
type stream struct {
	response
	chat.Buffer
	sequence int64
	begun    bool
	open     *output // the open item of text or reasoning, or nil
	calls    []*output
}

func newStream(asked chat.Asked) *stream { return &stream{response: newResponse(asked)} }

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
		w.Buf = append(w.appendJSON(append(w.Buf, `,"response":`...), "in_progress", nil), "}\n\n"...)
	}
}

// event begins an event.
func (w *stream) event(name string) {
	w.Buf = append(append(w.Buf, "event: "...), name...)
	w.Buf = append(append(w.Buf, "\ndata: {\"type\":\""...), name...)
	w.Buf = strconv.AppendInt(append(w.Buf, `","sequence_number":`...), w.sequence, 10)
	w.sequence++
}

// of begins an event of an item.
func (w *stream) of(name string, o *output) {
	w.event(name)
	w.Buf = openai.AppendString(append(w.Buf, `,"item_id":`...), o.id)
	w.Buf = strconv.AppendInt(append(w.Buf, `,"output_index":`...), int64(o.index), 10)
}

// item writes an event with a whole item.
func (w *stream) item(name, status string, o *output) {
	w.event(name)
	w.Buf = strconv.AppendInt(append(w.Buf, `,"output_index":`...), int64(o.index), 10)
	w.Buf = append(o.appendJSON(append(w.Buf, `,"item":`...), status), "}\n\n"...)
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
	w.Buf = append(append(w.Buf, names[kind].index...), `,"delta":`...)
	w.Buf = openai.AppendString(w.Buf, text)
	if kind == textItem {
		w.Buf = append(append(append(w.Buf, `,"logprobs":[`...), w.open.addLogprobs(e.Logprobs)...), ']')
	}
	w.Buf = append(w.Buf, "}\n\n"...)
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
	w.Buf = append(append(w.Buf, names[kind].index...), `,"part":`...)
	w.Buf = append(o.appendPart(w.Buf, false), "}\n\n"...)
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
	w.Buf = append(w.Buf, n.index...)
	if o.kind == refusalItem {
		w.Buf = openai.AppendString(append(w.Buf, `,"refusal":`...), string(o.text))
	} else {
		w.Buf = openai.AppendString(append(w.Buf, `,"text":`...), string(o.text))
	}
	if o.kind == textItem {
		w.Buf = append(append(append(w.Buf, `,"logprobs":[`...), o.logprobs...), ']')
	}
	w.Buf = append(w.Buf, "}\n\n"...)
	w.of(n.part+".done", o)
	w.Buf = append(append(w.Buf, n.index...), `,"part":`...)
	w.Buf = append(o.appendPart(w.Buf, true), "}\n\n"...)
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
		w.Buf = append(w.Buf, `,"content_index":0,"annotation_index":`...)
		w.Buf = strconv.AppendInt(w.Buf, int64(len(o.annotations)), 10)
		w.Buf = append(append(append(w.Buf, `,"annotation":`...), flat...), "}\n\n"...)
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
	w.Buf = append(w.Buf, "}\n\n"...)
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
	w.Buf = append(openai.AppendString(append(w.Buf, `,"delta":`...), text), "}\n\n"...)
}

func (w *stream) endCall(o *output, status string) {
	switch o.kind {
	case clientItem: // it has no events of its own
		w.done(o, status)
		return
	case customItem:
		o.text = []byte(customInput(o.text))
		w.of("response.custom_tool_call_input.delta", o)
		w.Buf = append(openai.AppendString(append(w.Buf, `,"delta":`...), string(o.text)), "}\n\n"...)
		w.of("response.custom_tool_call_input.done", o)
		w.Buf = openai.AppendString(append(w.Buf, `,"input":`...), string(o.text))
	default:
		w.of("response.function_call_arguments.done", o)
		w.Buf = openai.AppendString(append(w.Buf, `,"name":`...), o.name)
		w.Buf = openai.AppendString(append(w.Buf, `,"arguments":`...), string(o.text))
	}
	w.Buf = append(w.Buf, "}\n\n"...)
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
	w.Buf = append(w.appendJSON(append(w.Buf, `,"response":`...), status, nil), "}\n\n"...)
}

// fail ends the response with an error.
func (w *stream) fail(e *openai.Error) {
	w.begin("")
	w.event("response.failed")
	w.Buf = append(w.appendJSON(append(w.Buf, `,"response":`...), "failed", e), "}\n\n"...)
}
