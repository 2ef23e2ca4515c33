package configv1

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"
	"time"
)

const (
	maxPerUnit     = 1 << 50 // sums stay exact in a float64, which the stores of limits use
	maxLimits      = 32      // of one object
	maxUSD         = 1_000_000
	usdDigits      = 9 // after the point
	maxDescriptors = 1000
	maxConcurrent  = 1_000_000
)

// RateLimitKeys returns the keys of a RateLimit's descriptors.
func RateLimitKeys() []string {
	return []string{"key", "user", "organization", "project", "model", "provider"}
}

func (v *validator) domain(field, domain string) {
	if !slices.Contains(DomainNames(), domain) {
		v.fail(field, "must be one of %s", listing(DomainNames()))
	}
}

// rate checks a bound of a domain.
func (v *validator) rate(at, domain string, unit Unit, n, most uint64) {
	switch atOnce := DomainOf(domain).Concurrent; {
	case atOnce && unit != Unit_UNIT_UNSPECIFIED:
		v.fail(at+"unit", "must be left out: concurrency is of what runs now")
	case !atOnce && (unit < Unit_SECOND || unit > Unit_DAY):
		v.fail(at+"unit", "must be SECOND, MINUTE, HOUR or DAY")
	}
	switch {
	case n == 0:
		v.fail(at+"requests_per_unit",
			"must be at least 1: with 0 nothing would ever be let in, for which there is disabled")
	case n > most:
		v.fail(at+"requests_per_unit", "must be at most %d", most)
	}
}

func (v *validator) limits(limits []*Limit) {
	if len(limits) > maxLimits {
		v.fail("limits", "must have at most %d elements", maxLimits)
		return
	}
	for i, l := range limits {
		at := element("limits", i)
		v.domain(at+".domain", l.GetDomain())
		v.rate(at+".", l.GetDomain(), l.GetUnit(), l.GetRequestsPerUnit(), maxPerUnit)
		v.text(at+".model", l.GetModel())
		first := slices.IndexFunc(limits, func(o *Limit) bool {
			return o.GetDomain() == l.GetDomain() && o.GetUnit() == l.GetUnit() && o.GetModel() == l.GetModel()
		})
		if first < i {
			v.fail(at, "is of the same domain, unit and model as %s", element("limits", first))
		}
	}
}

func (v *validator) budgets(budgets []*Budget) {
	for i, b := range budgets {
		at := element("budgets", i)
		if b.GetUnit() != Unit_DAY && b.GetUnit() != Unit_MONTH {
			v.fail(at+".unit", "must be DAY or MONTH")
		}
		if _, err := ParseUSD(b.GetUsd()); err != nil {
			v.fail(at+".usd", "%v", err)
		}
		if first := slices.IndexFunc(budgets, func(o *Budget) bool { return o.GetUnit() == b.GetUnit() }); first < i {
			v.fail(at, "is of the same unit as %s", element("budgets", first))
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

func (v *validator) rateLimit(r *RateLimit) {
	v.label("name", r.GetName())
	v.domain("domain", r.GetDomain())
	v.when(r.GetWhen())
	if len(r.GetDescriptors()) == 0 {
		v.fail("descriptors", "needs at least one: without, it limits nothing")
	}
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
			d.rate(at+".rate_limit.", d.domain, p.GetUnit(), p.GetRequestsPerUnit(), math.MaxUint32)
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
	d.text(field, value)
	if strings.Contains(strings.TrimSuffix(value, "*"), "*") {
		d.fail(field, `may have one "*", at its end`)
	}
}

func (v *validator) concurrency(c *Concurrency) {
	v.between("concurrency.max_requests", c.GetMaxRequests(), 1, maxConcurrent)
	v.between("concurrency.max_pending", c.GetMaxPending(), 1, maxConcurrent)
	v.duration("concurrency.max_wait", c.GetMaxWait())
	if c.GetMaxPending() > 0 && c.GetMaxRequests() == 0 {
		v.fail("concurrency.max_pending", "has no effect without max_requests")
	}
	if c.GetMaxWait() != nil && c.GetMaxPending() == 0 {
		v.fail("concurrency.max_wait", "has no effect without max_pending")
	}
}

func (v *validator) addressLimit(l *AddressLimit) {
	v.between("address_limit.requests_per_second", l.GetRequestsPerSecond(), 1, maxConcurrent)
	v.between("address_limit.burst", l.GetBurst(), 1, 2*maxConcurrent)
	if b := l.GetBurst(); b > 0 && b < l.Rate() {
		v.fail("address_limit.burst",
			"must be at least requests_per_second, %d, or no more than the burst would pass in a second", l.Rate())
	}
}
