package admin

import "context"

// Kinds of items that need attention.
const (
	AttentionProviderFailing    = "provider_failing"
	AttentionProviderCooling    = "provider_cooling"
	AttentionCredentialRejected = "credential_rejected"
	AttentionCheckerAway        = "checker_away"
	AttentionBudget             = "budget"
	AttentionKeyExpires         = "key_expires"
	AttentionObjectError        = "object_error"
	AttentionDataPlane          = "data_plane"
	AttentionLedger             = "ledger"
	AttentionSpool              = "spool"
	AttentionStore              = "store" // that ext_proc services share: a Redis
	AttentionAuditSink          = "audit_sink"
	AttentionApprovals          = "approvals"
	AttentionKeysOfLeaver       = "keys_of_leaver"
	AttentionTokensOfLeaver     = "tokens_of_leaver"
)

// Severities of items. An error harms requests now. A warning is going to, or may.
const (
	SeverityError   = "error"
	SeverityWarning = "warning"
)

// An Attention is something that a person must look at.
type Attention struct {
	// Kind is provider_failing, provider_cooling, credential_rejected, checker_away, budget, key_expires, object_error,
	// data_plane, ledger, spool, store, audit_sink, approvals, keys_of_leaver or tokens_of_leaver.
	Kind     string `json:"kind"`
	Severity string `json:"severity"`
	// Object is the object that the item is about, by kind and name, such as Provider openai. It may be empty.
	Object string `json:"object,omitempty"`
	// Message is a sentence or two for people.
	Message string `json:"message"`
	// Path is the page of the dashboard on which it is mended, or seen.
	Path string `json:"path"`
}

// Attentions are everything that needs attention, the worst first. With nothing, all is well.
type Attentions struct {
	Items []Attention `json:"items"`
}

// Attention returns the items that need attention, among those that the caller may read.
func (c StateCalls) Attention(ctx context.Context) (Attentions, error) {
	return get[Attentions](ctx, c.caller, "attention")
}

// Budgets are budgets of any owner.
type Budgets struct {
	// Items are the budgets with the largest spent part, largest first, at most 100.
	Items   []BudgetUse `json:"items"`
	LeftOut int         `json:"left_out"`
}

// Budgets returns what of budgets is spent, and what will be.
func (c UsageCalls) Budgets(ctx context.Context) (Budgets, error) {
	return get[Budgets](ctx, c.caller, "budgets")
}
