// Package answer has what the passages share of the answers of providers: the headers of the gateway on them, how they
// pass, and how a failure of a provider becomes an error for the client. A failure before the answer has begun can
// still change the status; later it is reported inside the stream, or not at all.
package answer

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/modelgate/modelgate/extproc/account"
	"github.com/modelgate/modelgate/extproc/call"
	"github.com/modelgate/modelgate/extproc/metering"
	"github.com/modelgate/modelgate/extproc/routing"
	"github.com/modelgate/modelgate/internal/headers"
	"github.com/modelgate/modelgate/internal/provider"
)

// Headers that the gateway sets on answers, and content types.
const (
	HeaderProvider = "x-modelgate-provider" // who answered
	headerAttempts = "x-modelgate-attempts" // how many attempts it took, if more than one
	HeaderDropped  = "x-modelgate-dropped"  // parameters that the provider does not support
	// parameters whose values were replaced by similar ones that the provider supports
	HeaderAdjusted = "x-modelgate-adjusted"
	HeaderUpstream = "x-upstream-request-id" // the provider's own id of the request
	HeaderCost     = "x-modelgate-cost-usd"  // cost of the request, on demand
	HeaderTellCost = "x-modelgate-include-cost"
	HeaderCache    = "x-modelgate-cache" // what the response cache did: one of metering's results
	TypeSSE        = "text/event-stream; charset=utf-8"
	TypeJSON       = "application/json"
)

// An Answer is the answer of a provider to a planned request.
type Answer struct {
	Call    *call.Call
	Account *account.Account
	Decoded routing.Answer // how it is decoded
	Own     call.Headers   // headers of the gateway on every answer of a provider
	Sent    bool           // the client has got its status
	Watch   metering.Watch // of an answer that passes; nil: it does not

	status int         // of an error
	header http.Header // likewise
}

// Open prepares the answer of a call.
func (a *Answer) Open(c *call.Call, account *account.Account) { a.Call, a.Account = c, account }

// Reset prepares for the answer to a further attempt.
func (a *Answer) Reset() { *a = Answer{Call: a.Call, Account: a.Account, Own: a.Own} }

// Take notes which attempt has answered. It fails if the attempt is not planned.
func (a *Answer) Take(h call.Headers, f call.Facts) error {
	c := a.Call
	target, decoded, ok := c.Active.Answer(min(f.Attempts, len(c.Active.Targets)))
	if !ok {
		return provider.ErrNotAnAnswer
	}
	a.Decoded, c.Provider, c.Record.Upstream = decoded, target.Provider, target.Model
	a.Account.Text.Retried(decoded.Body)
	a.Own = a.ownHeaders(h)
	return nil
}

// Headers removes all headers of a provider that are not for the client.
func (a *Answer) Headers(h call.Headers) call.Reply {
	reply := call.Reply{Set: a.Own, Remove: a.Call.Removed[:0]} // the reply to the request was sent
	for i := range h {
		if name := h[i].Name; name[0] != ':' && !headers.ToClient(name) {
			reply.Remove = append(reply.Remove, name)
		}
	}
	return reply
}

// ownHeaders returns the headers that the gateway adds to a provider's answer.
func (a *Answer) ownHeaders(h call.Headers) call.Headers {
	c := a.Call
	own := make(call.Headers, 0, 8+len(c.LimitHeaders)) // with room for headers that are added later
	own = append(own, c.LimitHeaders...)
	own = c.AppendID(append(own, call.Header{Name: HeaderProvider, Value: c.Record.Provider}))
	r := &c.Record
	if r.UpstreamID = UpstreamID(h); r.UpstreamID != "" && c.Guarded.Answer() != nil &&
		c.Guarded.Answer().Message(r.UpstreamID) != r.UpstreamID {
		r.UpstreamID = ""
	}
	if r.UpstreamID != "" {
		own = append(own, call.Header{Name: HeaderUpstream, Value: r.UpstreamID})
	}
	if r.Attempts > 1 {
		own = append(own, call.Header{Name: headerAttempts, Value: strconv.Itoa(r.Attempts)})
	}
	if r.Cache != nil {
		own = append(own, call.Header{Name: HeaderCache, Value: string(r.Cache.Result)})
	}
	r.Dropped, r.Adjusted = joined(a.Decoded.Dropped), joined(a.Decoded.Adjusted)
	return AppendKnown(AppendKnown(own, HeaderDropped, r.Dropped), HeaderAdjusted, r.Adjusted)
}

// joined returns the value of a header with names.
func joined(names []string) string {
	all := strings.Join(names, ",")
	return all[:min(len(all), maxHeader)]
}

// AppendKnown appends a header, if it has a value.
func AppendKnown(h call.Headers, name, value string) call.Headers {
	if value != "" {
		h = append(h, call.Header{Name: name, Value: value})
	}
	return h
}

// maxHeader bounds the value of a header: proxies accept 8 KB for all headers.
const maxHeader = 1024

// upstreamIDs are the headers in which vendors send their id of a request.
var upstreamIDs = [...]string{"x-request-id", "request-id", "x-amzn-requestid", "apim-request-id",
	"mistral-correlation-id"}

// UpstreamID returns the provider's id of a request, or "" if there is none or it is too long for a header.
func UpstreamID(h call.Headers) string {
	id := ""
	for i := 0; i < len(upstreamIDs) && id == ""; i++ {
		id = h.Get(upstreamIDs[i])
	}
	if len(id) > 128 || strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return ""
	}
	return id
}
