//go:build !linux

package main

import "time"

// sleepUntil waits until t. What a process uses is read from Linux's /proc, so that this only has to compile.
func sleepUntil(t time.Time) { <-time.After(time.Until(t)) }
