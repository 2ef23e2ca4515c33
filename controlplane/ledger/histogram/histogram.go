// Package histogram counts latencies in buckets, which can be added up, and reads percentiles from the counts.
package histogram

import "math"

// Buckets is how many there are. Bucket i counts what took at most bound(i) milliseconds, and more than the bound
// before. The last counts what took longer. The bounds are 10 ms times powers of 1.6, up to 75 seconds: a percentile
// is right within that factor.
const Buckets = 20

const (
	first  = 10.0
	factor = 1.6
)

func bound(i int) float64 { return first * math.Pow(factor, float64(i)) }

// Bucket returns the bucket of a latency.
func Bucket(milliseconds int64) int {
	i, most := 0, first
	for i < Buckets-1 && float64(milliseconds) > most {
		i, most = i+1, most*factor
	}
	return i
}

// Percentile returns the latency in milliseconds that the part p of counts does not exceed; 0 if there are none.
func Percentile(counts []int64, p float64) int64 {
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
			low = bound(i - 1)
		}
		return int64(low + (bound(i)-low)*(rank-below)/float64(n))
	}
	return 0
}
