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

// HitShare returns how many of a hundred requests that could be answered by a cache were, rounded down.
func (s CacheSums) HitShare() int64 { return 100 * s.Hits / max(s.Hits+s.Misses, 1) }
