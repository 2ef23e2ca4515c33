package admin

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// A PolicyTrial is what policies would have done with past requests.
type PolicyTrial struct {
	// Policies are the names of the evaluated policies.
	Policies []string  `json:"policies"`
	Start    time.Time `json:"start"`
	End      time.Time `json:"end"`
	// JudgedFrom is set if the time was not enough for all requests: those before it were not judged.
	JudgedFrom *time.Time `json:"judged_from,omitempty"`
	// Requests is how many were judged.
	Requests int64 `json:"requests"`
	// Refused is how many would surely have been refused. Served is how many of these were in fact served.
	Refused int64 `json:"refused"`
	Served  int64 `json:"refused_served"`
	// Unknown is how many may have been refused: that depends on facts that the request log does not have.
	Unknown int64 `json:"unknown"`
	// Chosen is how many would surely have been for the model that a rule chooses.
	Chosen int64             `json:"chosen"`
	Rules  []PolicyTrialRule `json:"rules"`
	// Keys and Models are those with the most requests that would have been refused. The last one has no name if it
	// counts all others.
	Keys   []PolicyTrialCount `json:"keys"`
	Models []PolicyTrialCount `json:"models"`
}

// A PolicyTrialRule is the result of one rule.
type PolicyTrialRule struct {
	// Rule is "<policy>/<rule>".
	Rule string `json:"rule"`
	// UseModel is the model that the rule chooses. Without one, the rule refuses requests.
	UseModel string `json:"use_model,omitempty"`
	// Observe means that the rule only reports: the counts are its reports.
	Observe bool  `json:"observe,omitempty"`
	Refused int64 `json:"refused"`
	Chosen  int64 `json:"chosen"`
	// Failed is how many of Refused would have been refused because the expression fails.
	Failed  int64 `json:"failed"`
	Unknown int64 `json:"unknown"`
	// Missing are the facts on which the unknown ones depend.
	Missing []string `json:"missing,omitempty"`
	// Examples are ids of some of the newest requests to which the rule applies.
	Examples []string `json:"examples"`
}

// A PolicyTrialCount is how many requests of a key or for a model would have been refused.
type PolicyTrialCount struct {
	Name        string `json:"name"`
	DisplayName string `json:"display_name,omitempty"`
	Refused     int64  `json:"refused"`
}

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
