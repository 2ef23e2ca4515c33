package exchange

import (
	"context"
	"net/http"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/extproc/metering"
	"github.com/modelgate/modelgate/internal/inbound"
	"github.com/modelgate/modelgate/internal/limit"
)

// headerCounted is set, to "estimate", on a count of tokens that is not the provider's.
const headerCounted = "X-Modelgate-Counted"

// countHere answers a request for the number of its tokens without the provider, which cannot count.
func (x *Exchange) countHere(ctx context.Context, here *inbound.CountHere, body []byte) Reply {
	set := x.preBodyRules().Only(limit.Requests, limit.Concurrency)
	if e := x.reserveKnown(ctx, set, limit.Amounts{limit.Requests: 1, limit.Concurrency: 1}); e != nil {
		return x.reject(e, "mg_limited")
	}
	var text metering.Text
	text.Request(body)
	counted, _ := text.Usage(here.Vendor, here.Model, openai.Usage{}, true)
	x.record.Outcome, x.record.Status = metering.OutcomeFinished, http.StatusOK
	x.finish()
	return x.immediate(http.StatusOK, http.Header{"Content-Type": {contentTypeJSON}, headerCounted: {"estimate"}},
		x.operation.AppendCount(nil, counted.PromptTokens), "mg_counted")
}
