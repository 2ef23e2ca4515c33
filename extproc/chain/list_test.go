package chain

import (
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// A folder under extproc/filters is a filter, and has its place.
func TestEveryFilterHasItsPlace(t *testing.T) {
	folders, err := os.ReadDir("../filters")
	require.NoError(t, err)
	for _, f := range folders {
		require.True(t, slices.ContainsFunc(list[:], func(p place) bool { return p.name == f.Name() }), f.Name())
	}
	for i, p := range list {
		require.NotEmpty(t, p.reason, p.name)
		require.True(t, i == 0 || list[i-1].stage <= p.stage, p.name)
	}
}
