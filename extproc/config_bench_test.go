package extproc

import (
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/extproc/routing"
	"github.com/modelgate/modelgate/internal/auth"
	"github.com/modelgate/modelgate/internal/provider/all"
	"github.com/modelgate/modelgate/internal/xdsclient"
)

// BenchmarkOneChange takes one changed model among many, of which one object in ten is a provider, until exchanges are
// decided by it.
func BenchmarkOneChange(b *testing.B) {
	for _, n := range []int{4_000, 20_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			c := newConfigClient(Options{NodeID: "bench", Vendors: all.Providers(), Logger: zap.NewNop(),
				Registerer: prometheus.NewRegistry()})
			c.building.Hasher = auth.NewHasher([]byte("p"))
			c.building.Providers, c.building.Models = map[string]*routing.Provider{}, map[string]*configv1.Model{}
			for i := range n / 10 {
				r := resolved(fmt.Sprintf("provider-%05d", i), "openai")
				p, err := routing.NewProvider(r, c.vendors["openai"])
				require.NoError(b, err)
				c.building.Providers[r.GetName()] = p
			}
			model := func(i, version int) *configv1.Model {
				return &configv1.Model{Name: fmt.Sprintf("model-%05d", i), Targets: []*configv1.Target{
					{Provider: fmt.Sprintf("provider-%05d", i%(n/10)), Model: fmt.Sprint("m", version)}}}
			}
			for i := range n - n/10 {
				c.building.Models[model(i, 0).GetName()] = model(i, 0)
			}
			c.stale = true
			c.publish("1")
			for version := 1; b.Loop(); version++ {
				m := model(version%n/2, version)
				c.building.Models, c.stale = xdsclient.Fork(c.building.Models), true
				c.building.Models[m.GetName()] = m
				c.publish("2")
				require.Same(b, m, c.current.Load().Models[m.GetName()])
			}
		})
	}
}
