package alerts

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/attention"
	"github.com/modelgate/modelgate/controlplane/incidents"
	"github.com/modelgate/modelgate/controlplane/ledger"
	"github.com/modelgate/modelgate/internal/configstore"
)

const (
	// recent is how far back failures and refusals are looked for.
	recent = 15 * time.Minute
	// fewest requests of that time tell whether there are many errors.
	fewest = 20
	// most is how many alerts a rule has at once. The others are one alert together.
	most = 50
	// maxMessage bounds a message, in bytes.
	maxMessage = 500
)

// A judge knows what is, for one evaluation.
type judge struct {
	now      time.Time
	facts    attention.Facts
	ledger   Ledger
	open     func(ctx context.Context, closed bool) ([]adminapi.Incident, error)
	state    configstore.State
	refusals []ledger.Refusal
	keys     map[string]*configv1.Key
	enabled  map[string]bool // providers
}

func newJudge(now time.Time, f attention.Facts, o *Options, state configstore.State) *judge {
	j := &judge{now: now, facts: f, ledger: o.Ledger, open: o.Incidents, state: state, keys: map[string]*configv1.Key{},
		enabled: map[string]bool{}}
	for _, k := range f.Keys {
		j.keys[k.GetName()] = k
	}
	for _, p := range configstore.All[*configv1.Provider](state) {
		j.enabled[p.GetName()] = !p.GetDisabled()
	}
	return j
}

// of returns what has the condition of a rule.
func (j *judge) of(ctx context.Context, r *configv1.AlertRule) judged {
	var found []finding
	sure := true
	switch r.GetCondition() {
	case configv1.AlertCondition_BUDGET_SPENT, configv1.AlertCondition_BUDGET_FORECAST:
		found, sure = j.budgets(r), j.facts.Ledger == ""
	case configv1.AlertCondition_PROVIDER_FAILING, configv1.AlertCondition_PROVIDER_COOLING,
		configv1.AlertCondition_CREDENTIAL_REJECTED:
		found, sure = j.providers(r), j.facts.Ledger == ""
	case configv1.AlertCondition_ERROR_RATE:
		found, sure = j.errorRate(ctx, r)
	case configv1.AlertCondition_LIMIT_REACHED:
		found, sure = j.limits(ctx, r)
	case configv1.AlertCondition_KEY_EXPIRES:
		found = j.expiring(r)
	case configv1.AlertCondition_CERTIFICATE_EXPIRES:
		found = j.certificates(r)
	case configv1.AlertCondition_LEDGER_TROUBLE:
		found = told(attention.Facts{Ledger: j.facts.Ledger}, "ledger", 0)
		for _, s := range j.facts.Spools {
			found = append(found, told(attention.Facts{Spools: []attention.SpoolTrouble{s}}, "spool "+s.Process,
				float64(s.Dropped))...)
		}
	case configv1.AlertCondition_DATA_PLANE_TROUBLE:
		for _, c := range j.facts.Plane {
			found = append(found, told(attention.Facts{Plane: []adminapi.DataPlaneClient{c}}, c.Role+" "+c.Node, 0)...)
		}
	case configv1.AlertCondition_INCIDENT:
		found, sure = j.incidents(ctx, r)
	case configv1.AlertCondition_OBJECT_ERROR:
		for _, o := range j.facts.Objects {
			found = append(found, told(attention.Facts{Objects: []attention.ObjectError{o}},
				strings.ToLower(o.Kind)+"/"+o.Name, 0)...)
		}
	}
	return judged{rule: r, found: bounded(found), unsure: !sure}
}

// incidents has the open ones of a rule's severity. A subject ends with the id: what opens anew is another alert.
func (j *judge) incidents(ctx context.Context, r *configv1.AlertRule) (found []finding, sure bool) {
	open, err := j.open(ctx, false)
	if err != nil {
		return nil, false
	}
	for _, i := range open {
		if r.GetSeverity() != "" && r.GetSeverity() != i.Severity {
			continue
		}
		message := fmt.Sprintf("%s It hit %d requests.", i.Why, i.Hit.Requests)
		if c := i.Change; c != nil {
			message += fmt.Sprintf(" The last change before it: %s %s %s %s.", c.Actor, c.Action, c.Kind, c.Name)
		}
		message += " See /incidents/" + i.ID + " or: modelgate incidents show " + i.ID
		found = append(found, finding{i.Subject + " " + i.ID, message, float64(i.Hit.Requests)})
	}
	return found, true
}

// incidentOf returns the id of the incident that a subject is; empty: the condition of the rule is another.
func incidentOf(r *configv1.AlertRule, subject string) string {
	if r.GetCondition() != configv1.AlertCondition_INCIDENT {
		return ""
	}
	return subject[strings.LastIndexByte(subject, ' ')+1:]
}

// told returns what package incidents says of a fact about a subject, with the figure that says how bad it is.
func told(f attention.Facts, subject string, value float64) (found []finding) {
	for _, t := range incidents.Judge(f) {
		found = append(found, finding{subject, t.Message, value})
	}
	return found
}

// bounded returns findings, each subject once, in order, and the last ones together where they are many.
func bounded(all []finding) []finding {
	slices.SortStableFunc(all, func(a, b finding) int { return strings.Compare(a.subject, b.subject) })
	all = slices.CompactFunc(all, func(a, b finding) bool { return a.subject == b.subject })
	if len(all) > most {
		all = append(all[:most:most], finding{"others", fmt.Sprintf("%d more have the condition.", len(all)-most),
			float64(len(all) - most)})
	}
	for i := range all {
		all[i].message = line(all[i].message, maxMessage)
	}
	return all
}

