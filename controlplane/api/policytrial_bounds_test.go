package api_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

func TestTrialsAreBoundedBeforeTheyAreCompiled(t *testing.T) {
	b := newBench(t)
	withLedger(t, b)
	try := func(ctx context.Context, policies ...*configv1.Policy) error {
		_, err := b.client.TestPolicies(ctx, policies, nil)
		return err
	}
	deep := strings.Repeat("[", 240) + "1" + strings.Repeat("]", 240) + " == []"
	require.ErrorContains(t, try(t.Context(), &configv1.Policy{Name: "p",
		Rules: []*configv1.PolicyRule{{Name: "r", Deny: deep}}}), "recursion limit")

	var many []*configv1.Policy
	for i := range 11 {
		p := &configv1.Policy{Name: fmt.Sprintf("p%d", i)}
		for j := range 100 {
			p.Rules = append(p.Rules, &configv1.PolicyRule{Name: fmt.Sprintf("r%d", j), Deny: "this is none"})
		}
		many = append(many, p)
	}
	require.ErrorContains(t, try(t.Context(), many...), "At most 1000 rules", "none was compiled")
	ctx, leave := context.WithCancel(t.Context())
	leave()
	require.ErrorIs(t, try(ctx, many[:2]...), context.Canceled)
}
