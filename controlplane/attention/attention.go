// Package attention decides what a person must look at. The overview of the dashboard, the admin API, modelgate status
// and alerts all show what it finds.
//
// It only judges facts that its caller gathers. The caller reports a fact that it could not gather with the
// others, so that an empty list means that all is well.
package attention

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

const (
	// BudgetPercent is the part of a budget that may be spent before it needs attention.
	BudgetPercent = 80
	// ExpiresWithin is how long before a key expires it needs attention.
	ExpiresWithin = 7 * 24 * time.Hour
	// SinkFailsFor is how long a sink of the audit log fails before it needs attention.
	SinkFailsFor = 15 * time.Minute
	// most is the number of items of one kind that are listed. The others are counted.
	most = 20
)

// Facts are the inputs of the judgement.
type Facts struct {
	Now       time.Time
	Providers []adminapi.ProviderHealth
	// Rejected are providers that have refused their credential in the last 15 minutes.
	Rejected []Rejection
	// Unjudged are rules of guardrails whose checkers have judged nothing that they had to in the last 15 minutes.
	Unjudged []Unjudged
	// Budgets are the budgets with at least BudgetPercent spent.
	Budgets []adminapi.BudgetUse
	// Keys are the keys that may expire.
	Keys []*configv1.Key
	// Objects are those without effect, or not as they were changed last.
	Objects []ObjectError
	Plane   []adminapi.DataPlaneClient
	Spools  []SpoolTrouble
	// Sinks are the sinks of the audit log.
	Sinks []adminapi.AuditSinkStatus
	// Waiting is when each change was asked for that waits for approval, the oldest first.
	Waiting []time.Time
	// Leavers are people who have left or lost rights, with the objects that they have made.
	Leavers []Leaver
	// Ledger is why usage is not known; empty if it is.
	Ledger string
}

// A Rejection is how often a provider has refused its credential, with 401 or 403.
type Rejection struct {
	Provider string
	Times    int64
	Last     time.Time
}

// An Unjudged counts requests that were refused because the checker of a guardrail's rule was unavailable.
type Unjudged struct {
	Rule  string // GUARDRAIL/RULE
	Times int64
	Last  time.Time
}

// A SpoolTrouble is a problem of the spool of an ext_proc service, or of the stores that it shares.
type SpoolTrouble struct {
	Process, Trouble string // no trouble: the spool is well
	Dropped          int64  // records
	Stores           string // sentences; empty: nothing is wrong with them
}

// An ObjectError is why an object has no effect.
type ObjectError struct{ Kind, Name, Error string }

// Of returns what needs attention, the worst first.
func Of(f Facts) []adminapi.Attention {
	all := slices.Concat(ledger(f), spools(f), sinks(f), providers(f), rejected(f), unjudged(f), plane(f), objects(f),
		budgets(f), keys(f), approvals(f), leavers(f))
	slices.SortStableFunc(all, func(a, b adminapi.Attention) int { return cmp.Compare(a.Severity, b.Severity) })
	return all
}

func ledger(f Facts) []adminapi.Attention {
	if f.Ledger == "" {
		return nil
	}
	return []adminapi.Attention{{Kind: adminapi.AttentionLedger, Severity: adminapi.SeverityError, Path: "/data-plane",
		Message: "Usage, budgets and the health of providers are not known: " + f.Ledger}}
}

func spools(f Facts) []adminapi.Attention {
	var all []adminapi.Attention
	for _, s := range f.Spools {
		if s.Stores != "" {
			all = append(all, adminapi.Attention{Kind: adminapi.AttentionStore, Severity: adminapi.SeverityError,
				Path: "/data-plane", Message: s.Process + ": " + s.Stores})
		}
		if s.Trouble == "" {
			continue
		}
		a := adminapi.Attention{Kind: adminapi.AttentionSpool, Severity: adminapi.SeverityError, Path: "/data-plane",
			Message: fmt.Sprintf("The spool of %s, which keeps records of usage: %s.", s.Process, s.Trouble)}
		if s.Dropped > 0 {
			a.Message += fmt.Sprintf(" It has dropped %d records: what they cost is not charged.", s.Dropped)
		}
		all = append(all, a)
	}
	return bounded(all, "spools and stores have trouble", "/data-plane")
}

