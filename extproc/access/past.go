package access

import (
	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
	"github.com/modelgate/modelgate/internal/limit"
)

// LimitsUsers reports whether limits depend on the users that requests name.
func (d *Directory) LimitsUsers() bool {
	for _, l := range d.RateLimits {
		if limitsUsers(l.descriptors) {
			return true
		}
	}
	return false
}

// Past returns the amounts that the counters of hours and days should have from earlier usage, by the current rules.
// The usage of a deleted key counts for its organization and project. Nobody knows for which requests an expression
// was true, so that limits with one have none. Names bounds the counters.
func (d *Directory) Past(p *ledgerv1.Past, names *Names) []limit.Past {
	k := d.Keyring.ByName(p.GetKey())
	if k == nil {
		k = &Client{Name: p.GetKey(), Organization: p.GetOrganization(), Project: p.GetProject()}
	}
	e := entriesOf(k, p.GetUser(), p.GetModel(), p.GetProvider())
	amounts := limit.Amounts{limit.Requests: p.GetRequests(), limit.InputTokens: p.GetInputTokens(),
		limit.OutputTokens: p.GetOutputTokens(),
		limit.Tokens:       p.GetInputTokens() + p.GetOutputTokens()}
	var all []limit.Past
	for _, r := range d.rulesOf(k, &e, names, p.GetEnd().AsTime()).Always().Rules {
		if r.Window == limit.Hour || r.Window == limit.Day {
			all = append(all, limit.Past{Counter: r.Counter, Window: r.Window, At: p.GetEnd().AsTime(),
				Amount: amounts[r.Measure]})
		}
	}
	return all
}
