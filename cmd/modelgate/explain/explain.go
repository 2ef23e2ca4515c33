// Package explain reports what a gateway would do with a request: its destination, the reasons for a refusal, and its
// cost.
//
// It makes no decisions. It runs the decision code of the ext_proc service, with the configuration from the admin API,
// and simulates Envoy.
package explain

import (
	"cmp"
	"encoding/json"
	"strconv"
	"strings"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
	"github.com/modelgate/modelgate/cmd/modelgate/console"
)

// An Explanation is what the gateway would do with a request.
type Explanation struct {
	Operation string `json:"operation"`
	Model     string `json:"model"`
	// Refused is the error that the client would get; nil if the request would go out.
	Refused *refusedRequest `json:"refused,omitempty"`
	Key     *explainedKey   `json:"key,omitempty"`
	Plan    *explainedPlan  `json:"plan,omitempty"`
	// Policy is the rule of a policy that chooses the model, such as "office/cheap instead of gpt-5".
	Policy string `json:"policy,omitempty"`
	// Guards is what guardrails find in the request. The targets' requests have placeholders for what is masked.
	Guards []string `json:"guards,omitempty"`
	// Cache is the response cache that is for the request, and why it does not keep the answer; empty: there is none.
	Cache   string             `json:"cache,omitempty"`
	Targets []*explainedTarget `json:"targets"`
	Limits  []explainedLimit   `json:"limits"`
	// Unknown is why it is not known what of the limits is used; empty if it is.
	Unknown  string           `json:"usage_unknown,omitempty"`
	Reserved *reservedAmounts `json:"reserved,omitempty"`
}

type refusedRequest struct {
	Status int             `json:"status"`
	Body   json.RawMessage `json:"body"`
}

// explainedKey is on whose behalf the request is, and what the key may be used for.
type explainedKey struct {
	ID           string   `json:"id"`
	Label        string   `json:"display_name,omitempty"`
	Organization string   `json:"organization,omitempty"`
	Project      string   `json:"project,omitempty"`
	State        string   `json:"state"`
	Models       []string `json:"models"`
	Endpoints    []string `json:"endpoints"`
	Addresses    []string `json:"addresses"`
}

// explainedPlan is how often and how long the request is tried.
type explainedPlan struct {
	Attempts      int      `json:"attempts"`
	RetryStatuses []string `json:"retry_statuses"`
	TimeoutMS     int64    `json:"timeout_ms"` // of one attempt, up to its headers
	// Order is one in which the targets may be tried, by "<provider>/<model>", a target again if there are more
	// attempts.
	Order []string `json:"order"`
}

// An explainedTarget is where the request may go.
type explainedTarget struct {
	Provider string `json:"provider"`
	Vendor   string `json:"vendor,omitempty"`
	Model    string `json:"model"`
	Priority uint32 `json:"priority"`
	Weight   uint32 `json:"weight"`
	// Chance is how likely the target is the first of its priority, from 0 to 1.
	Chance float64 `json:"chance"`
	// LeftOut is why the target is not tried; empty if it is.
	LeftOut string          `json:"left_out,omitempty"`
	Request json.RawMessage `json:"request,omitempty"` // as modelgate translate prints it
	Price   json.RawMessage `json:"price,omitempty"`   // US dollars for a million tokens
	CostUSD string          `json:"estimated_cost_usd,omitempty"`
	// Tiers are the service tiers that have a price, and the one that is asked for; none if there is no price.
	Tiers []explainedTier `json:"service_tiers,omitempty"`
}

// An explainedTier is what the text of the request would cost in a service tier.
type explainedTier struct {
	Name  string `json:"name"`
	Asked bool   `json:"asked,omitempty"`
	// CostUSD is empty for a tier without a price: under a budget it is refused, and otherwise charged as the tier
	// "default".
	CostUSD string `json:"estimated_cost_usd,omitempty"`
}

// An explainedLimit is a limit or a budget that holds for the request. Amounts of money are in US dollars.
type explainedLimit struct {
	Counter string `json:"counter"` // what counts it; requests with the same are counted together
	Limit   string `json:"limit"`
	// Used is empty if it is not known: what runs, and what a RateLimit counts, is in the ext_proc services alone.
	Used   string `json:"used,omitempty"`
	Takes  string `json:"takes"` // what is reserved for the request
	Shadow bool   `json:"shadow,omitempty"`
}

