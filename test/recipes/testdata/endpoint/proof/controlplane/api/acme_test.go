package api_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAcmeIsAnEndpoint(t *testing.T) {
	d, err := newBench(t).client.Deliveries(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"anvil"}, d.Cargo)
}
