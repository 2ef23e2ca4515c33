package main

import (
	"syscall"
	"time"
)

// sleepUntil blocks the thread until t. The runtime's timers are late by up to a millisecond where a process is idle,
// which is as much as what is measured.
func sleepUntil(t time.Time) {
	for d := time.Until(t); d > 0; d = time.Until(t) {
		left := syscall.NsecToTimespec(d.Nanoseconds())
		_ = syscall.Nanosleep(&left, nil) // ends early on a signal: then it sleeps again
	}
}