// reservedAmounts are what the request is expected to use, until it is known.
type reservedAmounts struct {
	Input   int64  `json:"input_tokens"`
	Output  int64  `json:"output_tokens"`
	CostUSD string `json:"cost_usd"`
}

// Table prints it for a person.
func (x *Explanation) Table(b *console.Text) {
	b.Printf("POST %s for model %q\n", pathOf(x.Operation, x.Model), x.Model)
	if x.Refused != nil {
		b.Printf("\nIt would be REFUSED with status %d:\n  %s\n", x.Refused.Status, x.Refused.Body)
	}
	if k := x.Key; k != nil {
		b.Printf("\nKey %s (%s), %s\n  organization %s, project %s\n  models: %s\n  endpoints: %s\n  addresses: %s\n",
			cmp.Or(adminapi.OneLine(k.Label), "-"), k.ID, k.State,
			cmp.Or(k.Organization, "-"), cmp.Or(k.Project, "-"), orAll(k.Models), orAll(k.Endpoints), orAll(k.Addresses))
	}
	if x.Policy != "" {
		b.Printf("\nModel chosen by policy: %s\n", x.Policy)
	}
	for _, found := range x.Guards {
		b.Printf("\nGuardrails: %s\n", found)
	}
	if x.Cache != "" {
		b.Printf("\nResponse cache: %s\n", x.Cache)
	}
	if p := x.Plan; p != nil {
		b.Printf("\nAt most %d attempts, each with %d ms until its headers; retried on connection failures and on %s\n",
			p.Attempts, p.TimeoutMS, cmp.Or(strings.Join(p.RetryStatuses, ", "), "-"))
	}
	if len(x.Targets) == 0 {
		b.Println("\nNo model or provider of that name has a target.")
	} else {
		b.Println("\nTargets, in the order of the attempts:")
	}
	for _, t := range x.Targets {
		t.write(b)
	}
	if r := x.Reserved; r != nil {
		b.Printf("\nReserved until it has ended: %d input tokens, %d output tokens, $%s\n", r.Input, r.Output,
			r.CostUSD)
	}
	if len(x.Limits) == 0 {
		b.Println("\nNo limits or budgets apply to it.")
	}
	if x.Unknown != "" {
		b.Printf("\nThe current usage is unknown: %s\n", adminapi.OneLine(x.Unknown))
	}
	b.WriteByte('\n')
	if len(x.Limits) == 0 {
		return
	}
	b.Table("", []string{"COUNTER", "LIMIT", "USED", "TAKES", "NOTE"},
		admincli.Rows(x.Limits, func(l explainedLimit) []string {
			note := ""
			if l.Shadow {
				note = "counts only"
			}
			return []string{l.Counter, l.Limit, cmp.Or(l.Used, "?"), l.Takes, note}
		}))
}

func (t *explainedTarget) write(b *console.Text) {
	b.Printf("\n  %s/%s", t.Provider, t.Model)
	if t.Vendor != "" {
		b.Printf(" (%s)", t.Vendor)
	}
	b.Printf(", priority %d, weight %d", t.Priority, t.Weight)
	if t.LeftOut != "" {
		b.Printf("\n    left out: %s\n", adminapi.OneLine(t.LeftOut))
		return
	}
	b.Printf(", first of its priority in %s of cases\n", strconv.FormatFloat(t.Chance*100, 'f', -1, 64)+"%")
	price := string(t.Price)
	if price == "" {
		price = "unknown, so it costs 0"
	}
	b.Printf("    price: %s\n    estimated cost: $%s\n", price, t.CostUSD)
	for i, tier := range t.Tiers {
		label, note, cost := "                   ", "", "no price: refused if a budget applies, otherwise charged as default"
		if i == 0 {
			label = "    service tiers: "
		}
		if tier.CostUSD != "" {
			cost = "$" + tier.CostUSD
		}
		if tier.Asked {
			note = " (asked for)"
		}
		b.Printf("%s%s %s%s\n", label, adminapi.OneLine(tier.Name), cost, note)
	}
	if len(t.Tiers) > 0 {
		b.Println("                   any other has no price: refused if a budget applies, otherwise charged as default")
	}
	b.Printf("    request: %s\n", t.Request)
}

func orAll(list []string) string {
	if len(list) == 0 {
		return "all"
	}
	return strings.Join(list, ", ")
}
