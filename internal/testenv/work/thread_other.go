//go:build !linux

package work

import "time"

var start = time.Now()

// threadTime returns the time of the clock: there is no CPU time of a thread.
func threadTime() time.Duration { return time.Since(start) }
