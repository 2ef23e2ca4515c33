package ledger

import "math"

// Latencies are counted in buckets: bucket i is of what took at most latencyBound(i) milliseconds and more than the
// one before, the last of what took longer. The bounds are 10 ms times powers of 1.6, up to 75 seconds: a percentile
// is right within that factor.
const (
	latencies     = 20
	latencyFirst  = 10.0
	latencyFactor = 1.6
)

func latencyBound(i int) float64 { return latencyFirst * math.Pow(latencyFactor, float64(i)) }

func latencyBucket(milliseconds int64) int {
	i, bound := 0, latencyFirst
	for i < latencies-1 && float64(milliseconds) > bound {
		i, bound = i+1, bound*latencyFactor
	}
	return i
}

// percentile returns the latency in milliseconds that the part p of exchanges do not exceed; 0 where there are none.
func (s *sums) percentile(p float64) int64 { return percentile(s[latency:], p) }

// percentile is that of the latencies whose buckets have these counts.
func percentile(counts []int64, p float64) int64 {
	total := int64(0)
	for _, n := range counts {
		total += n
	}
	if total == 0 {
		return 0
	}
	rank := math.Ceil(p * float64(total))
	below := 0.0
	for i, n := range counts {
		if below+float64(n) < rank {
			below += float64(n)
			continue
		}
		low := 0.0
		if i > 0 {
			low = latencyBound(i - 1)
		}
		return int64(low + (latencyBound(i)-low)*(rank-below)/float64(n))
	}
	return 0
}
