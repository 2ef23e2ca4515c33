package main

import (
	"math"
	"slices"
	"time"
)

// quantile returns the smallest of the sorted samples that at least the share q of them does not exceed, or 0 where
// there are none.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	rank := int(math.Ceil(q*float64(len(sorted)))) - 1
	return sorted[min(max(rank, 0), len(sorted)-1)]
}

// median returns the middle of the values, or 0 where there are none. It sorts a copy.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	if n := len(sorted); n%2 == 0 {
		return (sorted[n/2-1] + sorted[n/2]) / 2
	}
	return sorted[len(sorted)/2]
}

// A tally is what one worker saw of its requests. It belongs to one goroutine at a time.
type tally struct {
	latencies []time.Duration // of requests that were answered
	failures  map[string]int  // of the others, by kind
	first     error           // the first of them, in full
}

func (t *tally) add(latency time.Duration, err error) {
	if err == nil {
		t.latencies = append(t.latencies, latency)
		return
	}
	if t.failures == nil {
		t.failures, t.first = make(map[string]int), err
	}
	t.failures[kind(err)]++
}

// merge puts tallies together. The latencies come out sorted.
func merge(tallies []tally) tally {
	sum := tally{failures: make(map[string]int)}
	for _, t := range tallies {
		sum.latencies = append(sum.latencies, t.latencies...)
		for k, n := range t.failures {
			sum.failures[k] += n
		}
		if sum.first == nil {
			sum.first = t.first
		}
	}
	slices.Sort(sum.latencies)
	return sum
}
