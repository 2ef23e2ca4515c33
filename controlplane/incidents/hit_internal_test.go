package incidents

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/controlplane/attention"
)

// TestWhatFailsAtAProviderIsNotHitByItsModel is of a model that fails first at a provider with an incident, and later
// at none.
func TestWhatFailsAtAProviderIsNotHitByItsModel(t *testing.T) {
	g := newGateway(t)
	for i := range 30 {
		g.sent(i, 10*time.Minute, 500, false)
	}
	g.facts.Traffic = []attention.Traffic{{Model: "smart", Provider: "frost", Requests: 30, Failed: 30},
		{Model: "smart", Provider: "echo", Requests: 20, Failed: 20}}
	require.NoError(t, g.keeper().judge(t.Context()))
	open := map[string]adminapi.Incident{}
	for _, i := range g.incidents(false) {
		open[i.Subject] = i
	}
	require.EqualValues(t, 30, open["provider/frost"].Hit.Requests)
	require.Zero(t, open["model/smart"].Hit.Requests)
	require.Equal(t, g.now, open["model/smart"].Since)
}
