package incidents

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/attention"
)

const (
	// BudgetPercent is the part of a budget that may be spent before that is a trouble.
	BudgetPercent = 80
	// SinkFailsFor is how long a sink of the audit log fails before that is a trouble.
	SinkFailsFor = 15 * time.Minute
	// ExpiresWithin is how long before a certificate expires that is a trouble.
	ExpiresWithin = 14 * 24 * time.Hour
	// fewest is how many requests of 15 minutes must have failed, or been refused, before that is a trouble.
	fewest = 20
	// failing is the percentage of failed requests from which on a model fails.
	failing = 50
	// named is how many names a sentence has. The others are counted.
	named = 5
)

func unknown(f attention.Facts) []Trouble {
	if f.Ledger == "" {
		return nil
	}
	return []Trouble{{Subject: "ledger", What: "Usage, budgets and the health of providers are not known",
		Detail: f.Ledger, Attention: adminapi.Attention{Kind: adminapi.AttentionLedger,
			Severity: adminapi.SeverityError, Path: "/data-plane",
			Message: "Usage, budgets and the health of providers are not known: " + f.Ledger}}}
}

func spools(f attention.Facts) []Trouble {
	var all []Trouble
	for _, s := range f.Spools {
		if s.Stores != "" {
			all = append(all, Trouble{Subject: "store/" + s.Process, What: s.Process + " lacks a store", Detail: s.Stores,
				Since: s.StoresSince,
				Attention: adminapi.Attention{Kind: adminapi.AttentionStore, Severity: adminapi.SeverityError,
					Path: "/data-plane", Message: s.Process + ": " + s.Stores}})
		}
		if s.Trouble == "" {
			continue
		}
		t := Trouble{Subject: "spool/" + s.Process, What: "The spool of " + s.Process + " has trouble",
			Detail: s.Trouble + ".", Since: s.Since, Attention: adminapi.Attention{Kind: adminapi.AttentionSpool,
				Severity: adminapi.SeverityError, Path: "/data-plane",
				Message: fmt.Sprintf("The spool of %s, which keeps records of usage: %s.", s.Process, s.Trouble)}}
		if s.Dropped > 0 {
			lost := fmt.Sprintf(" It has dropped %d records: what they cost is not charged.", s.Dropped)
			t.Message, t.Detail = t.Message+lost, t.Detail+lost
		}
		all = append(all, t)
	}
	return all
}

func sinks(f attention.Facts) []Trouble {
	var all []Trouble
	for _, s := range f.Sinks {
		if s.Disabled || s.FailingSince == nil || f.Now.Sub(*s.FailingSince) < SinkFailsFor {
			continue
		}
		all = append(all, Trouble{Subject: "auditsink/" + s.Name, Since: *s.FailingSince,
			What:   "The sink " + s.Name + " has not taken the audit log",
			Detail: fmt.Sprintf("%s. %d entries wait in the ledger.", s.Error, s.Backlog),
			Attention: adminapi.Attention{Kind: adminapi.AttentionAuditSink, Severity: adminapi.SeverityError,
				Object: "AuditSink " + s.Name, Path: attention.PathOf("AuditSink", s.Name), Message: fmt.Sprintf(
					"The sink has not taken the audit log since %s UTC: %s. %d entries wait in the ledger.",
					s.FailingSince.UTC().Format("2006-01-02 15:04"), s.Error, s.Backlog)}})
	}
	return all
}

// providers has one trouble for a provider: a refused credential is why it fails.
func providers(f attention.Facts) []Trouble {
	var all []Trouble
	health := map[string]adminapi.ProviderHealth{}
	for _, p := range f.Providers {
		health[p.Provider] = p
	}
	for _, r := range f.Rejected {
		if f.Recovered[r.Provider] {
			continue
		}
		t := ofProvider(r.Provider)
		h := health[r.Provider]
		t.Last = r.Last
		t.What = r.Provider + " refuses our credential"
		t.Detail = fmt.Sprintf("401 or 403 at %d of %d attempts in 15 minutes.", r.Times,
			max(h.Last15Minutes.Attempts, r.Times))
		t.Kind, t.Severity = adminapi.AttentionCredentialRejected, adminapi.SeverityError
		t.Message = fmt.Sprintf(
			"The provider has refused the credential %s in the last 15 minutes, the last time at %s UTC.",
			times(r.Times), r.Last.UTC().Format(time.TimeOnly))
		all = append(all, t)
		delete(health, r.Provider)
	}
	for _, name := range slices.Sorted(maps.Keys(health)) {
		p, t := health[name], ofProvider(name)
		says := p.Says()
		t.Message = "The provider is " + says + "."
		if p.LastErrorAt != nil {
			t.Last = *p.LastErrorAt
		}
		_, t.Detail, _ = strings.Cut(says, ": ")
		t.Detail += "."
		switch p.State {
		case adminapi.ProviderFailing:
			if f.Recovered[name] {
				continue
			}
			t.Kind, t.Severity, t.What = adminapi.AttentionProviderFailing, adminapi.SeverityError, name+" fails"
		case adminapi.ProviderCooling:
			t.Kind, t.Severity, t.What = adminapi.AttentionProviderCooling, adminapi.SeverityWarning, name+" is tried last"
		default:
			continue
		}
		all = append(all, t)
	}
	return all
}

