package certs_test

import (
	"crypto/tls"
	"crypto/x509"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/certs"
)

func TestAClientThatTrustsTheAuthorityConnects(t *testing.T) {
	dir := t.TempDir()
	pair, err := certs.Ensure(dir, []string{"gateway.test", "192.0.2.7"}, time.Now())
	require.NoError(t, err)
	leaf, err := tls.X509KeyPair(pair.Certificate, pair.Key)
	require.NoError(t, err)

	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.TLS = &tls.Config{Certificates: []tls.Certificate{leaf}}
	server.StartTLS()
	defer server.Close()
	authority, err := os.ReadFile(filepath.Join(dir, certs.FileCA))
	require.NoError(t, err)
	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM(authority))

	for _, name := range []string{"localhost", "127.0.0.1", "::1", "gateway.test", "192.0.2.7"} {
		connection, err := tls.Dial("tcp", server.Listener.Addr().String(), &tls.Config{RootCAs: pool, ServerName: name})
		require.NoError(t, err, name)
		require.NoError(t, connection.Close())
	}
	_, err = tls.Dial("tcp", server.Listener.Addr().String(), &tls.Config{RootCAs: pool, ServerName: "other.test"})
	require.Error(t, err)
}

func TestWhatIsIssuedAgain(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	const day = 24 * time.Hour
	cases := map[string]struct {
		later         time.Duration
		hosts         []string
		change        func(t *testing.T, dir string)
		sameAuthority bool
		sameLeaf      bool
	}{
		"nothing, soon after":                 {later: day, sameAuthority: true, sameLeaf: true},
		"nothing, for a name that is covered": {hosts: []string{"localhost"}, sameAuthority: true, sameLeaf: true},
		"the certificate, for a new host":     {hosts: []string{"new.test"}, sameAuthority: true},
		"the certificate, before its end":     {later: 336 * day, sameAuthority: true},
		"the authority, before its end":       {later: 3640 * day},
		"the certificate, when its key is lost": {
			change: func(t *testing.T, dir string) {
				require.NoError(t,
					os.Remove(filepath.Join(dir, certs.FileServerKey)))
			},
			sameAuthority: true,
		},
		"both, when the authority is removed": {
			change: func(t *testing.T, dir string) { require.NoError(t, os.Remove(filepath.Join(dir, certs.FileCA))) },
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			before, err := certs.Ensure(dir, nil, now)
			require.NoError(t, err)
			authority := read(t, dir, certs.FileCA)
			if c.change != nil {
				c.change(t, dir)
			}
			after, err := certs.Ensure(dir, c.hosts, now.Add(c.later))
			require.NoError(t, err)
			require.Equal(t, c.sameAuthority, authority == read(t, dir, certs.FileCA))
			require.Equal(t, c.sameLeaf, string(before.Certificate) == string(after.Certificate))
			require.Equal(t, string(after.Certificate), read(t, dir, certs.FileServer))
		})
	}
}

func TestPrivateKeysArePrivate(t *testing.T) {
	dir := t.TempDir()
	_, err := certs.Ensure(dir, nil, time.Now())
	require.NoError(t, err)
	modes := map[string]fs.FileMode{
		certs.FileCA: 0o644, certs.FileCAKey: 0o600, certs.FileServer: 0o644, certs.FileServerKey: 0o600,
	}
	for name, mode := range modes {
		info, err := os.Stat(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Equal(t, mode, info.Mode().Perm(), name)
	}
}

func TestABrokenAuthorityIsAnErrorThatNamesItsFile(t *testing.T) {
	cases := map[string]func(t *testing.T, dir string){
		"no key": func(t *testing.T,
			dir string) {
			require.NoError(t, os.Remove(filepath.Join(dir, certs.FileCAKey)))
		},
		"not PEM":          func(t *testing.T, dir string) { write(t, dir, certs.FileCA, "garbage") },
		"key of no format": func(t *testing.T, dir string) { write(t, dir, certs.FileCAKey, "TOPSECRET") },
		"another key": func(t *testing.T, dir string) {
			write(t, dir, certs.FileCAKey,
				read(t, dir, certs.FileServerKey))
		},
	}
	for name, breakIt := range cases {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			_, err := certs.Ensure(dir, nil, time.Now())
			require.NoError(t, err)
			breakIt(t, dir)
			_, err = certs.Ensure(dir, nil, time.Now())
			require.ErrorContains(t, err, dir)
			require.False(t, strings.Contains(err.Error(), "TOPSECRET"))
		})
	}
}

func read(t *testing.T, dir, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	require.NoError(t, err)
	return string(b)
}

func write(t *testing.T, dir, name, content string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
}
