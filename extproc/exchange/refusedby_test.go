package exchange_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/extproc/metering"
)

// TestARefusedRequestSaysWhatRefusedIt holds that the record of a refused request names the rule or the object.
func TestARefusedRequestSaysWhatRefusedIt(t *testing.T) {
	const minute = configv1.Unit_MINUTE
	for want, c := range map[string]struct {
		key  *configv1.Key
		body string
	}{
		"key/key_1 limit requests per minute": {&configv1.Key{Limits: []*configv1.Limit{{Domain: "requests", Unit: minute}}},
			ask40},
		"key/key_1 limit output tokens per minute": {&configv1.Key{
			Limits: []*configv1.Limit{{Domain: "output_tokens", Unit: minute, RequestsPerUnit: 5}}}, ask40},
		"key/key_1 limit concurrent requests": {&configv1.Key{Limits: []*configv1.Limit{{Domain: "concurrency"}}}, ask40},
		"budget key/key_1 day": {&configv1.Key{
			Budgets: []*configv1.Budget{{Unit: configv1.Unit_DAY, Usd: "0.000000001"}}}, ask40},
		"budget key/key_1 month": {&configv1.Key{
			Budgets: []*configv1.Budget{{Unit: configv1.Unit_MONTH, Usd: "0.000000001"}}}, ask40},
		"key/key_1 models":    {&configv1.Key{Models: []string{"b/*"}}, ask40},
		"key/key_1 endpoints": {&configv1.Key{Endpoints: []string{"embeddings"}}, ask40},
		"key/key_1 addresses": {&configv1.Key{Addresses: []string{"192.0.2.0/24"}}, ask40},
		"request":             {&configv1.Key{}, `{"model":`},
	} {
		t.Run(want, func(t *testing.T) {
			c.key.Name = "key_1"
			m := newMeter(t, c.key)
			x, reply := m.chat(c.body)
			require.NotNil(t, reply.Immediate)
			r := x.Close()
			require.Equal(t, metering.OutcomeRejected, r.Outcome)
			require.Equal(t, want, r.RefusedBy)
			if want == "key/key_1 models" {
				require.NotEmpty(t, r.Model, "which model, nothing else tells")
			}
			require.Equal(t, "key_1", r.Key)
			require.Empty(t, r.KeyHint)
			require.Empty(t, m.ended, "the journal notes it, within bounds")
		})
	}
}

func TestARefusedStrangerLeavesAHintOfTheKey(t *testing.T) {
	m := newMeter(t, &configv1.Key{Name: "key_1"})
	for secret, hint := range map[string]string{"mg-000000000000000000000000000000abcd": "abcd", "short": ""} {
		m.secret = secret
		x, reply := m.chat(ask40)
		require.NotNil(t, reply.Immediate)
		r := x.Close()
		require.Equal(t, "unknown key", r.RefusedBy)
		require.Equal(t, hint, r.KeyHint)
		require.Empty(t, r.Key)
	}
}
