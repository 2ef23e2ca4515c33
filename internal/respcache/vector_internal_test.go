package respcache

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// Steps are coarse, and nearly as good as numbers: also for vectors with a few large components.
func TestACosineOfStepsIsThatOfNumbers(t *testing.T) {
	r := rand.New(rand.NewPCG(20, 8))
	for range 500 {
		length := 64 + r.IntN(2000)
		a, b := make([]float32, length), make([]float32, length)
		closeness := r.Float64()
		for i := range a {
			common := r.NormFloat64()
			a[i] = float32(common*closeness + r.NormFloat64()*(1-closeness))
			b[i] = float32(common*closeness + r.NormFloat64()*(1-closeness))
		}
		a[3], b[3] = 10, 10
		var ab, aa, bb float64
		for i := range a {
			ab += float64(a[i]) * float64(b[i])
			aa += float64(a[i]) * float64(a[i])
			bb += float64(b[i]) * float64(b[i])
		}
		va, ok := vectorOf(a)
		require.True(t, ok)
		vb, ok := vectorOf(b)
		require.True(t, ok)
		require.InDelta(t, ab/math.Sqrt(aa*bb), va.cosine(vb), 0.005)
		require.InDelta(t, 1, va.cosine(va), 1e-12)
	}
}

func TestVectorsOfOtherLengthsAreNotSimilar(t *testing.T) {
	a, _ := vectorOf([]float32{1, 2})
	b, _ := vectorOf([]float32{1, 2, 0})
	require.InDelta(t, -1, a.cosine(b), 0)
	for _, bad := range [][]float32{nil, {0}, {float32(math.NaN()), 1}, {1, float32(math.Inf(1))}} {
		_, ok := vectorOf(bad)
		require.False(t, ok)
	}
}

// A bucket is full at 1,000 vectors, of which these have the usual length.
func BenchmarkNearest(b *testing.B) {
	r := rand.New(rand.NewPCG(20, 9))
	one := func() vector {
		v := make([]float32, 1536)
		for i := range v {
			v[i] = float32(r.NormFloat64())
		}
		got, _ := vectorOf(v)
		return got
	}
	all := make([]likeness, maxBucket)
	for i := range all {
		all[i] = likeness{vector: one()}
	}
	to := one()
	for b.Loop() {
		nearest(all, to, 0.9)
	}
}
