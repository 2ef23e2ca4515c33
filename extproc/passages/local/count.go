package local

import (
	"context"
	"net/http"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/extproc/answer"
	"github.com/modelgate/modelgate/extproc/call"
	"github.com/modelgate/modelgate/extproc/metering"
	"github.com/modelgate/modelgate/internal/inbound"
	"github.com/modelgate/modelgate/internal/limit"
)

// HeaderCounted is set, to "estimate", on a count of tokens that is not the provider's.
const HeaderCounted = "X-Modelgate-Counted"

// Count answers a request for the number of its tokens without the provider, which cannot count.
func (p Passage) Count(ctx context.Context, here *inbound.CountHere) call.Reply {
	set := p.c.RulesOfKey().For(p.c.Fits).Only(limit.Requests, limit.Concurrency)
	if e := p.account.ReserveKnown(ctx, set, limit.Amounts{limit.Requests: 1, limit.Concurrency: 1}); e != nil {
		return p.c.Reject(e, "mg_limited")
	}
	var text metering.Text
	text.Request(p.c.Request.Body)
	counted, _ := text.Usage(here.Vendor, here.Model, openai.Usage{}, true)
	p.c.Record.Outcome, p.c.Record.Status = metering.OutcomeFinished, http.StatusOK
	p.c.Finish()
	return p.c.Immediate(http.StatusOK, http.Header{"Content-Type": {answer.TypeJSON}, HeaderCounted: {"estimate"}},
		p.c.Operation.AppendCount(nil, counted.PromptTokens), "mg_counted")
}
