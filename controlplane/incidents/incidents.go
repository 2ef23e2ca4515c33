// Package incidents judges what is not in its normal state, and keeps since when, for whom and why. The overview of
// the dashboard, the admin API, alerts, modelgate status and doctor all show what it finds.
//
// Judge is the only place that decides whether something is wrong. It gets facts and does nothing else, so add a case
// to its table test before you change it. A cause has one trouble: what only suffers from another cause is left out.
package incidents

import (
	"cmp"
	"slices"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/attention"
	"github.com/modelgate/modelgate/internal/usage"
)

// A Trouble is something that is not in its normal state, for one cause.
type Trouble struct {
	// Subject identifies the cause, such as provider/frost.
	Subject string
	// Attention says what is wrong now.
	adminapi.Attention
	// What and Detail are the parts of a sentence before and after the time since when it is so.
	What, Detail string
	// Requests are the filters of the request log that find those that were hit; nil: none were.
	Requests map[string]string
	// By and Code narrow these requests: to what refused them, one of some, and to the code of their error. Without
	// leaves out those that a provider has answered. Empty: all.
	By, Without []string
	Code        openai.Code
	// Over is by how much of a budget too much is spent.
	Over usage.Nano
	// Since is when it began, and Last when its last bad event was, if the facts say it.
	Since, Last time.Time
}

// Judge returns everything that is not in its normal state, the worst first, then by subject.
func Judge(f attention.Facts) []Trouble {
	all := slices.Concat(unknown(f), spools(f), sinks(f), providers(f), checkers(f), plane(f), jobs(f), objects(f),
		certificates(f), budgets(f), limits(f), keys(f))
	all = append(all, models(f, all)...)
	all = append(all, batches(f, all)...)
	slices.SortStableFunc(all, func(a, b Trouble) int {
		return cmp.Or(cmp.Compare(a.Severity, b.Severity), cmp.Compare(a.Subject, b.Subject))
	})
	return all
}

// Attention returns what a person must look at, the worst first: what is not in its normal state, and what waits.
func Attention(f attention.Facts) []adminapi.Attention {
	byKind := map[string][]adminapi.Attention{}
	for _, t := range Judge(f) {
		a := t.Attention
		a.Subject = t.Subject
		byKind[t.Kind] = append(byKind[t.Kind], a)
	}
	var all []adminapi.Attention
	for _, k := range kinds() {
		all = append(all, attention.Bounded(byKind[k.kind], k.many, k.path)...)
	}
	all = append(all, attention.Waiting(f)...)
	slices.SortStableFunc(all, func(a, b adminapi.Attention) int { return cmp.Compare(a.Severity, b.Severity) })
	return all
}

// A described has what is said of many troubles of a kind, and the page where they are seen.
type described struct{ kind, many, path string }

// kinds are all kinds of troubles, in the order in which they are listed within a severity.
func kinds() []described {
	return []described{
		{adminapi.AttentionLedger, "ledgers cannot be read", "/data-plane"},
		{adminapi.AttentionSpool, "spools have trouble", "/data-plane"},
		{adminapi.AttentionStore, "stores have trouble", "/data-plane"},
		{adminapi.AttentionAuditSink, "sinks of the audit log fail", "/objects"},
		{adminapi.AttentionCredentialRejected, "providers refuse their credential", "/providers"},
		{adminapi.AttentionProviderFailing, "providers fail", "/providers"},
		{adminapi.AttentionProviderCooling, "providers cool", "/providers"},
		{adminapi.AttentionModelFailing, "models fail", "/models"},
		{adminapi.AttentionCheckerAway, "guardrails have no checker", "/objects"},
		{adminapi.AttentionDataPlane, "processes of the data plane lag", "/data-plane"},
		{adminapi.AttentionJobs, "job services are not connected", "/data-plane"},
		{adminapi.AttentionBatchStuck, "batches do not advance", "/batches"},
		{adminapi.AttentionObjectError, "objects have no effect", "/objects"},
		{adminapi.AttentionCertificate, "certificates expire", "/objects"},
		{adminapi.AttentionBudget, "budgets are nearly spent", "/usage"},
		{adminapi.AttentionLimit, "limits refuse requests", "/requests"},
		{adminapi.AttentionKeyRefused, "keys are refused", "/requests"},
	}
}

// Why returns one sentence of why, with the time since when.
func (t Trouble) Why(since, now time.Time) string {
	at := since.UTC().Format(time.TimeOnly)
	if since.UTC().Format(time.DateOnly) != now.UTC().Format(time.DateOnly) {
		at = since.UTC().Format(time.DateTime)
	}
	s := t.What + " since " + at + " UTC"
	if t.Detail != "" {
		s += ": " + t.Detail
	}
	return s
}
