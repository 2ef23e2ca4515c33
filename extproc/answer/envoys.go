package answer

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/extproc/call"
	"github.com/modelgate/modelgate/extproc/metering"
)

// Envoys passes an answer of Envoy itself.
func (a *Answer) Envoys(h call.Headers, details string) call.Reply {
	c := a.Call
	status, _ := strconv.Atoi(h.Get(":status"))
	c.Record.Outcome = metering.OutcomeGateway
	a.Account.Unanswered = metering.Reached(details, c.Env.Now().Sub(c.Record.SentAt))
	if c.Active != nil { // else the job service's
		c.Record.Error = envoysError(status, details)
	}
	c.Finish()
	// Envoy does not have the id any more
	return call.Reply{ResponseBody: call.None, Set: append(c.AppendID(nil), c.LimitHeaders...)}
}

// envoysError is the error in an answer of Envoy itself about a provider, as the listener's local replies write it.
func envoysError(status int, details string) *openai.Error {
	e := &openai.Error{Status: status, Type: openai.TypeServer}
	switch {
	case strings.HasPrefix(details, "ext_proc_"), strings.HasPrefix(details, "mismatch_between_content_length"):
		e.Code = openai.CodeGatewayUnavailable
	case status == http.StatusGatewayTimeout:
		e.Code = openai.CodeUpstreamTimeout
	case details == "response_payload_too_large":
		e.Code = openai.CodeUpstreamResponseTooLarge
	case status == http.StatusServiceUnavailable:
		e.Code = openai.CodeUpstreamUnavailable
	default:
		return nil
	}
	return e
}
