package exchange

import (
	"errors"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/pipeline"
)

// refuses reports whether err, of an answer with a status of success, is an error that the provider itself states within it. It
// is a refusal then, and billed only for what the answer has said or reported. Every other answer that cannot be used is one
// that the provider has given, and bills.
func refuses(err error) bool {
	e, stated := errors.AsType[*openai.Error](err)
	return stated && e != errNotAStream && e != errAnswerTooLarge && e != errNoRoom
}

// spoke reports whether an answer that has failed had begun: the client has seen some of it, it said something, or what it was cannot
// be told.
func (x *Exchange) spoke() bool {
	c := &x.charging
	return c.billed || x.record.Sent > 0 || c.text.said > 0 || c.events > 1 // one event is the error
}

// salvage reads what there is of a whole answer that cannot be used: its usage in any dialect that is known, and what it says.
func (x *Exchange) salvage(body []byte) {
	w := documentWatch{}
	w.feed(body)
	x.pipe = pipeline.Pipeline{} // what it was told is not the whole
	if x.record.Usage = w.told().used; x.record.Usage.CompletionTokens == 0 {
		x.charging.text.salvage(body)
	}
}

// salvage is document for an answer of any dialect, of which no more is known than what its members are called.
func (t *text) salvage(body []byte) {
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
