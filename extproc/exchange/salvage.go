package exchange

import (
	"errors"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/extproc/metering"
	"github.com/modelgate/modelgate/internal/pipeline"
)

// refuses reports whether err, of an answer with a status of success, is an error that the provider itself states
// within it. It is a refusal then, and billed only for what the answer has said or reported. Every other answer that
// cannot be used is one that the provider has given, and bills.
func refuses(err error) bool {
	e, stated := errors.AsType[*openai.Error](err)
	return stated && e != pipeline.ErrNotAStream && e != errAnswerTooLarge && e != errNoRoom
}

// spoke reports whether an answer that has failed had begun: the client has seen some of it, it said something, or
// what it was cannot be told.
func (x *Exchange) spoke() bool {
	c := &x.charging
	return c.billed || x.record.Sent > 0 || c.text.HasOutput() || c.events > 1 // one event is the error
}

// salvage reads what there is of a whole answer that cannot be used: its usage in any dialect that is known, and what
// it says.
func (x *Exchange) salvage(body []byte) {
	w := metering.DocumentWatch{}
	w.Feed(body)
	x.pipe = pipeline.Pipeline{} // what it was told is not the whole
	if x.record.Usage = w.Told().Used; x.record.Usage.CompletionTokens == 0 {
		x.charging.text.Salvage(body)
	}
}
