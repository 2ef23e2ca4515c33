package exchange_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/guard"
	"github.com/modelgate/modelgate/internal/policy"
)

// A request that a policy or a guardrail refuses counts towards limits of requests, whichever way it takes.
func TestRefusalsCountOnEveryWay(t *testing.T) {
	policies, err := policy.Policies(nil).Next([]*configv1.Policy{{Name: "p", Organization: "acme",
		Rules: []*configv1.PolicyRule{{Name: "all", Deny: "true"}}}})
	require.NoError(t, err)
	rails, err := guard.Compile([]*configv1.Guardrail{{Name: "g",
		Rules: []*configv1.GuardRule{emails(configv1.GuardMode_BLOCK)}}})
	require.NoError(t, err)
	for way, c := range map[string]struct{ path, body string }{
		"planned": {chats, `{"model":"a/m-1","messages":[{"role":"user","content":"ann@x.example"}]}`},
		"a Route": {"/r/messages", `{}`},
	} {
		for by, apply := range map[string]func(m *meter){
			"policy":    func(m *meter) { m.config.Policies = policies },
			"guardrail": func(m *meter) { m.config.Rails = rails },
		} {
			t.Run(way+", "+by, func(t *testing.T) {
				key := keyWith("requests", configv1.Unit_MINUTE, 1)
				key.Organization = "acme"
				m := newMeter(t, key)
				apply(m)
				for range 2 { // the second learns that the limit is reached
					x, reply := m.ask(c.path, c.body)
					require.NotNil(t, reply.Immediate)
					require.NotEqual(t, 429, reply.Immediate.Status)
					require.NotEmpty(t, x.Close().ID)
				}
				x, reply := m.ask(c.path, c.body)
				require.Equal(t, 429, reply.Immediate.Status, "%s", reply.Immediate.Body)
				x.Close()
			})
		}
	}
}
