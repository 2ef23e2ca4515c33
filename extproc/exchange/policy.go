package exchange

import (
	"cmp"
	"net/http"

	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/guard"
	"github.com/modelgate/modelgate/internal/inbound"
	"github.com/modelgate/modelgate/internal/policy"
)

// decide returns the error of a request that a policy refuses. Its body may be nil: that of a Route or a session is
// not seen.
func (x *Exchange) decide(r inbound.Request, body []byte) *openai.Error {
	if len(x.config.Policies) == 0 {
		return nil
	}
	f := policy.Facts{Key: x.key.Name, KeyName: x.key.DisplayName, Organization: x.key.Organization,
		Project: x.key.Project, User: x.key.User, Model: r.Model, Operation: x.record.Operation, Stream: r.Stream,
		Tools: []string{}, Size: len(body), Address: x.address, Now: x.record.Start}
	if body != nil {
		said := gjson.GetManyBytes(body, "user", "metadata.user_id", "tools")
		f.User = cmp.Or(f.User, said[0].Str, said[1].Str)
		f.Tools = append(f.Tools, guard.ToolNames([]byte(said[2].Raw))...)
	}
	d := x.config.Policies.Decide(&f)
	for _, name := range d.Observed {
		x.found(guard.Finding{Rule: "policy " + name, Mode: guard.ModeObserve, Side: guard.SideRequest}, 1)
	}
	if d.Denied == "" {
		return nil
	}
	x.record.Model, x.record.Label = r.Model, x.config.Label(r.Model)
	x.record.RefusedBy = "policy " + d.Denied
	return &openai.Error{Status: http.StatusForbidden, Type: openai.TypeInvalidRequest, Code: openai.CodePolicyDenied,
		Message: d.Message, NoRetry: true}
}

// found notes findings in the record.
func (x *Exchange) found(f guard.Finding, n int) {
	if x.record.Guards == nil {
		x.record.Guards = guard.Findings{}
	}
	x.record.Guards[f] += n
}
