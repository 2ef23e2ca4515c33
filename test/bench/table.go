package main

import (
	"fmt"
	"strings"
)

// A setup is what was measured, and where.
type setup struct {
	Date, Machine, Go string
	Gateway           string // empty: only Envoy alone was measured
	Envoy             string
	Quick             bool
	Peers             []peer
}

// quiet is the share of the machine that other processes may use before the figures are doubtful.
const quiet = 0.10

// report writes everything as one Markdown page.
func report(s setup, all []scenario, r results) string {
	var b strings.Builder
	b.WriteString("# Benchmarks\n\nWhat the gateway costs beside the same Envoy without it, and beside other gateways, measured in turn in one run; figures are " +
		"medians over the passes.\nThe mock provider and the load generator ran on the same cores. On another machine only " +
		"differences and ratios within a\ntable hold. Written by `make bench`, which is\n\n" +
		"    make peers\n" +
		"    go run ./test/bench -envoy bin/envoy -modelgate bin/modelgate -aigateway .cache/peers/aigw \\\n" +
		"        -litellm .cache/peers/litellm/bin/litellm \\\n        -portkey .cache/peers/portkey/" + portkeyScript + " -out docs/benchmarks.md\n\n")
	if s.Quick {
		b.WriteString("**This was a quick run: nothing here can be relied on.**\n\n")
	}
	if r.worst() > quiet {
		b.WriteString("**The machine was busy with something else: measure again when it is not.**\n\n")
	}
	b.WriteString(describeSetup(s, r))
	b.WriteString("\n## Bars\n\nWith limits, budgets and prices on, against the cheapest ext_proc service in the same run: it " +
		"finds the model in a request,\nsets a credential, and lets answers pass. Envoy AI Gateway is measured without limits, " +
		"budgets, prices and keys of clients.\n\n" +
		barTable(r).String())
	b.WriteString(describePeers)
	b.WriteString(describeBetter(s.Peers, all, r))
	b.WriteString("\n## Requests that are not streamed\n\nHTTPS with HTTP/1.1 keep-alive; each connection asks again as soon as " +
		"it has its answer. CPU of the processes of the target,\nwithout the mock and the load generator. The reverse proxy is that of Go's standard library: it passes bytes on, and " +
		"knows no\nkeys, limits or vendors. Where it is cheaper, that is what these cost.\n\n" +
		requestTable(all, r).String())
	b.WriteString("\n## Share of direct throughput\n\nRequests a second, as a share of those that the load generator gets from " +
		"the mock itself, without TLS and with nothing between.\n\n" + shareTable(all, r).String())
	b.WriteString("\n## At a constant rate\n\nLatency counts from when a request was due.\n\n" + rateTable(r).String())
	b.WriteString("\n## Streams\n\nCPU in the middle of the streams, without their beginning and end.\n\n" +
		chunkTable(all, r).String())
	b.WriteString("\n## Many streams\n\nMemory is what the target's resident memory grew by from before the first connection " +
		"to its highest while all streams were open,\neach of them on a TLS connection of its own. Of the 10,000, " +
		"four share one of HTTP/2: many systems allow a process 20,000\nopen files. Every pass starts the target anew.\n\n" +
		memoryTable(all, r).String())
	return b.String()
}

func describeSetup(s setup, r results) string {
	t := table{head: []string{"", ""}}
	t.add("date", s.Date)
	if s.Gateway != "" {
		t.add("gateway", s.Gateway)
	}
	t.add("Envoy", fmt.Sprintf("%s, %d workers", s.Envoy, workers))
	for _, p := range s.Peers {
		if p.absent != "" {
			t.add(p.target, "not measured: "+p.absent)
		} else {
			t.add(p.target, p.version)
		}
	}
	t.add("machine", s.Machine)
	t.add("mock and load generator", s.Go)
	t.add("taken by other processes", fmt.Sprintf("%.0f %% of the machine's CPU at the worst", 100*r.worst()))
	return t.String()
}