func ofProvider(name string) Trouble {
	return Trouble{Subject: "provider/" + name, Requests: map[string]string{"provider": name, "outcome": "error"},
		Attention: adminapi.Attention{Object: "Provider " + name, Path: attention.PathOf("Provider", name)}}
}

// checkers has one trouble for the rules of a guardrail.
func checkers(f attention.Facts) []Trouble {
	byGuardrail := map[string][]attention.Unjudged{}
	for _, u := range f.Unjudged {
		name, _, _ := strings.Cut(u.Rule, "/")
		byGuardrail[name] = append(byGuardrail[name], u)
	}
	var all []Trouble
	for _, name := range slices.Sorted(maps.Keys(byGuardrail)) {
		var sum attention.Unjudged
		var rules []string
		for _, u := range byGuardrail[name] {
			sum.Times, rules = sum.Times+u.Times, append(rules, u.Rule)
			if u.Last.After(sum.Last) {
				sum.Last = u.Last
			}
		}
		of, have, do := "The checker of the rule "+rules[0], " has", " does"
		if len(rules) > 1 {
			of, have, do = "The checkers of the rules "+listed(rules), " have", " do"
		}
		all = append(all, Trouble{Subject: "guardrail/" + name, Last: sum.Last, What: of + do + " not answer",
			Detail:   fmt.Sprintf("requests were refused %s in 15 minutes. The log of extproc has the cause.", times(sum.Times)),
			Requests: map[string]string{"refused_by": "guardrail " + name + "/"}, Code: openai.CodeCheckerUnavailable,
			Attention: adminapi.Attention{Kind: adminapi.AttentionCheckerAway, Severity: adminapi.SeverityError,
				Object: "Guardrail " + name, Path: attention.PathOf("Guardrail", name),
				Message: fmt.Sprintf("%s not answered, and requests were refused %s in the last 15 minutes, the last time at %s UTC. The log of extproc has the cause.",
					of+have, times(sum.Times), sum.Last.UTC().Format(time.TimeOnly))}})
	}
	return all
}

// plane has one trouble for the processes of a role that have the same error. The object that they refuse has its own.
func plane(f attention.Facts) []Trouble {
	var all []Trouble
	nodes := map[[2]string][]string{} // by role and error
	for _, c := range f.Plane {
		ofObject := func(o attention.ObjectError) bool { return strings.HasSuffix(o.Error, c.Error) }
		if c.Health == adminapi.HealthOK || c.Error != "" && slices.ContainsFunc(f.Objects, ofObject) {
			continue
		}
		same := [2]string{c.Role, c.Error}
		if nodes[same] = append(nodes[same], c.Node); c.Error != "" && len(nodes[same]) > 1 {
			continue
		}
		t := Trouble{Subject: "dataplane/" + c.Role + "/" + c.Node,
			What: c.Role + " " + c.Node + " does not use the newest configuration", Detail: c.Error,
			Attention: adminapi.Attention{Kind: adminapi.AttentionDataPlane, Severity: adminapi.SeverityWarning,
				Path: "/data-plane", Message: fmt.Sprintf("%s %s does not use the newest configuration.", c.Role, c.Node)}}
		if c.Health != adminapi.HealthBehind {
			t.Severity, t.Message = adminapi.SeverityError, fmt.Sprintf("%s %s: %s.", c.Role, c.Node, c.Health)
		}
		if c.Error != "" {
			t.Message += " " + c.Error
		}
		all = append(all, t)
	}
	for i := range all {
		role, _, _ := strings.Cut(strings.TrimPrefix(all[i].Subject, "dataplane/"), "/")
		if same := nodes[[2]string{role, all[i].Detail}]; all[i].Detail != "" && len(same) > 1 {
			all[i].Message += " So it is at: " + listed(same) + "."
		}
	}
	return all
}

