package exchange

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/extproc/answer"
	"github.com/modelgate/modelgate/extproc/metering"
	"github.com/modelgate/modelgate/internal/inbound"
	"github.com/modelgate/modelgate/internal/limit"
)

// headerCounted is set, to "estimate", on a count of tokens that is not the provider's.
const headerCounted = "X-Modelgate-Counted"

// countHere answers a request for the number of its tokens without the provider, which cannot count.
func (x *Exchange) countHere(ctx context.Context, here *inbound.CountHere) Reply {
	set := x.c.RulesOfKey().For(x.c.Fits).Only(limit.Requests, limit.Concurrency)
	if e := x.account.ReserveKnown(ctx, set, limit.Amounts{limit.Requests: 1, limit.Concurrency: 1}); e != nil {
		return x.c.Reject(e, "mg_limited")
	}
	var text metering.Text
	text.Request(x.c.Request.Body)
	counted, _ := text.Usage(here.Vendor, here.Model, openai.Usage{}, true)
	x.c.Record.Outcome, x.c.Record.Status = metering.OutcomeFinished, http.StatusOK
	x.c.Finish()
	return x.c.Immediate(http.StatusOK, http.Header{"Content-Type": {answer.TypeJSON}, headerCounted: {"estimate"}},
		x.c.Operation.AppendCount(nil, counted.PromptTokens), "mg_counted")
}

// mayCountInstead reports whether the gateway counts because the provider does not: not for the model, or not for the
// gateway's credential.
func (x *Exchange) mayCountInstead(e *openai.Error) bool {
	return x.c.Operation != nil && x.c.Operation.AppendCount != nil &&
		(x.answer.Status() == http.StatusForbidden || e.Code == openai.CodeUnsupportedEndpoint)
}

// countInstead replaces the provider's refusal to count by the gateway's own count.
func (x *Exchange) countInstead() Reply {
	counted, _ := x.account.Text.Usage(x.c.Provider.Vendor.Name, x.c.Record.Upstream, openai.Usage{}, true)
	body := x.c.Operation.AppendCount(nil, counted.PromptTokens)
	x.c.Record.Outcome, x.c.Record.Status = metering.OutcomeFinished, http.StatusOK
	x.c.Finish()
	return Reply{ReplaceBody: true, Body: body, Set: Headers{{Name: ":status", Value: strconv.Itoa(http.StatusOK)},
		{Name: "content-type", Value: answer.TypeJSON}, {Name: "content-length", Value: strconv.Itoa(len(body))},
		{Name: strings.ToLower(headerCounted), Value: "estimate"}}}
}
