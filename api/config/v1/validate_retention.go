package configv1

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
)

const (
	day                   = 24 * time.Hour
	defaultKeepRequests   = 30 * day
	defaultKeepRefused    = 7 * day
	defaultKeepUsageAudit = 400 * day
	longestUsageAudit     = 3650 * day
)

// KeepRequests returns how long the request log is kept. The Retention may be nil, here and below.
func (r *Retention) KeepRequests() time.Duration {
	return orDefault(r.GetRequests(), defaultKeepRequests)
}

// KeepRefused returns how long refused requests are kept.
func (r *Retention) KeepRefused() time.Duration {
	return min(orDefault(r.GetRefusedRequests(), defaultKeepRefused), r.KeepRequests())
}

// KeepUsage returns how long sums of usage are kept.
func (r *Retention) KeepUsage() time.Duration { return orDefault(r.GetUsage(), defaultKeepUsageAudit) }

// KeepAudit returns how long the audit log and versions of objects are kept.
func (r *Retention) KeepAudit() time.Duration { return orDefault(r.GetAudit(), defaultKeepUsageAudit) }

func (v *validator) retention(r *Retention) {
	if r.GetName() != "default" {
		v.fail("name", "must be default: there is one retention")
	}
	v.kept("requests", r.GetRequests(), 3*day, 400*day)
	v.kept("refused_requests", r.GetRefusedRequests(), time.Hour, 400*day)
	v.kept("usage", r.GetUsage(), 62*day, longestUsageAudit)
	v.kept("audit", r.GetAudit(), 30*day, longestUsageAudit)
}

func (v *validator) kept(field string, d *durationpb.Duration, least, most time.Duration) {
	if d != nil && (d.CheckValid() != nil || d.AsDuration() < least || d.AsDuration() > most) {
		v.fail(field, "must be between %ds and %ds", int64(least.Seconds()), int64(most.Seconds()))
	}
}