func sinks(f Facts) []adminapi.Attention {
	var all []adminapi.Attention
	for _, s := range f.Sinks {
		if s.Disabled || s.FailingSince == nil || f.Now.Sub(*s.FailingSince) < SinkFailsFor {
			continue
		}
		all = append(all, adminapi.Attention{Kind: adminapi.AttentionAuditSink, Severity: adminapi.SeverityError,
			Object: "AuditSink " + s.Name, Path: PathOf("AuditSink", s.Name),
			Message: fmt.Sprintf("The sink has not taken the audit log since %s UTC: %s. %d entries wait in the ledger.",
				s.FailingSince.UTC().Format("2006-01-02 15:04"), s.Error, s.Backlog)})
	}
	return bounded(all, "sinks of the audit log fail", "/objects")
}

func approvals(f Facts) []adminapi.Attention {
	if len(f.Waiting) == 0 {
		return nil
	}
	what := "1 change waits"
	if n := len(f.Waiting); n > 1 {
		what = fmt.Sprintf("%d changes wait", n)
	}
	return []adminapi.Attention{{Kind: adminapi.AttentionApprovals, Severity: adminapi.SeverityWarning,
		Path: "/approvals", Message: fmt.Sprintf("%s for a second person's approval, since %s UTC.", what,
			f.Waiting[0].UTC().Format("2006-01-02 15:04"))}}
}

func providers(f Facts) []adminapi.Attention {
	var all []adminapi.Attention
	for _, p := range f.Providers {
		a := adminapi.Attention{Object: "Provider " + p.Provider, Message: "The provider is " + p.Says() + ".",
			Path: PathOf("Provider", p.Provider)}
		switch p.State {
		case adminapi.ProviderFailing:
			a.Kind, a.Severity = adminapi.AttentionProviderFailing, adminapi.SeverityError
		case adminapi.ProviderCooling:
			a.Kind, a.Severity = adminapi.AttentionProviderCooling, adminapi.SeverityWarning
		default:
			continue
		}
		all = append(all, a)
	}
	return bounded(all, "providers fail or cool", "/providers")
}

func rejected(f Facts) []adminapi.Attention {
	var all []adminapi.Attention
	for _, r := range f.Rejected {
		all = append(all, adminapi.Attention{Kind: adminapi.AttentionCredentialRejected, Severity: adminapi.SeverityError,
			Object: "Provider " + r.Provider, Path: PathOf("Provider", r.Provider),
			Message: fmt.Sprintf("The provider has refused the credential %s in the last 15 minutes, the last time at %s UTC.",
				times(r.Times), r.Last.UTC().Format(time.TimeOnly))})
	}
	return bounded(all, "providers refuse their credential", "/providers")
}

func unjudged(f Facts) []adminapi.Attention {
	var all []adminapi.Attention
	for _, u := range f.Unjudged {
		guardrail, _, _ := strings.Cut(u.Rule, "/")
		all = append(all, adminapi.Attention{Kind: adminapi.AttentionCheckerAway, Severity: adminapi.SeverityError,
			Object: "Guardrail " + guardrail, Path: PathOf("Guardrail", guardrail),
			Message: fmt.Sprintf("The checker of the rule %s has not answered, and requests were refused %s in the last 15 minutes, the last time at %s UTC. The log of extproc has the cause.",
				u.Rule, times(u.Times), u.Last.UTC().Format(time.TimeOnly))})
	}
	return bounded(all, "rules of guardrails have no checker", "/objects")
}

func times(n int64) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprint(n, " times")
}

func plane(f Facts) []adminapi.Attention {
	var all []adminapi.Attention
	for _, c := range f.Plane {
		if c.Health == adminapi.HealthOK {
			continue
		}
		a := adminapi.Attention{Kind: adminapi.AttentionDataPlane, Severity: adminapi.SeverityWarning, Path: "/data-plane",
			Message: fmt.Sprintf("%s %s does not use the newest configuration.", c.Role, c.Node)}
		if c.Health != adminapi.HealthBehind {
			a.Severity, a.Message = adminapi.SeverityError, fmt.Sprintf("%s %s: %s.", c.Role, c.Node, c.Health)
		}
		if c.Error != "" {
			a.Message += " " + c.Error
		}
		all = append(all, a)
	}
	return bounded(all, "processes of the data plane lag", "/data-plane")
}

