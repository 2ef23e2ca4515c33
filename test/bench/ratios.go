package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
)

// moved is by how much a ratio may differ from the recorded one before it is printed.
const moved = 0.10

// ratios are what carries over to another machine and another day: what a target costs, divided by what the cheapest
// ext_proc service costs in the same run.
func (r results) ratios() map[string]float64 {
	all := map[string]float64{}
	for _, s := range scenarios(false) {
		floor, cost, unit := s.name, cpuARequest, "CPU of a request"
		switch {
		case s.fresh:
			continue // of memory, and what it measures is in the tables
		case s.job.Stream:
			floor, cost, unit = pacedStreams, cpuAChunk, "CPU of a chunk"
		case s.translated:
			floor = manySmall
		}
		whole := r.of(floor, targetFloor, cost(partEnvoy, partGo))
		for _, target := range []string{targetProxy, targetLiteLLM, targetAIGateway, targetGateway, targetGoverned} {
			if whole == 0 || len(r[s.name][target]) == 0 {
				continue
			}
			all[fmt.Sprintf("%s: %s, %s", unit, s.name, target)] = r.of(s.name, target, cost(partEnvoy, partGo)) / whole
		}
	}
	return all
}

// record writes the ratios of a run to a file.
func (r results) record(file string) error {
	text, err := json.MarshalIndent(r.ratios(), "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}

// compared returns the ratios of a run that differ from those in a file, which another run has recorded.
func (r results) compared(file string) (*table, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var before map[string]float64
	if err := json.Unmarshal(text, &before); err != nil {
		return nil, fmt.Errorf("reading %s: %w", file, err)
	}
	t := &table{head: []string{"against the cheapest ext_proc service", "recorded", "now", "moved by"}}
	now := r.ratios()
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if was := before[name]; was > 0 && (now[name] > was*(1+moved) || now[name] < was*(1-moved)) {
			t.add(name, fmt.Sprintf("%.2f", was), fmt.Sprintf("%.2f", now[name]),
				fmt.Sprintf("%+.0f %%", 100*(now[name]/was-1)))
		}
	}
	return t, nil
}
