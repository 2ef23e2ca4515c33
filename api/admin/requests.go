package admin

// Classes of Outcomes, which the filter outcome also takes.
const (
	OutcomeServed    = "served"
	OutcomeError     = "error"
	OutcomeRejected  = "rejected"
	OutcomeCancelled = "cancelled"
)

// manyRefused is from how many refused requests on a key looks abused or forgotten.
const manyRefused = 20

// RefusedMuch reports whether a key is refused at least as often as not, and often.
func (u KeyUse) RefusedMuch() bool { return u.Refused >= manyRefused && u.Refused >= u.Requests }
