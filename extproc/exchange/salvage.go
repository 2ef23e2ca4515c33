package exchange

import (
	"errors"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/extproc/filters/room"
	"github.com/modelgate/modelgate/internal/pipeline"
)

// isRefusal reports whether err is an error that the provider reports inside an answer with a status of success. Such
// an answer is a refusal, and only its content or reported usage is billed. Any other unusable answer is billed by the
// provider.
func isRefusal(err error) bool {
	e, stated := errors.AsType[*openai.Error](err)
	return stated && e != pipeline.ErrNotAStream && e != errAnswerTooLarge && e != room.ErrNone
}

// salvage reads the usage of an unusable complete answer, in any known dialect, or else its text.
func (x *Exchange) salvage(body []byte) {
	x.pipe = pipeline.Pipeline{} // its events are incomplete
	x.account.Salvage(body)
}
