package answer

import (
	"cmp"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/extproc/call"
	"github.com/modelgate/modelgate/extproc/metering"
	"github.com/modelgate/modelgate/internal/pipeline"
	"github.com/modelgate/modelgate/internal/provider"
)

// ErrorHeaders makes Envoy buffer the body of an error, because status and body are replaced by the client's dialect.
func (a *Answer) ErrorHeaders(h call.Headers, status int, end bool) call.Reply {
	a.status, a.header = status, h.HTTP()
	if end {
		return a.FailUpstream(a.Error(nil), "mg_upstream_error")
	}
	reply := a.Headers(h)
	reply.Remove = append(reply.Remove, "content-encoding")
	reply.ResponseBody = call.Buffered
	return reply
}

// Status returns the status of an error, or 0.
func (a *Answer) Status() int { return a.status }

// Error decodes the body of an error.
func (a *Answer) Error(body []byte) *openai.Error {
	return a.Call.Provider.Vendor.DecodeError(a.status, a.header, body)
}

// FailUpstream ends the exchange with an error before any of the answer was sent.
func (a *Answer) FailUpstream(err error, details string) call.Reply {
	if reply, ok := a.Call.Again(err); ok {
		return reply
	}
	a.Sent = false
	e := a.Fail(err)
	h := e.Header()
	for _, own := range a.Own {
		h.Set(own.Name, own.Value)
	}
	return a.Call.Immediate(e.Status, h, a.Call.ErrorBody(e), details)
}

// ReplaceByError replaces a complete body by an error.
func (a *Answer) ReplaceByError(err error) call.Reply {
	if reply, ok := a.Call.Again(err); ok {
		return reply
	}
	e := a.Fail(err)
	body := a.Call.ErrorBody(e)
	reply := call.Reply{ReplaceBody: true, Body: body, Set: call.Headers{{Name: ":status", Value: strconv.Itoa(e.Status)},
		{Name: "content-length", Value: strconv.Itoa(len(body))}}}
	for name, values := range e.Header() {
		reply.Set = append(reply.Set, call.Header{Name: strings.ToLower(name), Value: values[0]})
	}
	return reply
}

// Fail ends the exchange with a failure of the provider, and returns the error for the client.
func (a *Answer) Fail(err error) *openai.Error {
	c := a.Call
	if g := c.Guarded.Answer(); g != nil && g.Unjudged != "" {
		c.Guarded.Unjudged, c.Record.RefusedBy = true, "guardrail "+g.Unjudged
	}
	a.Account.Billed = a.Account.Begun && (c.Guarded.HasEnded() || !IsRefusal(err))
	e := a.exhausted(a.judged(c.Provider.Scrub(pipeline.ClientError(err))))
	if a.Account.Billed && !c.Internal && !errors.Is(err, provider.ErrTruncated) {
		e = e.Final() // a retry would be billed again, with the same result
	}
	if c.Provider != nil {
		c.Record.Cool = c.Env.Cooldown.Refused(c.Provider, cmp.Or(a.status, e.Status), e.RetryAfter, c.Env.Now())
	}
	c.Record.Outcome, c.Record.Error = metering.OutcomeFailed, e
	switch {
	case errors.Is(err, provider.ErrTruncated):
		c.Record.Outcome = metering.OutcomeTruncated
	case c.Guarded.IsUnjudged(), IsClientError(e.Status):
		c.Record.Outcome = metering.OutcomeRejected
	}
	if !a.Sent {
		c.Record.Status = e.Status
	}
	c.Finish()
	return e
}

// judged has guardrails judge what a provider says of a failure.
func (a *Answer) judged(e *openai.Error) *openai.Error {
	g := a.Call.Guarded.Answer()
	if e.Code == openai.CodeContentBlocked || e.Code == openai.CodeGuardrailWorkExceeded || g == nil {
		return e
	}
	judged := *e
	judged.Message = g.Message(e.Message)
	code := string(e.Code)
	for _, s := range []*string{&code, &judged.Type, &judged.Param} {
		if *s != "" && g.Message(*s) != *s {
			*s = ""
		}
	}
	judged.Code = openai.Code(code)
	if judged.Type == "" {
		judged.Type = openai.TypeServer
	}
	return &judged
}

// exhausted tells SDKs not to retry if the gateway has made every attempt that the model allows, because a retry would
// repeat all of them. An error with a retry-after can be retried. The job service decides about retries itself.
func (a *Answer) exhausted(e *openai.Error) *openai.Error {
	c := a.Call
	if c.Internal || c.Record.Attempts < 2 || c.Record.Attempts < len(c.Active.Targets) || e.RetryAfter > 0 ||
		e.NoRetry || IsClientError(e.Status) {
		return e
	}
	return e.Final()
}

// IsClientError reports whether the client caused an error with this status, so that it says nothing about the
// provider.
func IsClientError(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden, http.StatusRequestTimeout,
		http.StatusTooManyRequests:
		return false
	}
	return status >= 400 && status <= 499
}

// IsRefusal reports whether err is an error that the provider reports inside an answer with a status of success. Such
// an answer is a refusal, and only its content or reported usage is billed. Any other unusable answer is billed by the
// provider.
func IsRefusal(err error) bool {
	e, stated := errors.AsType[*openai.Error](err)
	return stated && e != pipeline.ErrNotAStream && e != call.ErrAnswerTooLarge && e != call.ErrNoRoom
}
