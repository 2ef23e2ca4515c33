package configv1

import (
	"net"
	"path"
	"strconv"
	"strings"
	"time"
	"unicode"
)

const (
	day                   = 24 * time.Hour
	defaultKeepRequests   = 30 * day
	defaultKeepRefused    = 7 * day
	defaultKeepUsageAudit = 400 * day
	defaultApprovalWait   = 7 * day
)

// Kind returns what a sink is: webhook, syslog, otlp or file.
func (s *AuditSink) Kind() string {
	switch {
	case s.GetSyslog() != nil:
		return "syslog"
	case s.GetOtlp() != nil:
		return "otlp"
	case s.GetFile() != nil:
		return "file"
	}
	return "webhook"
}

func (s *AuditSink) check(v *validator) {
	given := 0
	for _, there := range []bool{s.GetWebhook() != nil, s.GetSyslog() != nil, s.GetOtlp() != nil, s.GetFile() != nil} {
		if there {
			given++
		}
	}
	switch {
	case given != 1:
		v.fail("", "needs exactly one of webhook, syslog, otlp and file")
	case s.GetWebhook() != nil:
		v.webhookSecret("credential", s.GetCredential())
	case s.GetCredential() != nil && (s.GetSyslog() != nil || s.GetFile() != nil):
		v.fail("credential", "must be absent: a sink of the kind %s uses none", s.Kind())
	}
}

func (s *AuditOtlp) check(v *validator) {
	if strings.Contains(s.GetEndpoint(), "?") && !v.failed("endpoint") {
		v.fail("endpoint", "must have no query")
	}
}

func (s *AuditSyslog) check(v *validator) {
	host, port, err := net.SplitHostPort(s.GetAddress())
	number, portErr := strconv.ParseUint(port, 10, 16)
	if err != nil || portErr != nil || number == 0 || !isHost(host) && net.ParseIP(host) == nil {
		v.fail("address", "must be a host and a port, such as logs.example.com:6514")
	}
	if s.GetCa() != "" && !s.GetTls() {
		v.fail("tls", "must be true where there is a ca")
	}
}

// check accepts a path that leads nowhere else than it looks.
func (f *AuditFile) check(v *validator) {
	s := f.GetPath()
	if !path.IsAbs(s) || path.Clean(s) != s || s == "/" || len(s) > maxURL || strings.ContainsFunc(s, unicode.IsControl) {
		v.fail("path", "must be the plain absolute path of a file, such as /var/log/modelgate/audit.jsonl")
	}
}

// Wait returns how long a change waits for its approval.
func (r *ApprovalRule) Wait() time.Duration {
	return orDefault(r.GetExpiresAfter(), defaultApprovalWait)
}

func (r *ApprovalRule) check(v *validator) {
	if r.GetBudgetUsdDay() == "" && r.GetBudgetUsdMonth() == "" && !r.GetKeys() {
		v.fail("", "needs budget_usd_day, budget_usd_month or keys: without, no change waits")
	}
}

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
