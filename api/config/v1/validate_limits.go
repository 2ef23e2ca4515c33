package configv1

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/modelgate/modelgate/api/config/options"
)

const (
	maxPerUnit     = 1 << 50 // sums stay exact in a float64, which the stores of limits use
	maxUSD         = 1_000_000
	usdDigits      = 9 // after the point
	maxDescriptors = 1000
)

// RateLimitKeys returns the keys of a RateLimit's descriptors.
func RateLimitKeys() []string {
	return []string{"key", "user", "organization", "project", "model", "provider"}
}

// rate checks a bound of a domain.
func (v *validator) rate(domain string, unit Unit, n, most uint64) {
	switch atOnce := DomainOf(domain).Concurrent; {
	case atOnce && unit != Unit_UNIT_UNSPECIFIED:
		v.fail("unit", "must be left out: concurrency is of what runs now")
	case !atOnce && (unit < Unit_SECOND || unit > Unit_DAY):
		v.fail("unit", "must be SECOND, MINUTE, HOUR or DAY")
	}
	switch {
	case n == 0:
		v.fail("requests_per_unit",
			"must be at least 1: with 0 nothing would ever be let in, for which there is disabled")
	case n > most:
		v.fail("requests_per_unit", "must be at most %d", most)
	}
}

func (l *Limit) check(v *validator) {
	v.rate(l.GetDomain(), l.GetUnit(), l.GetRequestsPerUnit(), maxPerUnit)
}

// limits checks what the limits of one object have to do with each other.
func (v *validator) limits(limits []*Limit) {
	if v.failed("limits") {
		return // there may be too many
	}
	for i, l := range limits {
		first := slices.IndexFunc(limits, func(o *Limit) bool {
			return o.GetDomain() == l.GetDomain() && o.GetUnit() == l.GetUnit() && o.GetModel() == l.GetModel()
		})
		if first < i {
			v.fail(element("limits", i), "is of the same domain, unit and model as %s", element("limits", first))
		}
	}
}

func (b *Budget) check(v *validator) {
	if b.GetUnit() != Unit_DAY && b.GetUnit() != Unit_MONTH {
		v.fail("unit", "must be DAY or MONTH")
	}
}

func (v *validator) budgets(budgets []*Budget) {
	for i, b := range budgets {
		if first := slices.IndexFunc(budgets, func(o *Budget) bool { return o.GetUnit() == b.GetUnit() }); first < i {
			v.fail(element("budgets", i), "is of the same unit as %s", element("budgets", first))
		}
	}
}

// ParseUSD reads an amount of US dollars of a budget: decimal digits, at most 9 after the point and 1,000,000 in all.
// It returns billionths of a dollar. An amount of 0 refuses everything that has a cost.
func ParseUSD(text string) (nanos int64, err error) {
	whole, part, point := strings.Cut(text, ".")
	digits := whole + part + strings.Repeat("0", max(0, usdDigits-len(part)))
	n, ok := new(big.Int).SetString(digits, 10)
	switch {
	case whole == "", point && part == "", len(part) > usdDigits, len(text) > 32,
		strings.Trim(digits, "0123456789") != "", !ok,
		n.Cmp(big.NewInt(maxUSD*int64(time.Second))) > 0: // nanoseconds of a second, as billionths of a dollar
		return 0, fmt.Errorf(`must be US dollars such as "10" or "0.50", at most %d, with at most %d digits after the point`,
			maxUSD, usdDigits)
	}
	return n.Int64(), nil
}

func (r *RateLimit) check(v *validator) {
	d := descriptors{validator: v, domain: r.GetDomain()}
	d.check("descriptors", r.GetDescriptors(), nil)
	if d.count > maxDescriptors {
		v.fail("descriptors", "must be at most %d in all", maxDescriptors)
	}
}

// descriptors checks the descriptors of a RateLimit.
type descriptors struct {
	*validator
	domain string
	count  int
}

