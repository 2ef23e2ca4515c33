package extproc

import (
	"testing"

	rlsv3 "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// TestRulesComeAsAWholeOrNotAtAll has one object be wrong: without rules before, nobody is served, and later all rules
// before stay in force.
func TestRulesComeAsAWholeOrNotAtAll(t *testing.T) {
	c, plane := startConfigClient(t)
	s := <-plane.streams
	s.subscriptions(t)
	for _, none := range []proto.Message{&configv1.Key{}, &configv1.ResolvedProvider{}, &configv1.Model{},
		&configv1.Route{}, &configv1.Catalog{}, &configv1.Listing{}, &configv1.Organization{}, &configv1.Project{},
		&rlsv3.RateLimitConfig{}} {
		s.send(t, "1", none, nil)
	}
	settings := func(deny string, rails ...string) *configv1.Settings {
		all := &configv1.Settings{Name: "default", KeyPepper: []byte("p"),
			Policies: []*configv1.Policy{{Name: "p", Rules: []*configv1.PolicyRule{{Name: "r", Deny: deny}}}}}
		for _, name := range rails {
			all.Guardrails = append(all.Guardrails, &configv1.Guardrail{Name: name, Rules: []*configv1.GuardRule{{Name: "r",
				Mode: configv1.GuardMode_BLOCK, Words: []string{"secret"}}}})
		}
		return all
	}
	nack := s.send(t, "1", &configv1.Settings{}, nil, settings("(", "a"))
	require.Contains(t, nack.GetErrorDetail().GetMessage(), "Policy p")
	require.Nil(t, c.current.Load(), "requests would pass without a guardrail and a policy")

	require.Nil(t, s.send(t, "2", &configv1.Settings{}, nil, settings("false", "a")).GetErrorDetail())
	first := c.current.Load()
	require.Len(t, first.Rails, 1)
	require.NotNil(t, s.send(t, "3", &configv1.Settings{}, nil, settings("(", "a", "b")).GetErrorDetail())
	require.Equal(t, first.Rails, c.current.Load().Rails)
	require.Nil(t, s.send(t, "4", &configv1.Settings{}, nil, settings("false", "a", "b")).GetErrorDetail())
	next := c.current.Load()
	require.Len(t, next.Rails, 2)
	require.Same(t, first.Rails[0], next.Rails[0])
	require.Same(t, first.Policies[0], next.Policies[0])
}
