package admin

import "context"

// Attention returns the items that need attention, among those that the caller may read.
func (c StateCalls) Attention(ctx context.Context) (Attentions, error) {
	return get[Attentions](ctx, c.caller, "attention")
}

// Budgets returns what of budgets is spent, and what will be.
func (c UsageCalls) Budgets(ctx context.Context) (Budgets, error) {
	return get[Budgets](ctx, c.caller, "budgets")
}
