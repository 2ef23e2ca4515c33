package serve

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/modelgate/modelgate/internal/proc/catest"
)

func TestTLSOfExtprocIsOfPorts(t *testing.T) {
	ca, dir := catest.New(t), t.TempDir()
	ca.Issue(t, dir, "extproc", x509.ExtKeyUsageServerAuth, ca)
	files := extprocServerFlags{Cert: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir, "tls.key"),
		CA: filepath.Join(dir, "ca.crt")}
	_, err := files.config("unix:///run/x.sock", zap.NewNop())
	require.ErrorContains(t, err, "no TLS")
	_, err = extprocServerFlags{Name: "envoy"}.config("127.0.0.1:1", zap.NewNop())
	require.ErrorContains(t, err, "--tls-name")
	_, err = extprocServerFlags{Cert: "x"}.config("127.0.0.1:1", zap.NewNop())
	require.ErrorContains(t, err, "all three or none")
	secure, err := files.config("127.0.0.1:1", zap.NewNop())
	require.NoError(t, err)
	require.NotNil(t, secure)
	secure, err = extprocServerFlags{}.config("127.0.0.1:1", zap.NewNop())
	require.NoError(t, err)
	require.Nil(t, secure)
}

// The ledger is at the same address as xDS and asks for no role: whoever can have none must not get there.
func TestClientsOfXDSHaveTheNameOfARole(t *testing.T) {
	ca, at, of := catest.New(t), t.TempDir(), t.TempDir()
	ca.Issue(t, at, "server", x509.ExtKeyUsageServerAuth, ca)
	for _, tc := range []struct{ dataplane, jobs, client, error string }{
		{"dataplane", "jobsvc", "dataplane", ""},
		{"dataplane", "jobsvc", "jobsvc", ""},
		{"dataplane", "jobsvc", "other", "not for dataplane, jobsvc"},
		{"dataplane", "", "other", ""}, // it may be the job service
	} {
		var c ControlplaneCmd
		c.TLS.Cert, c.TLS.Key, c.TLS.CA = filepath.Join(at, "tls.crt"), filepath.Join(at, "tls.key"), filepath.Join(at,
			"ca.crt")
		c.TLS.DataplaneName, c.TLS.JobsName = tc.dataplane, tc.jobs
		secure, err := c.credentials(zap.NewNop())
		require.NoError(t, err)
		ca.Issue(t, of, tc.client, x509.ExtKeyUsageClientAuth, ca)
		shown, err := readMutualTLS(zap.NewNop(), "--x-", filepath.Join(of, "tls.crt"), filepath.Join(of, "tls.key"),
			filepath.Join(of, "ca.crt"))
		require.NoError(t, err)
		client := shown.Client("server")
		client.NextProtos = []string{"h2"}
		near, far := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, tls.Client(near, client)) }() // it ends with the pipe
		_, _, err = secure.ServerHandshake(far)
		require.NoError(t, errors.Join(far.Close(), near.Close()))
		if tc.error == "" {
			require.NoError(t, err, tc.client)
		} else {
			require.ErrorContains(t, err, tc.error)
		}
	}
}
