package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

// A testCA issues certificates into a folder, as tls.crt, tls.key and ca.crt.
type testCA struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newTestCA(t *testing.T) *testCA {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IsCA: true,
		BasicConstraintsValid: true,
		NotBefore:             time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	certificate, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return &testCA{certificate, key}
}

// issue writes a certificate for one name, good for one use, and trusts the authorities.
func (a *testCA) issue(t *testing.T, dir, name string, use x509.ExtKeyUsage, trusted ...*testCA) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(2), DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{use}}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	require.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	var bundle []byte
	for _, t := range trusted {
		bundle = append(bundle, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: t.certificate.Raw})...)
	}
	for name, text := range map[string][]byte{
		"tls.crt": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		"tls.key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
		"ca.crt":  bundle,
	} {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path+".new", text, 0o600))
		require.NoError(t, os.Rename(path+".new", path))
	}
}

func readTestTLS(t *testing.T, dir string) *mutualTLS {
	t.Helper()
	m, err := readMutualTLS(zap.NewNop(), "--x-", filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"),
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
	old, next := newTestCA(t), newTestCA(t)
	at, of := t.TempDir(), t.TempDir()
	old.issue(t, at, "server", x509.ExtKeyUsageServerAuth, old)
	old.issue(t, of, "client", x509.ExtKeyUsageClientAuth, old)
	server, client := readTestTLS(t, at).server("client"), readTestTLS(t, of).client("server")
	for _, step := range []struct {
		name          string
		issue         func()
		client, error string // what is wrong with the server, and with the client; empty: nothing
	}{
		{"as it was", func() {}, "", ""},
		{"a client of an unknown authority", func() { next.issue(t, of, "client", x509.ExtKeyUsageClientAuth, old) }, "",
			"unknown authority"},
		{"which becomes known", func() { old.issue(t, at, "server", x509.ExtKeyUsageServerAuth, old, next) }, "", ""},
		{"a server of the new one", func() { next.issue(t, at, "server", x509.ExtKeyUsageServerAuth, old, next) },
			"unknown authority", "bad certificate"},
		{"which becomes known too", func() { next.issue(t, of, "client", x509.ExtKeyUsageClientAuth, next) }, "", ""},
		{"a client of the old one, which has gone", func() {
			next.issue(t, at, "server", x509.ExtKeyUsageServerAuth, next)
			old.issue(t, of, "client", x509.ExtKeyUsageClientAuth, next)
		}, "", "unknown authority"},
		{"a client of another name", func() { next.issue(t, of, "other", x509.ExtKeyUsageClientAuth, next) }, "",
			"not for client"},
		{"a server's certificate as a client's", func() { next.issue(t, of, "client", x509.ExtKeyUsageServerAuth, next) },
			"", "incompatible key usage"},
		{"files that are half written", func() {
			next.issue(t, of, "client", x509.ExtKeyUsageClientAuth, next)
			_, _ = handshake(t, client, server) // read while they were good
			require.NoError(t, os.WriteFile(filepath.Join(of, "tls.crt"), []byte("-----BEG"), 0o600))
			require.NoError(t, os.WriteFile(filepath.Join(at, "ca.crt"), nil, 0o600))
		}, "", ""},
		{"a server of another name", func() {
			next.issue(t, of, "client", x509.ExtKeyUsageClientAuth, next)
			next.issue(t, at, "other", x509.ExtKeyUsageServerAuth, next)
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

// Members of etcd are named by their endpoints, which may be addresses: of those TLS tells no name.
func TestMembersOfEtcdAreVerifiedByTheirEndpoints(t *testing.T) {
	ca, at := newTestCA(t), t.TempDir()
	ca.issue(t, at, "etcd-0", x509.ExtKeyUsageServerAuth, ca)
	server := readTestTLS(t, at).server()
	server.ClientAuth, server.VerifyConnection = tls.NoClientCert, nil
	for endpoint, want := range map[string]string{
		"https://etcd-0:2379": "", "https://127.0.0.1:2379": "", "127.0.0.1:2379": "",
		"https://etcd-1:2379": "not for etcd-1", "https://10.0.0.1:2379": "not for 10.0.0.1",
	} {
		config, err := etcdFlags{Endpoints: []string{endpoint}, CA: filepath.Join(at, "ca.crt")}.tls(zap.NewNop())
		require.NoError(t, err)
		clientErr, _ := handshake(t, config, server)
		if want == "" {
			require.NoError(t, clientErr, endpoint)
		} else {
			require.ErrorContains(t, clientErr, want, endpoint)
		}
	}
}

func TestTLSOfExtprocIsOfPorts(t *testing.T) {
	ca, dir := newTestCA(t), t.TempDir()
	ca.issue(t, dir, "extproc", x509.ExtKeyUsageServerAuth, ca)
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
	ca, at, of := newTestCA(t), t.TempDir(), t.TempDir()
	ca.issue(t, at, "server", x509.ExtKeyUsageServerAuth, ca)
	for _, tc := range []struct{ dataplane, jobs, client, error string }{
		{"dataplane", "jobsvc", "dataplane", ""},
		{"dataplane", "jobsvc", "jobsvc", ""},
		{"dataplane", "jobsvc", "other", "not for dataplane, jobsvc"},
		{"dataplane", "", "other", ""}, // it may be the job service
	} {
		var c controlplaneCmd
		c.TLS.Cert, c.TLS.Key, c.TLS.CA = filepath.Join(at, "tls.crt"), filepath.Join(at, "tls.key"), filepath.Join(at,
			"ca.crt")
		c.TLS.DataplaneName, c.TLS.JobsName = tc.dataplane, tc.jobs
		secure, err := c.credentials(zap.NewNop())
		require.NoError(t, err)
		ca.issue(t, of, tc.client, x509.ExtKeyUsageClientAuth, ca)
		client := readTestTLS(t, of).client("server")
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
