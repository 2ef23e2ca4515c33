package admin

import (
	"context"
	"time"
)

// An AuditSinkStatus is how far the audit log was delivered to a sink.
type AuditSinkStatus struct {
	Name string `json:"name"`
	// Kind is webhook, syslog, otlp or file.
	Kind     string `json:"kind"`
	Disabled bool   `json:"disabled,omitempty"`
	// Sequence is the sequence of the newest delivered entry of the chain, or 0 if there is none.
	Sequence int64 `json:"sequence"`
	// DeliveredAt is when entries were last delivered; nil: never.
	DeliveredAt *time.Time `json:"delivered_at,omitempty"`
	// Backlog is how many entries of the chain are not delivered.
	Backlog int64 `json:"backlog"`
	// Missing is how many entries of the chain were not in the ledger when it was their turn: they have expired, or
	// somebody has removed them.
	Missing int64 `json:"missing,omitempty"`
	// Error is why the last attempt failed, without secrets; empty while the sink works. FailingSince is when the first
	// of these attempts failed.
	Error        string     `json:"error,omitempty"`
	FailingSince *time.Time `json:"failing_since,omitempty"`
}

// AuditSinks are how all sinks are, by name.
type AuditSinks struct {
	Items []AuditSinkStatus `json:"items"`
}

// AuditSinks returns how far the audit log was delivered to each sink.
func (c StateCalls) AuditSinks(ctx context.Context) (AuditSinks, error) {
	return get[AuditSinks](ctx, c.caller, "audit/sinks")
}
