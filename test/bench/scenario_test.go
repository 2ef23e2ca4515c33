package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A proxy that may have 20,000 open files serves 9,984 streams of 10,000, and none of the others: that says nothing of
// the proxy.
func TestWhatALimitOfFilesForbidsIsNotMeasured(t *testing.T) {
	all := scenarios(false)
	some, others := affordable(all, 20_000)
	require.Len(t, others, 1)
	require.Equal(t, crowd, others[0].name)
	require.Len(t, some, len(all)-1)
	_, others = affordable(all, 65_536)
	require.Empty(t, others)
}
