package configv1

import "time"

const (
	defaultApprovalWait = 7 * day
	longestApprovalWait = 90 * day
)

// Wait returns how long a change waits for its approval.
func (r *ApprovalRule) Wait() time.Duration {
	return orDefault(r.GetExpiresAfter(), defaultApprovalWait)
}

func (v *validator) approvalRule(r *ApprovalRule) {
	v.label("name", r.GetName())
	v.optionalID("organization", r.GetOrganization())
	v.optionalID("project", r.GetProject())
	if r.GetProject() != "" && r.GetOrganization() == "" {
		v.fail("project", "needs an organization")
	}
	for _, amount := range []struct{ field, usd string }{
		{"budget_usd_day", r.GetBudgetUsdDay()}, {"budget_usd_month", r.GetBudgetUsdMonth()},
	} {
		if amount.usd == "" {
			continue
		}
		if _, err := ParseUSD(amount.usd); err != nil {
			v.fail(amount.field, "%v", err)
		}
	}
	if r.GetBudgetUsdDay() == "" && r.GetBudgetUsdMonth() == "" && !r.GetKeys() {
		v.fail("", "needs budget_usd_day, budget_usd_month or keys: without, no change waits")
	}
	if _, ok := Approvers_name[int32(r.GetApprovers())]; !ok {
		v.fail("approvers", "must be ADMINS or TENANT_ADMINS")
	}
	v.kept("expires_after", r.GetExpiresAfter(), time.Hour, longestApprovalWait)
}
