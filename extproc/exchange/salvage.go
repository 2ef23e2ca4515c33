package exchange

import (
	"github.com/modelgate/modelgate/internal/pipeline"
)

// salvage reads the usage of an unusable complete answer, in any known dialect, or else its text.
func (x *Exchange) salvage(body []byte) {
	x.pipe = pipeline.Pipeline{} // its events are incomplete
	x.account.Salvage(body)
}
