package planned

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/extproc/answer"
	"github.com/modelgate/modelgate/extproc/call"
	"github.com/modelgate/modelgate/extproc/metering"
	"github.com/modelgate/modelgate/internal/inbound"
	"github.com/modelgate/modelgate/internal/limit"
)

// headerCounted is set, to "estimate", on a count of tokens that is not the provider's.
const headerCounted = "X-Modelgate-Counted"

// count answers a request for the number of its tokens without the provider, which cannot count.
func (p *Passage) count(ctx context.Context, here *inbound.CountHere) call.Reply {
	set := p.c.RulesOfKey().For(p.c.Fits).Only(limit.Requests, limit.Concurrency)
	if e := p.answer.Account.ReserveKnown(ctx, set, limit.Amounts{limit.Requests: 1, limit.Concurrency: 1}); e != nil {
		return p.c.Reject(e, "mg_limited")
	}
	var text metering.Text
	text.Request(p.c.Request.Body)
	counted, _ := text.Usage(here.Vendor, here.Model, openai.Usage{}, true)
	p.c.Record.Outcome, p.c.Record.Status = metering.OutcomeFinished, http.StatusOK
	p.c.Finish()
	return p.c.Immediate(http.StatusOK, http.Header{"Content-Type": {answer.TypeJSON}, headerCounted: {"estimate"}},
		p.c.Operation.AppendCount(nil, counted.PromptTokens), "mg_counted")
}

// mayCountInstead reports whether the gateway counts because the provider does not: not for the model, or not for the
// gateway's credential.
func (p *Passage) mayCountInstead(e *openai.Error) bool {
	return p.c.Operation.AppendCount != nil &&
		(p.answer.Status() == http.StatusForbidden || e.Code == openai.CodeUnsupportedEndpoint)
}

// countInstead replaces the provider's refusal to count by the gateway's own count.
func (p *Passage) countInstead() call.Reply {
	counted, _ := p.answer.Account.Text.Usage(p.c.Provider.Vendor.Name, p.c.Record.Upstream, openai.Usage{}, true)
	body := p.c.Operation.AppendCount(nil, counted.PromptTokens)
	p.c.Record.Outcome, p.c.Record.Status = metering.OutcomeFinished, http.StatusOK
	p.c.Finish()
	return call.Reply{ReplaceBody: true, Body: body, Set: call.Headers{
		{Name: ":status", Value: strconv.Itoa(http.StatusOK)}, {Name: "content-type", Value: answer.TypeJSON},
		{Name: "content-length", Value: strconv.Itoa(len(body))},
		{Name: strings.ToLower(headerCounted), Value: "estimate"}}}
}