func jobs(f attention.Facts) []Trouble {
	if !f.NoJobs {
		return nil
	}
	const detail = "files, batches and fine-tuning are answered with errors."
	return []Trouble{{Subject: "jobs", What: "No job service is connected", Detail: detail,
		Attention: adminapi.Attention{Kind: adminapi.AttentionJobs, Severity: adminapi.SeverityError,
			Path: "/data-plane", Message: "A job service is configured, but none is connected: " + detail}}}
}

// objects has one trouble for objects with the same error.
func objects(f attention.Facts) []Trouble {
	var all []Trouble
	at := map[string]int{} // by error
	var same [][]string    // the names of each
	for _, o := range f.Objects {
		if i, ok := at[o.Error]; ok {
			same[i] = append(same[i], o.Kind+" "+o.Name)
			all[i].What = listed(same[i]) + " have no effect"
			continue
		}
		at[o.Error], same = len(all), append(same, []string{o.Kind + " " + o.Name})
		all = append(all, Trouble{Subject: "object/" + o.Kind + "/" + o.Name, Detail: o.Error,
			What: o.Kind + " " + o.Name + " has no effect",
			Attention: adminapi.Attention{Kind: adminapi.AttentionObjectError, Severity: adminapi.SeverityError,
				Object: o.Kind + " " + o.Name, Path: attention.PathOf(o.Kind, o.Name),
				Message: "The object, or its last change, has no effect: " + o.Error}})
	}
	return all
}

func certificates(f attention.Facts) []Trouble {
	var all []Trouble
	for _, name := range slices.Sorted(maps.Keys(f.Certificates)) {
		at := f.Certificates[name]
		if at.IsZero() || at.Sub(f.Now) > ExpiresWithin {
			continue
		}
		t := Trouble{Subject: "certificate/" + name, Since: at.Add(-ExpiresWithin),
			What: "The certificate " + name + " expires soon", Detail: "at " + minute(at) + ".",
			Attention: adminapi.Attention{Kind: adminapi.AttentionCertificate, Severity: adminapi.SeverityWarning,
				Object: "Certificate " + name, Path: attention.PathOf("Certificate", name),
				Message: "The certificate expires at " + minute(at) + "."}}
		if !at.After(f.Now) {
			t.Severity, t.Since, t.What = adminapi.SeverityError, at, "The certificate "+name+" has expired"
			t.Detail = "clients refuse to connect."
			t.Message = "The certificate has expired at " + minute(at) + ". Clients refuse to connect."
		}
		all = append(all, t)
	}
	return all
}

func budgets(f attention.Facts) []Trouble {
	var all []Trouble
	for _, b := range f.Budgets {
		percent := b.Percent(b.Spent)
		if percent < BudgetPercent {
			continue
		}
		kind, name, _ := strings.Cut(b.Scope, "/")
		kind = strings.ToUpper(kind[:1]) + kind[1:]
		what := fmt.Sprintf("the budget of $%s a %s of %s", b.USD, b.Unit, cmp.Or(b.DisplayName, name))
		t := Trouble{Subject: "budget/" + b.Scope + " " + b.Unit, What: "T" + what[1:] + " is nearly spent",
			Detail:   fmt.Sprintf("%d %%. It resets on %s.", percent, minute(b.Resets)),
			Requests: map[string]string{"refused_by": "budget " + b.Scope + " " + b.Unit}, Over: over(b),
			Attention: adminapi.Attention{Kind: adminapi.AttentionBudget, Severity: adminapi.SeverityWarning,
				Object: kind + " " + name, Path: attention.PathOf(kind, name),
				Message: fmt.Sprintf("%d %% of %s is spent. It resets on %s.", percent, what, minute(b.Resets))}}
		if percent >= 100 {
			t.Severity, t.What = adminapi.SeverityError, "T"+what[1:]+" is spent"
			t.Message += " Until then requests are refused."
			t.Detail += " Until then requests are refused."
		}
		all = append(all, t)
	}
	return all
}

func times(n int64) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprint(n, " times")
}

func minute(t time.Time) string { return t.UTC().Format("2006-01-02 15:04") + " UTC" }

func listed(names []string) string {
	if len(names) <= named {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:named], ", "), len(names)-named)
}
