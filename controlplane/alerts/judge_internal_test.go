package alerts

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/attention"
	"github.com/modelgate/modelgate/controlplane/ledger"
	"github.com/modelgate/modelgate/internal/configstore"
)

// A knowledge is what a ledger answers, or why it does not.
type knowledge struct {
	all, failed int64
	refusals    []ledger.Refusal
	err         error
}

func (k knowledge) Failures(context.Context, time.Time, ledger.Restriction, string) (all, failed int64, err error) {
	return k.all, k.failed, k.err
}

func (k knowledge) Refusals(context.Context, time.Time, ...int64) ([]ledger.Refusal, error) {
	return k.refusals, k.err
}

// TestConditionsAreJudged has for each condition what fulfils it, what just does not, and what is of others.
func TestConditionsAreJudged(t *testing.T) {
	const day = 24 * time.Hour
	now := time.Date(2026, 5, 20, 12, 0, 0, 0, time.UTC)
	in := func(d time.Duration) *timestamppb.Timestamp { return timestamppb.New(now.Add(d)) }
	budget := func(scope, spent, forecast string) adminapi.BudgetUse {
		return adminapi.BudgetUse{Scope: scope, Unit: "month", USD: "100", Spent: spent, Forecast: forecast}
	}
	until := now.Add(time.Minute)
	known := attention.Facts{Now: now,
		Budgets: []adminapi.BudgetUse{budget("key/k1", "80", "99"), budget("key/k2", "79.99", "100"),
			budget("project/acme/web", "90", "0"), budget("organization/zeta", "0", "0")},
		Providers: []adminapi.ProviderHealth{{Provider: "a", State: adminapi.ProviderFailing},
			{Provider: "b", State: adminapi.ProviderCooling, CoolingUntil: &until},
			{Provider: "off", State: adminapi.ProviderFailing}},
		Rejected: []attention.Rejection{{Provider: "a", Times: 1, Last: now}, {Provider: "off", Times: 9, Last: now}},
		Keys: []*configv1.Key{{Name: "k1", Organization: "acme", ExpiresAt: in(7 * day)},
			{Name: "k2", ExpiresAt: in(7*day + time.Second)}, {Name: "k3", ExpiresAt: in(0)},
			{Name: "k4", ExpiresAt: in(day), Disabled: true}},
		Objects:      []attention.ObjectError{{Kind: "Model", Name: "m", Error: "no target."}},
		Spools:       []attention.SpoolTrouble{{Process: "x", Trouble: "full"}},
		Certificates: map[string]time.Time{"c": now.Add(13 * day)},
		Plane: []adminapi.DataPlaneClient{{Role: "envoy", Node: "e", Health: "behind"},
			{Role: "extproc", Node: "x", Health: adminapi.HealthOK}},
	}
	refusals := []ledger.Refusal{{By: "key/k1 limit requests per minute", Key: "k1", Organization: "acme", Requests: 3},
		{By: "budget key/k2", Key: "k2", Requests: 1}, {By: "key", Requests: 50}}
	rule := func(c configv1.AlertCondition) *configv1.AlertRule {
		return &configv1.AlertRule{Name: "r", Condition: c}
	}
	limit := func(c configv1.AlertCondition, n float64) *configv1.AlertRule {
		return &configv1.AlertRule{Name: "r", Condition: c, Threshold: &n}
	}
	acme := func(c configv1.AlertCondition) *configv1.AlertRule {
		return &configv1.AlertRule{Name: "r", Condition: c, Organization: "acme"}
	}
	open := func(context.Context, bool) ([]adminapi.Incident, error) {
		return []adminapi.Incident{{ID: "inc_1", Subject: "provider/a", Severity: "error", Why: "a fails."},
			{ID: "inc_2", Subject: "limit/x", Severity: "warning", Why: "x refuses.",
				Change: &adminapi.IncidentChange{Actor: "ann"}}}, nil
	}
	for name, c := range map[string]struct {
		rule   *configv1.AlertRule
		ledger knowledge
		found  []string
	}{
		"a budget that is spent to 80 %": {rule: rule(configv1.AlertCondition_BUDGET_SPENT),
			found: []string{"key/k1 month", "project/acme/web month"}},
		"a budget of an organization's": {rule: acme(configv1.AlertCondition_BUDGET_SPENT),
			found: []string{"key/k1 month", "project/acme/web month"}},
		"a higher threshold": {rule: limit(configv1.AlertCondition_BUDGET_SPENT, 91)},
		"a forecast":         {rule: rule(configv1.AlertCondition_BUDGET_FORECAST), found: []string{"key/k2 month"}},
		"failing":            {rule: rule(configv1.AlertCondition_PROVIDER_FAILING), found: []string{"provider/a"}},
		"failing, of another": {rule: &configv1.AlertRule{Condition: configv1.AlertCondition_PROVIDER_FAILING,
			Provider: "b"}},
		"cooling":             {rule: rule(configv1.AlertCondition_PROVIDER_COOLING), found: []string{"provider/b"}},
		"rejected":            {rule: rule(configv1.AlertCondition_CREDENTIAL_REJECTED), found: []string{"provider/a"}},
		"rejected too seldom": {rule: limit(configv1.AlertCondition_CREDENTIAL_REJECTED, 2)},
		"5 % of errors": {rule: rule(configv1.AlertCondition_ERROR_RATE), ledger: knowledge{all: 100, failed: 5},
			found: []string{"all requests"}},
		"errors of an organization": {rule: acme(configv1.AlertCondition_ERROR_RATE),
			ledger: knowledge{all: 20, failed: 20}, found: []string{"organization/acme"}},
		"fewer errors":    {rule: rule(configv1.AlertCondition_ERROR_RATE), ledger: knowledge{all: 101, failed: 5}},
		"too few to tell": {rule: rule(configv1.AlertCondition_ERROR_RATE), ledger: knowledge{all: 19, failed: 19}},
		"limits and budgets": {rule: rule(configv1.AlertCondition_LIMIT_REACHED), ledger: knowledge{refusals: refusals},
			found: []string{"budget key/k2", "key/k1 limit requests per minute"}},
		"limits of an organization": {rule: acme(configv1.AlertCondition_LIMIT_REACHED),
			ledger: knowledge{refusals: refusals}, found: []string{"key/k1 limit requests per minute"}},
		"a limit three times": {rule: limit(configv1.AlertCondition_LIMIT_REACHED, 3), ledger: knowledge{refusals: refusals},
			found: []string{"key/k1 limit requests per minute"}},
		"a key that expires": {rule: rule(configv1.AlertCondition_KEY_EXPIRES), found: []string{"key/k1"}},
		"a certificate that expires": {rule: rule(configv1.AlertCondition_CERTIFICATE_EXPIRES),
			found: []string{"certificate/c"}},
		"a certificate, later": {rule: limit(configv1.AlertCondition_CERTIFICATE_EXPIRES, 12)},
		"a spool has trouble":  {rule: rule(configv1.AlertCondition_LEDGER_TROUBLE), found: []string{"spool x"}},
		"a process that lags":  {rule: rule(configv1.AlertCondition_DATA_PLANE_TROUBLE), found: []string{"envoy e"}},
		"incidents": {rule: rule(configv1.AlertCondition_INCIDENT),
			found: []string{"limit/x inc_2", "provider/a inc_1"}},
		"incidents of a severity": {rule: &configv1.AlertRule{Condition: configv1.AlertCondition_INCIDENT,
			Severity: "error"},
			found: []string{"provider/a inc_1"}},
		"an object": {rule: rule(configv1.AlertCondition_OBJECT_ERROR), found: []string{"model/m"}},
	} {
		t.Run(name, func(t *testing.T) {
			state := configstore.State{Objects: map[string]map[string]configv1.Object{"Provider": {
				"a": &configv1.Provider{Name: "a"}, "b": &configv1.Provider{Name: "b"},
				"off": &configv1.Provider{Name: "off", Disabled: true}}}}
			options := &Options{Ledger: c.ledger, Incidents: open}
			judged := newJudge(now, known, options, state).of(t.Context(), c.rule)
			require.False(t, judged.unsure)
			var subjects []string
			for _, f := range judged.found {
				require.NotEmpty(t, f.message)
				subjects = append(subjects, f.subject)
			}
			require.Equal(t, c.found, subjects)
		})
	}
}