// check checks descriptors below those with the keys above.
func (d *descriptors) check(field string, list []*RateLimitDescriptor, above []string) {
	d.count += len(list)
	if d.count > maxDescriptors {
		return
	}
	for i, x := range list {
		at := element(field, i)
		switch {
		case !slices.Contains(RateLimitKeys(), x.GetKey()):
			d.fail(at+".key", "must be one of %s", listing(RateLimitKeys()))
			continue
		case slices.Contains(above, x.GetKey()):
			d.fail(at+".key", "%s is above already: no request has two", x.GetKey())
			continue
		}
		d.value(at+".value", x.GetValue())
		first := slices.IndexFunc(list, func(o *RateLimitDescriptor) bool {
			return o.GetKey() == x.GetKey() && o.GetValue() == x.GetValue()
		})
		if first < i {
			d.fail(at, "has the same key and value as %s", element(field, first))
		}
		if p := x.GetRateLimit(); p != nil {
			d.at = at + ".rate_limit."
			d.rate(d.domain, p.GetUnit(), p.GetRequestsPerUnit(), math.MaxUint32)
			d.at = ""
		} else if x.GetShadowMode() {
			d.fail(at+".shadow_mode", "has no effect without rate_limit")
		}
		if x.GetRateLimit() == nil && len(x.GetDescriptors()) == 0 {
			d.fail(at, "has neither rate_limit nor descriptors: it limits nothing")
		}
		d.check(at+".descriptors", x.GetDescriptors(), append(slices.Clip(above), x.GetKey()))
	}
}

func (d *descriptors) value(field, value string) {
	d.form(field, options.Form_TEXT, value)
	if strings.Contains(strings.TrimSuffix(value, "*"), "*") {
		d.fail(field, `may have one "*", at its end`)
	}
}

func (x *Concurrency) check(v *validator) {
	if x.GetMaxPending() > 0 && x.GetMaxRequests() == 0 {
		v.fail("max_pending", "has no effect without max_requests")
	}
	if x.GetMaxWait() != nil && x.GetMaxPending() == 0 {
		v.fail("max_wait", "has no effect without max_pending")
	}
}

func (x *AddressLimit) check(v *validator) {
	if b := x.GetBurst(); b > 0 && b < x.Rate() {
		v.fail("burst", "must be at least requests_per_second, %d, or no more than the burst would pass in a second",
			x.Rate())
	}
}

// A Domain is something that limits count. Validation, the rules of a request, the dashboard, the flags of the CLI
// and, by a test, the documents use this list.
type Domain struct {
	Name string
	// Concurrent means that it counts running requests. Such a limit has no unit.
	Concurrent bool
	// The parts of a request that it counts.
	Requests, Input, Output bool
}

// The domains of limits.
const (
	DomainRequests     = "requests"
	DomainTokens       = "tokens"
	DomainInputTokens  = "input_tokens"
	DomainOutputTokens = "output_tokens"
	DomainConcurrency  = "concurrency"
)

// Domains returns the domains of limits, in the order for display.
func Domains() []Domain {
	return []Domain{
		{Name: DomainRequests, Requests: true},
		{Name: DomainTokens, Input: true, Output: true},
		{Name: DomainInputTokens, Input: true},
		{Name: DomainOutputTokens, Output: true},
		{Name: DomainConcurrency, Concurrent: true},
	}
}

// DomainNames returns the names of the domains.
func DomainNames() []string {
	var names []string
	for _, d := range Domains() {
		names = append(names, d.Name)
	}
	return names
}

// DomainOf returns the domain with a name, or one that counts nothing.
func DomainOf(name string) Domain {
	all := Domains()
	if i := slices.IndexFunc(all, func(d Domain) bool { return d.Name == name }); i >= 0 {
		return all[i]
	}
	return Domain{Name: name}
}

// Text returns the name in words.
func (d Domain) Text() string { return strings.ReplaceAll(d.Name, "_", " ") }

// Covers reports whether the domain counts everything that o counts.
func (d Domain) Covers(o Domain) bool {
	return d == o || !d.Concurrent && !o.Concurrent && (d.Requests || !o.Requests) && (d.Input || !o.Input) &&
		(d.Output || !o.Output)
}

// Used returns the amount that the domain counts for requests with tokens.
func (d Domain) Used(requests, input, output int64) int64 {
	var used int64
	for _, part := range []struct {
		counts bool
		amount int64
	}{{d.Requests, requests}, {d.Input, input}, {d.Output, output}} {
		if part.counts {
			used += part.amount
		}
	}
	return used
}
