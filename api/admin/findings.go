package admin

import (
	"context"
	"time"
)

// Findings are what rules of guardrails and policies have found in the requests of a time, summed up.
type Findings struct {
	Start time.Time `json:"start"`
	End   time.Time `json:"end"`
	// Width is the length of a bucket in seconds.
	Width int64 `json:"width"`
	// Items are by rule and action, those with the most requests first.
	Items []Finding `json:"data"`
	// LeftOut is how many more there are.
	LeftOut int `json:"left_out,omitempty"`
	// Buckets are those with findings, in the order of time.
	Buckets []FindingBucket `json:"buckets"`
	// CountedFrom is set if there were too many requests to count: earlier ones are not counted.
	CountedFrom *time.Time `json:"counted_from,omitempty"`
}

// A Finding is one rule's result and action.
type Finding struct {
	// Kind is guardrail or policy.
	Kind string `json:"kind"`
	// Rule is named after its object, such as "personal/contact".
	Rule string `json:"rule"`
	// Action is one of the constants below.
	Action   string    `json:"action"`
	Requests int64     `json:"requests"`
	Matches  int64     `json:"matches"`
	Last     time.Time `json:"last"`
	// Examples are ids of exchanges, the newest first.
	Examples []string `json:"examples"`
}

// A FindingBucket has the requests of one bucket in which at least one rule had an action. A request with several
// actions is in several columns.
type FindingBucket struct {
	Start   time.Time `json:"start"`
	Observe int64     `json:"observe"`
	Mask    int64     `json:"mask"`
	Block   int64     `json:"block"`
	Failed  int64     `json:"failed"`
}

// Actions of findings.
const (
	FindingObserve = "observe" // it was counted
	FindingMask    = "mask"    // the provider or the client got a placeholder
	FindingBlock   = "block"   // the request was refused, or the answer ended
	FindingFailed  = "failed"  // the checker was unavailable
)

// Kinds of the objects whose rules find something.
const (
	FindingOfGuardrail = "guardrail"
	FindingOfPolicy    = "policy"
)

// Findings sums up the findings of rules in the latest requests. It takes the filters of Requests, width (the
// seconds of a bucket) and action.
func (c RequestCalls) Findings(ctx context.Context, o ListOptions) (Findings, error) {
	return get[Findings](ctx, c.caller, "findings"+o.query())
}
