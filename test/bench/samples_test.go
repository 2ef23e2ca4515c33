package main

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestQuantileIsTheNearestRank(t *testing.T) {
	hundred := make([]time.Duration, 100)
	for i := range hundred {
		hundred[i] = time.Duration(i + 1)
	}
	for name, c := range map[string]struct {
		sorted []time.Duration
		q      float64
		want   time.Duration
	}{
		"of nothing":          {nil, 0.5, 0},
		"of one":              {[]time.Duration{7}, 0.99, 7},
		"middle of two":       {[]time.Duration{1, 2}, 0.5, 1},
		"middle of three":     {[]time.Duration{1, 2, 3}, 0.5, 2},
		"p50 of one hundred":  {hundred, 0.5, 50},
		"p99 of one hundred":  {hundred, 0.99, 99},
		"p0 is the smallest":  {hundred, 0, 1},
		"p100 is the largest": {hundred, 1, 100},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, quantile(c.sorted, c.q)) })
	}
}

func TestMedianLeavesItsArgumentAlone(t *testing.T) {
	values := []float64{9, 1, 4}
	require.Equal(t, 4.0, median(values))
	require.Equal(t, []float64{9, 1, 4}, values)
	require.Equal(t, 2.5, median([]float64{4, 1}))
	require.Zero(t, median(nil))
}

func TestMergeSortsLatenciesAndSumsFailures(t *testing.T) {
	var a, b tally
	a.add(3, nil)
	a.add(0, &statusError{503, "no"})
	b.add(1, nil)
	b.add(0, &statusError{503, "no"})
	b.add(0, io.ErrUnexpectedEOF)
	sum := merge([]tally{{}, a, b})
	require.Equal(t, []time.Duration{1, 3}, sum.latencies)
	require.Equal(t, map[string]int{"status 503": 2, "broken connection": 1}, sum.failures)
	require.EqualError(t, sum.first, "status 503: no")
}

func TestKindOfAFailure(t *testing.T) {
	for want, err := range map[string]error{
		"status 429":        &statusError{429, ""},
		"incomplete stream": &incompleteError{chunks: 1},
		"timeout":           context.DeadlineExceeded,
		"no connection":     errors.New("dialling: refused"),
		"broken connection": io.EOF,
		"not started":       errNotStarted,
	} {
		require.Equal(t, want, kind(err))
	}
}
