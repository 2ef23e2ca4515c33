package e2e

import (
	"fmt"
	"strings"
	"testing"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/test/cases"
	"github.com/modelgate/modelgate/test/harness"
)

// forCases gives the gateway to the shared cases, which make keys of their own.
func (g *gateway) forCases() *cases.Gateway {
	c := g.AsCases()
	c.NewRefusedKey = g.newKey
	c.NewKey = func(t testing.TB, k *configv1.Key) string {
		key := g.newKey(t, k)
		harness.Eventually(t, "the key is known", func() error {
			if err := g.accepts(key); err != nil && len(k.GetAddresses())+len(k.GetEndpoints()) == 0 {
				return err
			}
			status, body, err := g.post("/v1/models", key, "{}")
			if err == nil && strings.Contains(body, "invalid_api_key") {
				return fmt.Errorf("status %d: %s", status, body)
			}
			return err
		})
		return key
	}
	return c
}

// newKey makes a key with what k says of it.
func (g *gateway) newKey(t testing.TB, k *configv1.Key) string {
	args := []string{"key", "create", "--create-missing", "--data", g.Dir, "--name", "case", "-o", "json"}
	add := func(flag, value string) {
		if value != "" {
			args = append(args, flag, value)
		}
	}
	add("--organization", k.GetOrganization())
	add("--project", k.GetProject())
	add("--endpoints", strings.Join(k.GetEndpoints(), ","))
	add("--addresses", strings.Join(k.GetAddresses(), ","))
	for _, l := range k.GetLimits() {
		unit := ""
		if l.GetUnit() != configv1.Unit_UNIT_UNSPECIFIED {
			unit = strings.ToLower(l.GetUnit().String())
		}
		add("--limit", fmt.Sprintf("%s:%s:%d", l.GetDomain(), unit, l.GetRequestsPerUnit()))
	}
	for _, b := range k.GetBudgets() {
		add("--budget-usd-"+strings.ToLower(b.GetUnit().String()), b.GetUsd())
	}
	return harness.Decode(t, harness.Must(t, "", args...))["key"].(string)
}
