package main

import (
	"fmt"
	"slices"
	"strings"
)

// stepReport writes the page about the parts of the listener.
func stepReport(s setup, r results) string {
	var b strings.Builder
	b.WriteString("# The listener step by step\n\nWhat each part of the gateway's listener costs Envoy: the same listener without " +
		"that part, beside the whole one, in turn in\none run. All of them ask the ext_proc service of one gateway, with limits, " +
		"budgets and prices on. A share is the median over\nthe passes of what a request costs Envoy, divided by what it costs " +
		"with the whole listener in the same pass; in half of the\npasses it was within the range beside it. A part whose range " +
		"includes 1 costs less than this machine can show. Written by\n`make bench`, which is\n\n" +
		"    go run ./test/bench -envoy bin/envoy -modelgate bin/modelgate -what listener -out docs/benchmarks-listener.md\n\n")
	if s.Quick {
		b.WriteString("**This was a quick run: nothing here can be relied on.**\n\n")
	}
	if r.worst() > quiet {
		b.WriteString("**The machine was busy with something else: measure again when it is not.**\n\n")
	}
	b.WriteString(describeSetup(s, r) + "\n" + stepTable(r).String())
	return b.String()
}

// stepTable compares each variant with the whole listener in the same pass.
func stepTable(r results) *table {
	t := &table{head: []string{"200 B, 64 connections", "CPU µs: Envoy", "beside it", "share of the whole",
		"half of the passes", "failed"}}
	names := []string{targetEnvoy, targetFloor}
	for _, v := range variants() {
		names = append(names, v.name)
	}
	cost := cpuARequest(partEnvoy)
	for _, name := range names {
		shares := r.shares(name, cost)
		if len(shares) == 0 {
			continue
		}
		t.add(name, fmt.Sprintf("%.0f", 1e3*r.of(listenerSteps, name, cost)),
			fmt.Sprintf("%.0f", 1e3*r.of(listenerSteps, name, cpuARequest(partGo))),
			fmt.Sprintf("%.3f", median(shares)),
			fmt.Sprintf("%.3f to %.3f", shares[len(shares)/4], shares[len(shares)-1-len(shares)/4]),
			fmt.Sprint(r.failed(listenerSteps, name)))
	}
	return t
}

// shares returns, sorted, what a variant costs in each pass, divided by what the whole listener costs in it.
func (r results) shares(name string, cost func(*outcome) float64) []float64 {
	outcomes, whole := r[listenerSteps][name], r[listenerSteps][wholeListener]
	shares := make([]float64, min(len(outcomes), len(whole)))
	for i := range shares {
		shares[i] = cost(outcomes[i]) / cost(whole[i])
	}
	slices.Sort(shares)
	return shares
}
