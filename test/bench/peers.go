package main

import (
	"context"
	"debug/buildinfo"
	"fmt"
	"path/filepath"
	"strings"
)

// A peer is another gateway, which is measured where it is installed.
type peer struct {
	target  string
	version string
	absent  string // why it is not measured; "": it is
}

// findPeers returns every peer, also those that are not there: the report names them.
func findPeers(ctx context.Context, o options) []peer {
	find := func(target, flag, command string, version func() (string, error)) peer {
		p := peer{target: target}
		if command == "" {
			p.absent = "no -" + flag
			return p
		}
		found, err := version()
		if p.version = found; err != nil {
			p.absent = err.Error()
		}
		return p
	}
	return []peer{
		find(targetAIGateway, "aigateway", o.aiGateway, func() (string, error) {
			return moduleVersion(o.aiGateway, "github.com/envoyproxy/ai-gateway")
		}),
		find(targetLiteLLM, "litellm", o.litellm, func() (string, error) {
			// The command itself would fetch a list of prices before it says its version.
			return output(ctx, filepath.Join(filepath.Dir(o.litellm), "python3"), "-c",
				"import importlib.metadata; print(importlib.metadata.version('litellm'))")
		}),
		find(targetPortkey, "portkey", o.portkey, func() (string, error) {
			return output(ctx, "node", "-p", "require(process.argv[1]).version",
				filepath.Join(filepath.Dir(o.portkey), "..", "package.json"))
		}),
	}
}

// moduleVersion returns the version of a module that a binary was built from.
func moduleVersion(binary, module string) (string, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return "", err
	}
	for _, d := range append(info.Deps, &info.Main) {
		if d.Path == module {
			return d.Version, nil
		}
	}
	return "", fmt.Errorf("%s was not built from %s", binary, module)
}

// describePeers says how peers are measured.
const describePeers = `
## Other gateways

All but Portkey are asked over HTTPS by the same load generator, and ask the same mock. Each target has its turn in every pass.

* **Envoy AI Gateway** is built from its Go module and started by "aigw run", on the same Envoy binary with as many
  workers, with the configuration that its own control plane generates: what "aigw run" makes of an OpenAI key, with a
  TLS listener and with the access log in a file. Each request takes two ext_proc streams over a Unix socket: one for
  the request and the answer, one for each attempt. It passes the model's name on as it came. In the scenarios of
  Anthropic's dialect it asks Anthropic on Vertex AI, the only place where it translates chat completions to Messages
  in server-sent events. Its control plane runs in the process that is counted beside Envoy.
* **LiteLLM** is its proxy as pip installs it, with one worker. It takes part where a request at a time is measured.
* **Portkey** is its gateway as npm installs it, in one process of Node. It serves no TLS, so it is asked without.
* **The reverse proxy** is that of Go's standard library: it passes bytes on, and knows no keys, limits or vendors.

Scenarios with thousands of streams are measured without the first three: they start their target anew for every pass.
`

// A figure is what targets are compared by in a scenario: less is better.
type figure struct {
	name, format string
	of           func(*outcome) float64
}

// figures returns what the tables show of a scenario.
func (s scenario) figures() []figure {
	p50 := func(o *outcome) float64 { return o.P50 }
	p99 := func(o *outcome) float64 { return o.P99 }
	switch {
	case s.fresh:
		return []figure{{"KB a stream", "%.0f", memoryAStream(partEnvoy, partGo)}}
	case s.job.Stream:
		return []figure{
			{"CPU µs a chunk", "%.0f", cpuAChunk(partEnvoy, partGo)},
			{"first chunk, p50 ms", "%.1f", p50},
			{"delay of a chunk, p50 ms", "%.2f", func(o *outcome) float64 { return o.Delay }},
			{"delay of a chunk, p99 ms", "%.2f", func(o *outcome) float64 { return o.Delay99 }},
		}
	}
	latency := []figure{{"p50 ms", "%.2f", p50}, {"p99 ms", "%.2f", p99}}
	if s.job.Rate > 0 {
		return latency
	}
	return append([]figure{{"CPU ms a request", "%.3f", cpuARequest(partEnvoy, partGo)}}, latency...)
}

// betterTable shows every figure in which a peer was better than the gateway: the one with limits, budgets and prices
// where that was measured. What did not answer everything is compared by what it did answer.
func betterTable(all []scenario, r results) *table {
	t := &table{head: []string{"scenario", "peer", "figure", "the peer's", "ours", "the peer's failures"}}
	for _, s := range all {
		ours := targetGoverned
		if len(r[s.name][ours]) == 0 {
			ours = targetGateway
		}
		if len(r[s.name][ours]) == 0 {
			continue
		}
		for _, theirs := range []string{targetProxy, targetAIGateway, targetLiteLLM, targetPortkey} {
			for _, f := range s.figures() {
				a, b := fmt.Sprintf(f.format, r.of(s.name, theirs, f.of)), fmt.Sprintf(f.format, r.of(s.name, ours, f.of))
				if len(r[s.name][theirs]) > 0 && a != b && r.of(s.name, theirs, f.of) < r.of(s.name, ours, f.of) {
					t.add(s.name, theirs, f.name, a, b, fmt.Sprint(r.failed(s.name, theirs)))
				}
			}
		}
	}
	return t
}

// describeBetter is the section on where a peer is better.
func describeBetter(peers []peer, all []scenario, r results) string {
	var b strings.Builder
	b.WriteString("\n## Where a peer is better\n\n")
	for _, p := range peers {
		if p.absent != "" {
			fmt.Fprintf(&b, "**%s was not measured: %s.**\n\n", p.target, p.absent)
		}
	}
	t := betterTable(all, r)
	if len(t.rows) == 0 {
		b.WriteString("Nowhere, of what was measured.\n")
		return b.String()
	}
	b.WriteString("Every figure in which a peer was lower than the gateway with limits, budgets and prices (where that was not " +
		"measured: than the\ngateway without them).\n\n" + t.String())
	return b.String()
}
