package usage

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// A spoolState is the fill level of a spool.
type spoolState struct {
	records        int // ended and not acknowledged
	bytes, waiting int64
}

type spoolMetrics struct {
	shipped, dropped prometheus.Counter
	all              []prometheus.Collector
}

// newSpoolMetrics makes the metrics of a spool, and registers them if r is not nil.
func newSpoolMetrics(r prometheus.Registerer, state func() spoolState) (*spoolMetrics, error) {
	gauge := func(name, help string, value func(spoolState) float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help},
			func() float64 { return value(state()) })
	}
	m := &spoolMetrics{
		shipped: prometheus.NewCounter(prometheus.CounterOpts{Name: "modelgate_ledger_shipped_total",
			Help: "Records that the ledger has acknowledged."}),
		dropped: prometheus.NewCounter(prometheus.CounterOpts{Name: "modelgate_ledger_dropped_total",
			Help: "Records that could not be kept, of exchanges that began or ended: what they cost is not charged."}),
	}
	m.all = []prometheus.Collector{
		m.shipped, m.dropped,
		gauge("modelgate_ledger_backlog_records", "Records that wait to be shipped to the ledger.",
			func(s spoolState) float64 { return float64(s.records) }),
		gauge("modelgate_ledger_spool_bytes", "Size of the spool on disk.",
			func(s spoolState) float64 { return float64(s.bytes) }),
		gauge("modelgate_ledger_waiting_bytes", "Records that wait in memory, because the disk or the spool is full.",
			func(s spoolState) float64 { return float64(s.waiting) }),
	}
	if r == nil {
		return m, nil
	}
	for i, c := range m.all {
		if err := r.Register(c); err != nil {
			m.all = m.all[:i]
			m.unregister(r)
			return nil, fmt.Errorf("registering the metrics of the spool: %w", err)
		}
	}
	return m, nil
}

func (m *spoolMetrics) unregister(r prometheus.Registerer) {
	for _, c := range m.all {
		if r != nil {
			r.Unregister(c)
		}
	}
}

func (s *DiskSpool) state() spoolState {
	s.mu.Lock()
	defer s.mu.Unlock()
	return spoolState{records: s.backlog, bytes: s.bytes, waiting: int64(len(s.waiting))}
}
