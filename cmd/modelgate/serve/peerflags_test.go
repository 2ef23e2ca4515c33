package serve

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

func TestProcessesOfOneServiceAreNamedWholly(t *testing.T) {
	const listen = "0.0.0.0:9001"
	o, err := peerFlags{}.options(listen, extprocServerFlags{}, zap.NewNop())
	require.NoError(t, err)
	require.Nil(t, o)
	for given, self := range map[string]string{
		"10.0.0.1": "10.0.0.1:9001", "fd00::1": "[fd00::1]:9001", "10.0.0.1:7": "10.0.0.1:7",
	} {
		o, err := peerFlags{"extproc:9001,[fd00::2]:9002", given}.options(listen, extprocServerFlags{}, zap.NewNop())
		require.NoError(t, err, given)
		require.Equal(t, netip.MustParseAddrPort(self), o.Self)
		require.Equal(t, []string{"extproc:9001", "[fd00::2]:9002"}, o.Names)
	}
	for name, f := range map[string]peerFlags{
		"no address": {"extproc:9001", ""}, "nobody else": {"", "10.0.0.1"}, "a name": {"extproc:9001", "extproc-0"},
		"no port": {"extproc", "10.0.0.1"}, "a socket": {"unix:///run/extproc.sock", "10.0.0.1"},
	} {
		_, err := f.options(listen, extprocServerFlags{}, zap.NewNop())
		require.ErrorContains(t, err, "--peer", name)
	}
	_, err = peerFlags{"extproc:9001", "10.0.0.1"}.options("unix:///run/extproc.sock", extprocServerFlags{}, zap.NewNop())
	require.ErrorContains(t, err, "--peer-address", "a socket has no port")
}
