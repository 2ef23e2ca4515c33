package main

import (
	"context"
	"encoding/json"
	"errors"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// Limits that are never reached: what is measured is what counting costs.
const plenty = 1 << 31

// startGoverned starts a gateway with a key that has every kind of limit and a budget, as have its organization and
// its project, and with a price for the model. The ledger keeps a record of each request, as it does without them.
func startGoverned(ctx context.Context, o options, dir, mock string) (*target, error) {
	t, err := startGateway(ctx, o, dir, mock)
	if err != nil {
		return nil, err
	}
	t.name = targetGoverned
	if t.job.Key, err = govern(ctx, o, dir); err != nil {
		return nil, errors.Join(err, t.stop())
	}
	return t, nil
}

func govern(ctx context.Context, o options, dir string) (key string, err error) {
	limits := []*configv1.Limit{
		{Domain: "requests", Unit: configv1.Unit_MINUTE, RequestsPerUnit: plenty},
		{Domain: "tokens", Unit: configv1.Unit_MINUTE, RequestsPerUnit: plenty},
	}
	budgets := []*configv1.Budget{{Unit: configv1.Unit_MONTH, Usd: "1000000"}}
	err = apply(ctx, o, dir,
		&configv1.Organization{Name: "bench", Limits: limits, Budgets: budgets},
		&configv1.Project{Name: "bench/bench", Limits: limits, Budgets: budgets},
		&configv1.RateLimit{Name: "models", Domain: "requests", Descriptors: []*configv1.RateLimitDescriptor{
			{Key: "model", RateLimit: &configv1.RateLimitPolicy{Unit: configv1.Unit_MINUTE, RequestsPerUnit: plenty}}}},
		&configv1.Catalog{Name: "default", Version: "bench", Models: []*configv1.ModelFacts{
			{Models: []string{"mock"}, Price: &configv1.Price{Input: "1", Output: "2"}}}})
	if err != nil {
		return "", err
	}
	said, err := command(ctx, o, nil, "key", "create", "--create-missing", "--data", dir, "--name", "bench",
		"--organization", "bench", "--project", "bench",
		"--rpm", "1000000000", "--tpm", "1000000000000", "--concurrency", "100000", "--budget-usd-month", "1000000", "-o",
		"json")
	if err != nil {
		return "", err
	}
	var made struct{ Key string }
	err = json.Unmarshal(said, &made)
	return made.Key, err
}