// covers reports whether a rule is for an owner: key/<id>, organization/<name> or project/<organization>/<project>.
func (j *judge) covers(r *configv1.AlertRule, owner string) bool {
	kind, name, _ := strings.Cut(owner, "/")
	c := configv1.Client{Organization: name}
	switch kind {
	case "key":
		k := j.keys[name]
		c = configv1.Client{Key: name, Organization: k.GetOrganization(), Project: k.GetProject()}
	case "project":
		c.Organization, c.Project, _ = strings.Cut(name, "/")
	}
	return configv1.Covers(r, c)
}

func (j *judge) budgets(r *configv1.AlertRule) (found []finding) {
	for _, b := range j.facts.Budgets {
		if !j.covers(r, b.Scope) {
			continue
		}
		amount, what := b.Spent, "is spent"
		if r.GetCondition() == configv1.AlertCondition_BUDGET_FORECAST {
			amount, what = b.Forecast, "will be spent by then at the rate of the last 7 days"
		}
		if percent := b.Percent(amount); float64(percent) >= r.Limit() {
			found = append(found, finding{b.Scope + " " + b.Unit, fmt.Sprintf(
				"%d %% of the budget of $%s a %s of %s (%s) %s. It resets at %s.", percent, b.USD, b.Unit,
				cmp.Or(b.DisplayName, b.Scope), b.Scope, what, b.Resets.UTC().Format(time.RFC3339)), float64(percent)})
		}
	}
	return found
}

func (j *judge) providers(r *configv1.AlertRule) (found []finding) {
	mine := func(name string) bool {
		return j.enabled[name] && (r.GetProvider() == "" || r.GetProvider() == name)
	}
	if r.GetCondition() == configv1.AlertCondition_CREDENTIAL_REJECTED {
		for _, p := range j.facts.Rejected {
			if mine(p.Provider) && float64(p.Times) >= r.Limit() {
				found = append(found, told(attention.Facts{Rejected: []attention.Rejection{p}}, "provider/"+p.Provider,
					float64(p.Times))...)
			}
		}
		return found
	}
	state := adminapi.ProviderFailing
	if r.GetCondition() == configv1.AlertCondition_PROVIDER_COOLING {
		state = adminapi.ProviderCooling
	}
	for _, p := range j.facts.Providers {
		if p.State == state && mine(p.Provider) {
			found = append(found, told(attention.Facts{Providers: []adminapi.ProviderHealth{p}}, "provider/"+p.Provider,
				1-p.Last15Minutes.SuccessRate)...)
		}
	}
	return found
}

// errorRate has one subject: the scope of the rule.
func (j *judge) errorRate(ctx context.Context, r *configv1.AlertRule) ([]finding, bool) {
	of := ledger.Restriction{Key: r.GetKey(), Organization: r.GetOrganization(), Project: r.GetProject()}
	all, bad, err := j.ledger.Failures(ctx, j.now.Add(-recent), of, r.GetProvider())
	if err != nil || all < fewest || 100*float64(bad) < r.Limit()*float64(all) {
		return nil, err == nil
	}
	var parts []string
	for _, p := range [][2]string{{"organization/", r.GetOrganization()}, {"project/", r.GetProject()},
		{"key/", r.GetKey()}, {"provider/", r.GetProvider()}} {
		if p[1] != "" {
			parts = append(parts, p[0]+p[1])
		}
	}
	subject := cmp.Or(strings.Join(parts, " "), "all requests")
	return []finding{{subject, fmt.Sprintf("%d of %d requests in 15 minutes failed (%.1f %%).", bad, all,
		100*float64(bad)/float64(all)), 100 * float64(bad) / float64(all)}}, true
}

func (j *judge) limits(ctx context.Context, r *configv1.AlertRule) (found []finding, sure bool) {
	if j.refusals == nil {
		var err error
		if j.refusals, err = j.ledger.Refusals(ctx, j.now.Add(-recent), http.StatusTooManyRequests); err != nil {
			return nil, false
		}
	}
	times := map[string]int64{}
	for _, f := range j.refusals {
		if (strings.HasPrefix(f.By, "budget ") || strings.Contains(f.By, " limit ")) &&
			configv1.Covers(r, configv1.Client{Key: f.Key, Organization: f.Organization, Project: f.Project}) {
			times[f.By] += f.Requests
		}
	}
	for by, n := range times {
		if float64(n) >= r.Limit() {
			found = append(found, finding{by, fmt.Sprintf("%d requests in 15 minutes were refused by: %s.", n, by), float64(n)})
		}
	}
	return found, true
}

func (j *judge) expiring(r *configv1.AlertRule) (found []finding) {
	for _, k := range j.keys {
		at := k.GetExpiresAt().AsTime()
		if k.GetExpiresAt() == nil || k.GetDisabled() || !at.After(j.now) || !j.covers(r, "key/"+k.GetName()) ||
			at.Sub(j.now) > days(r.Limit()) {
			continue
		}
		found = append(found, finding{"key/" + k.GetName(), fmt.Sprintf("The key %s (%s) expires at %s.",
			cmp.Or(k.GetDisplayName(), k.GetName()), k.GetName(), at.Format(time.RFC3339)), 0})
	}
	return found
}

func (j *judge) certificates(r *configv1.AlertRule) (found []finding) {
	for name, at := range j.facts.Certificates {
		if at.IsZero() || at.Sub(j.now) > days(r.Limit()) {
			continue
		}
		verb := "expires"
		if !at.After(j.now) {
			verb = "has expired"
		}
		found = append(found, finding{"certificate/" + name, fmt.Sprintf("The certificate %s %s at %s.", name, verb,
			at.UTC().Format(time.RFC3339)), 0})
	}
	return found
}

func days(n float64) time.Duration { return time.Duration(n * float64(24*time.Hour)) }
