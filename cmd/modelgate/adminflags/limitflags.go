package adminflags

import (
	"strconv"
	"strings"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
)

// LimitFlags are what a key, a project or an organization may use and spend. A limit of 0 admits nothing; nil is no
// limit.
type LimitFlags struct {
	RPM            *uint64  `name:"rpm" placeholder:"N" group:"Limits" help:"Requests per minute."`
	RPH            *uint64  `name:"rph" placeholder:"N" group:"Limits" help:"Requests per hour."`
	RPD            *uint64  `name:"rpd" placeholder:"N" group:"Limits" help:"Requests per day."`
	TPM            *uint64  `name:"tpm" placeholder:"N" group:"Limits" help:"Tokens per minute, input and output together."`
	TPD            *uint64  `name:"tpd" placeholder:"N" group:"Limits" help:"Tokens per day, input and output together."`
	InputTPM       *uint64  `name:"input-tpm" placeholder:"N" group:"Limits" help:"Input tokens per minute."`
	OutputTPM      *uint64  `name:"output-tpm" placeholder:"N" group:"Limits" help:"Output tokens per minute."`
	Concurrency    *uint64  `placeholder:"N" group:"Limits" help:"Concurrent requests."`
	Limit          []string `sep:"none" placeholder:"DOMAIN:UNIT:N[:MODEL]" group:"Limits" help:"Any other limit, such as tokens:hour:100000:openai/* or concurrency::4:openai/*. Domains are ${domains}. May be given more than once."`
	BudgetUSDDay   string   `name:"budget-usd-day" placeholder:"USD" group:"Limits" help:"US dollars per day (UTC)."`
	BudgetUSDMonth string   `name:"budget-usd-month" placeholder:"USD" group:"Limits" help:"US dollars per month (UTC)."`
}

// Limits returns the limits that the flags name, in the order of the flags.
func (f LimitFlags) Limits() ([]adminapi.Limit, error) {
	var all []adminapi.Limit
	for _, flag := range []struct {
		n            *uint64
		domain, unit string
	}{
		{f.RPM, configv1.DomainRequests, "MINUTE"}, {f.RPH, configv1.DomainRequests, "HOUR"},
		{f.RPD, configv1.DomainRequests, "DAY"},
		{f.TPM, configv1.DomainTokens, "MINUTE"}, {f.TPD, configv1.DomainTokens, "DAY"},
		{f.InputTPM, configv1.DomainInputTokens, "MINUTE"}, {f.OutputTPM, configv1.DomainOutputTokens, "MINUTE"},
		{f.Concurrency, configv1.DomainConcurrency, ""},
	} {
		if flag.n != nil {
			all = append(all, adminapi.Limit{Domain: flag.domain, Unit: flag.unit, RequestsPerUnit: *flag.n})
		}
	}
	for _, text := range f.Limit {
		l, err := parseLimit(text)
		if err != nil {
			return nil, err
		}
		all = append(all, l)
	}
	return all, nil
}

// parseLimit reads DOMAIN:UNIT:N[:MODEL]. The names of models have colons too.
func parseLimit(text string) (adminapi.Limit, error) {
	parts := strings.SplitN(text, ":", 4)
	if len(parts) < 3 {
		return adminapi.Limit{},
			admincli.Misused("--limit %q: write DOMAIN:UNIT:N or DOMAIN:UNIT:N:MODEL, such as tokens:hour:100000:openai/*",
				text)
	}
	n, err := strconv.ParseUint(parts[2], 10, 64)
	if err != nil {
		return adminapi.Limit{}, admincli.Misused("--limit %q: %q is not a whole number", text, parts[2])
	}
	l := adminapi.Limit{Domain: strings.ToLower(parts[0]), Unit: strings.ToUpper(parts[1]), RequestsPerUnit: n}
	if len(parts) == 4 {
		l.Model = parts[3]
	}
	return l, nil
}

// Budgets returns the budgets that the flags name.
func (f LimitFlags) Budgets() []adminapi.Budget {
	var all []adminapi.Budget
	if f.BudgetUSDDay != "" {
		all = append(all, adminapi.Budget{Unit: "DAY", USD: f.BudgetUSDDay})
	}
	if f.BudgetUSDMonth != "" {
		all = append(all, adminapi.Budget{Unit: "MONTH", USD: f.BudgetUSDMonth})
	}
	return all
}

// DomainList says what limits may count, for a sentence.
func DomainList() string {
	names := configv1.DomainNames()
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// Stored returns the limits as objects have them.
func (f LimitFlags) Stored() ([]*configv1.Limit, error) {
	limits, err := f.Limits()
	if err != nil {
		return nil, err
	}
	var all []*configv1.Limit
	for _, l := range limits {
		unit, ok := configv1.Unit_value[l.Unit]
		if !ok && l.Unit != "" {
			return nil, admincli.Misused("--limit: there is no unit %q; the units are minute, hour and day",
				strings.ToLower(l.Unit))
		}
		all = append(all, &configv1.Limit{Domain: l.Domain, Unit: configv1.Unit(unit), RequestsPerUnit: l.RequestsPerUnit,
			Model: l.Model})
	}
	return all, nil
}

// StoredBudgets returns the budgets as objects have them.
func (f LimitFlags) StoredBudgets() []*configv1.Budget {
	var all []*configv1.Budget
	for _, b := range f.Budgets() {
		all = append(all, &configv1.Budget{Unit: configv1.Unit(configv1.Unit_value[b.Unit]), Usd: b.USD})
	}
	return all
}