func objects(f Facts) []adminapi.Attention {
	var all []adminapi.Attention
	for _, o := range f.Objects {
		all = append(all, adminapi.Attention{Kind: adminapi.AttentionObjectError, Severity: adminapi.SeverityError,
			Object: o.Kind + " " + o.Name, Path: PathOf(o.Kind, o.Name),
			Message: "The object, or its last change, has no effect: " + o.Error})
	}
	return bounded(all, "objects have no effect", "/objects")
}

func budgets(f Facts) []adminapi.Attention {
	var all []adminapi.Attention
	for _, b := range f.Budgets {
		percent := b.Percent(b.Spent)
		if percent < BudgetPercent {
			continue
		}
		kind, name, _ := strings.Cut(b.Scope, "/")
		kind = strings.ToUpper(kind[:1]) + kind[1:]
		a := adminapi.Attention{Kind: adminapi.AttentionBudget, Severity: adminapi.SeverityWarning,
			Object: kind + " " + name, Path: PathOf(kind, name), Message: fmt.Sprintf("%d %% of the budget of $%s a %s of %s is spent. It resets on %s UTC.",
				percent, b.USD, b.Unit, cmp.Or(b.DisplayName, name), b.Resets.UTC().Format("2006-01-02 15:04"))}
		if percent >= 100 {
			a.Severity = adminapi.SeverityError
			a.Message += " Until then requests are refused."
		}
		all = append(all, a)
	}
	slices.SortStableFunc(all, func(a, b adminapi.Attention) int { return cmp.Compare(a.Severity, b.Severity) })
	return bounded(all, fmt.Sprintf("budgets are above %d %%", BudgetPercent), "/usage")
}

// briefLife is the longest life of keys that are made for a short use, such as the playground's. Their end is not
// reported.
const briefLife = 24 * time.Hour

func keys(f Facts) []adminapi.Attention {
	var soon []*configv1.Key
	for _, k := range f.Keys {
		at := k.GetExpiresAt()
		brief := k.GetCreatedAt() != nil && at.AsTime().Sub(k.GetCreatedAt().AsTime()) <= briefLife
		if at == nil || brief || k.GetDisabled() || !at.AsTime().After(f.Now) || at.AsTime().Sub(f.Now) > ExpiresWithin {
			continue
		}
		soon = append(soon, k)
	}
	slices.SortFunc(soon, func(a, b *configv1.Key) int {
		return cmp.Or(a.GetExpiresAt().AsTime().Compare(b.GetExpiresAt().AsTime()), cmp.Compare(a.GetName(), b.GetName()))
	})
	all := make([]adminapi.Attention, len(soon))
	for i, k := range soon {
		all[i] = adminapi.Attention{Kind: adminapi.AttentionKeyExpires, Severity: adminapi.SeverityWarning,
			Object: "Key " + k.GetName(), Path: PathOf("Key", k.GetName()),
			Message: fmt.Sprintf("The key %s expires on %s UTC.", cmp.Or(k.GetDisplayName(), k.GetName()),
				k.GetExpiresAt().AsTime().Format("2006-01-02 15:04"))}
	}
	return bounded(all, "keys expire within 7 days", "/keys")
}

// bounded tells the first of many, and how many more there are.
func bounded(all []adminapi.Attention, what, path string) []adminapi.Attention {
	if len(all) <= most {
		return all
	}
	more := all[most]
	more.Object, more.Path, more.Message = "", path, fmt.Sprintf("%d more %s.", len(all)-most, what)
	return append(all[:most:most], more)
}

// PathOf returns the page of an object.
func PathOf(kind, name string) string {
	base := map[string]string{"Provider": "providers", "Model": "models", "Key": "keys", "Organization": "organizations",
		"Project": "projects", "Account": "accounts"}[kind]
	parts := strings.Split(name, "/")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	return "/" + cmp.Or(base, "objects/"+url.PathEscape(kind)) + "/" + strings.Join(parts, "/")
}
