package etcdspace

import "errors"

// A Use is what something is written for.
type Use int

// What is written for administration is not asked about: it goes on until etcd itself refuses it.
const (
	// Creation is work that a tenant asks for.
	Creation Use = iota
	// Progress is of work that was accepted.
	Progress
)

// ErrReserved means that what etcd has left is not for this: it is kept for administration.
var ErrReserved = errors.New("etcd fills: the rest of its quota is kept for administration")

// Admit reports, before something of about so many bytes is written, whether there is room for it. The error is
// ErrReserved. What was admitted since etcd was last asked counts as written. A nil Room admits everything.
func (r *Room) Admit(u Use, bytes int) error {
	if r == nil {
		return nil
	}
	limit := forTenants
	if u == Progress {
		limit = forWork
	}
	state := r.State()
	written := r.written.Add(int64(bytes))
	m, _ := state.Fullest()
	if state.Full || m.Quota > 0 && part(m.InUse+written, m.Quota) > limit {
		r.written.Add(-int64(bytes))
		r.metrics.refused.WithLabelValues(u.String()).Inc()
		return ErrReserved
	}
	return nil
}

// String is the name in metrics.
func (u Use) String() string {
	if u == Progress {
		return "progress"
	}
	return "creation"
}
