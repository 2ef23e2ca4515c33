package access

import (
	"math"
	"slices"
	"time"

	"cel.dev/cel-go/cel"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/extproc/bodies"
	"github.com/modelgate/modelgate/internal/limit"
	"github.com/modelgate/modelgate/internal/usage"
)

// Rules are the limits and budgets of a request, as rules. It is immutable.
type Rules struct {
	Rules  []limit.Rule
	Scopes []Scope // of each rule
	// Names of the rules, as Refusal.By has them, for records. It must not be modified.
	Names   []string
	Metered bool // a rule counts tokens or money
	Budget  bool // a rule counts money
	// Bodies, if not nil, says which bodies of the requests are kept.
	Bodies *bodies.Setting

	conditions []condition // of rules that are for some requests only
	always     *Rules      // without those rules; nil: there are none
	shared     bool        // a counter is shared, because there was no room for one of its own
}

// A builder makes the rules for a request with entries.
type builder struct {
	*Rules
	e     *entries
	names *Names
	at    time.Time // of the request
	now   time.Time
}

// A condition decides on the rules of one limit.
type condition struct {
	from, to int // of its rules
	when     cel.Program
}

// For returns the rules for one request. Fits decides whether a limit with an expression is for it. Without such
// limits, these are all rules.
func (b *Rules) For(fits func(when cel.Program) bool) *Rules {
	if len(b.conditions) == 0 {
		return b
	}
	left := make([]condition, 0, len(b.conditions)) // out
	for _, c := range b.conditions {
		if !fits(c.when) {
			left = append(left, c)
		}
	}
	switch len(left) {
	case 0:
		return b
	case len(b.conditions):
		return b.always
	}
	return b.without(left)
}

// Always returns the rules that are for a request whatever it is like.
func (b *Rules) Always() *Rules {
	if b.always == nil {
		return b
	}
	return b.always
}

// without returns the rules that are not of some limits.
func (b *Rules) without(left []condition) *Rules {
	some := &Rules{Bodies: b.Bodies}
	for i := range b.Rules {
		if !slices.ContainsFunc(left, func(c condition) bool { return c.from <= i && i < c.to }) {
			some.add(b.Scopes[i], b.Rules[i])
		}
	}
	some.name()
	return some
}

// maxNames bounds the names of rules in a record.
const maxNames = 16

// Only returns the rules with some measures.
func (b *Rules) Only(measures ...limit.Measure) *Rules {
	some := &Rules{}
	for i := range b.Rules {
		if slices.Contains(measures, b.Rules[i].Measure) {
			some.add(b.Scopes[i], b.Rules[i])
			if i < len(b.Names) {
				some.Names = append(some.Names, b.Names[i])
			}
		}
	}
	return some
}

// A Scope is the object that a rule comes from.
type Scope struct {
	Kind string // key, organization, project or ratelimit
	Name string
}

// Kinds of scopes. They are labels of a metric.
const (
	scopeKey          = "key"
	scopeOrganization = "organization"
	scopeProject      = "project"
	scopeRateLimit    = "ratelimit"
)

// rulesOf returns the rules for a client's request with entries, at a time. The zero time is now.
func (d *Directory) rulesOf(k *Client, e *entries, names *Names, at time.Time) *Rules {
	b := builder{&Rules{Bodies: d.bodiesOf(k)}, e, names, at, names.time()}
	if at.IsZero() {
		b.at = b.now
	}
	b.tenant(Scope{scopeKey, k.Name}, k.Limits, k.Budgets)
	if k.Organization != "" {
		o := d.Organizations[k.Organization]
		b.tenant(Scope{scopeOrganization, k.Organization}, o.GetLimits(), o.GetBudgets())
		if k.Project != "" {
			name := k.Organization + "/" + k.Project
			p := d.Projects[name]
			b.tenant(Scope{scopeProject, name}, p.GetLimits(), p.GetBudgets())
		}
	}
	for name, l := range d.RateLimits {
		m, ok := limit.MeasureOf(l.domain)
		if !ok {
			continue
		}
		from := len(b.Rules.Rules)
		b.descriptors(m, Scope{scopeRateLimit, name}, l.descriptors, counterPath{})
		if to := len(b.Rules.Rules); l.when != nil && from < to {
			b.conditions = append(b.conditions, condition{from, to, l.when})
		}
	}
	if b.name(); len(b.conditions) > 0 {
		b.always = b.without(b.conditions)
	}
	return b.Rules
}

