package envoygateway_test

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"

	"github.com/modelgate/modelgate/controlplane/kubernetes"
	"github.com/modelgate/modelgate/internal/etcdtest"
	"github.com/modelgate/modelgate/internal/testenv"
	"github.com/modelgate/modelgate/test/harness"
)

// A cluster is an API server of Kubernetes, and nothing else of it.
type cluster struct {
	dynamic.Interface
	kubeconfig string
}

// newCluster starts an API server with the definitions of Envoy Gateway.
func newCluster(t *testing.T, dir string) *cluster {
	t.Helper()
	found, err := filepath.Glob("../../.cache/kubernetes/ktest-*")
	require.NoError(t, err)
	if len(found) == 0 {
		testenv.Missing(t, "API server of Kubernetes", "test/kubernetes/run.sh --prepare")
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	port := harness.FreePort(t)
	for name, text := range map[string]string{
		"sa.key": string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY",
			Bytes: x509.MarshalPKCS1PrivateKey(key)})),
		"tokens.csv": "admin,admin,1,\"system:masters\"\n",
		"kubeconfig": fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: test, cluster: {server: "https://127.0.0.1:%d", insecure-skip-tls-verify: true}}]
users: [{name: admin, user: {token: admin}}]
contexts: [{name: test, context: {cluster: test, user: admin}}]
current-context: test
`, port),
	} {
		require.NoError(t, os.WriteFile(at(name), []byte(text), 0o600))
	}
	binary, err := filepath.Abs(found[0])
	require.NoError(t, err)
	server := exec.Command(binary, "--etcd-servers="+etcdtest.New(t).Endpoint(), fmt.Sprint("--secure-port=", port),
		"--bind-address=127.0.0.1", "--advertise-address=10.0.0.1", "--cert-dir="+at("apiserver"), "--service-cluster-ip-range=10.96.0.0/16",
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file="+at("sa.key"),
		"--service-account-signing-key-file="+at("sa.key"), "--token-auth-file="+at("tokens.csv"),
		"--authorization-mode=RBAC")
	server.Args[0] = "kube-apiserver"
	harness.Start(t, server)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	harness.Eventually(t, "the API server is ready", func() error {
		answer, err := client.Get(fmt.Sprintf("https://127.0.0.1:%d/readyz", port))
		if err == nil && answer.StatusCode != http.StatusOK {
			err = errors.New(answer.Status)
		}
		if answer != nil {
			_ = answer.Body.Close()
		}
		return err
	})
	c := &cluster{kubeconfig: at("kubeconfig")}
	c.Interface, err = kubernetes.NewClient(c.kubeconfig)
	require.NoError(t, err)
	for _, folder := range []string{"", "generated"} {
		files, err := filepath.Glob(filepath.Join("../../.cache/envoy-gateway/crds", folder, "*.yaml"))
		require.NoError(t, err)
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			c.apply(t, string(text))
		}
	}
	for _, name := range []string{"envoy-gateway-system", "platform"} {
		c.apply(t, "apiVersion: v1\nkind: Namespace\nmetadata: {name: "+name+"}\n")
	}
	return c
}

// apply applies documents, as soon as their kinds are served.
func (c *cluster) apply(t *testing.T, documents string) {
	t.Helper()
	read := utilyaml.NewYAMLOrJSONDecoder(bytes.NewBufferString(documents), 4096)
	for {
		o := &unstructured.Unstructured{}
		err := read.Decode(&o.Object)
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err)
		if len(o.Object) == 0 {
			continue
		}
		body, err := o.MarshalJSON()
		require.NoError(t, err)
		resource, _ := meta.UnsafeGuessKindToResource(o.GroupVersionKind())
		if o.GetKind() == "Gateway" { // the guess would be gatewaies
			resource.Resource = "gateways"
		}
		yes := true
		harness.Eventually(t, o.GetKind()+" "+o.GetName(), func() error {
			_, err := c.Resource(resource).Namespace(o.GetNamespace()).Patch(t.Context(), o.GetName(),
				types.ApplyPatchType, body, metav1.PatchOptions{FieldManager: "test", Force: &yes})
			return err
		})
	}
}

// prepare has Envoy Gateway make its certificates, and writes them where it and its Envoy look for them.
func (c *cluster) prepare(t *testing.T, e *edge, binary string) {
	t.Helper()
	generate := exec.Command(binary, "certgen", "--disable-topology-injector")
	generate.Env = append(os.Environ(), "KUBECONFIG="+c.kubeconfig)
	out, err := generate.CombinedOutput()
	require.NoError(t, err, string(out))
	for name, to := range map[string]string{"envoy-gateway": filepath.Join(e.dir, "certs"),
		"envoy": filepath.Join(e.dir, "config", "certs", "envoy")} {
		o, err := c.Resource(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}).
			Namespace("envoy-gateway-system").Get(t.Context(), name, metav1.GetOptions{})
		require.NoError(t, err)
		data, _, err := unstructured.NestedStringMap(o.Object, "data")
		require.NoError(t, err)
		require.NoError(t, os.MkdirAll(to, 0o700))
		for file, encoded := range data {
			text, err := base64.StdEncoding.DecodeString(encoded)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(to, file), text, 0o600))
		}
	}
}

// inRoot runs a command with a folder /certs, where Envoy Gateway looks for its certificates, and the rest of the file
// system as it is.
const inRoot = `set -e
mkdir -p "$1"
mount -t tmpfs tmpfs "$1"
for f in /*; do
	if [ -L "$f" ]; then cp -P "$f" "$1$f"; elif [ -d "$f" ]; then mkdir "$1$f"; mount --rbind "$f" "$1$f"; fi
done
mkdir -p "$1/certs"
cp "$2"/* "$1/certs"
root=$1
shift 2
exec chroot "$root" "$@"`

// command starts Envoy Gateway.
func (c *cluster) command(e *edge, arguments ...string) *exec.Cmd {
	cmd := exec.Command("sh", append([]string{"-c", inRoot, "sh", filepath.Join(e.dir, "root"),
		filepath.Join(e.dir, "certs")}, arguments...)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.kubeconfig)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	return cmd
}

// annotation returns the revision that an HTTPRoute wants.
func (c *cluster) annotation(t *testing.T, name string) string {
	t.Helper()
	r, err := c.Resource(schema.GroupVersionResource{Group: "gateway.networking.k8s.io", Version: "v1",
		Resource: "httproutes"}).Namespace("envoy-gateway-system").Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	return r.GetAnnotations()["gateway.envoyproxy.io/modelgate-revision"]
}

// inKubernetes are the settings of Envoy Gateway with Kubernetes in place of files, and with mutual TLS.
func inKubernetes(settings string) string {
	return strings.NewReplacer("type: File\n      file:\n        paths: [DIR/resources]", "type: Kubernetes",
		"ip: {address: 127.0.0.1, port: XDS}", `fqdn: {hostname: localhost, port: XDS}
    tls:
      certificateRef: {name: modelgate-ca}
      clientCertificateRef: {name: modelgate-dataplane-tls}`).Replace(settings)
}
