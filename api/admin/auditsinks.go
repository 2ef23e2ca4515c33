package admin

import "context"

// AuditSinks returns how far the audit log was delivered to each sink.
func (c StateCalls) AuditSinks(ctx context.Context) (AuditSinks, error) {
	return get[AuditSinks](ctx, c.caller, "audit/sinks")
}