// name sets the names of the rules.
func (b *Rules) name() {
	for i := range min(len(b.Rules), maxNames) {
		b.Names = append(b.Names, nameOf(b.Scopes[i], &b.Rules[i]))
	}
}

// bodiesOf returns the setting of kept bodies for a client: that of the key, or else of its project, or of its
// organization. It is nil if none is kept.
func (d *Directory) bodiesOf(k *Client) *bodies.Setting {
	project := k.Organization + "/" + k.Project
	for _, s := range []bodies.Setting{
		{Bodies: k.Bodies, Subject: scopeKey + "/" + k.Name},
		{Bodies: d.Projects[project].GetBodies(), Subject: scopeProject + "/" + project},
		{Bodies: d.Organizations[k.Organization].GetBodies(), Subject: scopeOrganization + "/" + k.Organization},
	} {
		if s.Bodies != nil {
			if s.Bodies.GetShare() <= 0 {
				return nil
			}
			return &s
		}
	}
	return nil
}

// tenant adds the rules of a key, an organization or a project.
func (b *builder) tenant(of Scope, limits []*configv1.Limit, budgets []*configv1.Budget) {
	subject := of.Kind + "/" + of.Name
	for _, l := range limits {
		m, known := limit.MeasureOf(l.GetDomain())
		w, name := windowOf(m, int32(l.GetUnit()))
		if !known || name == "" || l.GetModel() != "" && !configv1.Matches(l.GetModel(), b.e[entryModel]) {
			continue
		}
		counter := subject + "/" + l.GetDomain() + "/" + name
		if l.GetModel() != "" {
			counter += "/" + l.GetModel()
		}
		b.add(of, limit.Rule{Counter: counter, Measure: m, Window: w, Limit: bounded(l.GetRequestsPerUnit())})
	}
	for _, budget := range budgets {
		amount, err := usage.ParseUSD(budget.GetUsd())
		if err != nil {
			continue // validation refuses it
		}
		if counter, w := BudgetCounter(subject, budget.GetUnit()); counter != "" {
			b.add(of, limit.Rule{Counter: counter, Measure: limit.Cost, Window: w, Limit: int64(amount)})
		}
	}
}

// BudgetCounter returns the counter of a subject's budget by day or month, with the ledger's name, and its window. For
// other units it returns "".
func BudgetCounter(subject string, unit configv1.Unit) (counter string, w limit.Window) {
	switch unit {
	case configv1.Unit_DAY:
		return "budget/" + subject + "/day", limit.CalendarDay
	case configv1.Unit_MONTH:
		return "budget/" + subject + "/month", limit.CalendarMonth
	}
	return "", 0
}

// add adds a rule. Of two rules with the same counter the stricter one applies.
func (b *Rules) add(of Scope, r limit.Rule) {
	i := slices.IndexFunc(b.Rules, func(other limit.Rule) bool { return other.Counter == r.Counter })
	if i >= 0 {
		if r.Limit < b.Rules[i].Limit {
			b.Rules[i] = r
		}
		return
	}
	b.Rules, b.Scopes = append(b.Rules, r), append(b.Scopes, of)
	b.Budget = b.Budget || r.Measure == limit.Cost
	b.Metered = b.Metered || r.Measure != limit.Requests && r.Measure != limit.Concurrency
}

// windowOf returns the window of a unit, and its name. Units have the same numbers in the gateway's configuration and
// in Envoy's. The name is "" for a unit without a rate.
func windowOf(m limit.Measure, unit int32) (w limit.Window, name string) {
	if m == limit.Concurrency {
		return limit.Now, "now"
	}
	switch configv1.Unit(unit) {
	case configv1.Unit_SECOND:
		return limit.Second, "second"
	case configv1.Unit_MINUTE:
		return limit.Minute, "minute"
	case configv1.Unit_HOUR:
		return limit.Hour, "hour"
	case configv1.Unit_DAY:
		return limit.Day, "day"
	}
	return 0, ""
}

func bounded(n uint64) int64 { return int64(min(n, math.MaxInt64)) }
