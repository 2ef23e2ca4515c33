package routing

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/extproc/access"
)

// BenchmarkTable looks up what a request asks of the configuration: whether the key may use the model, its targets,
// and its name in metrics. One object in ten is a provider. The models are asked for in random order.
func BenchmarkTable(b *testing.B) {
	for _, n := range []int{10, 20_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var all []string
			for i := range n / 10 {
				all = append(all, fmt.Sprintf("provider-%05d", i))
			}
			t := testProviders(all...)
			var models []string
			for i := range n - n/10 {
				m := &configv1.Model{Name: fmt.Sprintf("model-%05d", i),
					Targets: []*configv1.Target{{Provider: all[i%len(all)]}}}
				t.Models[m.GetName()] = m
				models = append(models, m.GetName())
			}
			t.Index()
			key := &access.Client{}
			for b.Loop() {
				name := models[rand.IntN(len(models))]
				require.True(b, t.mayUse(key, name) && len(t.targets(t.Models[name], rand.Uint32N)) == 1 &&
					t.Label(name) == name)
			}
		})
	}
}
