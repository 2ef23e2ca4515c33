package peers

import (
	"net/netip"
	"testing"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/service/accesslog/v3"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"google.golang.org/grpc/credentials/insecure"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t *testing.T, names ...string) *Peers {
	t.Helper()
	p := Start(Options{Self: netip.MustParseAddrPort("10.0.0.1:9001"), Names: names, Logger: zap.NewNop(),
		Credentials: insecure.NewCredentials(), Registerer: prometheus.NewRegistry()})
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

func TestAnIDLeadsToItsProcess(t *testing.T) {
	p := start(t)
	for _, at := range []string{"10.0.0.2:9001", "[fd00::2]:9001", "10.0.0.1:9002"} {
		address := netip.MustParseAddrPort(at)
		prefix := NewPrefix(address)
		require.NotEqual(t, prefix, NewPrefix(address), "two processes at one address, one after the other")
		owner, elsewhere := p.Owner(prefix + "1z")
		require.True(t, elsewhere, at)
		require.Equal(t, address, owner)
	}
	for name, id := range map[string]string{
		"of this process": NewPrefix(p.Self()) + "1", "of one without peers": NewPrefix(netip.AddrPort{}) + "1", "none": "",
		"no hex": "zz-1", "cut short": NewPrefix(p.Self())[:20], "of no address": "000102030405" + "0a00-1",
	} {
		_, elsewhere := p.Owner(id)
		require.False(t, elsewhere, name)
	}
	require.Len(t, NewPrefix((*Peers)(nil).Self()), 2*randomBytes+1, "a process without peers has short ids")
}

// A message of the access log to a process that does not answer waits in its queue, and the others are dropped.
func TestADeadProcessHoldsNothingUp(t *testing.T) {
	p := start(t)
	dead := netip.MustParseAddrPort("127.0.0.1:1")
	for range 2 * waitingLogs {
		p.Tell(dead, &accesslogv3.StreamAccessLogsMessage{})
	}
	dropped := testutil.ToFloat64(p.failures.WithLabelValues("log"))
	require.InDelta(t, waitingLogs, dropped, 1, "all but those that wait and the one that is being sent")
	_, err := p.Ask(t.Context(), netip.MustParseAddrPort("127.0.0.1:1"), nil)
	require.ErrorContains(t, err, "127.0.0.1:1")
	require.InDelta(t, 1, testutil.ToFloat64(p.failures.WithLabelValues("attempt")), 0)
}

func TestEveryProcessIsNamed(t *testing.T) {
	p := start(t, "localhost:9001", "127.0.0.2:9002", "nowhere.invalid:9003", "no port")
	named := p.lookUp()
	require.Contains(t, named, netip.MustParseAddrPort("127.0.0.1:9001"))
	require.Contains(t, named, netip.MustParseAddrPort("127.0.0.2:9002"))
	for at := range named {
		require.NotEqual(t, uint16(9003), at.Port())
	}
}
