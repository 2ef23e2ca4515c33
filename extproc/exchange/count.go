package exchange

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/extproc/metering"
	"github.com/modelgate/modelgate/internal/inbound"
	"github.com/modelgate/modelgate/internal/limit"
)

// headerCounted is set, to "estimate", on a count of tokens that is not the provider's.
const headerCounted = "X-Modelgate-Counted"

// countHere answers a request for the number of its tokens without the provider, which cannot count.
func (x *Exchange) countHere(ctx context.Context, here *inbound.CountHere) Reply {
	set := x.rulesFor(x.rulesOfKey()).Only(limit.Requests, limit.Concurrency)
	if e := x.reserveKnown(ctx, set, limit.Amounts{limit.Requests: 1, limit.Concurrency: 1}); e != nil {
		return x.reject(e, "mg_limited")
	}
	var text metering.Text
	text.Request(x.request.Body)
	counted, _ := text.Usage(here.Vendor, here.Model, openai.Usage{}, true)
	x.record.Outcome, x.record.Status = metering.OutcomeFinished, http.StatusOK
	x.finish()
	return x.immediate(http.StatusOK, http.Header{"Content-Type": {contentTypeJSON}, headerCounted: {"estimate"}},
		x.operation.AppendCount(nil, counted.PromptTokens), "mg_counted")
}

// mayCountInstead reports whether the gateway counts because the provider does not: not for the model, or not for the
// gateway's credential.
func (x *Exchange) mayCountInstead(e *openai.Error) bool {
	return x.operation != nil && x.operation.AppendCount != nil &&
		(x.status == http.StatusForbidden || e.Code == openai.CodeUnsupportedEndpoint)
}

// countInstead replaces the provider's refusal to count by the gateway's own count.
func (x *Exchange) countInstead() Reply {
	counted, _ := x.charging.text.Usage(x.provider.Vendor.Name, x.record.Upstream, openai.Usage{}, true)
	body := x.operation.AppendCount(nil, counted.PromptTokens)
	x.record.Outcome, x.record.Status = metering.OutcomeFinished, http.StatusOK
	x.finish()
	return Reply{ReplaceBody: true, Body: body, Set: Headers{{Name: ":status", Value: strconv.Itoa(http.StatusOK)},
		{Name: "content-type", Value: contentTypeJSON}, {Name: "content-length", Value: strconv.Itoa(len(body))},
		{Name: strings.ToLower(headerCounted), Value: "estimate"}}}
}
