//go:build !race

package exchange_test

// racing is whether the race detector runs: it multiplies the CPU and the memory that a test would measure.
const racing = false
