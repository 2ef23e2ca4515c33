package exchange

import (
	"context"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/extproc/metering"
)

// reserve reserves the expected usage of a request, or returns the refusal.
func (x *Exchange) reserve(ctx context.Context, d metering.Demand) *openai.Error {
	return x.account.Reserve(ctx, x.account.Expect(d).For(x.c.Fits))
}

// rejectBody refuses a request because of its body. It counts towards the limits of requests.
func (x *Exchange) rejectBody(ctx context.Context, e *openai.Error, details string) Reply {
	x.account.CountRefused(ctx, e)
	return x.c.Reject(e, details)
}

// sendOut lets the first attempt go to its provider.
func (x *Exchange) sendOut(reply Reply) Reply {
	x.state = awaitResponse
	x.account.Send()
	return reply
}
