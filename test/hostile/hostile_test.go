// Package hostile is what tenants and operators who mean harm have tried, by the number of the point that it is about:
// quotas, bounds, floods, damaged folders, restarts. Each case runs against the real binary and the real Envoy, is
// bounded in count and time, and the whole suite runs in under two minutes.
//
// Figures that it measures (peak memory, CPU-seconds, time to recover) are printed at its end. They are not asserted,
// but where a bound is what the case is about, and then with room for a busy machine.
package hostile

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/modelgate/modelgate/test/harness"
)

func TestMain(m *testing.M) {
	harness.MainWith(m, func(m *testing.M) int {
		code := m.Run()
		figures.print()
		return code
	})
}

// figures are what the cases have measured.
var figures table

// A table is a list of lines that is printed when all cases have run. It is safe for concurrent use.
type table struct {
	mu    sync.Mutex // guards what follows
	lines []string
}

// figure keeps what a case has measured, such as figure(t, "peak memory", "%d MB", 100).
func figure(t *testing.T, what, format string, args ...any) {
	figures.mu.Lock()
	defer figures.mu.Unlock()
	figures.lines = append(figures.lines, fmt.Sprintf("%-60s %-40s %s", t.Name(), what, fmt.Sprintf(format, args...)))
}

func (f *table) print() {
	f.mu.Lock()
	defer f.mu.Unlock()
	slices.Sort(f.lines)
	_, _ = fmt.Fprintln(os.Stdout, strings.Join(f.lines, "\n"))
}
