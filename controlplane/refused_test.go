package controlplane

import (
	"strings"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/internal/configstore"
)

// Report 10: what an Envoy of another control plane refuses has no effect there, and everybody is told.
func TestWhatIsRefusedAtAnotherControlPlaneIsAnErrorOfTheObject(t *testing.T) {
	p := startPlane(t)
	other := p.another()
	p.put(openai("good", nil))
	far := subscribe[*clusterv3.Cluster](other, envoy.RoleEnvoy)
	far.refuses = func(r *discoveryv3.DeltaDiscoveryResponse) string {
		for _, resource := range r.GetResources() {
			if strings.HasPrefix(resource.GetName(), "bad/") {
				return resource.GetName() + ": no good"
			}
		}
		return ""
	}
	at := p.put(openai("bad", nil))
	type heard struct {
		missing []string
		says    string
		err     error
	}
	hears := make(chan heard, 1)
	go func() {
		h := heard{missing: p.Await(t.Context(), at), says: p.ObjectError("Provider", "bad")} // who has waited knows
		_, h.err = p.store.Put(t.Context(), openai("last", nil), configstore.AnyRevision)
		hears <- h
	}()
	far.await(func() bool {
		for name := range far.has {
			if strings.HasPrefix(name, "last/first/") {
				return true
			}
		}
		return false
	})
	h := <-hears
	require.NoError(t, h.err)
	require.Empty(t, h.missing)
	require.Contains(t, h.says, "refused by the data plane: bad/")
	require.Contains(t, h.says, ": no good")
	require.Empty(t, p.ObjectError("Provider", "good"))
	require.Equal(t, h.says, other.ObjectError("Provider", "bad"))

	third := other.another()
	says := func(what string) func() bool {
		return func() bool { return third.ObjectError("Provider", "bad") == what }
	}
	require.Eventually(t, says(h.says), 20*time.Second, 10*time.Millisecond, "one that starts later is told too")
	_, err := p.store.Delete(t.Context(), configv1.KindOf(openai("bad", nil)), "bad", configstore.AnyRevision)
	require.NoError(t, err)
	require.Eventually(t, says(""), 20*time.Second, 10*time.Millisecond, "and that it is no more")
}
