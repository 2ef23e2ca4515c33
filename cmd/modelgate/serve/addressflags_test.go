package serve

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMutualTLSIsGivenWholeOrNotAtAll(t *testing.T) {
	for name, c := range map[string]struct {
		certificate, key, ca string
		given, wrong         bool
	}{
		"none": {}, "all": {"c", "k", "a", true, false}, "no certificate": {"", "k", "a", false, true},
		"no key": {"c", "", "a", false, true}, "no authorities": {"c", "k", "", false, true},
	} {
		t.Run(name, func(t *testing.T) {
			given, err := allOrNone("--xds-", c.certificate, c.key, c.ca)
			require.Equal(t, c.given, given)
			require.Equal(t, c.wrong, err != nil)
		})
	}
}

func TestGatewayAddress(t *testing.T) {
	for listen, want := range map[string]string{
		"127.0.0.1:0": "127.0.0.1:0",
		"localhost:0": "127.0.0.1:0",
		":0":          "0.0.0.0:0",
	} {
		at, err := gatewayAddress(listen)
		require.NoError(t, err, listen)
		require.Equal(t, want, at.String())
	}
	for _, listen := range []string{"", "127.0.0.1", "name.test:1", "127.0.0.1:65536"} {
		_, err := gatewayAddress(listen)
		require.ErrorContains(t, err, "--listen", listen)
	}

	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	_, err = gatewayAddress(taken.Addr().String())
	require.ErrorContains(t, err, "address already in use")
}
