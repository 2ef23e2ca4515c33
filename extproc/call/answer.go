package call

import (
	"cmp"
	"net/http"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/extproc/metering"
)

// Begun adds to the reply to the request's headers what Envoy has to know of the exchange.
func (c *Call) Begun(r Reply) Reply {
	c.names = Names{ID: c.Record.ID, Dialect: c.Dialect.Name, RequestID: c.Record.RequestID}
	r.Names = &c.names
	return r
}

// Reject ends the exchange with an error that the client or a limit of the gateway has caused.
func (c *Call) Reject(e *openai.Error, details string) Reply {
	c.Record.Outcome, c.Record.Status, c.Record.Error = metering.OutcomeRejected, e.Status, e
	c.Record.RefusedBy = cmp.Or(c.Record.RefusedBy, c.refuser(e))
	c.Finish()
	return c.Immediate(e.Status, e.Header(), c.ErrorBody(e), details)
}

// Refuse is Reject as the reply of a filter.
func (c *Call) Refuse(e *openai.Error, details string) *Reply {
	reply := c.Reject(e, details)
	return &reply
}

// refuser returns what refused a request, if no rule did.
func (c *Call) refuser(e *openai.Error) string {
	switch {
	case e.Status >= http.StatusInternalServerError, e.Status == http.StatusTooManyRequests:
		return "gateway"
	case c.Key == nil && !c.Internal:
		return "unknown key"
	}
	return metering.ByRequest
}

// ErrorBody returns the body of an error, in the client's dialect.
func (c *Call) ErrorBody(e *openai.Error) []byte {
	of := *e
	of.RequestID = c.Record.RequestID
	return c.Dialect.AppendError(nil, &of)
}

// Immediate answers the client and asks no further provider. Every answer has the request's id.
func (c *Call) Immediate(status int, h http.Header, body []byte, details string) Reply {
	if id := c.Record.RequestID; id != "" {
		h.Set("X-Request-Id", id)
		if name := c.Dialect.RequestIDHeader; name != "" {
			h.Set(name, id)
		}
	}
	for _, told := range c.LimitHeaders {
		h.Set(told.Name, told.Value)
	}
	c.Record.Sent = 0
	c.Sent(body)
	return Reply{Immediate: &Immediate{Status: status, Header: h, Body: body, Details: details}}
}

// AppendID appends the headers with the id of the request.
func (c *Call) AppendID(h Headers) Headers {
	h = append(h, Header{Name: "x-request-id", Value: c.Record.RequestID})
	if name := c.Dialect.RequestIDHeader; name != "" {
		h = append(h, Header{Name: name, Value: c.Record.RequestID})
	}
	return h
}
