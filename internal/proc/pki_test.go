package proc

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/modelgate/modelgate/internal/proc/catest"
)

func readTestTLS(t *testing.T, dir string) *MutualTLS {
	t.Helper()
	m, err := ReadMutualTLS(zap.NewNop(), filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"),
		filepath.Join(dir, "ca.crt"))
	require.NoError(t, err)
	return m
}

// handshake connects a client and a server, and returns what each says of the other.
func handshake(t *testing.T, client, server *tls.Config) (clientErr, serverErr error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	served := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err == nil {
			err = tls.Server(c, server).Handshake()
			_ = c.Close()
		}
		served <- err
	}()
	c, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	clientErr = tls.Client(c, client).Handshake()
	_ = c.Close()
	return clientErr, <-served
}

// Both configurations are made once and the files are replaced under them, as those of a process that runs on.
func TestMutualTLSFollowsItsFiles(t *testing.T) {
	old, next := catest.New(t), catest.New(t)
	at, of := t.TempDir(), t.TempDir()
	old.Issue(t, at, "server", x509.ExtKeyUsageServerAuth, old)
	old.Issue(t, of, "client", x509.ExtKeyUsageClientAuth, old)
	server, client := readTestTLS(t, at).Server("client"), readTestTLS(t, of).Client("server")
	for _, step := range []struct {
		name          string
		issue         func()
		client, error string // what is wrong with the server, and with the client; empty: nothing
	}{
		{"as it was", func() {}, "", ""},
		{"a client of an unknown authority", func() { next.Issue(t, of, "client", x509.ExtKeyUsageClientAuth, old) }, "",
			"unknown authority"},
		{"which becomes known", func() { old.Issue(t, at, "server", x509.ExtKeyUsageServerAuth, old, next) }, "", ""},
		{"a server of the new one", func() { next.Issue(t, at, "server", x509.ExtKeyUsageServerAuth, old, next) },
			"unknown authority", "bad certificate"},
		{"which becomes known too", func() { next.Issue(t, of, "client", x509.ExtKeyUsageClientAuth, next) }, "", ""},
		{"a client of the old one, which has gone", func() {
			next.Issue(t, at, "server", x509.ExtKeyUsageServerAuth, next)
			old.Issue(t, of, "client", x509.ExtKeyUsageClientAuth, next)
		}, "", "unknown authority"},
		{"a client of another name", func() { next.Issue(t, of, "other", x509.ExtKeyUsageClientAuth, next) }, "",
			"not for client"},
		{"a server's certificate as a client's", func() { next.Issue(t, of, "client", x509.ExtKeyUsageServerAuth, next) },
			"", "incompatible key usage"},
		{"files that are half written", func() {
			next.Issue(t, of, "client", x509.ExtKeyUsageClientAuth, next)
			_, _ = handshake(t, client, server) // read while they were good
			require.NoError(t, os.WriteFile(filepath.Join(of, "tls.crt"), []byte("-----BEG"), 0o600))
			require.NoError(t, os.WriteFile(filepath.Join(at, "ca.crt"), nil, 0o600))
		}, "", ""},
		{"a server of another name", func() {
			next.Issue(t, of, "client", x509.ExtKeyUsageClientAuth, next)
			next.Issue(t, at, "other", x509.ExtKeyUsageServerAuth, next)
		}, "not for server", "bad certificate"},
	} {
		t.Run(step.name, func(t *testing.T) {
			step.issue()
			clientErr, serverErr := handshake(t, client, server)
			for want, err := range map[string]error{step.client: clientErr, step.error: serverErr} {
				if want != "" {
					require.ErrorContains(t, err, want)
				}
			}
			if step.client == "" && step.error == "" {
				require.NoError(t, clientErr)
				require.NoError(t, serverErr)
			}
		})
	}
	_, serverErr := handshake(t, &tls.Config{InsecureSkipVerify: true}, server)
	require.ErrorContains(t, serverErr, "certificate", "a client that shows none")
}
