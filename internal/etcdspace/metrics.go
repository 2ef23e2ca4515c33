package etcdspace

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	size, inUse, quota *prometheus.GaugeVec
	full               prometheus.Gauge
	refused            *prometheus.CounterVec
	upkeep             *prometheus.CounterVec
}

func newMetrics() metrics {
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{"member"})
	}
	m := metrics{
		size:  gauge("modelgate_etcd_size_bytes", "Size of a member's file, which etcd's quota is of."),
		inUse: gauge("modelgate_etcd_in_use_bytes", "What of a member's file is in use."),
		quota: gauge("modelgate_etcd_quota_bytes", "Quota of a member; 0: none."),
		full: prometheus.NewGauge(prometheus.GaugeOpts{Name: "modelgate_etcd_full",
			Help: "1 while etcd has raised the alarm NOSPACE: it takes deletions and nothing else."}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "modelgate_etcd_refused_total",
			Help: "Writes for tenants that were refused because what is left of etcd's quota is kept for administration."},
			[]string{"use"}),
		upkeep: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "modelgate_etcd_upkeep_total",
			Help: "What was done so that etcd has room: compact, defragment a member, disarm the alarm."},
			[]string{"action", "outcome"}),
	}
	for _, u := range []Use{Creation, Progress} {
		m.refused.WithLabelValues(u.String())
	}
	for _, action := range []string{"compact", "defragment", "disarm"} {
		for _, outcome := range []string{"done", "failed"} {
			m.upkeep.WithLabelValues(action, outcome)
		}
	}
	return m
}

// Register registers the metrics of the room and its keeper, once.
func (r *Room) Register(registry prometheus.Registerer) error {
	m := r.metrics
	for _, c := range []prometheus.Collector{m.size, m.inUse, m.quota, m.full, m.refused, m.upkeep} {
		if err := registry.Register(c); err != nil {
			return fmt.Errorf("registering the metrics of etcd's room: %w", err)
		}
	}
	return nil
}

func (m metrics) set(s *State) {
	for _, of := range []*prometheus.GaugeVec{m.size, m.inUse, m.quota} {
		of.Reset() // a member that is gone has none
	}
	for _, member := range s.Members {
		m.size.WithLabelValues(member.Name).Set(float64(member.Size))
		m.inUse.WithLabelValues(member.Name).Set(float64(member.InUse))
		m.quota.WithLabelValues(member.Name).Set(float64(member.Quota))
	}
	m.full.Set(0)
	if s.Full {
		m.full.Set(1)
	}
}

func (m metrics) did(action string, err error) {
	outcome := "done"
	if err != nil {
		outcome = "failed"
	}
	m.upkeep.WithLabelValues(action, outcome).Inc()
}
