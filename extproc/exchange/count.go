package exchange

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/extproc/answer"
	"github.com/modelgate/modelgate/extproc/metering"
	"github.com/modelgate/modelgate/extproc/passages/local"
)

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
		{Name: strings.ToLower(local.HeaderCounted), Value: "estimate"}}}
}
