package dashboard_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

func TestTheFormOfARateLimitTakesAnExpression(t *testing.T) {
	b := newBench(t)
	w := b.owner(t)
	create := func(when string) shown {
		return w.post("/rate-limits", "name", "large", "domain", "requests", "unit", "MINUTE", "amount", "5", "when", when,
			"entry_key", "key", "entry_value", "")
	}
	p := create(" size > ")
	require.Equal(t, 422, p.status)
	require.Contains(t, text(p.body), "when: must be an expression in CEL")
	require.Contains(t, p.body, `name="when" value="size &gt;"`, "what was written is still there")
	require.Equal(t, 303, create(" size > 100000 ").status)
	o, err := b.api.Get(t.Context(), configv1.KindOf((*configv1.RateLimit)(nil)), "large")
	require.NoError(t, err)
	require.Equal(t, "size > 100000", o.Object.(*configv1.RateLimit).GetWhen())
	require.Contains(t, w.get("/rate-limits").body, "Only if <code>size &gt; 100000</code>")
}
