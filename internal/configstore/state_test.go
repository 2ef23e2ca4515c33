package configstore

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

func TestAStateIsWhatTheChangesUntilThenHaveMade(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	v, want := newView(), map[string]configv1.Object{}
	var delivered []State
	var expected []map[string]configv1.Object
	for range 500 {
		for range random.IntN(4) {
			ref := Ref{Kind: "Model", Name: fmt.Sprint("m", random.IntN(8))}
			switch random.IntN(3) {
			case 0:
				v.remove(ref)
				delete(want, ref.Name)
			case 1:
				v.put(ref, nil, errNotAnObject)
			default:
				m := &configv1.Model{Name: ref.Name}
				v.put(ref, m, nil)
				want[ref.Name] = m
			}
		}
		delivered, expected = append(delivered, v.state()), append(expected, maps.Clone(want))
	}
	for i, s := range delivered {
		require.Equal(t, expected[i], s.Objects["Model"])
		var all []configv1.Object
		for _, name := range slices.Sorted(maps.Keys(expected[i])) {
			all = append(all, expected[i][name])
		}
		require.Len(t, All[*configv1.Model](s), len(all))
		for n, m := range All[*configv1.Model](s) {
			require.Same(t, all[n], m)
		}
		require.Empty(t, All[*configv1.Provider](s))
	}
}

// BenchmarkOneChange changes one model among many, of which there are also 100,000 keys, and lists the models.
func BenchmarkOneChange(b *testing.B) {
	for _, n := range []int{4_000, 20_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			v := newView()
			for i := range 100_000 {
				name := fmt.Sprint("key-", i)
				v.put(Ref{Kind: "Key", Name: name}, &configv1.Key{Name: name}, nil)
			}
			model := func(i int) {
				name := fmt.Sprint("model-", i)
				v.put(Ref{Kind: "Model", Name: name}, &configv1.Model{Name: name}, nil)
			}
			for i := range n {
				model(i)
			}
			for i := 0; b.Loop(); i++ {
				model(i % n)
				require.Len(b, All[*configv1.Model](v.state()), n)
			}
		})
	}
}
