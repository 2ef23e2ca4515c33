package main

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/modelgate/modelgate/internal/certs"
	"github.com/modelgate/modelgate/internal/etcdtest"
)

func TestCertificateOfTheAdminAddressIsReadAgain(t *testing.T) {
	dir := t.TempDir()
	issue := func() {
		_ = os.Remove(filepath.Join(dir, certs.FileServer))
		_, err := certs.Ensure(dir, nil, time.Now())
		require.NoError(t, err)
	}
	certificate, key := filepath.Join(dir, certs.FileServer), filepath.Join(dir, certs.FileServerKey)
	_, err := followCertificate(zap.NewNop(), certificate, key)
	require.Error(t, err, "what is missing is found at the start")
	issue()
	shown, err := followCertificate(zap.NewNop(), certificate, key)
	require.NoError(t, err)
	serial := func() string { return shown.now().Leaf.SerialNumber.String() }
	first := serial()
	require.Equal(t, first, serial())
	require.NoError(t, os.WriteFile(certificate, []byte("half written"), 0o600))
	require.Equal(t, first, serial(), "while it is being replaced the last one is shown")
	issue()
	require.NotEqual(t, first, serial())
}

func TestTheAdminAddressNeedsTLSWhereOthersReachIt(t *testing.T) {
	etcd := etcdtest.New(t)
	dir := t.TempDir()
	run := func(exit int, args ...string) string {
		var stderr bytes.Buffer
		base := []string{"controlplane", "--etcd-endpoints", etcd.Endpoint(), "--listen", "unix://" +
			filepath.Join(t.TempDir(), "x"), "--ledger", "sqlite://" + filepath.Join(t.TempDir(), "l.db"),
			"--pepper", filepath.Join(dir, "pepper"), "--admin-token", filepath.Join(dir, "token")}
		require.Equal(t, exit, execute(t.Context(), append(base, args...), io.Discard, &stderr))
		return stderr.String()
	}
	require.Contains(t, run(exitUsage, "--admin", "0.0.0.0:0"), "--admin-cert")
	require.Contains(t, run(exitUsage, "--admin", "127.0.0.1:0", "--admin-cert", "x"),
		"--admin-cert and --admin-key need each other")
	require.Contains(t, run(exitFailed, "--admin", "127.0.0.1:0", "--admin-cert", "x", "--admin-key", "y"),
		"reading a certificate")
}

func TestTheURLOfTheAdminAddress(t *testing.T) {
	require.Equal(t, "https://localhost:8081", urlOf(&net.TCPAddr{IP: net.IPv6unspecified, Port: 8081}, true))
	require.Equal(t, "http://127.0.0.1:80", urlOf(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80}, false))
}

func TestHeadersOfTheAdminAddressAreBounded(t *testing.T) {
	p := newParts(zap.NewNop())
	l, err := listen("127.0.0.1:0")
	require.NoError(t, err)
	serveHTTP(p, l, nil, http.NotFoundHandler(), zap.NewNop())
	t.Cleanup(func() { require.NoError(t, p.stop(t.Context())) })
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+l.Addr().String(), nil)
	require.NoError(t, err)
	r.Header.Set("X-Large", string(bytes.Repeat([]byte("x"), 64<<10)))
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(r)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, http.StatusRequestHeaderFieldsTooLarge, answer.StatusCode)
}

func TestBodiesOfTheAdminAddressHaveATime(t *testing.T) {
	require.Positive(t, newHTTPServer(nil, http.NotFoundHandler(), zap.NewNop()).ReadTimeout,
		"/metrics reads what is left of a body, and sets no deadline")
}
