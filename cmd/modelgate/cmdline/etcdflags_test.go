package cmdline

import (
	"crypto/tls"
	"crypto/x509"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/modelgate/modelgate/internal/proc/catest"
)

// Members of etcd are named by their endpoints, which may be addresses: TLS sends no name for these.
func TestMembersOfEtcdAreVerifiedByTheirEndpoints(t *testing.T) {
	ca, at := catest.New(t), t.TempDir()
	ca.Issue(t, at, "etcd-0", x509.ExtKeyUsageServerAuth, ca)
	certificate, err := tls.LoadX509KeyPair(filepath.Join(at, "tls.crt"), filepath.Join(at, "tls.key"))
	require.NoError(t, err)
	server, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{certificate}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Close()) })
	go func() { // it ends with the listener
		for c, err := server.Accept(); err == nil; c, err = server.Accept() {
			_ = c.(*tls.Conn).Handshake() // the client says what is wrong
			_ = c.Close()
		}
	}()
	for endpoint, want := range map[string]string{
		"https://etcd-0:2379": "", "https://127.0.0.1:2379": "", "127.0.0.1:2379": "",
		"https://etcd-1:2379": "not for etcd-1", "https://10.0.0.1:2379": "not for 10.0.0.1",
	} {
		config, err := EtcdFlags{Endpoints: []string{endpoint}, CA: filepath.Join(at, "ca.crt")}.tls(zap.NewNop())
		require.NoError(t, err)
		config.ServerName = "etcd"
		c, err := tls.Dial("tcp", server.Addr().String(), config)
		if want == "" {
			require.NoError(t, err, endpoint)
			_ = c.Close()
		} else {
			require.ErrorContains(t, err, want, endpoint)
		}
	}
}
