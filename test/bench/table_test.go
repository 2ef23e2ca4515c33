package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/golden"
)

func TestTableAlignsNumbersToTheRight(t *testing.T) {
	table := &table{head: []string{"name", "µs", "mixed"}}
	table.add("a", "12.5", "1")
	table.add("längst", "-3", "2 KB")
	table.add("no value", "", "")
	require.Equal(t, strings.TrimLeft(`
| name     |   µs | mixed |
|----------|-----:|-------|
| a        | 12.5 | 1     |
| längst   |   -3 | 2 KB  |
| no value |      |       |
`, "\n"), table.String())
}

// canned returns results in which a request costs the Go side the given CPU and a slow stream the given memory. One of
// the cheapest ext_proc service costs 0.2 ms.
func canned(seconds, kb float64, open int) results {
	r := results{}
	for _, s := range scenarios(false) {
		for pass := range s.passes {
			skew := float64(pass) // the passes differ, so that the median shows
			alone := &outcome{Seconds: 2, OK: 10_000, P50: 1 + skew, P99: 4 + skew, CPU: map[part]float64{partEnvoy: 0.5},
				Others: 0.04}
			floor := &outcome{Seconds: 2, OK: 5000, P50: 2 + skew, P99: 5 + skew,
				CPU: map[part]float64{partEnvoy: 0.9, partGo: 0.1}}
			gateway := &outcome{Seconds: 2, OK: 5000, P50: 3 + skew, P99: 9 + skew,
				CPU: map[part]float64{partEnvoy: 1, partGo: 5000 * seconds}, Others: 0.01}
			peer := &outcome{Seconds: 2, OK: 5000, Chunks: 20_000, P50: 4 + skew, P99: 8 + skew, Delay: 1, Delay99: 3,
				CPU: map[part]float64{partEnvoy: 2, partGo: 1}}
			if s.job.Rate > 0 {
				gateway.P50 = alone.P50 + 0.5
			}
			if s.share {
				r.add(s.name, targetDirect, &outcome{Seconds: 2, OK: 20_000})
			}
			if s.job.Stream {
				alone.Chunks, floor.Chunks, gateway.Chunks = 20_000, 20_000, 20_000
				alone.Concurrent, gateway.Concurrent = s.job.Connections, min(open, s.job.Connections)
				alone.Memory = map[part]float64{partEnvoy: 50 * float64(s.job.Connections)}
				gateway.CPU = map[part]float64{partEnvoy: 0.7, partGo: 0.1}
				gateway.Memory = map[part]float64{partEnvoy: 80 * float64(gateway.Concurrent),
					partGo: (kb - 80) * float64(gateway.Concurrent)}
				gateway.Delay, gateway.Delay99 = 0.5, 2
			}
			if r.add(s.name, targetGateway, gateway); !s.fresh {
				r.add(s.name, targetGoverned, gateway)
				r.add(s.name, targetAIGateway, peer)
			}
			if !s.translated {
				r.add(s.name, targetEnvoy, alone)
				r.add(s.name, targetFloor, floor)
			}
		}
	}
	return r
}

func TestReport(t *testing.T) {
	s := setup{Date: "2026-11-21", Machine: "2 cores", Go: "go1.26", Gateway: "modelgate v1", Envoy: "1.40.0",
		Peers: []peer{{target: targetAIGateway, version: "v1.0.0"}, {target: targetLiteLLM, absent: "no -litellm"}}}
	golden.Bytes(t, "testdata/report.md", []byte(report(s, scenarios(false), canned(0.00004, 90, 10_000))))
}

