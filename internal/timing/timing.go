// Package timing waits, and repeats work, until a context ends.
//
// A wait that ignores its context delays the end of the process.
package timing

import (
	"context"
	"time"
)

// Sleep waits for a time. It returns the error of ctx if that ends before.
func Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// Every calls f now and at each interval, until ctx ends. It returns the error of ctx.
func Every(ctx context.Context, interval time.Duration, f func()) error {
	return Until(ctx, interval, func() bool { f(); return false })
}

// Until calls done now and at each interval, until it returns true or ctx ends. It returns the error of ctx if that
// ends before.
func Until(ctx context.Context, interval time.Duration, done func() bool) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for !done() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
	return nil
}
