package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A proxy that may have 12,000 open files cannot serve 10,000 streams of which four share a connection: that says
// nothing of the proxy.
func TestWhatALimitOfFilesForbidsIsNotMeasured(t *testing.T) {
	all := scenarios(false)
	some, others := affordable(all, 12_600)
	require.Len(t, others, 1)
	require.Equal(t, crowd, others[0].name)
	require.Len(t, some, len(all)-1)
	_, others = affordable(all, 20_000)
	require.Empty(t, others)
}
