package configv1_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

const (
	minute = configv1.Unit_MINUTE
	day    = configv1.Unit_DAY
	month  = configv1.Unit_MONTH
)

func TestValidateLimits(t *testing.T) {
	limit := func(domain string, unit configv1.Unit, n uint64, model string) *configv1.Limit {
		return &configv1.Limit{Domain: domain, Unit: unit, RequestsPerUnit: n, Model: model}
	}
	for name, tc := range map[string]struct {
		limits []*configv1.Limit
		field  string
	}{
		"each domain": {[]*configv1.Limit{
			limit("requests", configv1.Unit_SECOND, 1, ""), limit("tokens", minute, 1, ""),
			limit("input_tokens", configv1.Unit_HOUR, 1, ""),
			limit("output_tokens", day, 1<<50, ""), limit("concurrency", 0, 1, ""),
		}, ""},
		"other models": {[]*configv1.Limit{limit("tokens", minute, 1, ""), limit("tokens", minute, 1, "a/*"),
			limit("tokens", day, 1, "")}, ""},
		"pitfall 89": {[]*configv1.Limit{limit("tokens", minute, 1, "a"), limit("tokens", minute, 2, "a")},
			"limits[1]"},
		"another domain":        {[]*configv1.Limit{limit("dollars", minute, 1, "")}, "limits[0].domain"},
		"no domain":             {[]*configv1.Limit{limit("", minute, 1, "")}, "limits[0].domain"},
		"no unit":               {[]*configv1.Limit{limit("requests", 0, 1, "")}, "limits[0].unit"},
		"a month":               {[]*configv1.Limit{limit("requests", month, 1, "")}, "limits[0].unit"},
		"concurrency in a time": {[]*configv1.Limit{limit("concurrency", minute, 1, "")}, "limits[0].unit"},
		"nothing":               {[]*configv1.Limit{limit("requests", minute, 0, "")}, "limits[0].requests_per_unit"},
		"more than can be":      {[]*configv1.Limit{limit("requests", minute, 1<<50+1, "")}, "limits[0].requests_per_unit"},
		"an odd model":          {[]*configv1.Limit{limit("requests", minute, 1, "a\n")}, "limits[0].model"},
		"too many":              {make([]*configv1.Limit, 33), "limits"},
	} {
		t.Run(name, func(t *testing.T) {
			requireFields(t, configv1.Validate(&configv1.Key{Name: "a", Limits: tc.limits}, knownVendor), tc.field)
		})
	}
	errs := configv1.Validate(&configv1.Key{Name: "a", Limits: []*configv1.Limit{perMinute(0)}}, knownVendor)
	require.ErrorContains(t, errs,
		"Key a: limits[0].requests_per_unit: must be at least 1: with 0 nothing would ever be let in, for which there is disabled")
}

func TestValidateBudgets(t *testing.T) {
	for name, tc := range map[string]struct {
		budgets []*configv1.Budget
		field   string
	}{
		"both":       {[]*configv1.Budget{{Unit: day, Usd: "0.50"}, {Unit: month, Usd: "10"}}, ""},
		"no unit":    {[]*configv1.Budget{{Usd: "1"}}, "budgets[0].unit"},
		"a minute":   {[]*configv1.Budget{{Unit: minute, Usd: "1"}}, "budgets[0].unit"},
		"twice":      {[]*configv1.Budget{{Unit: day, Usd: "1"}, {Unit: day, Usd: "2"}}, "budgets[1]"},
		"no dollars": {[]*configv1.Budget{{Unit: day}}, "budgets[0].usd"},
	} {
		t.Run(name, func(t *testing.T) {
			requireFields(t, configv1.Validate(&configv1.Key{Name: "a", Budgets: tc.budgets}, knownVendor), tc.field)
		})
	}
}

