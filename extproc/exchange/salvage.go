package exchange

import (
	"errors"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/extproc/metering"
	"github.com/modelgate/modelgate/internal/pipeline"
)

// isRefusal reports whether err is an error that the provider reports inside an answer with a status of success. Such
// an answer is a refusal, and only its content or reported usage is billed. Any other unusable answer is billed by the
// provider.
func isRefusal(err error) bool {
	e, stated := errors.AsType[*openai.Error](err)
	return stated && e != pipeline.ErrNotAStream && e != errAnswerTooLarge && e != errNoRoom
}

// hasContent reports whether an answer that failed had begun: the client has seen some of it, it had content, or its
// content is unknown.
func (x *Exchange) hasContent() bool {
	c := &x.charging
	if x.watch != nil { // that it is announced, and its error, may have been sent
		return c.billed || c.said
	}
	return c.billed || x.c.Record.Sent > 0 || c.text.HasOutput()
}

// salvage reads the usage of an unusable complete answer, in any known dialect, or else its text.
func (x *Exchange) salvage(body []byte) {
	w := metering.DocumentWatch{}
	w.Feed(body)
	x.pipe = pipeline.Pipeline{} // its events are incomplete
	if x.c.Record.Usage = w.Report().Used; x.c.Record.Usage.CompletionTokens == 0 {
		x.charging.text.Salvage(body)
	}
}
