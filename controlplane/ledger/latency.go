package ledger

// Latencies are counted in buckets: bucket i counts exchanges that took at most latencyBound(i) milliseconds and
// more than the bound before. The last counts longer ones. The bounds are 10 ms times powers of 1.6, up to 75
// seconds: a percentile is right within that factor.
const (
	latencyFirst  = 10.0
	latencyFactor = 1.6
)
