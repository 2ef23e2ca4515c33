package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
	"sigs.k8s.io/yaml"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/testenv"
	"github.com/modelgate/modelgate/test/harness"
)

// A mesh is a gateway with the sidecar that examples/istio.yaml gives it.
type mesh struct {
	*gateway
	t         *testing.T
	authority *issuing
	sidecar   string // its address
	direct    string // that of the Gateway, which only the sidecar should reach
	key       string // as which the namespace team-a acts
}

const podIdentity = "spiffe://cluster.local/ns/modelgate/sa/modelgate-dataplane"

func newMesh(t *testing.T) *mesh {
	m := &mesh{gateway: startRun(t, t.TempDir()), t: t, authority: newIssuing(t)}
	m.key = gjson.Get(harness.Must(t, "", "key", "create", "--data", m.Dir, "--name", "team-a", "--models", "echo/*",
		"-o", "json"), "id").Str
	port := harness.FreePort(t)
	m.direct = fmt.Sprintf("127.0.0.1:%d", port)
	issuer := documentedIssuer(t)
	issuer.Ca, issuer.Bindings[0].Key = m.authority.ca(), m.key
	harness.Must(t, harness.Documents(t, &configv1.Gateway{Name: "mesh", Address: "127.0.0.1", Port: uint32(port),
		TrustedHops: 1}, issuer), "config", "apply", "--data", m.Dir, "-f", "-")
	m.startSidecar(port)
	return m
}

var objectOfTheIssuer = regexp.MustCompile(`(?s)kind: CertificateIssuer\nmetadata: .*?\nspec:\n(.*?)` + "```")

// documentedIssuer returns the one of docs/istio.md.
func documentedIssuer(t *testing.T) *configv1.CertificateIssuer {
	text, err := os.ReadFile("../../docs/istio.md")
	require.NoError(t, err)
	found := objectOfTheIssuer.FindSubmatch(text)
	require.NotNil(t, found, "docs/istio.md has no CertificateIssuer")
	var spec struct {
		Gateway  string
		Required bool
		Proxies  []string
		Bindings []struct{ Key, Identity string }
	}
	require.NoError(t, yaml.Unmarshal(found[1], &spec))
	require.Equal(t, []string{podIdentity}, spec.Proxies)
	require.Len(t, spec.Bindings, 1)
	return &configv1.CertificateIssuer{Name: "mesh", Gateway: spec.Gateway, Required: spec.Required,
		Proxies: spec.Proxies, Bindings: []*configv1.CertificateBinding{{Identity: spec.Bindings[0].Identity}}}
}

// startSidecar runs an Envoy with what istiod sends to the sidecar, as test/istio has recorded it. Three things differ
// from a pod: the sidecar listens itself, because nothing here redirects connections to it; it reads certificates
// from files, because there is no agent of Istio; and the Gateway has another port.
func (m *mesh) startSidecar(gateway int) {
	t := m.t
	text, err := os.ReadFile("testdata/istio/sidecar.yaml")
	require.NoError(t, err)
	recorded := map[string]any{}
	require.NoError(t, yaml.Unmarshal(text, &recorded))
	dir := t.TempDir()
	m.writeSecrets(dir)
	port := harness.FreePort(t)
	m.sidecar = fmt.Sprintf("127.0.0.1:%d", port)
	for _, c := range recorded["filter_chains"].([]any) {
		delete(c.(map[string]any)["filter_chain_match"].(map[string]any), "destination_port")
	}
	config, err := json.Marshal(map[string]any{
		"node": map[string]any{"id": "sidecar", "cluster": "sidecar"},
		"static_resources": map[string]any{
			"listeners": []any{map[string]any{
				"name":          "virtualInbound",
				"address":       map[string]any{"socket_address": map[string]any{"address": "127.0.0.1", "port_value": port}},
				"filter_chains": fromFiles(recorded["filter_chains"], dir),
				"listener_filters": []any{map[string]any{"name": "envoy.filters.listener.tls_inspector",
					"typed_config": map[string]any{
						"@type": "type.googleapis.com/envoy.extensions.filters.listener.tls_inspector.v3.TlsInspector"}}},
			}},
			"clusters": []any{fromFiles(recorded["cluster"], dir)},
		},
	})
	require.NoError(t, err)
	config = []byte(strings.ReplaceAll(string(config), `"port_value":8080`, fmt.Sprintf(`"port_value":%d`, gateway)))
	file := filepath.Join(dir, "envoy.json")
	require.NoError(t, os.WriteFile(file, config, 0o600))
	cmd := exec.Command(testenv.Envoy(t), "-c", file, "--disable-hot-restart", "--concurrency", "1", "--log-level",
		"warning")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	harness.Start(t, cmd)
}

// fromFiles has every secret come from a file of its name.
func fromFiles(v any, dir string) any {
	switch v := v.(type) {
	case map[string]any:
		if name, ok := v["name"].(string); ok && v["sds_config"] != nil {
			v["sds_config"] = map[string]any{"path_config_source": map[string]any{"path": filepath.Join(dir, name+".json")}}
		}
		for _, of := range v {
			fromFiles(of, dir)
		}
	case []any:
		for _, of := range v {
			fromFiles(of, dir)
		}
	}
	return v
}

