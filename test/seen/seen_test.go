// Package seen holds that every figure of the dashboard, the admin API and the command line is the truth: a scenario
// with requests of all outcomes is sent through the gateway, and each figure is compared with what was sent.
//
// The test knows of each request, before it sends it, what must become of it: its status, attempts, tokens and cost.
// What it expects is added up here, from that alone, and never from what the gateway says.
package seen

import (
	"testing"

	"github.com/modelgate/modelgate/internal/testenv"
	"github.com/modelgate/modelgate/test/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

// TestEveryFigureIsTheTruth sends a thousand requests, a batch and a fine-tuning job, with six providers of which two
// are dead, and twelve keys of three organizations.
func TestEveryFigureIsTheTruth(t *testing.T) {
	s := newScene(t)
	s.send(t, testenv.Size(300, 1000))
	s.batch(t)
	s.tune(t)
	s.await(t)
	t.Run("each request", func(t *testing.T) { s.compareEach(t) })
	t.Run("health", func(t *testing.T) { s.compareHealth(t) })
	t.Run("sums", func(t *testing.T) { s.compareSums(t) })
	t.Run("series", func(t *testing.T) { s.compareSeries(t) })
	t.Run("outcomes", func(t *testing.T) { s.compareOutcomes(t) })
	t.Run("filters", func(t *testing.T) { s.compareFilters(t) })
	t.Run("exports", func(t *testing.T) { s.compareExports(t) })
	t.Run("usage", func(t *testing.T) { s.compareUsage(t) })
	t.Run("budgets", func(t *testing.T) { s.compareBudgets(t) })
	t.Run("attention", func(t *testing.T) { s.compareAttention(t) })
	t.Run("incidents", func(t *testing.T) { s.compareIncidents(t) })
	t.Run("cache", func(t *testing.T) { s.compareCache(t) })
	t.Run("keys", func(t *testing.T) { s.compareKeys(t) })
	t.Run("jobs", func(t *testing.T) { s.compareJobs(t) })
	t.Run("status", func(t *testing.T) { s.compareStatus(t) })
	t.Run("pages", func(t *testing.T) { s.comparePages(t) })
}
