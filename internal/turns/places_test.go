package turns

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNobodyTakesAllPlaces(t *testing.T) {
	p := NewPlaces(90)
	takes := func(tenant, key string) (n int, releases []func()) {
		for {
			release, ok, own := p.Take(tenant, key)
			if !ok {
				require.Equal(t, n > 0, own)
				return n, releases
			}
			n, releases = n+1, append(releases, release)
		}
	}
	n, first := takes("a", "a1")
	require.Equal(t, 30, n)
	n, second := takes("a", "a2")
	require.Equal(t, 10, n, "another key of the tenant has room too")
	for i := range 3 {
		n, more := takes("b", fmt.Sprint("b", i))
		require.Positive(t, n, "and so has another tenant")
		second = append(second, more...)
	}
	for _, release := range append(first, second...) {
		release()
	}
	require.Zero(t, p.taken)
	require.Empty(t, p.keys)
	require.Empty(t, p.tenants)
	n, _ = takes("c", "c")
	require.Equal(t, 30, n)

	full := NewPlaces(1)
	_, ok, _ := full.Take("a", "a1")
	require.True(t, ok)
	_, ok, own := full.Take("b", "b1")
	require.False(t, ok)
	require.False(t, own, "others have taken the places")
	release, ok, _ := (*Places)(nil).Take("a", "a")
	require.True(t, ok)
	release()
}
