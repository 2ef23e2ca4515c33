package exchange_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

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
		"key/key_1 disabled":  {&configv1.Key{Disabled: true}, ask40},
		"key/key_1 expired":   {&configv1.Key{ExpiresAt: timestamppb.New(time.Unix(1, 0))}, ask40},
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

// A request for a model that is not there has its name, which is what its client got wrong.
func TestARefusedRequestSaysWhichModelItAskedFor(t *testing.T) {
	m := newMeter(t, &configv1.Key{Name: "key_1"})
	x, reply := m.chat(`{"model":"nobody/none","messages":[{"role":"user","content":"x"}]}`)
	require.NotNil(t, reply.Immediate)
	r := x.Close()
	require.Equal(t, "nobody/none", r.Model)
	require.Equal(t, "request", r.RefusedBy)
	require.Empty(t, r.Label, "metrics have no series for what clients invent")
}

// Who still has a key that was deleted is named by it.
func TestARefusedDeletedKeyIsNamed(t *testing.T) {
	m := newMeter(t, &configv1.Key{Name: "key_1"})
	m.config.Keyring = m.config.Keyring.With(map[string]*configv1.Key{"key_1": nil})
	x, reply := m.chat(ask40)
	require.NotNil(t, reply.Immediate)
	r := x.Close()
	require.Equal(t, []string{"key/key_1 deleted", "key_1", ""}, []string{r.RefusedBy, r.Key, r.KeyHint})
	require.True(t, r.Barred)
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
