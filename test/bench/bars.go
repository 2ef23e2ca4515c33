package main

import (
	"fmt"
	"math"
)

// A bar is a figure that must not exceed a limit.
type bar struct {
	name     string
	scenario string
	target   string
	limit    float64
	format   string
	figure   func(results) float64 // NaN where what it is held against was not measured
}

// ofFloor divides what a request or a chunk of a target costs by what one costs the floor, in a scenario of its own.
func ofFloor(scenario, target, floor string, cost func(...part) func(*outcome) float64,
	parts ...part) func(results) float64 {
	return func(r results) float64 {
		return r.of(scenario, target, cost(parts...)) / r.of(floor, targetFloor, cost(partEnvoy, partGo))
	}
}

// ofPeer divides what a request or a chunk of the gateway costs by what one costs Envoy AI Gateway.
func ofPeer(scenario string, cost func(...part) func(*outcome) float64) func(results) float64 {
	whole := cost(partEnvoy, partGo)
	return func(r results) float64 {
		if len(r[scenario][targetAIGateway]) == 0 {
			return math.NaN()
		}
		return r.of(scenario, targetGoverned, whole) / r.of(scenario, targetAIGateway, whole)
	}
}

// bars are what the gateway is held to.
func bars() []bar {
	const times = "%.2f times"
	request := func(name, scenario string, limit float64, parts ...part) bar {
		return bar{name, scenario, targetGoverned, limit, times,
			ofFloor(scenario, targetGoverned, scenario, cpuARequest, parts...)}
	}
	chunk := func(name, scenario string, limit float64) bar {
		return bar{name, scenario, targetGoverned, limit, times,
			ofFloor(scenario, targetGoverned, pacedStreams, cpuAChunk, partEnvoy, partGo)}
	}
	peer := func(name, scenario string, limit float64, cost func(...part) func(*outcome) float64) bar {
		return bar{name, scenario, targetGoverned, limit, times, ofPeer(scenario, cost)}
	}
	return []bar{
		request("CPU of a request, 200 B, 64 connections", manySmall, 1.85, partEnvoy, partGo),
		request("CPU of a request, 20 KB, 64 connections", manyLarge, 1.7, partEnvoy, partGo),
		request("CPU of a request, 200 B, 1 connection", oneSmall, 1.6, partEnvoy, partGo),
		request("the Go side alone, 200 B, 64 connections", manySmall, 0.25, partGo),
		request("the Go side alone, 20 KB, 64 connections", manyLarge, 0.35, partGo),
		chunk("CPU of a chunk, in the client's dialect", pacedStreams, 1.22),
		chunk("CPU of a chunk, translated", translatedStreams, 1.3),
		peer("beside Envoy AI Gateway: CPU of a request, 200 B, 64 connections", manySmall, 0.58, cpuARequest),
		peer("beside Envoy AI Gateway: CPU of a request, 20 KB, 64 connections", manyLarge, 0.65, cpuARequest),
		peer("beside Envoy AI Gateway: CPU of a chunk", pacedStreams, 0.68, cpuAChunk),
		{"added p50 at 200 requests a second", openLoop, targetGoverned, 0.55, "%.2f ms", func(r results) float64 {
			p50 := func(o *outcome) float64 { return o.P50 }
			return r.of(openLoop, targetGoverned, p50) - r.of(openLoop, targetEnvoy, p50)
		}},
		{"limits, budgets and prices, beside a gateway without, 200 B", manySmall, targetGoverned, 1.15, times,
			func(r results) float64 {
				return r.of(manySmall, targetGoverned, cpuARequest(partEnvoy, partGo)) /
					r.of(manySmall, targetGateway, cpuARequest(partEnvoy, partGo))
			}},
		{"memory of a slow stream, Envoy and Go together", slowStreams, targetGateway, 100, "%.0f KB",
			func(r results) float64 {
				if r.failed(slowStreams, targetGateway) > 0 {
					return math.Inf(1) // what failed took none
				}
				return r.of(slowStreams, targetGateway, memoryAStream(partEnvoy, partGo))
			}},
		{"10,000 streams at once: those that failed", crowd, targetGateway, 0, "%.0f",
			func(r results) float64 {
				return max(float64(r.failed(crowd, targetGateway)), 10_000-r.of(crowd, targetGateway, concurrent))
			}},
	}
}

func barTable(r results) *table {
	t := &table{head: []string{"bar", "limit", "measured", ""}}
	for _, b := range bars() {
		limit, measured, verdict := fmt.Sprintf(b.format, b.limit), "", "not measured"
		if figure := b.figure(r); len(r[b.scenario][b.target]) > 0 && !math.IsNaN(figure) {
			measured, verdict = fmt.Sprintf(b.format, figure), "holds"
			if figure > b.limit {
				verdict = "**missed**"
			}
		}
		t.add(b.name, limit, measured, verdict)
	}
	return t
}
