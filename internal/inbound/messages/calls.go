package messages

import (
	"strings"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/chat"
	"github.com/modelgate/modelgate/internal/provider/forms"
)

// call takes in the beginning of a call.
func (w *stream) call(e *chat.Event) {
	w.begin("")
	if e.Call < len(w.calls) {
		return
	}
	w.calls = append(w.calls, call{id: e.ID, name: e.Name})
	w.next()
}

// arguments takes in a fragment of a call's arguments.
func (w *stream) arguments(e *chat.Event) {
	if e.Call >= len(w.calls) {
		return
	}
	c := &w.calls[e.Call]
	text := e.String()
	c.input.read(text)
	if w.open == toolBlock && w.live == e.Call {
		w.inputDelta(text)
		w.next()
		return
	}
	c.held = append(c.held, text...)
}

// next opens the blocks of calls that wait, as long as the open one is complete.
func (w *stream) next() {
	for i := range w.calls {
		if w.calls[i].written {
			continue
		}
		if w.open == toolBlock && !w.calls[w.live].input.complete() {
			return
		}
		w.openCall(i)
	}
}

// flushCalls writes all calls that wait: no more is to come of them.
func (w *stream) flushCalls() {
	for i := range w.calls {
		if !w.calls[i].written {
			w.openCall(i)
		}
	}
}

func (w *stream) openCall(i int) {
	w.close()
	c := &w.calls[i]
	w.open, w.live, c.written = toolBlock, i, true
	w.event("content_block_start")
	w.Buf = append(w.Buf, `,"content_block":{"type":"tool_use","id":`...)
	w.Buf = openai.AppendString(w.Buf, blockID(c.id))
	w.Buf = openai.AppendString(append(w.Buf, `,"name":`...), c.name)
	w.Buf = append(w.Buf, `,"input":{}}}`+"\n\n"...)
	if len(c.held) > 0 {
		w.inputDelta(string(c.held))
		c.held = nil
	}
}

// blockID returns the id of a call as Anthropic's API takes it back. Ids with data have that form already.
func blockID(id string) string {
	if id == "" || strings.Contains(id, openai.CarriedMark) {
		return id
	}
	return forms.Block().Fit(id)
}

func (w *stream) inputDelta(text string) {
	if text == "" {
		return
	}
	w.event("content_block_delta")
	w.Buf = append(w.Buf, `,"delta":{"type":"input_json_delta","partial_json":`...)
	w.Buf = append(openai.AppendString(w.Buf, text), "}}\n\n"...)
}

// An object reads a JSON object in pieces, as far as it takes to know where it ends.
type object struct {
	depth              int
	begun              bool
	inString, isEscape bool
}

func (o *object) read(piece string) {
	for i := range len(piece) {
		switch c := piece[i]; {
		case o.isEscape:
			o.isEscape = false
		case o.inString:
			o.isEscape, o.inString = c == '\\', c != '"'
		case c == '"':
			o.inString = true
		case c == '{', c == '[':
			o.depth++
			o.begun = true
		case c == '}', c == ']':
			o.depth--
		}
	}
}

func (o *object) complete() bool { return o.begun && o.depth <= 0 }
