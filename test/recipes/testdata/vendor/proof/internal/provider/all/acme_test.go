package all

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAcmeIsAVendor(t *testing.T) {
	require.Equal(t, "https://api.acme.example/v1", Providers()["acme"].DefaultEndpoint)
}
