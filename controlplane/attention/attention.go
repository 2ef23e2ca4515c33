// Package attention has the facts by which the gateway is judged, and says what waits for a person although all is
// well: approvals, keys that expire, and what people who have left leave behind. What is not well is judged by package
// incidents.
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
	// ExpiresWithin is how long before a key expires it needs attention.
	ExpiresWithin = 7 * 24 * time.Hour
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
	// Budgets are what of budgets is spent.
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
	// Recovered are providers that have served all their attempts since they failed last.
	Recovered map[string]bool
	// Traffic is what providers did for models in the last 15 minutes.
	Traffic []Traffic
	// Refusals are requests of the last 15 minutes that were refused, by their key and the reason.
	Refusals []Refusals
	// Certificates are when those in use expire, by name.
	Certificates map[string]time.Time
	// NoJobs is set if a job service is configured, and none is connected.
	NoJobs bool
	// Batches are the oldest that the job service is to answer.
	Batches []adminapi.RunningBatch
	// Ledger is why usage is not known; empty if it is.
	Ledger string
}

// A Traffic counts requests for a model that a provider answered in the end, and how many of them failed.
type Traffic struct {
	Model, Provider  string
	Requests, Failed int64
}

// A Refusals counts requests of a key that the gateway has refused for one reason.
type Refusals struct {
	Key, Name string // its id, or the last characters of one that is not known; and its name for people
	Known     bool
	By        string // what refused them, such as key/key_1 limit requests per minute; empty: the key itself was refused
	Code      string // of the error
	Requests  int64
	Last      time.Time
	Served    int64 // requests of the key that were served in the same time
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
	// Since and StoresSince are when the troubles began.
	Since, StoresSince time.Time
}

// An ObjectError is why an object has no effect.
type ObjectError struct{ Kind, Name, Error string }

// Waiting returns what waits for a person.
func Waiting(f Facts) []adminapi.Attention { return slices.Concat(keys(f), approvals(f), leavers(f)) }

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
	return Bounded(all, "keys expire within 7 days", "/keys")
}

// Bounded tells the first of many, and how many more there are.
func Bounded(all []adminapi.Attention, what, path string) []adminapi.Attention {
	if len(all) <= most {
		return all
	}
	more := all[most]
	more.Object, more.Subject, more.Path, more.Message = "", "", path, fmt.Sprintf("%d more %s.", len(all)-most, what)
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
