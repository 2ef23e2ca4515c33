package admin

// Classes of Outcomes, which the filter outcome also takes.
const (
	OutcomeServed    = "served"
	OutcomeError     = "error"
	OutcomeRejected  = "rejected"
	OutcomeCancelled = "cancelled"
)