// worst returns the largest share of the machine that something else used during a measurement.
func (r results) worst() float64 {
	w := 0.0
	for _, targets := range r {
		for _, outcomes := range targets {
			for _, o := range outcomes {
				w = max(w, o.Others)
			}
		}
	}
	return w
}

// of returns the median over the passes of what f finds in an outcome.
func (r results) of(scenario, target string, f func(*outcome) float64) float64 {
	var values []float64
	for _, o := range r[scenario][target] {
		values = append(values, f(o))
	}
	return median(values)
}

// failed returns how many requests of a scenario failed, in all passes.
func (r results) failed(scenario, target string) int {
	n := 0
	for _, o := range r[scenario][target] {
		n += o.failed()
	}
	return n
}

func requestTable(all []scenario, r results) *table {
	t := &table{head: []string{"request", "target", "requests/s", "p50 ms", "p99 ms", "CPU ms: Envoy", "beside it",
		"together", "failed"}}
	for _, s := range all {
		if s.job.Stream || s.job.Rate > 0 || s.share {
			continue
		}
		for _, target := range r.targets(s.name) {
			number := func(format string, f func(*outcome) float64) string {
				return fmt.Sprintf(format, r.of(s.name, target, f))
			}
			t.add(s.name, target,
				number("%.0f", func(o *outcome) float64 { return float64(o.OK) / o.Seconds }),
				number("%.2f", func(o *outcome) float64 { return o.P50 }),
				number("%.2f", func(o *outcome) float64 { return o.P99 }),
				number("%.3f", cpuARequest(partEnvoy)), number("%.3f", cpuARequest(partGo)),
				number("%.3f", cpuARequest(partEnvoy, partGo)), fmt.Sprint(r.failed(s.name, target)))
		}
	}
	return t
}

// shareTable divides the requests a second of each target by those of the mock itself.
func shareTable(all []scenario, r results) *table {
	t := &table{head: []string{"request and answer", "target", "requests/s", "share"}}
	rate := func(o *outcome) float64 { return float64(o.OK) / o.Seconds }
	for _, s := range all {
		if !s.share {
			continue
		}
		for _, target := range r.targets(s.name) {
			found := r.of(s.name, target, rate)
			t.add(s.name, target, fmt.Sprintf("%.0f", found),
				fmt.Sprintf("%.0f %%", 100*found/r.of(s.name, targetDirect, rate)))
		}
	}
	return t
}

func rateTable(r results) *table {
	t := &table{head: []string{openLoop, "p50 ms", "p99 ms", "added p50 ms", "added p99 ms", "failed"}}
	p50 := func(target string) float64 { return r.of(openLoop, target, func(o *outcome) float64 { return o.P50 }) }
	p99 := func(target string) float64 { return r.of(openLoop, target, func(o *outcome) float64 { return o.P99 }) }
	for _, target := range r.targets(openLoop) {
		added50, added99 := "", ""
		if target != targetEnvoy {
			added50 = fmt.Sprintf("%.2f", p50(target)-p50(targetEnvoy))
			added99 = fmt.Sprintf("%.2f", p99(target)-p99(targetEnvoy))
		}
		t.add(target, fmt.Sprintf("%.2f", p50(target)), fmt.Sprintf("%.2f", p99(target)), added50, added99,
			fmt.Sprint(r.failed(openLoop, target)))
	}
	return t
}

func chunkTable(all []scenario, r results) *table {
	t := &table{head: []string{"streams", "target", "chunks/s", "CPU µs a chunk: Envoy", "beside it", "together",
		"first chunk, p50 ms", "delay of a chunk, p50 ms", "p99 ms", "failed"}}
	for _, s := range all {
		if !s.job.Stream || s.fresh {
			continue
		}
		for _, target := range r.targets(s.name) {
			number := func(f func(*outcome) float64) string { return fmt.Sprintf("%.0f", r.of(s.name, target, f)) }
			t.add(s.name, target, number(func(o *outcome) float64 { return float64(o.Chunks) / o.Seconds }),
				number(cpuAChunk(partEnvoy)), number(cpuAChunk(partGo)),
				number(cpuAChunk(partEnvoy, partGo)),
				fmt.Sprintf("%.1f", r.of(s.name, target, func(o *outcome) float64 { return o.P50 })),
				fmt.Sprintf("%.2f", r.of(s.name, target, func(o *outcome) float64 { return o.Delay })),
				fmt.Sprintf("%.2f", r.of(s.name, target, func(o *outcome) float64 { return o.Delay99 })),
				fmt.Sprint(r.failed(s.name, target)))
		}
	}
	return t
}

