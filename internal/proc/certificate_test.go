package proc

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/modelgate/modelgate/internal/certs"
	"github.com/modelgate/modelgate/internal/parts"
)

func TestCertificateOfTheAdminAddressIsReadAgain(t *testing.T) {
	dir := t.TempDir()
	issue := func() {
		_ = os.Remove(filepath.Join(dir, certs.FileServer))
		_, err := certs.Ensure(dir, nil, time.Now())
		require.NoError(t, err)
	}
	certificate, key := filepath.Join(dir, certs.FileServer), filepath.Join(dir, certs.FileServerKey)
	_, err := FollowCertificate(zap.NewNop(), certificate, key)
	require.Error(t, err, "what is missing is found at the start")
	issue()
	shown, err := FollowCertificate(zap.NewNop(), certificate, key)
	require.NoError(t, err)
	serial := func() string { return shown.Now().Leaf.SerialNumber.String() }
	first := serial()
	require.Equal(t, first, serial())
	require.NoError(t, os.WriteFile(certificate, []byte("half written"), 0o600))
	require.Equal(t, first, serial(), "while it is being replaced the last one is shown")
	issue()
	require.NotEqual(t, first, serial())
}

func TestHeadersOfTheAdminAddressAreBounded(t *testing.T) {
	p := parts.New(zap.NewNop())
	l, err := Listen("127.0.0.1:0")
	require.NoError(t, err)
	ServeHTTP(p, l, nil, http.NotFoundHandler(), zap.NewNop())
	t.Cleanup(func() { require.NoError(t, p.Stop(t.Context())) })
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