// writeSecrets writes what Istio's agent has for a pod: its certificate, and the authority of the mesh.
func (m *mesh) writeSecrets(dir string) {
	pair := m.authority.client(podIdentity)
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	require.NoError(m.t, err)
	encoded := func(kind string, der []byte) map[string]string {
		return map[string]string{"inline_string": string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))}
	}
	const secret = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret"
	for name, of := range map[string]map[string]any{
		"default": {"tls_certificate": map[string]any{"certificate_chain": encoded("CERTIFICATE", pair.Leaf.Raw),
			"private_key": encoded("PRIVATE KEY", key)}},
		"ROOTCA": {"validation_context": map[string]any{"trusted_ca": encoded("CERTIFICATE", m.authority.leaf.Raw)}},
	} {
		of["@type"], of["name"] = secret, name
		text, err := json.Marshal(map[string]any{"resources": []any{of}})
		require.NoError(m.t, err)
		require.NoError(m.t, os.WriteFile(filepath.Join(dir, name+".json"), text, 0o600))
	}
}

// ask sends a request to an address as the sidecar of a workload does, which has not verified the server here.
func (m *mesh) ask(address, identity, body string, header ...string) (int, string) {
	config := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"istio-http/1.1", "istio", "http/1.1"}}
	if identity != "" {
		config.Certificates = []tls.Certificate{m.authority.client(identity)}
	}
	client := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: true,
		TLSClientConfig: config}}
	defer client.CloseIdleConnections()
	r, err := http.NewRequestWithContext(m.t.Context(), http.MethodPost, "https://"+address+"/v1/chat/completions",
		strings.NewReader(body))
	require.NoError(m.t, err)
	r.Host = "modelgate-mesh.modelgate"
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	answer, err := client.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	require.NoError(m.t, err)
	return answer.StatusCode, string(text)
}

// TestWorkloadsOfAMeshHaveNoKeys: the sidecar of the data plane says who asks, and nobody else can. What istiod makes
// of an AuthorizationPolicy is in force before.
func TestWorkloadsOfAMeshHaveNoKeys(t *testing.T) {
	m := newMesh(t)
	const (
		chat      = `{"model":"echo/echo","messages":[{"role":"user","content":"hi"}]}`
		forwarded = "x-forwarded-client-cert"
		web       = "spiffe://cluster.local/ns/team-a/sa/web"
		admin     = "spiffe://cluster.local/ns/team-a/sa/admin"
		edge      = "spiffe://cluster.local/ns/istio-ingress/sa/edge"
	)
	harness.Eventually(t, "the sidecar and the issuer in force", func() error {
		if status, body := m.ask(m.sidecar, web, chat); status != 200 {
			return fmt.Errorf("%d %s", status, body)
		}
		return nil
	})
	require.Contains(t, m.WaitFor(t, `"user":"`+web+`"`), `"key_id":"`+m.key+`"`)

	status, body := m.ask(m.sidecar, "spiffe://cluster.local/ns/team-a/sa/streams",
		`{"model":"echo/echo","stream":true,"messages":[{"role":"user","content":"hi"}]}`)
	require.Equal(t, 200, status, body)
	require.True(t, strings.HasSuffix(body, "data: [DONE]\n\n"), body)

	for _, forged := range []string{"URI=" + admin, "Hash=ab;URI=" + admin, "By=" + podIdentity + ";Hash=ab;URI=" + admin,
		`x="`, "URI=" + admin + ","} {
		status, body = m.ask(m.sidecar, web, chat, forwarded, forged)
		require.Equal(t, 200, status, "a workload that writes the header is itself: %s", body)
	}
	status, body = m.ask(m.sidecar, edge, chat, forwarded, "URI="+admin)
	require.Equal(t, 401, status, "the ingress gateway is no workload: %s", body)
	require.Contains(t, body, "bound to no API key")
	status, body = m.ask(m.sidecar, edge, chat, "authorization", "Bearer "+m.Key)
	require.Equal(t, 200, status, "who comes through it has a key: %s", body)

	status, body = m.ask(m.sidecar, "spiffe://cluster.local/ns/team-b/sa/web", chat, "authorization", "Bearer "+m.Key)
	require.Equal(t, 403, status, "the AuthorizationPolicy does not name team-b: %s", body)
	require.Contains(t, body, "RBAC")
	status, _ = m.ask(m.sidecar, "", chat, "authorization", "Bearer "+m.Key)
	require.Zero(t, status, "the mesh's TLS is mutual")

	elsewhere := gjson.Get(harness.Must(t, "", "key", "create", "--data", m.Dir, "--name", "elsewhere", "--addresses",
		"203.0.113.5", "-o", "json"), "key").Str
	require.NotEmpty(t, elsewhere)
	harness.Eventually(t, "the address of a client is that of its connection", func() error {
		status, body := m.ask(m.sidecar, edge, chat, "authorization", "Bearer "+elsewhere, "x-forwarded-for", "203.0.113.5")
		if !strings.Contains(body, "ip_not_authorized") {
			return fmt.Errorf("%d %s", status, body)
		}
		return nil
	})

	status, _ = m.ask(m.direct, "", chat, "authorization", "Bearer "+m.Key)
	require.Zero(t, status, "the Gateway takes nobody without a certificate")
	status, body = m.ask(m.direct, web, chat, forwarded, "Hash=ab;URI="+admin)
	require.Equal(t, 200, status, body)
	require.NotContains(t, m.Output(), "sa/admin", "only the sidecar is believed")
}
