package serve

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFlagsOfEnvoyGateway(t *testing.T) {
	none, err := envoyGatewayFlags{}.static()
	require.NoError(t, err)
	require.Nil(t, none)
	plain, err := envoyGatewayFlags{Extproc: "127.0.0.1:9001"}.static()
	require.NoError(t, err)
	require.Len(t, plain.Clusters, 2)
	require.Empty(t, plain.Secrets)
	for name, f := range map[string]envoyGatewayFlags{
		"need --envoy-gateway-extproc":    {TLS: extprocClientFlags{Name: "extproc"}},
		"--envoy-gateway-extproc-ca":      {Extproc: "extproc:9001", TLS: extprocClientFlags{Cert: "tls.crt"}},
		"must be host:port or unix:///pa": {Extproc: "extproc"},
	} {
		_, err := f.static()
		require.ErrorContains(t, err, name)
	}
}