func memoryTable(all []scenario, r results) *table {
	t := &table{head: []string{"streams", "target", "open at once", "KB a stream: Envoy", "beside it", "together",
		"failed"}}
	for _, s := range all {
		if !s.fresh {
			continue
		}
		for _, target := range r.targets(s.name) {
			number := func(f func(*outcome) float64) string { return fmt.Sprintf("%.0f", r.of(s.name, target, f)) }
			t.add(s.name, target, number(concurrent),
				number(memoryAStream(partEnvoy)), number(memoryAStream(partGo)),
				number(memoryAStream(partEnvoy, partGo)), fmt.Sprint(r.failed(s.name, target)))
		}
	}
	return t
}

func concurrent(o *outcome) float64 { return float64(o.Concurrent) }

// targets returns those that the scenario was measured on.
func (r results) targets(scenario string) []string {
	var found []string
	for _, name := range []string{targetDirect, targetEnvoy, targetFloor, targetProxy, targetLiteLLM, targetPortkey,
		targetAIGateway, targetGateway, targetGoverned} {
		if len(r[scenario][name]) > 0 {
			found = append(found, name)
		}
	}
	return found
}

// cpuARequest returns the milliseconds of CPU that the parts used for each request.
func cpuARequest(parts ...part) func(*outcome) float64 {
	return func(o *outcome) float64 { return 1e3 * o.cpuOf(parts) / float64(max(1, o.OK)) }
}

// cpuAChunk returns the microseconds of CPU that the parts used for each chunk.
func cpuAChunk(parts ...part) func(*outcome) float64 {
	return func(o *outcome) float64 { return 1e6 * o.cpuOf(parts) / float64(max(1, o.Chunks)) }
}

func (o *outcome) cpuOf(parts []part) float64 {
	sum := 0.0
	for _, p := range parts {
		sum += o.CPU[p]
	}
	return sum
}

// memoryAStream returns the KB that the parts grew by for each stream.
func memoryAStream(parts ...part) func(*outcome) float64 {
	return func(o *outcome) float64 {
		sum := 0.0
		for _, p := range parts {
			sum += o.Memory[p]
		}
		return sum / float64(max(1, o.Concurrent))
	}
}

// A table is Markdown, with numbers to the right.
type table struct {
	head []string
	rows [][]string
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// String returns the table with columns that are as wide as their widest cell.
func (t *table) String() string {
	widths := make([]int, len(t.head))
	numeric := make([]bool, len(t.head))
	for i := range t.head {
		widths[i], numeric[i] = max(4, len([]rune(t.head[i]))), true
		for _, row := range t.rows {
			widths[i] = max(widths[i], len([]rune(row[i])))
			numeric[i] = numeric[i] && strings.Trim(row[i], "0123456789.-") == ""
		}
	}
	var b strings.Builder
	write := func(cells []string) {
		for i, cell := range cells {
			space := strings.Repeat(" ", widths[i]-len([]rune(cell)))
			if numeric[i] {
				b.WriteString("| " + space + cell + " ")
			} else {
				b.WriteString("| " + cell + space + " ")
			}
		}
		b.WriteString("|\n")
	}
	write(t.head)
	for i, width := range widths {
		if numeric[i] {
			b.WriteString("|" + strings.Repeat("-", width+1) + ":")
		} else {
			b.WriteString("|" + strings.Repeat("-", width+2))
		}
	}
	b.WriteString("|\n")
	for _, row := range t.rows {
		write(row)
	}
	return b.String()
}
