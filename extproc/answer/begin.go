package answer

import (
	"strconv"

	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/extproc/call"
)

// Begin handles the headers of an answer, as far as it is the same for all passages. The answer is a provider's, or
// Envoy's own if it reached no provider: then the reply is complete.
func (a *Answer) Begin(h call.Headers, f call.Facts) (status int, own *call.Reply) {
	c := a.Call
	if status = a.Note(h, f); f.CodeDetails != envoy.CodeDetailsUpstream {
		reply := a.Envoys(h, f.CodeDetails)
		return status, &reply
	}
	c.Record.Answered = status
	a.Account.Begun = status >= 200 && status <= 299
	a.Account.Refused = !a.Account.Begun
	c.Hold.Release() // of the request: no further attempt follows
	return status, nil
}

// Note notes who has answered, and with which status.
func (a *Answer) Note(h call.Headers, f call.Facts) (status int) {
	c := a.Call
	r := &c.Record
	status, _ = strconv.Atoi(h.Get(":status"))
	r.Status, r.Attempts, r.Provider = status, f.Attempts, envoy.ProviderOf(f.Cluster)
	if p := c.Config.Providers[r.Provider]; p != nil {
		r.Vendor = p.Vendor.Name
	}
	if f.Attempts > 1 {
		c.NoteTries() // Envoy has reported the attempts before
	}
	return status
}

// End takes over what an answer that passes has reported.
func (a *Answer) End() {
	if a.Watch != nil {
		a.Account.Watched(a.Watch.Report())
	}
}
