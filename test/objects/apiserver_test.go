package objects_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/modelgate/modelgate/api/config/crd"
	"github.com/modelgate/modelgate/controlplane/kubernetes"
	"github.com/modelgate/modelgate/controlplane/kubernetes/gatewayapi"
	"github.com/modelgate/modelgate/internal/etcdtest"
	"github.com/modelgate/modelgate/internal/testenv"
	"github.com/modelgate/modelgate/test/harness"
)

// A cluster is an API server over an etcd of its own. Users are known by tokens that are their names.
type cluster struct {
	*harness.Process
	binary, dir string
	port        int
	etcd        *etcdtest.Server
	dynamic.Interface
}

// ktest returns the binary that is every part of Kubernetes: see test/kubernetes.
func ktest(t testing.TB) string {
	t.Helper()
	found, err := filepath.Glob("../../.cache/kubernetes/ktest-*")
	require.NoError(t, err)
	if len(found) == 0 {
		testenv.Missing(t, "API server of Kubernetes", "test/kubernetes/run.sh --prepare")
	}
	path, err := filepath.Abs(found[0])
	require.NoError(t, err)
	return path
}

// newCluster starts an API server with our definitions, until the test ends.
func newCluster(t testing.TB) *cluster {
	t.Helper()
	c := &cluster{binary: ktest(t), dir: t.TempDir(), port: harness.FreePort(t), etcd: etcdtest.New(t)}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	private := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	c.write(t, "sa.key", string(private))
	c.write(t, "tokens.csv", "admin,admin,1,\"system:masters\"\nmodelgate,modelgate,2\n")
	c.start(t)
	c.Interface = c.as(t, "admin")
	for _, k := range crd.Kinds() {
		text, err := crd.Definition(k)
		require.NoError(t, err)
		c.apply(t, string(text))
	}
	c.established(t)
	return c
}

