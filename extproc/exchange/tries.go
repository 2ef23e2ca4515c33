package exchange

import (
	"net/http"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/extproc/metering"
)

// A Tried knows how attempts ended that Envoy has tried again. It is safe for concurrent use.
type Tried interface {
	// Tell completes the attempts of an exchange, but for the last, as far as Envoy has told of them.
	Tell(tries []metering.Try)
}

// try notes the attempts so far, if there are several.
func (x *Exchange) try() {
	tries := x.active.Tries(x.record.SentAt, x.record.Attempts)
	if len(tries) > len(x.record.Tries) {
		x.record.Tries = append(x.record.Tries, tries[len(x.record.Tries):]...)
	}
	if x.env.Tried != nil && len(tries) > 1 {
		x.env.Tried.Tell(x.record.Tries)
	}
}

// refuser returns what refused a request, where no rule did.
func (x *Exchange) refuser(e *openai.Error) string {
	switch {
	case e.Status >= http.StatusInternalServerError, e.Status == http.StatusTooManyRequests:
		return "gateway"
	case x.key == nil && !x.internal:
		return "unknown key"
	}
	return "request"
}
