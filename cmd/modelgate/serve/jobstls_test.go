package serve

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

func TestPortsOfTheJobServiceNeedMutualTLS(t *testing.T) {
	const socket, port = "unix:///run/x.sock", "127.0.0.1:1"
	for name, c := range map[string]struct {
		flags           jobsTLSFlags
		listen, gateway string
		want            string // of the error; empty: none
	}{
		"two sockets":       {listen: socket, gateway: socket},
		"a port for Envoy":  {listen: port, gateway: socket, want: "--tls-cert"},
		"a port of Envoy's": {listen: socket, gateway: port, want: "--tls-cert"},
		"a key is missing": {flags: jobsTLSFlags{Cert: "a", CA: "b"}, listen: port, gateway: port,
			want: "all three or none"},
		"files that are absent": {flags: jobsTLSFlags{Cert: "/no/a", Key: "/no/b", CA: "/no/c"}, listen: port, gateway: port,
			want: "reading a certificate"},
	} {
		client, server, err := c.flags.configs(c.listen, c.gateway, zap.NewNop())
		if c.want == "" {
			require.NoError(t, err, name)
			require.Nil(t, client, name)
			require.Nil(t, server, name)
			continue
		}
		require.ErrorContains(t, err, c.want, name)
	}
}