func TestBarsThatAreMissedSaySo(t *testing.T) {
	for name, c := range map[string]struct {
		results results
		missed  []string
	}{
		"all hold":             {canned(0.00005, 100, 10_000), nil},
		"too much CPU":         {canned(0.000052, 100, 10_000), []string{"the Go side alone, 200 B"}},
		"too much memory":      {canned(0.00004, 101, 10_000), []string{"memory of a slow stream"}},
		"streams are not open": {canned(0.00004, 100, 9_999), []string{"10,000 streams"}},
		"too late":             {late(canned(0.00004, 100, 10_000)), []string{"added p50"}},
		"too near to the peer": {withPeer(canned(0.00004, 100, 10_000), 0.4), []string{"beside Envoy AI Gateway: CPU of a request, 200 B"}},
		"streams fail":         {withFailure(canned(0.00004, 100, 10_000), crowd), []string{"10,000 streams"}},
		"slow streams fail": {withFailure(canned(0.00004, 100, 10_000), slowStreams),
			[]string{"memory of a slow stream"}},
		"nothing was measured":    {results{}, nil},
		"only Envoy was measured": {results{manySmall: {targetEnvoy: {{OK: 1, Seconds: 1}}}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var missed []string
			for _, row := range barTable(c.results).rows {
				if row[3] == "**missed**" {
					missed = append(missed, row[0])
				}
				require.Equal(t, len(c.results[manySmall][targetGateway]) == 0, row[3] == "not measured")
			}
			require.Len(t, missed, len(c.missed))
			for i := range missed {
				require.Contains(t, missed[i], c.missed[i])
			}
		})
	}
}

// late returns results in which the gateway adds 0.6 ms at a constant rate.
func late(r results) results {
	for _, o := range r[openLoop][targetGoverned] {
		o.P50 += 0.1
	}
	return r
}

// withPeer returns results in which requests of 200 B cost Envoy AI Gateway the given ms of CPU.
func withPeer(r results, ms float64) results {
	for _, o := range r[manySmall][targetAIGateway] {
		o.CPU = map[part]float64{partEnvoy: ms * float64(o.OK) / 1e3}
	}
	return r
}

func TestPeerThatWasNotMeasuredHoldsNoBar(t *testing.T) {
	r := canned(0.00004, 90, 10_000)
	for _, targets := range r {
		delete(targets, targetAIGateway)
	}
	verdicts := map[string]int{}
	for _, row := range barTable(r).rows {
		if strings.HasPrefix(row[0], "beside Envoy AI Gateway") {
			verdicts[row[3]]++
		}
	}
	require.Equal(t, map[string]int{"not measured": 3}, verdicts)
}

func TestFiguresInWhichAPeerIsBetterAreListed(t *testing.T) {
	all, r := scenarios(false), results{}
	r.add(manySmall, targetGoverned, &outcome{OK: 1000, P50: 2, P99: 4, CPU: map[part]float64{partGo: 0.2}})
	r.add(manySmall, targetGateway, &outcome{OK: 1000, P50: 1, P99: 3, CPU: map[part]float64{partGo: 0.1}})
	r.add(manySmall, targetProxy, &outcome{OK: 1000, P50: 1.5, P99: 4, CPU: map[part]float64{partGo: 0.3},
		Failures: map[string]int{"timeout": 2}})
	r.add(slowStreams, targetGateway, &outcome{Concurrent: 10, Memory: map[part]float64{partGo: 900}})
	r.add(slowStreams, targetProxy, &outcome{Concurrent: 10, Memory: map[part]float64{partGo: 800}})
	require.Equal(t, [][]string{
		{slowStreams, targetProxy, "KB a stream", "80", "90", "0"},
		{manySmall, targetProxy, "p50 ms", "1.50", "2.00", "2"},
	}, betterTable(all, r).rows)
}

func withFailure(r results, scenario string) results {
	r[scenario][targetGateway][0].Failures = map[string]int{"broken connection": 1}
	return r
}

func TestReportOfAQuickRunSaysSo(t *testing.T) {
	require.Contains(t, report(setup{Quick: true}, scenarios(true), results{}), "nothing here can be relied on")
	require.NotContains(t, report(setup{}, scenarios(false), results{}), "nothing here can be relied on")
}

func TestReportOfABusyMachineSaysSo(t *testing.T) {
	r := canned(0.00004, 90, 10_000)
	require.NotContains(t, report(setup{}, scenarios(false), r), "measure again")
	r[openLoop][targetEnvoy][1].Others = 0.2
	text := report(setup{}, scenarios(false), r)
	require.Contains(t, text, "measure again")
	require.Contains(t, text, "20 % of the machine's CPU at the worst")
}
