package e2e

import (
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

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/testenv"
	"github.com/modelgate/modelgate/test/harness"
)

// checkingEnvoy is the configuration of an Envoy that asks the gateway by the filters ext_authz and ratelimit alone.
// It needs its port, the socket of the ext_proc service, and the port of its own backend.
const checkingEnvoy = `
node: {id: other, cluster: other}
static_resources:
  listeners:
  - address: {socket_address: {address: 127.0.0.1, port_value: %d}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: other
          route_config:
            virtual_hosts:
            - name: all
              domains: ["*"]
              routes:
              - match: {prefix: /}
                route:
                  cluster: backend
                  rate_limits:
                  - actions: [{request_headers: {header_name: x-modelgate-key, descriptor_key: key}}]
          http_filters:
          - name: envoy.filters.http.ext_authz
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.ext_authz.v3.ExtAuthz
              transport_api_version: V3
              grpc_service: {envoy_grpc: {cluster_name: modelgate}}
          - name: envoy.filters.http.ratelimit
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimit
              domain: requests
              failure_mode_deny: true
              rate_limit_service: {transport_api_version: V3, grpc_service: {envoy_grpc: {cluster_name: modelgate}}}
          - name: envoy.filters.http.router
            typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}
  clusters:
  - name: modelgate
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {http2_protocol_options: {}}
    load_assignment:
      cluster_name: modelgate
      endpoints: [{lb_endpoints: [{endpoint: {address: {pipe: {path: %s}}}}]}]
  - name: backend
    load_assignment:
      cluster_name: backend
      endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: %s}}}}]}]
`

// TestAnotherEnvoySharesKeysAndLimits has an Envoy with a backend of its own ask for keys and limits alone. What it
// admits counts together with what the gateway admits.
func TestAnotherEnvoySharesKeysAndLimits(t *testing.T) {
	s := startSplit(t)
	seen := make(chan http.Header, 1)
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen <- r.Header
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(backend.Close)
	port := harness.FreePort(t)
	_, backendPort, _ := strings.Cut(strings.TrimPrefix(backend.URL, "http://"), ":")
	file := filepath.Join(s.Dir, "other.yaml")
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, checkingEnvoy, port,
		strings.TrimPrefix(s.socket("extproc"), "unix://"), backendPort), 0o600))
	cmd := exec.Command(testenv.Envoy(t), "-c", file, "--disable-hot-restart", "--concurrency", "1", "--log-level",
		"warning")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	harness.Start(t, cmd)
	ask := func(key string) (*http.Response, string, error) {
		r, err := http.NewRequest(http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/tools", port), nil)
		require.NoError(t, err)
		r.Header.Set("x-modelgate-user", "somebody else")
		r.Header.Set("x-modelgate-key", "somebody else's")
		if key != "" {
			r.Header.Set("authorization", "Bearer "+key)
		}
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			return nil, "", err
		}
		defer func() { _ = response.Body.Close() }()
		body, err := io.ReadAll(response.Body)
		return response, string(body), err
	}
	harness.Eventually(t, "the other Envoy", func() error {
		response, _, err := ask("")
		if err == nil && response.StatusCode != http.StatusUnauthorized {
			err = fmt.Errorf("status %d", response.StatusCode)
		}
		return err
	})
	response, body, err := ask("")
	require.NoError(t, err)
	require.Equal(t, "application/json", response.Header.Get("Content-Type"))
	require.Contains(t, body, `"invalid_api_key"`)

	key := harness.Decode(t, harness.Must(t, "", append([]string{"key", "create", "--name", "shared", "--limit",
		"requests:hour:4", "-o", "json"}, s.at(0)...)...))["key"].(string)
	harness.Eventually(t, "the key", func() error {
		response, body, err := ask(key)
		if err == nil && response.StatusCode != http.StatusNoContent {
			err = fmt.Errorf("status %d: %s", response.StatusCode, body)
		}
		return err
	})
	header := <-seen
	require.NotEqual(t, "somebody else's", header.Get("x-modelgate-key"))
	require.NotEmpty(t, header.Get("x-modelgate-key"))
	require.Empty(t, header.Get("x-modelgate-user"), "a client cannot make names up")
	require.Empty(t, header.Get("authorization"), "the backend has no use for the key")

	s.Key = key
	require.NoError(t, s.chat())
	require.NoError(t, s.chat())
	_, _, err = ask(key)
	require.NoError(t, err)
	<-seen
	response, body, err = ask(key)
	require.NoError(t, err)
	require.Equal(t, http.StatusTooManyRequests, response.StatusCode, "the fifth request of the hour")
	require.Contains(t, body, `"rate_limit_exceeded"`)
	require.NotEmpty(t, response.Header.Get("Retry-After"))
	require.Equal(t, "4", response.Header.Get("X-Ratelimit-Limit-Requests"))
	require.ErrorContains(t, s.chat(), "status 429")
}
