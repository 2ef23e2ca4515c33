package extproc

import (
	"testing"

	rlsv3 "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// TestSettingsAreTakenWholly: a process that starts, and cannot compile a policy, does not serve without it. One that
// serves keeps all that it has.
func TestSettingsAreTakenWholly(t *testing.T) {
	c, plane := startConfigClient(t)
	s := <-plane.streams
	s.subscriptions(t)
	policy := func(text string) *configv1.Settings {
		return &configv1.Settings{Name: "default", KeyPepper: []byte("p"), Policies: []*configv1.Policy{{Name: "p",
			Rules: []*configv1.PolicyRule{{Name: "r", Deny: text}}}}}
	}
	for _, of := range []proto.Message{&configv1.Key{}, &configv1.ResolvedProvider{}, &configv1.Model{},
		&configv1.Route{}, &configv1.Catalog{}, &configv1.Listing{}, &configv1.Organization{}, &configv1.Project{},
		&rlsv3.RateLimitConfig{}} {
		s.send(t, "1", of, nil)
	}
	nack := s.send(t, "1", &configv1.Settings{}, nil, policy("no such"))
	require.NotEmpty(t, nack.GetErrorDetail().GetMessage())
	require.Nil(t, c.current.Load(), "it does not serve without the policy")
	s.send(t, "2", &configv1.Settings{}, nil, policy("stream"))
	first := c.current.Load()
	require.Len(t, first.Policies, 1)
	worse := policy("no such")
	worse.KeyPepper = []byte("another")
	s.send(t, "3", &configv1.Settings{}, nil, worse)
	require.Same(t, first.Hasher, c.current.Load().Hasher)
	require.Len(t, c.current.Load().Policies, 1)
}
