package admin

import (
	"context"
	"encoding/json"
	"net/http"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// TestPolicies evaluates policies over the request log. It takes the filters of Requests. Without policies, the
// stored ones that are not disabled are evaluated.
func (c RequestCalls) TestPolicies(ctx context.Context, policies []*configv1.Policy,
	filters map[string]string) (trial PolicyTrial, err error) {
	docs := make([]json.RawMessage, len(policies))
	for i, p := range policies {
		if docs[i], err = configv1.MarshalJSON(p); err != nil {
			return trial, err
		}
	}
	body, err := json.Marshal(docs)
	if err != nil {
		return trial, err
	}
	still := *c.caller
	still.wait = "" // nothing is changed
	err = still.call(ctx, request{method: http.MethodPost, path: "policies/test" + ListOptions{Filters: filters}.query(),
		body: body}, &trial)
	return trial, err
}