func TestParseUSD(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "10": 10e9, "0.50": 5e8, "0.000000001": 1, "1000000": 1e15, "999999.999999999": 1e15 - 1, "007": 7e9,
	} {
		got, err := configv1.ParseUSD(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{
		"", ".", "1.", ".5", "-1", "+1", "1e3", "$1", "1,000", " 1", "1 ", "0x1", "1_0", "0.0000000001", "1000000.000000001",
		"1000001", "NaN", "1.2.3",
		"00000000000000000000000000000000000000001",
	} {
		_, err := configv1.ParseUSD(text)
		require.Error(t, err, text)
	}
}

func TestValidateRateLimit(t *testing.T) {
	type d = configv1.RateLimitDescriptor
	rate := &configv1.RateLimitPolicy{Unit: minute, RequestsPerUnit: 1}
	at := func(key string, below ...*d) *d { return &d{Key: key, Descriptors: below} }
	all := &d{Key: "provider", RateLimit: rate}
	for _, key := range []string{"model", "project", "organization", "user", "key"} {
		all = at(key, all)
	}
	for name, tc := range map[string]struct {
		limit *configv1.RateLimit
		field string
	}{
		"all keys": {&configv1.RateLimit{Descriptors: []*d{all}}, ""},
		"values": {&configv1.RateLimit{Descriptors: []*d{{Key: "user", RateLimit: rate},
			{Key: "user", Value: "a*", RateLimit: rate, ShadowMode: true}}}, ""},
		"odd name":       {&configv1.RateLimit{Name: "A", Descriptors: []*d{all}}, "name"},
		"another domain": {&configv1.RateLimit{Domain: "usd", Descriptors: []*d{all}}, "domain"},
		"nothing":        {&configv1.RateLimit{}, "descriptors"},
		"another key": {&configv1.RateLimit{Descriptors: []*d{{Key: "remote_address", RateLimit: rate}}},
			"descriptors[0].key"},
		"a key again": {&configv1.RateLimit{Descriptors: []*d{at("user",
			at("model", &d{Key: "user", RateLimit: rate}))}}, "descriptors[0].descriptors[0].descriptors[0].key"},
		"pitfall 94": {&configv1.RateLimit{Descriptors: []*d{at("user", at("model"))}},
			"descriptors[0].descriptors[0]"},
		"pitfall 89": {&configv1.RateLimit{Descriptors: []*d{{Key: "user", RateLimit: rate},
			{Key: "user", RateLimit: rate}}}, "descriptors[1]"},
		"a star within": {&configv1.RateLimit{Descriptors: []*d{{Key: "user", Value: "a*b", RateLimit: rate}}},
			"descriptors[0].value"},
		"a shadow of none": {&configv1.RateLimit{Descriptors: []*d{{Key: "user", ShadowMode: true,
			Descriptors: []*d{{Key: "model", RateLimit: rate}}}}}, "descriptors[0].shadow_mode"},
		"no unit": {&configv1.RateLimit{Descriptors: []*d{{Key: "user",
			RateLimit: &configv1.RateLimitPolicy{RequestsPerUnit: 1}}}}, "descriptors[0].rate_limit.unit"},
		"no requests": {&configv1.RateLimit{Descriptors: []*d{{Key: "user",
			RateLimit: &configv1.RateLimitPolicy{Unit: day}}}}, "descriptors[0].rate_limit.requests_per_unit"},
		"more than 32 bits": {&configv1.RateLimit{Descriptors: []*d{{Key: "user",
			RateLimit: &configv1.RateLimitPolicy{Unit: day, RequestsPerUnit: 1 << 32}}}},
			"descriptors[0].rate_limit.requests_per_unit"},
		"concurrency": {&configv1.RateLimit{Domain: "concurrency",
			Descriptors: []*d{{Key: "user", RateLimit: &configv1.RateLimitPolicy{RequestsPerUnit: 1}}}}, ""},
		"a minute of it": {&configv1.RateLimit{Domain: "concurrency", Descriptors: []*d{{Key: "user", RateLimit: rate}}},
			"descriptors[0].rate_limit.unit"},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.limit.Name == "" {
				tc.limit.Name = "a"
			}
			if tc.limit.Domain == "" {
				tc.limit.Domain = "requests"
			}
			requireFields(t, configv1.Validate(tc.limit, knownVendor), tc.field)
		})
	}
}
