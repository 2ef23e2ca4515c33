package main

import (
	"fmt"
	"runtime"
	"time"
)

// A part of a target.
type part string

const (
	partEnvoy part = "Envoy"
	partGo    part = "Go"
)

// A meter reads what the target uses, and what else happens on the machine.
type meter struct {
	proc   procfs
	target int   // process id; its descendants belong to it
	root   part  // what that process is; its descendants are Envoy
	ours   []int // process ids of the mock and of the load generator
}

// A reading is one moment's.
type reading struct {
	at     time.Time
	target map[int]stat
	ours   float64 // seconds of CPU of the mock and the load generator
	busy   float64 // of the whole machine
}

func (m meter) read() (reading, error) {
	r := reading{at: time.Now()}
	var err error
	if r.target, err = m.proc.tree(m.target); err != nil {
		return r, fmt.Errorf("the target: %w", err)
	}
	for _, pid := range m.ours {
		tree, err := m.proc.tree(pid)
		if err != nil {
			return r, fmt.Errorf("the mock or the load generator: %w", err)
		}
		r.ours += tree[pid].seconds
	}
	r.busy, err = m.proc.busy()
	return r, err
}

// since returns an outcome that holds what was used since a reading.
func (m meter) since(before reading) (*outcome, error) {
	after, err := m.read()
	if err != nil {
		return nil, err
	}
	o := &outcome{Seconds: after.at.Sub(before.at).Seconds()}
	used, err := cpuBetween(before.target, after.target)
	if err != nil {
		return nil, fmt.Errorf("the target: %w", err)
	}
	o.CPU = m.split(used)
	others := after.busy - before.busy - (after.ours - before.ours) - o.CPU[partEnvoy] - o.CPU[partGo]
	o.Others = max(0, others/(o.Seconds*float64(runtime.NumCPU())))
	return o, nil
}

// memory returns the resident memory of each part of the target in KB.
func (m meter) memory() (map[part]float64, error) {
	used, err := m.proc.memory(m.target)
	if err != nil {
		return nil, fmt.Errorf("the target: %w", err)
	}
	return m.split(used), nil
}

// split sums what processes use by what they are. Their names would not do: those are the binaries'.
func (m meter) split(used map[int]float64) map[part]float64 {
	parts := make(map[part]float64)
	for pid, n := range used {
		switch pid {
		case m.target:
			parts[m.root] += n
		default:
			parts[partEnvoy] += n
		}
	}
	return parts
}
