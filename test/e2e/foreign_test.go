package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/testenv"
	"github.com/modelgate/modelgate/test/harness"
)

// TestAnEnvoyThatOthersRun has an Envoy with a listener of its own take routes, clusters, filters and certificates
// from the control plane, and ask two processes of the ext_proc service over a network with mutual TLS.
func TestAnEnvoyThatOthersRun(t *testing.T) {
	s := newSplit(t)
	ca := newAuthority(t, t.TempDir())
	plane := newMount(t, s.Dir, "controlplane", ca.secret("controlplane", ca))
	mesh := newMount(t, s.Dir, "mesh", ca.secret("mesh", ca))
	service := newMount(t, s.Dir, "extproc", ca.secret("extproc", ca))
	s.listen[0] = fmt.Sprintf("127.0.0.1:%d", harness.FreePort(t))
	s.serve = plane.flags("--xds-")
	at := fmt.Sprintf("127.0.0.1:%d", harness.FreePort(t))
	both := at + fmt.Sprintf(",127.0.0.1:%d", harness.FreePort(t))
	other := both[len(at)+1:]
	toPlane := func(m *mount) []string {
		return append(m.flags("--xds-"), "--xds-address", s.listen[0], "--xds-name", "controlplane")
	}
	s.planes[0] = s.startPlane(0)
	s.planes[1] = s.planes[0]
	s.configure()
	start := func(listen, spool string) *harness.Process {
		args := append([]string{"extproc", "--listen", listen, "--tls-name", "mesh", "--admin", "127.0.0.1:0", "--spool",
			filepath.Join(s.Dir, spool), "--peers", both, "--peer-address", listen, "--tls-peer", "extproc"},
			toPlane(service)...)
		p := harness.Launch(t, nil, append(args, service.flags("--tls-")...)...)
		p.WaitFor(t, "configuration received")
		return p
	}
	startExtProc := func() { s.extproc = start(at, "spool") }
	startExtProc()
	start(other, "other-spool")

	file := filepath.Join(s.Dir, "gateway.yaml")
	gateway := harness.Documents(t, &configv1.Gateway{Name: "default", Address: "127.0.0.1", Port: uint32(s.port)})
	require.NoError(t, os.WriteFile(file, []byte(gateway), 0o600))
	args := append([]string{"envoy", "snippet", "--gateway", file, "--extproc", both, "--extproc-name", "extproc",
		"--output", filepath.Join(s.Dir, "foreign")}, toPlane(mesh)...)
	config := strings.TrimSpace(harness.Must(t, "", append(args, mesh.flags("--extproc-")...)...))
	cmd := exec.Command(testenv.Envoy(t), "-c", config, "--disable-hot-restart", "--concurrency", "1", "--log-level",
		"warning")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	s.envoy = harness.Start(t, cmd)
	s.awaitService()

	t.Run("a stream, and a retry with the body of another provider", func(t *testing.T) {
		down := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter,
			_ *http.Request) {
			w.WriteHeader(http.StatusServiceUnavailable)
		}))
		t.Cleanup(down.Close)
		harness.Must(t, harness.Documents(t,
			&configv1.Provider{Name: "down", Vendor: "compatible", Endpoint: down.URL + "/v1"},
			&configv1.Model{Name: "both", Targets: []*configv1.Target{{Provider: "down", Model: "x"},
				{Provider: "echo", Model: "echo", Priority: 1}}},
		), append([]string{"config", "apply", "-f", "-"}, s.at(0)...)...)
		harness.Eventually(t, "the new model", func() error { return s.has("both") })
		for range 6 { // the second attempt reaches the other process at least once
			response := s.openModel(t, "both", "hello there")
			body, err := io.ReadAll(response.Body)
			require.NoError(t, err)
			require.NoError(t, response.Body.Close())
			require.Equal(t, "2", response.Header.Get("X-Modelgate-Attempts"))
			require.True(t, strings.HasSuffix(string(body), "data: [DONE]\n\n"), string(body))
		}
	})
	t.Run("nobody else may ask the ext_proc service", func(t *testing.T) {
		strangers := newAuthority(t, t.TempDir())
		for name, m := range map[string]*mount{
			"of another name": newMount(t, s.Dir, "other", ca.secret("jobsvc", ca)), "of another authority": newMount(t, s.Dir,
				"stranger", strangers.secret("mesh", ca)),
		} {
			require.Error(t, knock(t, at, m), name)
		}
		require.NoError(t, knock(t, at, mesh), "the test asks as Envoy does")
	})
	t.Run("its certificates are renewed", func(t *testing.T) {
		next := newAuthority(t, t.TempDir())
		mesh.replace(next.secret("mesh", ca, next))
		service.replace(next.secret("extproc", ca, next))
		plane.replace(ca.secret("controlplane", ca, next))
		s.extproc.Kill()
		startExtProc()
		s.awaitService()
		mesh.replace(next.secret("mesh", ca, next))
		service.replace(next.secret("extproc", ca, next))
		require.NoError(t, knock(t, at, mesh))
		harness.Eventually(t, "Envoy knows which process was killed", s.chat)
	})
}

// knock connects with the certificate of a mount, and reports whether it is let in.
func knock(t *testing.T, at string, m *mount) error {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(m.file("tls.crt"), m.file("tls.key"))
	require.NoError(t, err)
	pool := x509.NewCertPool()
	trusted, err := os.ReadFile(m.file("ca.crt"))
	require.NoError(t, err)
	require.True(t, pool.AppendCertsFromPEM(trusted))
	c, err := tls.Dial("tcp", at, &tls.Config{RootCAs: pool, ServerName: "extproc", Certificates: []tls.Certificate{pair},
		NextProtos: []string{"h2"}})
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	// In TLS 1.3 the client has finished before the server refuses it. What is let in is sent HTTP/2's settings.
	require.NoError(t, c.SetDeadline(time.Now().Add(10*time.Second)))
	_, err = c.Write([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"))
	if err == nil {
		_, err = c.Read(make([]byte, 9))
	}
	return err
}