func (c *cluster) write(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(c.dir, name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// start starts the API server, also again after it was killed.
func (c *cluster) start(t testing.TB) {
	t.Helper()
	at := func(name string) string { return filepath.Join(c.dir, name) }
	server := exec.Command(c.binary, "--etcd-servers="+c.etcd.Endpoint(),
		fmt.Sprint("--secure-port=", c.port), "--bind-address=127.0.0.1", "--cert-dir="+at("certs"),
		"--service-cluster-ip-range=10.96.0.0/16", "--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file="+at("sa.key"), "--service-account-signing-key-file="+at("sa.key"),
		"--token-auth-file="+at("tokens.csv"), "--authorization-mode=RBAC")
	server.Args[0] = "kube-apiserver"
	c.Process = harness.Start(t, server)
	client := &http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	harness.Eventually(t, "the API server is ready", func() error {
		r, err := http.NewRequest(http.MethodGet, c.url()+"/readyz", nil)
		if err != nil {
			return err
		}
		r.Header.Set("Authorization", "Bearer admin")
		answer, err := client.Do(r)
		if err == nil && answer.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s", answer.Status)
		}
		if answer != nil {
			_ = answer.Body.Close()
		}
		return err
	})
}

func (c *cluster) url() string { return fmt.Sprint("https://127.0.0.1:", c.port) }

// kubeconfig returns the file of a user.
func (c *cluster) kubeconfig(t testing.TB, user string) string {
	t.Helper()
	return c.write(t, user+".kubeconfig", fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: test, cluster: {server: %q, insecure-skip-tls-verify: true}}]
users: [{name: %[2]s, user: {token: %[2]s}}]
contexts: [{name: test, context: {cluster: test, user: %[2]s}}]
current-context: test
`, c.url(), user))
}

func (c *cluster) as(t testing.TB, user string) dynamic.Interface {
	t.Helper()
	client, err := kubernetes.NewClient(c.kubeconfig(t, user))
	require.NoError(t, err)
	return client
}

// established waits until the API server serves all of our kinds.
func (c *cluster) established(t testing.TB) {
	t.Helper()
	for _, k := range crd.Kinds() {
		harness.Eventually(t, k.Name+" is served", func() error {
			_, err := c.Resource(resource(k.Name)).Namespace("default").List(t.Context(), metav1.ListOptions{Limit: 1})
			return err
		})
	}
}

// ofGatewayAPI is the Gateway of the Gateway API, beside ours.
const ofGatewayAPI = "Gateway of the Gateway API"

// kindOf returns by what name resource knows the kind of an object.
func kindOf(o *unstructured.Unstructured) string {
	if o.GroupVersionKind().Group == gatewayapi.Group && o.GetKind() == "Gateway" {
		return ofGatewayAPI
	}
	return o.GetKind()
}

// resource returns the resource of a kind.
func resource(kind string) schema.GroupVersionResource {
	for _, k := range crd.Kinds() {
		if k.Name == kind {
			return schema.GroupVersionResource{Group: crd.Group, Version: crd.Version, Resource: k.Plural}
		}
	}
	all := map[string]schema.GroupVersionResource{
		"Secret": {Version: "v1", Resource: "secrets"}, "ConfigMap": {Version: "v1", Resource: "configmaps"},
		"Namespace": {Version: "v1", Resource: "namespaces"}, "Event": {Version: "v1", Resource: "events"},
		"Pod": {Version: "v1", Resource: "pods"}, "ServiceAccount": {Version: "v1", Resource: "serviceaccounts"},
		"CustomResourceDefinition": {Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"},
		"ClusterRole":              {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"},
		"ClusterRoleBinding":       {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings"},
		"Role":                     {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"},
		"RoleBinding":              {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"},
		"Service":                  {Version: "v1", Resource: "services"},
		"GatewayClass":             {Group: gatewayapi.Group, Version: "v1", Resource: "gatewayclasses"},
		ofGatewayAPI:               {Group: gatewayapi.Group, Version: "v1", Resource: "gateways"},
		"HTTPRoute":                {Group: gatewayapi.Group, Version: "v1", Resource: "httproutes"},
		"ReferenceGrant":           {Group: "gateway.networking.k8s.io", Version: "v1beta1", Resource: "referencegrants"},
	}
	return all[kind]
}

// try applies one document, as kubectl apply does.
func (c *cluster) try(t testing.TB, document string) (*unstructured.Unstructured, error) {
	t.Helper()
	o := &unstructured.Unstructured{}
	require.NoError(t, yaml.Unmarshal([]byte(document), &o.Object), document)
	body, err := o.MarshalJSON()
	require.NoError(t, err)
	yes := true
	return c.on(kindOf(o), o.GetNamespace()).Patch(t.Context(), o.GetName(), types.ApplyPatchType, body,
		metav1.PatchOptions{FieldManager: "test", Force: &yes, FieldValidation: "Strict"})
}

// create makes one object, as kubectl create does.
func (c *cluster) create(t testing.TB, document string) error {
	t.Helper()
	o := &unstructured.Unstructured{}
	require.NoError(t, yaml.Unmarshal([]byte(document), &o.Object), document)
	_, err := c.on(o.GetKind(), o.GetNamespace()).Create(t.Context(), o, metav1.CreateOptions{FieldValidation: "Strict"})
	return err
}

func (c *cluster) on(kind, namespace string) dynamic.ResourceInterface {
	if namespace == "" {
		return c.Resource(resource(kind))
	}
	return c.Resource(resource(kind)).Namespace(namespace)
}

// apply applies documents that have to be taken.
func (c *cluster) apply(t testing.TB, documents ...string) {
	t.Helper()
	for _, d := range documents {
		_, err := c.try(t, d)
		require.NoError(t, err, d)
	}
}

func (c *cluster) delete(t testing.TB, kind, namespace, name string) {
	t.Helper()
	require.NoError(t, c.on(kind, namespace).Delete(t.Context(), name, metav1.DeleteOptions{}))
}

// object returns a document.
func object(kind, at, spec string) string {
	namespace, name := filepath.Split(at)
	return fmt.Sprintf("apiVersion: %s/%s\nkind: %s\nmetadata: {namespace: %s, name: %s}\nspec: %s\n", crd.Group,
		crd.Version, kind, filepath.Clean(namespace), name, spec)
}

// has waits until a condition of an object is as it is wanted: TYPE STATUS REASON, and returns its message.
func (c *cluster) has(t testing.TB, kind, at, wanted string) (message string) {
	t.Helper()
	namespace, name := filepath.Split(at)
	harness.Eventually(t, kind+" "+at+" is "+wanted, func() error {
		o, err := c.on(kind, filepath.Clean(namespace)).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		all, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
		for _, one := range all {
			m := one.(map[string]any)
			message, _ = m["message"].(string)
			if fmt.Sprint(m["type"], " ", m["status"], " ", m["reason"]) == wanted &&
				m["observedGeneration"] == o.GetGeneration() {
				return nil
			}
		}
		return fmt.Errorf("it has %v", all)
	})
	return message
}

// status returns a member of the status of an object.
func (c *cluster) status(t testing.TB, kind, at, member string) string {
	t.Helper()
	namespace, name := filepath.Split(at)
	o, err := c.on(kind, filepath.Clean(namespace)).Get(context.WithoutCancel(t.Context()), name, metav1.GetOptions{})
	require.NoError(t, err)
	text, _, err := unstructured.NestedString(o.Object, "status", member)
	require.NoError(t, err)
	return text
}

// gateway starts a gateway that takes objects, as a user.
func (c *cluster) gateway(t testing.TB, user string, flags ...string) *harness.Gateway {
	t.Helper()
	return harness.Run(t, t.TempDir(), append([]string{"--kubernetes", "--kubernetes-config", c.kubeconfig(t, user),
		"--kubernetes-namespace", "platform"}, flags...)...)
}

// namespace makes a namespace with labels.
func (c *cluster) namespace(t testing.TB, name, labels string) {
	t.Helper()
	c.apply(t, fmt.Sprintf("apiVersion: v1\nkind: Namespace\nmetadata: {name: %s, labels: {%s}}\n", name, labels))
}
