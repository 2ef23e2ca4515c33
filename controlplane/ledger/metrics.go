package ledger

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

func newUnserved() prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: "modelgate_ledger_unserved_total",
		Help: "Calls of the data plane and the job service that the ledger could not serve. They are made again: nothing is lost by that."})
}

// Register registers the metrics of the ledger and of its connections to the database, once.
func (l *Ledger) Register(r prometheus.Registerer) error {
	for _, c := range []prometheus.Collector{l.unserved, collectors.NewDBStatsCollector(l.write, "ledger")} {
		if err := r.Register(c); err != nil {
			return fmt.Errorf("registering the metrics of the ledger: %w", err)
		}
	}
	return nil
}