// TestALedgerThatIsAwayDecidesNothing is of the conditions that the ledger knows. That it is away is one itself.
func TestALedgerThatIsAwayDecidesNothing(t *testing.T) {
	away := attention.Facts{Ledger: "the ledger is unreachable."}
	unknown := func(context.Context, bool) ([]adminapi.Incident, error) { return nil, errors.New("away") }
	j := newJudge(time.Now(), away, &Options{Ledger: knowledge{err: errors.New("away")}, Incidents: unknown},
		configstore.State{})
	for _, c := range []configv1.AlertCondition{configv1.AlertCondition_BUDGET_SPENT,
		configv1.AlertCondition_BUDGET_FORECAST, configv1.AlertCondition_PROVIDER_FAILING,
		configv1.AlertCondition_PROVIDER_COOLING, configv1.AlertCondition_CREDENTIAL_REJECTED,
		configv1.AlertCondition_ERROR_RATE, configv1.AlertCondition_LIMIT_REACHED, configv1.AlertCondition_INCIDENT} {
		judged := j.of(t.Context(), &configv1.AlertRule{Condition: c})
		require.True(t, judged.unsure, c)
		require.Empty(t, judged.found, c)
	}
	trouble := j.of(t.Context(), &configv1.AlertRule{Condition: configv1.AlertCondition_LEDGER_TROUBLE})
	require.False(t, trouble.unsure)
	require.Equal(t, "ledger", trouble.found[0].subject)
}
