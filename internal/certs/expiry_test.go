package certs_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/certs"
)

func TestWhenCertificatesExpire(t *testing.T) {
	dir, now := t.TempDir(), time.Unix(1_700_000_000, 0)
	pair, err := certs.Ensure(dir, nil, now)
	require.NoError(t, err)
	authority, err := os.ReadFile(filepath.Join(dir, certs.FileCA))
	require.NoError(t, err)
	server := filepath.Join(dir, certs.FileServer)

	files := certs.NewExpiry("file", certs.Files(map[string]string{"server": server, "none": "",
		"missing": filepath.Join(dir, "missing"), "key": filepath.Join(dir, certs.FileServerKey)}))
	require.EqualValues(t, now.Add(365*24*time.Hour).Unix(), testutil.ToFloat64(files),
		"and nothing of what is no certificate")
	chain := certs.NewExpiry("config", func() map[string][]byte {
		return map[string][]byte{"default": append(authority, pair.Certificate...)}
	})
	require.Equal(t, testutil.ToFloat64(files), testutil.ToFloat64(chain), "what expires first counts")
	r := prometheus.NewRegistry()
	require.NoError(t, r.Register(files))
	require.NoError(t, r.Register(chain))

	require.NoError(t, os.WriteFile(server, authority, 0o600))
	require.Greater(t, testutil.ToFloat64(files), testutil.ToFloat64(chain), "it is read again")
}
